"""Rotation and attention as ops of torch, for models that are compiled or captured.

    torch.ops.steergraph.rope_append_(qkv, q, rope, rows, layer)              K and V into the cache
    torch.ops.steergraph.attend(q, k, v, lengths, key_mask, attend, rows, layer) -> Tensor
    torch.ops.steergraph.attend_(q, out, k, v, lengths, key_mask, attend, rows, layer)
    torch.ops.steergraph.block_(qkv, q, out, key_mask, block, layer, steer_layer)
    torch.ops.steergraph.rope(qkv, positions, rope) -> (Tensor, Tensor, Tensor)
    torch.ops.steergraph.rope_qk(qkv, positions, rope) -> (Tensor, Tensor)    V stays in qkv
    torch.ops.steergraph.rope_backward(q, k, v, positions, rope) -> Tensor    without v zeros for it

An op takes no objects but their numbers; the functions below take the objects. An op reads what the
last step of its rows says when it runs: in a CUDA graph, when it is replayed. torch sees neither rows
nor caches: a step and Kv.advance are no part of a compiled function, and what orders an append and the
attend behind it is q. `rope`, which has no cache, has a gradient, the others have none.
"""
from typing import Optional

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from . import _errors
from ._torch_ops import define, wants_grad
from .attention import Attend, Rope, attend_of, rope_of
from .block import Block, block_of
from .kv import Rows, rows_of

_NO_GRADIENT = "caches and attention have no gradient: use torch.no_grad()"


def _refuse_grad(*tensors: Optional[Tensor]) -> None:
    if wants_grad(*tensors):
        raise _errors.InvalidError(_NO_GRADIENT)


def _rope_append_(qkv, q, rope, rows, layer):
    _refuse_grad(qkv)
    rope_of(rope).apply(rows_of(rows), qkv, q, layer=layer)
    increment_version(q)


def _attend_(q, out, k, v, lengths, key_mask, attend, rows, layer):
    _refuse_grad(q, k, v)
    attend_of(attend).apply(
        rows_of(rows), q, out, k=k, v=v, lengths=lengths, key_mask=key_mask, layer=layer
    )
    increment_version(out)


def _attend(q, k, v, lengths, key_mask, attend, rows, layer):
    _refuse_grad(q, k, v)
    return attend_of(attend).apply(
        rows_of(rows), q, k=k, v=v, lengths=lengths, key_mask=key_mask, layer=layer
    )


def _block_(qkv, q, out, key_mask, block, layer, steer_layer):
    _refuse_grad(qkv, q)
    block_of(block).apply(layer, qkv, q, out, key_mask=key_mask, steer_layer=steer_layer)
    increment_version(q)
    if out is not None:
        increment_version(out)


def _rope(qkv, positions, rope):
    if wants_grad(qkv):
        raise _errors.InvalidError("the op rope has no gradient: use torch_attention.rope")
    return rope_of(rope).apply(None, qkv, positions=positions)


def _rope_qk(qkv, positions, rope):
    if wants_grad(qkv):
        raise _errors.InvalidError("the op rope_qk has no gradient: use torch_attention.rope")
    return rope_of(rope).apply(None, qkv, positions=positions, copy_v=False)[:2]


def _rope_backward(q, k, v, positions, rope):
    return rope_of(rope).backward(None, q, k, v, positions=positions)


# What tensors that hold nothing get, as compilers trace with them.


def _fake_rope_append_(qkv, q, rope, rows, layer):
    _refuse_grad(qkv, q)


def _fake_attend_(q, out, k, v, lengths, key_mask, attend, rows, layer):
    _refuse_grad(q, out, k, v)


def _fake_attend(q, k, v, lengths, key_mask, attend, rows, layer):
    _refuse_grad(q, k, v)
    return q.new_empty(q.shape)


def _fake_block_(qkv, q, out, key_mask, block, layer, steer_layer):
    _refuse_grad(qkv, q, out)


def _fake_rope(qkv, positions, rope):
    own = rope_of(int(rope))  # which compilers may have as a symbol
    rows = qkv.numel() // own.width
    heads = own.heads, own.kv_heads, own.kv_heads
    return tuple(qkv.new_empty(own.shape_of(count, rows)) for count in heads)


def _fake_rope_qk(qkv, positions, rope):
    return _fake_rope(qkv, positions, rope)[:2]


def _fake_rope_backward(q, k, v, positions, rope):
    own = rope_of(int(rope))
    return q.new_empty(q.numel() // (own.heads * own.dim), own.width)


_OPS = (
    (
        "rope_append_",
        "(Tensor qkv, Tensor(a!) q, SymInt rope, SymInt rows, SymInt layer) -> ()",
        _rope_append_,
        _fake_rope_append_,
    ),
    (
        "attend_",
        "(Tensor q, Tensor(a!) out, Tensor? k, Tensor? v, Tensor? lengths, Tensor? key_mask, "
        "SymInt attend, SymInt rows, SymInt layer) -> ()",
        _attend_,
        _fake_attend_,
    ),
    (
        "attend",
        "(Tensor q, Tensor? k, Tensor? v, Tensor? lengths, Tensor? key_mask, "
        "SymInt attend, SymInt rows, SymInt layer) -> Tensor",
        _attend,
        _fake_attend,
    ),
    (
        "block_",
        "(Tensor? qkv, Tensor(a!) q, Tensor(b!)? out, Tensor? key_mask, SymInt block, "
        "SymInt layer, SymInt steer_layer) -> ()",
        _block_,
        _fake_block_,
    ),
    (
        "rope",
        "(Tensor qkv, Tensor positions, SymInt rope) -> (Tensor, Tensor, Tensor)",
        _rope,
        _fake_rope,
    ),
    (
        "rope_qk",
        "(Tensor qkv, Tensor positions, SymInt rope) -> (Tensor, Tensor)",
        _rope_qk,
        _fake_rope_qk,
    ),
    (
        "rope_backward",
        "(Tensor q, Tensor k, Tensor? v, Tensor positions, SymInt rope) -> Tensor",
        _rope_backward,
        _fake_rope_backward,
    ),
)

# As torch_op.py: a reload keeps the first Library.
_library = globals().get("_library") or define(_OPS)

_op_rope_append_ = torch.ops.steergraph.rope_append_.default
_op_attend_ = torch.ops.steergraph.attend_.default
_op_attend = torch.ops.steergraph.attend.default
_op_block_ = torch.ops.steergraph.block_.default
_op_rope = torch.ops.steergraph.rope.default
_op_rope_qk = torch.ops.steergraph.rope_qk.default
_op_rope_backward = torch.ops.steergraph.rope_backward.default


class _Rope(torch.autograd.Function):
    """Rotation for tensors that ask for a gradient, which is the rotation back. Where V stays, its
    gradient is that of a view."""

    @staticmethod
    def forward(ctx, qkv, positions, rope, copy_v):
        ctx.save_for_backward(positions)
        ctx.rope, ctx.shape = rope, qkv.shape
        return (_op_rope if copy_v else _op_rope_qk)(qkv, positions, rope)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, q, k, v=None):
        (positions,) = ctx.saved_tensors
        v = None if v is None else v.contiguous()
        packed = _op_rope_backward(q.contiguous(), k.contiguous(), v, positions, ctx.rope)
        return packed.view(ctx.shape), None, None, None


def rope(rope: Rope, qkv: Tensor, positions: Tensor, *, copy_v: bool = True):
    """(q, k, v) of packed rows at positions, one for each row, for a rope without a cache. Where qkv
    asks for a gradient, the rope declares backward. Without copy_v V stays where it is: v is a view of
    qkv."""
    if rope.kv is not None:
        raise _errors.InvalidError("the rope appends to a cache: use rope_append_")
    positions = positions.reshape(-1)
    if positions.numel() * rope.width != qkv.numel():
        raise _errors.InvalidError(
            f"qkv has shape {list(qkv.shape)}, for {positions.numel()} positions give as many rows "
            f"of {rope.width}"
        )
    if wants_grad(qkv):
        if not rope.has_backward:
            raise _errors.NotDeclaredError("qkv requires grad, but the rope declares no backward")
        rotated = _Rope.apply(qkv, positions, rope.number, copy_v)
    else:
        rotated = (_op_rope if copy_v else _op_rope_qk)(qkv, positions, rope.number)
    return rotated if copy_v else (*rotated, rope.view_of_v(qkv))


def rope_append_(rope: Rope, rows: Rows, qkv: Tensor, q: Tensor, layer: int = 0) -> Tensor:
    """Rope.apply with a cache: q is written, K and V go to the cache's layer. Returns q."""
    _refuse_grad(qkv, q)
    _op_rope_append_(qkv, q, rope.number, rows.number, layer)
    return q


def attend(
    attend: Attend,
    rows: Rows,
    q: Tensor,
    layer: int = 0,
    *,
    k: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    lengths: Optional[Tensor] = None,
    key_mask: Optional[Tensor] = None,
) -> Tensor:
    """Attend.apply into a new tensor. Its rows of padding, and past the step, hold anything."""
    _refuse_grad(q, k, v)
    return _op_attend(q, k, v, lengths, key_mask, attend.number, rows.number, layer)


def attend_(
    attend: Attend,
    rows: Rows,
    q: Tensor,
    out: Tensor,
    layer: int = 0,
    *,
    k: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    lengths: Optional[Tensor] = None,
    key_mask: Optional[Tensor] = None,
) -> Tensor:
    """Attend.apply into `out`, which is returned."""
    _refuse_grad(q, out, k, v)
    _op_attend_(q, out, k, v, lengths, key_mask, attend.number, rows.number, layer)
    return out


def block_(
    block: Block,
    layer: int,
    qkv: Optional[Tensor],
    q: Tensor,
    out: Optional[Tensor] = None,
    *,
    key_mask: Optional[Tensor] = None,
    steer_layer: int = 0,
) -> Tensor:
    """Block.apply: one launch. q, and out of a block with an attend, are written. Returns what the
    last part wrote."""
    _refuse_grad(qkv, q, out)
    _op_block_(qkv, q, out, key_mask, block.number, layer, steer_layer)
    return q if out is None else out
