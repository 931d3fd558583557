"""Hooks on the decoder layers of a torch model: each layer's output is steered behind it.

The hook is one op (torch_op.py), so it works under torch.compile and inside torch.cuda.graph. It
does no step: the host calls frame.step before each forward, with one entry per row of
[batch, sequence] in that order.
"""
import functools
import operator

import torch

from . import _errors, torch_op
from .steering import Frame

# Where models keep their layers: transformers' causal models, their bare models.
_PLACES = ("model.layers", "layers", "model.language_model.layers", "transformer.h")


class Attachment:
    """The hooks of one attach(). `with attach(...)` detaches at the end of the block."""

    def __init__(self, frame, hooks):
        self.frame = frame
        self._hooks = hooks

    def detach(self):
        """Remove the hooks. A second time does nothing."""
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.remove()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.detach()


def attach(model, frame, layers=None, *, in_place=True, probes=None):
    """Steer the outputs of layers of `model` through `frame`; returns an Attachment.

    model     a model of transformers, or a sequence of modules
    layers    which: {index in the model: layer of the table}, or indices that both share. None:
              all, where the table declares as many. A stage of a pipeline names its own.
    in_place  False: each hook hands on a new tensor
    probes    for tables that declare some: float32 [layers of the table, rows, probes] on the
              engine's device, rows as many as the largest forward has. A hook writes what ops such
              as `probe` give out at its layer, in the rows of the forward; other cells stay

    A layer returns a tensor, or a tuple that begins with it. For a table of the state
    "hidden+residual" it returns a tuple that begins with (hidden, residual): ops see the sum, and
    hidden is steered.

    torch.compile does not ask whether hooks came later: a model that has been compiled and called
    as a whole goes on as it was, not steered. Attach before its first call, or call
    torch._dynamo.reset() behind attach; or have hooks looked at in each call, by
    torch._dynamo.config.skip_nnmodule_hook_guards = False before the first.
    """
    if not isinstance(frame, Frame):
        raise TypeError(f"frame is {type(frame).__name__}, not a steergraph.Frame")
    modules = _layers_of(model)
    table = frame.steering
    pairs = _pairs_of(modules, table, layers)
    torch_op.check_probes(table, probes, table.layers)
    make = _pair_hook if table.state == "hidden+residual" else _hook
    hooks = []
    for at, layer in pairs:
        act = _act_of(frame, layer, in_place, probes)
        hooks.append(modules[at].register_forward_hook(make(layer, act)))
    return Attachment(frame, hooks)


def _pairs_of(modules, table, layers):
    """(index in the model, layer of the table) of each hook, all checked: none is made alone."""
    if layers is None:
        if len(modules) != table.layers:
            raise _errors.InvalidError(
                f"the model has {len(modules)} layers, the table {table.layers}; name the layers"
            )
        layers = range(len(modules))
    pairs = layers.items() if hasattr(layers, "items") else ((index, index) for index in layers)
    pairs = [(operator.index(at), operator.index(layer)) for at, layer in pairs]
    places = {}
    for at, layer in pairs:
        if not 0 <= at < len(modules):
            raise _errors.InvalidError(f"layer {at} is not one of the model's {len(modules)}")
        if not 0 <= layer < table.layers:
            raise _errors.InvalidError(f"layer {layer} is not one of the table's {table.layers}")
        module = modules[at]
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"layer {at} is {type(module).__name__}, not a torch.nn.Module")
        if id(module) in places:
            raise _errors.InvalidError(
                f"layer {at} is the module of layer {places[id(module)]} again, which would be "
                "steered twice"
            )
        places[id(module)] = at
    return pairs


def _layers_of(model):
    for place in _PLACES:
        try:
            return list(operator.attrgetter(place)(model))
        except AttributeError:
            pass
    try:
        return list(model)
    except TypeError:
        raise _errors.InvalidError(
            f"{type(model).__name__} has none of {', '.join(_PLACES)}; give its layers"
        ) from None


def _act_of(frame, layer, in_place, probes):
    """The op of a layer, as a function of (hidden, residual)."""
    act = functools.partial(torch_op.apply_ if in_place else torch_op.apply, frame, layer)
    if probes is None:
        return act

    def with_probes(hidden, residual=None):
        return act(hidden, residual, torch_op.cells_of(probes[layer], hidden))

    return with_probes


def _hook(layer, act):
    def steer(module, arguments, output):
        if isinstance(output, tuple) and output and isinstance(output[0], torch.Tensor):
            return (act(output[0]), *output[1:])
        if isinstance(output, torch.Tensor):
            return act(output)
        raise _errors.InvalidError(
            f"layer {layer} returns {type(output).__name__}; the table's state is hidden, which "
            "takes a tensor, or a tuple that begins with it"
        )

    return steer


def _pair_hook(layer, act):
    def steer(module, arguments, output):
        if not isinstance(output, tuple) or len(output) < 2:
            raise _errors.InvalidError(
                f"layer {layer} returns {type(output).__name__}; the table's state is "
                "hidden+residual, which takes (hidden, residual)"
            )
        return (act(output[0], output[1]), *output[1:])

    return steer
