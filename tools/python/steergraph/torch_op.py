"""Applies as ops of torch, so that compiled and captured models keep their graphs.

    torch.ops.steergraph.apply_(hidden, residual, frame, layer, probes)          in place
    torch.ops.steergraph.apply(hidden, residual, frame, layer) -> Tensor         out of place
    torch.ops.steergraph.apply.probes(hidden, residual, frame, layer, probes) -> Tensor
    torch.ops.steergraph.add_rmsnorm_(hidden, residual, weight, frame, layer, probes)

An op takes no objects, so `frame` is Frame.number; the functions below take the Frame. An op reads
what the frame's last step says when it runs: in a CUDA graph, when it is replayed. It has no
gradient. torch sees no frame: a step is never part of a compiled function.

The schemas say what is written, and the one kernel of each op counts it as written. The decorator
torch.library.custom_op would say the same, at five times the cost of a call.
"""
from typing import Optional

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from . import _errors
from ._torch_ops import define, wants_grad
from .steering import Frame, frame_of

_NO_GRADIENT = "steering has no gradient: use torch.no_grad()"


def _refuse_grad(*tensors: Optional[Tensor]) -> None:
    """torch would let gradients pass an op in place as if it did nothing."""
    if wants_grad(*tensors):
        raise _errors.InvalidError(_NO_GRADIENT)


def _apply_(hidden, residual, frame, layer, probes=None):
    frame_of(frame).apply(layer, hidden, residual=residual, probes=probes)
    increment_version(hidden)
    if probes is not None:
        increment_version(probes)


def _apply(hidden, residual, frame, layer, probes=None):
    _refuse_grad(hidden, residual)
    out = hidden.new_empty_strided(hidden.size(), hidden.stride())
    frame_of(frame).apply(layer, hidden, residual=residual, out=out, probes=probes)
    if probes is not None:
        increment_version(probes)
    if hidden.is_cuda:
        # memory of other streams is not given away before this stream has done with it
        stream = torch.cuda.current_stream(hidden.device)
        for tensor in (hidden, residual, probes):
            if tensor is not None:
                tensor.record_stream(stream)
    return out


def _add_rmsnorm_(hidden, residual, weight, frame, layer, probes=None):
    frame_of(frame).apply(layer, hidden, residual=residual, weight=weight, probes=probes)
    increment_version(hidden)
    increment_version(residual)
    if probes is not None:
        increment_version(probes)


# What tensors that hold nothing get, as compilers trace with them.


def _fake_apply_(hidden, residual, frame, layer, probes=None):
    _refuse_grad(hidden, probes)


def _fake_apply(hidden, residual, frame, layer, probes=None):
    _refuse_grad(hidden, residual, probes)
    return hidden.new_empty_strided(hidden.size(), hidden.stride())


def _fake_add_rmsnorm_(hidden, residual, weight, frame, layer, probes=None):
    _refuse_grad(hidden, residual, probes)


_OPS = (
    (
        "apply_",
        "(Tensor(a!) hidden, Tensor? residual, SymInt frame, SymInt layer, "
        "Tensor(b!)? probes=None) -> ()",
        _apply_,
        _fake_apply_,
    ),
    # Two, as compilers take no tensor that is written or None beside one that is returned.
    (
        "apply",
        "(Tensor hidden, Tensor? residual, SymInt frame, SymInt layer) -> Tensor",
        _apply,
        _fake_apply,
    ),
    (
        "apply.probes",
        "(Tensor hidden, Tensor? residual, SymInt frame, SymInt layer, Tensor(a!) probes) -> Tensor",
        _apply,
        _fake_apply,
    ),
    (
        "add_rmsnorm_",
        "(Tensor(a!) hidden, Tensor(b!) residual, Tensor weight, SymInt frame, SymInt layer, "
        "Tensor(c!)? probes=None) -> ()",
        _add_rmsnorm_,
        _fake_add_rmsnorm_,
    ),
)


# Ops go with their Library. One that is replaced would take them from torch when it is collected:
# a reload of this module keeps the first, whose kernels find what the module now has.
_library = globals().get("_library") or define(_OPS)

_op_apply_ = torch.ops.steergraph.apply_.default
_op_apply = torch.ops.steergraph.apply.default
_op_apply_probes = torch.ops.steergraph.apply.probes
_op_add_rmsnorm_ = torch.ops.steergraph.add_rmsnorm_.default


def _out_of_place(hidden, residual, frame, layer, probes):
    if probes is None:
        return _op_apply(hidden, residual, frame, layer)
    return _op_apply_probes(hidden, residual, frame, layer, probes)


class _Forward(torch.autograd.Function):
    """Out of place for tensors that ask for a gradient: refuses when one is asked for."""

    @staticmethod
    def forward(ctx, hidden, residual, frame, layer, probes):
        return _out_of_place(hidden, residual, frame, layer, probes)

    @staticmethod
    def backward(ctx, *_):
        raise _errors.InvalidError(_NO_GRADIENT)


def check_probes(table, probes: Optional[Tensor], *leading: int) -> None:
    """Refuse now what would be refused in the middle of a forward: `probes` is for the table,
    [*leading, rows, probes of the table]."""
    sizes = ", ".join(map(str, (*leading, "rows", table.probes)))
    if probes is None:
        if table.probes > 0:
            raise _errors.InvalidError(
                f"the table declares {table.probes} probes; give float32 [{sizes}]"
            )
        return
    if table.probes == 0:
        raise _errors.InvalidError(
            "probes is given, but the table declares none; set probes when it is created"
        )
    shape = tuple(probes.shape)
    if len(shape) != len(leading) + 2 or (*shape[:-2], shape[-1]) != (*leading, table.probes):
        raise _errors.InvalidError(f"probes has shape {shape}; give float32 [{sizes}]")
    if probes.dtype is not torch.float32:
        raise _errors.InvalidError(f"probes is {probes.dtype}; give float32 [{sizes}]")
    if str(probes.device) != table.engine.device:
        raise _errors.InvalidError(
            f"probes is on {probes.device}, the engine runs on {table.engine.device}"
        )


def cells_of(probes: Tensor, hidden: Tensor) -> Tensor:
    """The first cells of [rows, probes]: as many rows as `hidden` has."""
    rows = hidden.numel() // hidden.shape[-1]
    if rows > probes.shape[0]:
        raise _errors.InvalidError(f"hidden has {rows} rows, probes has {probes.shape[0]}")
    return probes[:rows]


def apply_(
    frame: Frame,
    layer: int,
    hidden: Tensor,
    residual: Optional[Tensor] = None,
    probes: Optional[Tensor] = None,
) -> Tensor:
    """Steer in place; returns `hidden`.

    probes: for tables that declare some, float32 [rows of hidden, probes of the table]; what ops
    such as `probe` give out is written there.
    """
    _refuse_grad(hidden, probes)
    _op_apply_(hidden, residual, frame.number, layer, probes)
    return hidden


def apply(
    frame: Frame,
    layer: int,
    hidden: Tensor,
    residual: Optional[Tensor] = None,
    probes: Optional[Tensor] = None,
) -> Tensor:
    """Steer into a new tensor. Its rows of padding, and past the last step, hold anything."""
    _refuse_grad(probes)
    if wants_grad(hidden, residual):
        return _Forward.apply(hidden, residual, frame.number, layer, probes)
    return _out_of_place(hidden, residual, frame.number, layer, probes)


def add_rmsnorm_(
    frame: Frame,
    layer: int,
    hidden: Tensor,
    residual: Tensor,
    weight: Tensor,
    probes: Optional[Tensor] = None,
):
    """Add, steer and norm in place: residual becomes the steered sum, hidden its norm.

    The frame's table has the epilogue "add_rmsnorm". Returns (hidden, residual).
    """
    _refuse_grad(hidden, residual, probes)
    _op_add_rmsnorm_(hidden, residual, weight, frame.number, layer, probes)
    return hidden, residual
