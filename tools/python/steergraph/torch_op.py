"""Applies as ops of torch, so that compiled and captured models keep their graphs.

    torch.ops.steergraph.apply_(hidden, residual, frame, layer)          in place
    torch.ops.steergraph.apply(hidden, residual, frame, layer) -> Tensor out of place
    torch.ops.steergraph.add_rmsnorm_(hidden, residual, weight, frame, layer)

An op takes no objects, so `frame` is Frame.number; the functions below take the Frame. An op reads
what the frame's last step says when it runs: in a CUDA graph, when it is replayed. It has no
gradient. torch sees no frame: a step is never part of a compiled function.
"""
from typing import Optional

import torch
from torch import Tensor

from . import _errors
from .steering import Frame, frame_of


@torch.library.custom_op("steergraph::apply_", mutates_args=("hidden",))
def _apply_(hidden: Tensor, residual: Optional[Tensor], frame: int, layer: int) -> None:
    frame_of(frame).apply(layer, hidden, residual=residual)


@_apply_.register_fake
def _(hidden, residual, frame, layer):
    return None


@torch.library.custom_op("steergraph::apply", mutates_args=())
def _apply(hidden: Tensor, residual: Optional[Tensor], frame: int, layer: int) -> Tensor:
    out = hidden.new_empty_strided(hidden.size(), hidden.stride())
    frame_of(frame).apply(layer, hidden, residual=residual, out=out)
    if hidden.is_cuda:
        # memory of other streams is not given away before this stream has read it
        stream = torch.cuda.current_stream(hidden.device)
        hidden.record_stream(stream)
        if residual is not None:
            residual.record_stream(stream)
    return out


@_apply.register_fake
def _(hidden, residual, frame, layer):
    return hidden.new_empty_strided(hidden.size(), hidden.stride())


@torch.library.custom_op("steergraph::add_rmsnorm_", mutates_args=("hidden", "residual"))
def _add_rmsnorm_(
    hidden: Tensor, residual: Tensor, weight: Tensor, frame: int, layer: int
) -> None:
    frame_of(frame).apply(layer, hidden, residual=residual, weight=weight)


@_add_rmsnorm_.register_fake
def _(hidden, residual, weight, frame, layer):
    return None


def _refuse_grad(written: Tensor) -> None:
    """torch would let gradients pass an op in place as if it did nothing."""
    if torch.is_grad_enabled() and written.requires_grad:
        raise _errors.InvalidError("steering has no gradient: use torch.no_grad()")


def apply_(frame: Frame, layer: int, hidden: Tensor, residual: Optional[Tensor] = None) -> Tensor:
    """Steer in place; returns `hidden`."""
    _refuse_grad(hidden)
    torch.ops.steergraph.apply_(hidden, residual, frame.number, layer)
    return hidden


def apply(frame: Frame, layer: int, hidden: Tensor, residual: Optional[Tensor] = None) -> Tensor:
    """Steer into a new tensor. Its rows of padding, and past the last step, hold anything."""
    return torch.ops.steergraph.apply(hidden, residual, frame.number, layer)


def add_rmsnorm_(frame: Frame, layer: int, hidden: Tensor, residual: Tensor, weight: Tensor):
    """Add, steer and norm in place: residual becomes the steered sum, hidden its norm.

    The frame's table has the epilogue "add_rmsnorm". Returns (hidden, residual).
    """
    _refuse_grad(hidden)
    _refuse_grad(residual)
    torch.ops.steergraph.add_rmsnorm_(hidden, residual, weight, frame.number, layer)
    return hidden, residual
