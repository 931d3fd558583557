"""The tensors of one apply, checked: addresses and distances, in the order of stg_apply's members.

C sees addresses alone, so what the table does not take is refused here. A layout (shape, strides,
type, device) that a table has taken is remembered, and not checked anew: an apply costs the host
little. What may differ between tensors of one layout is asked of each.
"""
from . import _abi, _abi_steering, _errors, tensors

# Layouts that a table remembers of one kind; a host whose rows differ in every step begins anew.
MOST_LAYOUTS = 256


class Layouts:
    """What a table takes, and the layouts that it has taken. Any thread: dict calls are atomic."""

    def __init__(self, dtype, width, probes, device):
        self._wanted = {"dtype": dtype, "width": width, "device": device}
        self._device = device
        self._probes = probes
        self._states = {}
        self._cells = {}

    def state(self, tensor, what, written):
        """(address, rows, distance of rows) of a tensor like hidden, which may be `written`."""
        layout, address, free = tensors.look(tensor)
        taken = self._states.get(layout)
        if taken is None:
            rows = tensors.rows_of(tensor, what)
            tensors.check(rows, what, **self._wanted)
            address = rows.pointer
            taken = _remember(self._states, layout, rows)
        if written and not free:
            tensors.check_written(tensor, what)
        return address, *taken

    def cells(self, tensor, rows):
        """(address, distance of rows) of probes for as many rows as hidden has."""
        layout, address, free = tensors.look(tensor)
        taken = self._cells.get(layout)
        if taken is None or taken[0] != rows:
            cells = self._checked_cells(tensor, rows)
            address = cells.pointer
            taken = _remember(self._cells, layout, cells)
        if not free:
            tensors.check_written(tensor, "probes")
        return address, taken[1]

    def _checked_cells(self, tensor, rows):
        if self._probes == 0:
            raise _errors.InvalidError(
                "probes is given, but the table declares none; set probes when it is created"
            )
        cells = tensors.rows_of(tensor, "probes")
        if (cells.dtype, cells.rows, cells.width) != ("f32", rows, self._probes):
            raise _errors.InvalidError(
                f"probes is {cells.dtype} [{cells.rows}, {cells.width}], the apply takes f32 "
                f"[{rows}, {self._probes}]"
            )
        if cells.device != self._device:
            raise _errors.InvalidError(
                f"probes is on {cells.device}, the engine runs on {self._device}"
            )
        return cells


def _remember(taken, layout, rows):
    found = rows.rows, rows.row_stride
    if layout is not None:
        if len(taken) >= MOST_LAYOUTS:
            taken.clear()
        taken[layout] = found
    return found


class Applier:
    """stg_steer_apply with structs of its own, which serve one call at a time: making them would
    take as long as the call."""

    def __init__(self):
        self._function = _abi.library().stg_steer_apply
        self._apply = _abi.new(_abi_steering.Apply)
        self._error = _abi.Error()

    def __call__(self, frame, members, stream):
        apply = self._apply
        (
            apply.layer,
            apply.hidden,
            apply.out,
            apply.residual,
            apply.row_stride,
            apply.weight,
            apply.probes,
            apply.probe_stride,
        ) = members
        status = self._function(frame, apply, stream, self._error)
        if status != 0:
            raise _abi.failure(status, self._error)


def describe(table, layer, hidden, residual, out, weight, probes):
    """(rows, members of stg_apply behind its size). The caller keeps the tensors."""
    layouts = table.layouts
    address, rows, distance = layouts.state(hidden, "hidden", out is None)
    to = added = row = cells = None
    cell_distance = 0
    if out is not None:
        to = _like_hidden(layouts, out, "out", True, (rows, distance))
    if residual is not None:
        written = bool(table.epilogue)
        added = _like_hidden(layouts, residual, "residual", written, (rows, distance))
    if weight is not None:
        row, count, _ = layouts.state(weight, "weight", False)
        if count != 1:
            raise _errors.InvalidError(f"weight has {count} rows; give one")
    if probes is not None:
        cells, cell_distance = layouts.cells(probes, rows)
    layer = slot_of(layer)
    return rows, (layer, address, to, added, distance, row, cells, cell_distance)


def _like_hidden(layouts, tensor, what, written, wanted):
    rows, distance = wanted
    address, count, apart = layouts.state(tensor, what, written)
    if count != rows:
        raise _errors.InvalidError(f"{what} has {count} rows, hidden has {rows}")
    if apart != distance and rows > 1:
        raise _errors.InvalidError(
            f"rows of {what} are {apart} elements apart, those of hidden {distance}"
        )
    return address


def slot_of(number):
    """A slot or a layer, as C takes it: one that does not fit is in no table either."""
    if type(number) is int and 0 <= number < 2**32:
        return number
    return _abi.integer(number, "a slot or layer", 0, 2**32 - 1, _errors.CapacityError)
