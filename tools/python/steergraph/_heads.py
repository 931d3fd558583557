"""Tensors of packed rows, of single heads, of keys and of masks: checked, as addresses and strides.

C sees addresses alone, so what a rope or an attend does not take is refused here. Knows shapes; what
they are for is attention.py's.
"""
from . import _errors, tensors


class Shapes:
    """What one rope or attend takes, under the name that messages have for it."""

    def __init__(self, what, dtype, dim, order, device):
        self._what = what
        self.dtype, self.dim, self.device = dtype, dim, device
        self.rows_first = order == "rows_first"

    def _view(self, tensor, name, written):
        view = tensors.view_of(tensor, name)
        if view.dtype != self.dtype:
            raise _errors.InvalidError(f"{name} is {view.dtype}, the {self._what} takes {self.dtype}")
        if view.device != self.device:
            raise _errors.InvalidError(
                f"{name} is on {view.device}, the engine runs on {self.device}"
            )
        if written:
            tensors.check_written(tensor, name, f"the {self._what}")
        return view

    def _refuse(self, view, name, wanted):
        raise _errors.InvalidError(
            f"{name} has shape {list(view.shape)}, the {self._what} takes [{wanted}]"
        )

    def packed(self, tensor, name, width, least, written=False):
        """(address, rows, stride) of [rows, width], whose leading dimensions are one run of rows."""
        view = self._view(tensor, name, written)
        if view.shape[-1:] != (width,):
            self._refuse(view, name, f"rows, {width}")
        found = tensors.rows_of_view(view, name)
        _check_count(found.rows, name, least)
        return found.pointer, found.rows, found.row_stride

    def heads(self, tensor, name, heads, least, written=False):
        """(address, rows, stride) of [rows, heads, dim], the last two also as one, or of [heads,
        rows, dim] with heads first."""
        view = self._view(tensor, name, written)
        rows, stride = (self._by_rows if self.rows_first else self._by_heads)(view, name, heads)
        _check_count(rows, name, least)
        return view.pointer, rows, stride

    def _by_rows(self, view, name, heads):
        shape, strides, width = view.shape, view.strides, heads * self.dim
        if shape[-2:] == (heads, self.dim):
            apart = strides[-1] != 1 or (heads > 1 and strides[-2] != self.dim)
            if apart and 0 not in shape:  # numpy has strides of 0 where there are no elements
                raise _errors.InvalidError(f"{name} is not contiguous: the heads of a row are apart")
            view = view._replace(shape=(*shape[:-2], width), strides=(*strides[:-2], 1))
        elif shape[-1:] != (width,):
            self._refuse(view, name, f"rows, {heads}, {self.dim}")
        found = tensors.rows_of_view(view, name)
        return found.rows, found.row_stride

    def _by_heads(self, view, name, heads):
        shape, strides = view.shape, view.strides
        if len(shape) != 3 or (shape[0], shape[2]) != (heads, self.dim):
            self._refuse(view, name, f"{heads}, rows, {self.dim}")
        rows = shape[1]
        if 0 in shape:
            return rows, rows * self.dim
        if strides[2] != 1 or (rows > 1 and strides[1] != self.dim):
            raise _errors.InvalidError(f"{name} is not contiguous: the rows of a head are apart")
        stride = strides[0] if heads > 1 else rows * self.dim
        if stride < rows * self.dim:
            raise _errors.InvalidError(f"{name}: heads of {rows * self.dim} elements overlap")
        return rows, stride

    def shape_of(self, heads, rows):
        return (rows, heads, self.dim) if self.rows_first else (heads, rows, self.dim)

    def empty(self, like, heads, rows):
        """A new tensor of heads, of the kind of `like`. Holds anything."""
        return empty(like, self.shape_of(heads, rows))

    def keys(self, tensor, name, shape):
        """(address, strides) of [batch, kv_heads, tokens, dim]."""
        view = self._view(tensor, name, False)
        if view.shape != shape:
            self._refuse(view, name, ", ".join(map(str, shape)))
        if view.strides[-1] != 1:
            raise _errors.InvalidError(
                f"{name} is not contiguous: elements of a head are {view.strides[-1]} apart"
            )
        strides = view.strides[:3]
        if min(strides) < 0 or not any(strides):
            raise _errors.InvalidError(f"{name}: strides {list(strides)} name no place each")
        return view.pointer, strides


def _check_count(rows, name, least):
    if rows < least:
        raise _errors.InvalidError(f"{name} has {rows} rows, the step has {least}")


def empty(like, shape):
    """A new tensor of the type and on the device of another. Holds anything."""
    if tensors.is_torch(like):
        return like.new_empty(shape)
    import numpy

    return numpy.empty(shape, like.dtype)


def mask(array, batch, positions, device):
    """(address, stride) of a mask of keys, uint8 or bool [batch, positions or more]."""
    if not (tensors.is_torch(array) or tensors.is_numpy(array)):
        raise TypeError(f"key_mask is {type(array).__name__}, not an array or a tensor")
    address, shape, where, _ = tensors.integers_of(array, "key_mask", ("uint8", "bool"), 2)
    if shape[0] != batch or shape[1] < positions or where != device:
        raise _errors.InvalidError(
            f"key_mask has shape {list(shape)} on {where}, the attend takes [{batch}, {positions}] "
            f"on {device}"
        )
    return address, shape[1]


def words(array, name, count, device):
    """The address of int32 [count]."""
    if not (tensors.is_torch(array) or tensors.is_numpy(array)):
        raise TypeError(f"{name} is {type(array).__name__}, not an array or a tensor")
    address, length, where, _ = tensors.entries_of(array, name)
    if length != count or where != device:
        raise _errors.InvalidError(
            f"{name} has {length} entries on {where}, the attend takes {count} on {device}"
        )
    return address
