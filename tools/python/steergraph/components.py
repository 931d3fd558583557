"""Masked low-rank components: y = ((x V) * m) U + bias + d * (x Delta^T), and its gradients.

Any thread. Calls release the GIL. Tensors are arrays of numpy on the CPU, or tensors of torch on the
engine's device; nothing of them is copied or converted. torch_components.py has the op of torch.
"""
import ctypes
from math import prod
from typing import Any, NamedTuple

from . import _abi, _abi_components, _errors, _heads, tensors
from ._abi_components import ComponentsDesc, ComponentsGrads, ComponentsTensors
from ._handle import Handle, Held, close_busy
from ._numbers import Numbers
from ._streams import Streams
from .steering import PlanInfo, info_of

_all = Numbers("components object")
components_of = _all.find  # by number, as ops of torch name them

_WORK_ALIGNMENT = 16


class Gradients(NamedTuple):
    """Of a call of Components.backward; None: not computed."""

    dx: Any
    dv: Any
    du: Any
    dm: Any
    dbias: Any
    dd: Any
    ddelta: Any


def share_of(mask, rows):
    """How many rows in a run have one row of the mask in common, from the leading dimensions of both;
    None where that is no one number, as of [1, sequence, C]. Dimensions that a mask lacks are 1."""
    if len(mask) > len(rows):
        return None
    whole = (1,) * (len(rows) - len(mask)) + tuple(mask)
    own = 0
    while own < len(rows) and whole[own] == rows[own]:
        own += 1
    if any(extent != 1 for extent in whole[own:]):
        return None
    return prod(rows[own:])


class Components(Held):
    """Kernels of one geometry.

    d_in, d_out   elements of a row of x and of y
    components    C: columns of V and rows of U
    dtype         of all tensors, but for a mask of bytes
    math          of float32: "exact", or "tf32", operands rounded to 10 bits
    mask          "elements" of dtype; "bool", bytes, without a gradient; None: no mask
    bias, delta   whether every call brings a bias; d and Delta
    backward      declares the way back
    tile          rows of a block of threads at most: 32, 64 or 128; 0: by max_rows
    max_rows      that calls have most often; no limit; 0: many
    row_buckets   padded sizes that plans know rows by; a call of more rows than the last is
                  CapacityError. None: the default series, without an end
    """

    def __init__(
        self,
        engine,
        d_in,
        d_out,
        components,
        dtype,
        *,
        math="exact",
        mask="elements",
        bias=False,
        delta=False,
        backward=True,
        tile=0,
        max_rows=0,
        row_buckets=None,
    ):
        close_busy()
        self.engine = engine
        self.d_in = _abi.uint32(d_in, "d_in")
        self.d_out = _abi.uint32(d_out, "d_out")
        self.components = _abi.uint32(components, "components")
        self.dtype = tensors.dtype_word(dtype)
        self.mask, self.has_bias, self.has_delta = mask, bool(bias), bool(delta)
        self.has_backward = bool(backward)
        buckets, count = _abi.int64_array(row_buckets or (), "row_buckets")
        desc = _abi.new(
            ComponentsDesc,
            d_in=self.d_in,
            d_out=self.d_out,
            components=self.components,
            dtype=_abi.DTYPE[self.dtype],
            math=_abi.pick(_abi_components.MATH, math, "math"),
            mask=_abi.pick(_abi_components.MASK, "absent" if mask is None else mask, "mask"),
            bias=self.has_bias,
            delta=self.has_delta,
            backward=self.has_backward,
            tile=_abi.uint32(tile, "tile"),
            max_rows=_abi.int64(max_rows, "max_rows"),
            row_buckets=buckets if count else None,
            n_row_buckets=count,
        )
        if mask == "absent":
            self.mask = None
        self.streams = Streams(engine.device)
        pointer = ctypes.c_void_p()

        def destroy(address, streams=self.streams):
            streams.wait("components object")
            _abi.call("stg_components_destroy", address)

        with engine.handle as above:
            _abi.call("stg_components_create", above, ctypes.byref(desc), ctypes.byref(pointer))
            self.handle = Handle("components object", pointer.value, destroy, engine.handle)
        self.handle.owned_by(self)
        self.number = _all.give(self)

    def close(self):
        """Close the components; waits for what is in flight. A second time does nothing. BusyError
        while a CUDA graph is alive that captured them: delete the graph and close again."""
        self.handle.close()

    # ---- tensors, as addresses ----

    def _view(self, tensor, name, written=False, dtype=None):
        wanted = dtype or self.dtype
        word = tensors.word_of_bytes(tensor) if name == "mask" and wanted != "bool" else None
        if word is not None:
            raise _errors.InvalidError(f'mask is {word}; give {wanted}, or declare mask="bool"')
        view = (tensors.bytes_of if wanted == "bool" else tensors.view_of)(tensor, name)
        if view.dtype != wanted:
            raise _errors.InvalidError(f"{name} is {view.dtype}, the components take {wanted}")
        if view.device != self.engine.device:
            raise _errors.InvalidError(
                f"{name} is on {view.device}, the engine runs on {self.engine.device}"
            )
        if written:
            tensors.check_written(tensor, name, "a call of components")
        return view

    def _refuse(self, view, name, wanted):
        raise _errors.InvalidError(
            f"{name} has shape {list(view.shape)}, the components take [{wanted}]"
        )

    def _rows(self, tensor, name, lead, width, written=False):
        """(address, stride) of [*lead, width], whose leading dimensions are one run of rows."""
        view = self._view(tensor, name, written)
        if view.shape != (*lead, width):
            self._refuse(view, name, ", ".join(map(str, (*lead, width))))
        found = tensors.rows_of_view(view, name)
        return found.pointer, found.row_stride

    def _packed(self, tensor, name, shapes, written=False):
        """The address of a contiguous tensor of one of these shapes."""
        view = self._view(tensor, name, written)
        if view.shape not in shapes:
            self._refuse(view, name, ", ".join(map(str, shapes[0])))
        apart = 1
        for extent, stride in zip(reversed(view.shape), reversed(view.strides)):
            if extent > 1 and stride != apart and 0 not in view.shape:
                raise _errors.InvalidError(f"{name} is not contiguous")
            apart *= extent
        return view.pointer

    def _mask_place(self, mask, name, lead, written=False):
        """(address, stride, share) of a mask, or of its gradient."""
        view = self._view(mask, name, written, "bool" if self.mask == "bool" else None)
        share = share_of(view.shape[:-1], lead) if view.shape else None
        if share is None or view.shape[-1] != self.components:
            rows = ", ".join(map(str, (*lead, self.components)))
            raise _errors.InvalidError(
                f"{name} has shape {list(view.shape)}, the components take [{rows}], or with 1 for "
                "any number of the dimensions before the last, from behind"
            )
        found = tensors.rows_of_view(view, name)
        return found.pointer, found.row_stride, share

    def _optional(self, given, name, is_declared):
        """Whether a tensor comes along, which is as it was declared."""
        if (given is None) == is_declared:
            said = "is missing" if is_declared else "is given"
            declare = "declare" if is_declared else "do not declare"
            raise _errors.InvalidError(f"{name} {said}: the components {declare} it")
        return is_declared

    def _fields(self, x, v, u, mask, d, delta, valid, sequence):
        """(fields of stg_components_tensors, leading dimensions of x, what to keep)."""
        view = self._view(x, "x")
        if view.shape[-1:] != (self.d_in,):
            self._refuse(view, "x", f"..., {self.d_in}")
        found, lead = tensors.rows_of_view(view, "x"), view.shape[:-1]
        fields = {
            "rows": found.rows,
            "x": found.pointer,
            "x_stride": found.row_stride,
            "v": self._packed(v, "v", [(self.d_in, self.components)]),
            "u": self._packed(u, "u", [(self.components, self.d_out)]),
            "mask_share": 1,
        }
        if self._optional(mask, "mask", self.mask is not None):
            place = self._mask_place(mask, "mask", lead)
            fields["mask"], fields["mask_stride"], fields["mask_share"] = place
        if self._optional(d, "d", self.has_delta):
            fields["d"] = self._packed(d, "d", self._shapes_of_d(lead))
        if self._optional(delta, "delta", self.has_delta):
            fields["delta"] = self._packed(delta, "delta", [(self.d_out, self.d_in)])
        kept = None
        if valid is not None:
            sequence = _abi.int64(sequence, "sequence") or (lead[-1] if lead else 1) or 1
            fields["valid"], kept = self._lengths(valid, found.rows, sequence)
            fields["sequence"] = sequence
        return fields, lead, kept

    @staticmethod
    def _shapes_of_d(lead):
        return [lead, (*lead, 1), (prod(lead),)]

    def _lengths(self, valid, rows, sequence):
        """(address, what to keep) of the lengths of sequences."""
        address, count, device, kept = tensors.entries_of(valid, "valid")
        wanted = -(-rows // max(sequence, 1))
        if count != wanted or device != self.engine.device:
            raise _errors.InvalidError(
                f"valid has {count} entries on {device}, for {rows} rows in sequences of {sequence} "
                f"the components take {wanted} on {self.engine.device}"
            )
        return address, kept

    # ---- calls ----

    def apply(
        self,
        x,
        v,
        u,
        mask=None,
        y=None,
        *,
        bias=None,
        d=None,
        delta=None,
        valid=None,
        sequence=0,
        stream=None,
    ):
        """Compute y, which is returned; a new one where None.

        x       [..., d_in], whose leading dimensions are one run of rows
        v, u    [d_in, C] and [C, d_out], contiguous
        mask    as x with C in the last dimension; the dimensions before may be 1 from any of them on,
                or missing: [batch, 1, C], [C]
        bias    [d_out]
        d       a number for each row of x
        delta   [d_out, d_in]
        valid   int32: how many rows of each sequence are live. The others are padding, which nothing
                reads and whose rows of y are zeros. `sequence` is rows of one; 0: x's last dimension
                of rows
        """
        stream = self.streams.of(stream)
        with self.handle as address:
            fields, lead, kept = self._fields(x, v, u, mask, d, delta, valid, sequence)
            if self._optional(bias, "bias", self.has_bias):
                fields["bias"] = self._packed(bias, "bias", [(self.d_out,)])
            if y is None:
                y = _heads.empty(x, (*lead, self.d_out))
            fields["y"], fields["y_stride"] = self._rows(y, "y", lead, self.d_out, True)
            given = _abi.new(ComponentsTensors, **fields)
            _abi.call("stg_components_apply", address, ctypes.byref(given), stream)
        del kept
        return y

    def backward(
        self,
        x,
        v,
        u,
        dy,
        mask=None,
        *,
        d=None,
        delta=None,
        grads=None,
        valid=None,
        sequence=0,
        work=None,
        stream=None,
    ):
        """The way back, of the tensors that apply was given. Returns Gradients.

        dy      [..., d_out]
        grads   which, by name: {"dx": None, "dv": tensor}. A tensor is written, None is a new one; each
                has its input's shape. None: all that there are
        work    uint8, contiguous: memory for sums over rows, work_bytes of it. None: new memory of
                the current stream, so a call with a `stream` brings its own
        """
        ours = stream
        stream = self.streams.of(stream)
        with self.handle as address:
            fields, lead, kept = self._fields(x, v, u, mask, d, delta, valid, sequence)
            inputs = {"dx": x, "dv": v, "du": u, "dm": mask, "dd": d, "ddelta": delta}
            written = self._written(inputs, grads)
            places = {}
            places["dy"], places["dy_stride"] = self._rows(dy, "dy", lead, self.d_out)
            for name, tensor in written.items():
                places.update(self._place(name, tensor, lead, fields["mask_share"]))
            sums = set(written) - {"dx", "dd"}
            if fields["mask_share"] == 1:
                sums.discard("dm")
            if sums:
                if work is None and ours is not None:
                    raise _errors.InvalidError("a stream is given without work: give both")
                needed = self._work_bytes(address, fields["rows"], fields["mask_share"])
                places["work"], places["work_bytes"], work = self._memory(x, work, needed)
            given, out = _abi.new(ComponentsTensors, **fields), _abi.new(ComponentsGrads, **places)
            _abi.call(
                "stg_components_back", address, ctypes.byref(given), ctypes.byref(out), stream
            )
        if fields["rows"] == 0 and written.get("dm") is not None:
            written["dm"][...] = 0  # has rows where x has none
        del kept
        return Gradients(**{name: written.get(name) for name in Gradients._fields})

    def _written(self, inputs, grads):
        """Tensors by the names of the gradients that are asked for."""
        there = {name for name, tensor in inputs.items() if tensor is not None}
        if self.mask == "bool":
            there.discard("dm")
        if self.has_bias:
            there.add("dbias")
        grads = dict.fromkeys(there) if grads is None else grads
        if not isinstance(grads, dict):
            raise TypeError(f"grads is {grads!r}, not a dict of tensors or None by name")
        for name in grads:
            if name not in there:
                has = ", ".join(known for known in Gradients._fields if known in there)
                raise _errors.InvalidError(f"grads names {name!r}; the call has {has}")
        return {
            name: tensor if tensor is not None else self._empty(name, inputs)
            for name, tensor in grads.items()
        }

    def _empty(self, name, inputs):
        if name == "dbias":
            return _heads.empty(inputs["dx"], (self.d_out,))
        return _heads.empty(inputs[name], tuple(inputs[name].shape))

    def _place(self, name, tensor, lead, share):
        """The fields of stg_components_grads that a gradient has."""
        if name == "dx":
            place = self._rows(tensor, name, lead, self.d_in, True)
            return {"dx": place[0], "dx_stride": place[1]}
        if name == "dm":
            address, stride, found = self._mask_place(tensor, name, lead, True)
            if found != share:
                raise _errors.InvalidError(
                    f"dm has a row for {found} rows of x each, mask for {share}"
                )
            return {"dm": address, "dm_stride": stride}
        shapes = {
            "dv": [(self.d_in, self.components)],
            "du": [(self.components, self.d_out)],
            "dbias": [(self.d_out,)],
            "dd": self._shapes_of_d(lead),
            "ddelta": [(self.d_out, self.d_in)],
        }
        return {name: self._packed(tensor, name, shapes[name], True)}

    @staticmethod
    def _work_bytes(address, rows, share):
        needed = ctypes.c_size_t()
        _abi.call("stg_components_work_bytes", address, rows, share, ctypes.byref(needed))
        return needed.value

    def work_bytes(self, rows, mask_share=1):
        """Bytes that backward needs for so many rows, of which mask_share in a run have a row of the
        mask in common (0: all), with any of the gradients."""
        rows, share = _abi.int64(rows, "rows"), _abi.int64(mask_share, "mask_share")
        with self.handle as address:
            return self._work_bytes(address, rows, share)

    def _memory(self, like, work, needed):
        """(address, bytes, what to keep) of work memory."""
        if work is None:
            work = tensors.empty_bytes(like, needed + _WORK_ALIGNMENT - 1)
            address = tensors.bytes_of(work, "work").pointer
            return address + -address % _WORK_ALIGNMENT, needed, work
        view = tensors.bytes_of(work, "work")
        if view.device != self.engine.device or len(view.shape) != 1 or view.strides[0] != 1:
            raise _errors.InvalidError(
                f"work has shape {list(view.shape)} on {view.device}; give one contiguous dimension "
                f"on {self.engine.device}"
            )
        tensors.check_written(work, "work", "a call of components")
        return view.pointer, view.shape[0], work

    def plan(self, rows, backward=False):
        """The plan of calls of so many rows, one or more, as a PlanInfo."""
        rows = _abi.int64(rows, "rows")
        with self.handle as address:
            return info_of("stg_components_plan", address, rows, backward)

    def __repr__(self):
        state = "closed" if self.closed else self.dtype
        return f"<steergraph.Components {self.d_in} x {self.components} x {self.d_out}: {state}>"
