"""Tensors of a bucket: where a graph reads the arguments of a function, and what it leaves of results.

Imports torch. Knows nothing of regions, nor of what the function does.
"""
import torch

from . import _errors

CONSTANTS = (type(None), bool, int, float, str)
_SIZES = 256  # of a bucket, that are remembered

# Tensors whose rows and zeros are put there by one torch.cat: of larger ones two kernels that do nothing
# else are faster than one launch less, and other types it does not have everywhere.
_JOINED_BYTES = 1 << 20
_JOINED = frozenset(
    (
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    )
)


def mapped(function, tree):
    """A result with each tensor as `function` has it."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([mapped(function, item) for item in tree])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind(*[mapped(function, item) for item in tree])
    if kind is dict:
        return {name: mapped(function, item) for name, item in tree.items()}
    if isinstance(tree, CONSTANTS):
        return tree
    raise _errors.InvalidError(
        f"a region_of function returns a {kind.__name__}, not tensors, numbers, str and None in "
        "tuples, lists and dicts"
    )


def has_rows(tensor, dim, rows):
    return tensor.dim() > dim and tensor.shape[dim] == rows


def _remember(table, size, value):
    if len(table) >= _SIZES:
        table.clear()
    table[size] = value
    return value


class Room:
    """The values of a function's parameters, tensors as large as the bucket in dimension `dim`, but for
    those that are fixed. What the results are cut to is kept here too, since it goes with the graph."""

    def __init__(self, values, fixed, dim, padded):
        self._dim = dim
        self._padded = padded
        self._rest = {}  # by size: of each tensor its number, itself, and zeros for what is not a row
        self._outputs = None
        self._cuts = {}  # by size: what is returned of them
        self._fixed = []
        self._rows = []
        self.values = []
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                shape = list(value.shape)
                if not fixed[i]:
                    shape[dim] = padded
                value = torch.empty(shape, dtype=value.dtype, device=value.device)
                (self._fixed if fixed[i] else self._rows).append((i, value))
            self.values.append(value)

    def fill(self, values, first, size, is_whole):
        """Copy rows first .. first + size - 1 here, and zeros behind them: the function may have written
        there. `is_whole`: there are no other rows."""
        for i, place in self._fixed:
            place.copy_(values[i])
        rest = self._rest.get(size)
        if rest is None:
            rest = _remember(self._rest, size, [self._zeros(i, place, size) for i, place in self._rows])
        dim = self._dim
        for i, place, zeros in rest:
            value = values[i] if is_whole else values[i].narrow(dim, first, size)
            if zeros is not None:
                torch.cat((value, zeros), dim, out=place)
            elif size == self._padded:
                place.copy_(value)
            else:
                place.narrow(dim, 0, size).copy_(value)
                place.narrow(dim, size, self._padded - size).zero_()

    def _zeros(self, i, place, size):
        is_large = place.numel() * place.element_size() > _JOINED_BYTES
        if size == self._padded or is_large or place.dtype not in _JOINED:
            return i, place, None
        shape = list(place.shape)
        shape[self._dim] = 1
        zeros = place.new_zeros(shape)
        shape[self._dim] = self._padded - size
        return i, place, zeros.expand(shape)

    def results(self, outputs, size, clone):
        """What the graph leaves in `outputs`, without the rows that no row was given for."""
        if outputs is not self._outputs:  # captured anew
            self._outputs, self._cuts = outputs, {}
        cut = self._cuts.get(size)
        if cut is None:
            cut = _remember(self._cuts, size, self._cut(outputs, size))
        # not what is kept here, whose caller might have it require grad
        return mapped(torch.Tensor.clone if clone else torch.Tensor.detach, cut)

    def _cut(self, outputs, size):
        dim, padded = self._dim, self._padded
        return mapped(
            lambda tensor: tensor.narrow(dim, 0, size) if has_rows(tensor, dim, padded) else tensor, outputs
        )
