"""Masked low-rank components as an op of torch with its gradients, for models that train, that are
compiled or captured.

    torch.ops.steergraph.components(x, v, u, mask, bias, d, delta, valid, components, sequence) -> Tensor
    torch.ops.steergraph.components_backward(
        dy, x, v, u, mask, d, delta, valid, wanted, components, sequence) -> Tensor[]

An op takes no objects but their numbers; the function below takes the object. What autograd keeps is
the inputs alone: x, v, u and the mask, with a delta path d and delta; x V is computed again on the way
back. New tensors, and the work memory of the way back, are torch's, which knows of streams and of
captures.
"""
from typing import Optional

import torch
from torch import Tensor

from . import _errors
from ._torch_ops import define, wants_grad
from .components import Components, components_of, share_of

# The inputs that have a gradient, in the order of the op, and its name in Gradients.
_GRADIENTS = ("dx", "dv", "du", "dm", "dbias", "dd", "ddelta")
_ONCE = "gradients of components have none of their own"


def _components(x, v, u, mask, bias, d, delta, valid, components, sequence):
    return components_of(components).apply(
        x, v, u, mask, bias=bias, d=d, delta=delta, valid=valid, sequence=sequence
    )


def _components_backward(dy, x, v, u, mask, d, delta, valid, wanted, components, sequence):
    names = [name for name, wants in zip(_GRADIENTS, wanted) if wants]
    found = components_of(components).backward(
        x, v, u, dy, mask, d=d, delta=delta, grads=dict.fromkeys(names), valid=valid, sequence=sequence
    )
    return [getattr(found, name) for name in names]


# What tensors that hold nothing get, as compilers trace with them.


def _fake_components(x, v, u, mask, bias, d, delta, valid, components, sequence):
    return x.new_empty((*x.shape[:-1], u.shape[-1]))


def _fake_components_backward(dy, x, v, u, mask, d, delta, valid, wanted, components, sequence):
    shapes = [None if like is None else like.shape for like in (x, v, u, mask)]
    shapes += [dy.shape[-1:], None if d is None else d.shape, None if delta is None else delta.shape]
    return [x.new_empty(shape) for shape, wants in zip(shapes, wanted) if wants]


_OPS = (
    (
        "components",
        "(Tensor x, Tensor v, Tensor u, Tensor? mask, Tensor? bias, Tensor? d, Tensor? delta, "
        "Tensor? valid, SymInt components, SymInt sequence) -> Tensor",
        _components,
        _fake_components,
    ),
    (
        "components_backward",
        "(Tensor dy, Tensor x, Tensor v, Tensor u, Tensor? mask, Tensor? d, Tensor? delta, "
        "Tensor? valid, bool[] wanted, SymInt components, SymInt sequence) -> Tensor[]",
        _components_backward,
        _fake_components_backward,
    ),
)


def _keep(ctx, inputs, output):
    x, v, u, mask, _, d, delta, valid, ctx.components, ctx.sequence = inputs
    ctx.save_for_backward(x, v, u, mask, d, delta, valid)
    ctx.kept = components_of(int(ctx.components))  # until the way back; compilers may have a symbol


def _back(ctx, dy):
    x, v, u, mask, d, delta, valid = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[: len(_GRADIENTS)])
    # of sums and the like it is one element, expanded
    found = iter(
        _op_backward(
            dy.contiguous(), x, v, u, mask, d, delta, valid, wanted, ctx.components, ctx.sequence
        )
    )
    return (*(next(found) if wants else None for wants in wanted), None, None, None)


def _refuse(ctx, *_):
    raise _errors.InvalidError(_ONCE)


def _define():
    library = define(_OPS)
    ops = (("components", _back, _keep), ("components_backward", _refuse, None))
    for name, back, keep in ops:
        torch.library.register_autograd(
            f"steergraph::{name}", back, setup_context=keep, lib=library
        )
    return library


# As torch_op.py: a reload keeps the first Library.
_library = globals().get("_library") or _define()

_op = torch.ops.steergraph.components.default
_op_backward = torch.ops.steergraph.components_backward.default


def _mask_of(components: Components, mask: Tensor, lead: torch.Size) -> Tensor:
    """The mask as the library takes it. Others that broadcast are copied, which torch differentiates."""
    if components.mask == "elements" and mask.dtype != (dtype := _DTYPES[components.dtype]):
        mask = mask.to(dtype)  # one of bool, or of float32 where the model runs in bf16
    whole = (*lead, components.components)
    if not _broadcasts(mask.shape, whole):
        return mask  # which the library refuses, with its shape
    if mask.shape[-1] != whole[-1] or share_of(mask.shape[:-1], lead) is None:
        return mask.expand(whole).contiguous()
    if any(stride == 0 and extent > 1 for stride, extent in zip(mask.stride(), mask.shape)):
        return mask.contiguous()  # one that was expanded already
    return mask


_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def _broadcasts(shape, whole) -> bool:
    return 1 <= len(shape) <= len(whole) and all(
        extent in (1, wanted) for extent, wanted in zip(reversed(shape), reversed(whole))
    )


def components(
    components: Components,
    x: Tensor,
    v: Tensor,
    u: Tensor,
    mask: Optional[Tensor] = None,
    *,
    bias: Optional[Tensor] = None,
    d: Optional[Tensor] = None,
    delta: Optional[Tensor] = None,
    valid: Optional[Tensor] = None,
    sequence: int = 0,
) -> Tensor:
    """Components.apply into a new tensor, with gradients of all but a mask of bytes and `valid`.

    A mask may have any shape that broadcasts to that of x with C in the last dimension. Those that
    Components.apply takes are read as they are; others, such as [1, sequence, C] and [..., 1], are
    copied, and so is one of another type where the components declare "elements".
    """
    if not components.has_backward and wants_grad(x, v, u, mask, bias, d, delta):
        raise _errors.NotDeclaredError(
            "a tensor requires grad, but the components declare no backward"
        )
    if mask is not None:
        mask = _mask_of(components, mask, x.shape[:-1])
    return _op(x, v, u, mask, bias, d, delta, valid, components.number, sequence)
