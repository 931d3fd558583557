"""Steer tables and frames: chains in slots, row maps, applies.

Steering: any thread. Frame: one call at a time, which its own lock sees to; which call comes first,
and on which stream, is the host's to order. Calls release the GIL.
"""
import ctypes
import threading
from typing import NamedTuple, Optional

from . import _abi, _abi_steering, _errors, _locks, chains, tensors
from ._apply import Applier, Layouts, describe, slot_of
from ._handle import Handle, Held, close_busy
from ._numbers import Numbers

UNSTEERED = _abi_steering.ROW_UNSTEERED
PADDING = _abi_steering.ROW_PADDING

_frames = Numbers("frame")
frame_of = _frames.find  # by its number, as ops of torch name it


class DeviceReport(NamedTuple):
    """What the device saw since the last report; zeros on the CPU."""

    bad_slot_rows: int
    bad_slot: int
    non_finite_rows: int


class SlotCounters(NamedTuple):
    """What happened to the rows of a slot at a layer since the slot was last cleared."""

    rows_touched: int  # that the slot's chain ran on
    rows_changed: int  # of them, those stored with other bytes
    max_update: float  # what an element was changed by at most, as stored


class Window(NamedTuple):
    """Where in its sequence a request is steered: rows of the phase with start <= position < stop.

    phase: "both", "prompt" or "generation". A negative bound counts from the end of the prompt, as
    -1 is its last row; None is no bound.
    """

    phase: str = "both"
    start: Optional[int] = None
    stop: Optional[int] = None

    def struct(self):
        window = _abi.new(
            _abi_steering.Window,
            phase=_abi.pick(_abi_steering.PHASE, self.phase, "phase"),
            to=_abi.int64(self.stop or 0, "stop"),
            has_from=self.start is not None,
            has_to=self.stop is not None,
        )
        setattr(window, "from", _abi.int64(self.start or 0, "start"))  # a keyword of Python
        return window


class Steering(Held):
    """A steer table: everything that may ever be asked is declared here; kernels come with it.

    hidden_size   elements of a row
    layers        of the host that chains may name
    dtype         of hidden states: "bf16", "f16" or "f32", or torch's and numpy's names for them
    bank_dtype    of vectors on the device: None for dtype, or "f32"
    state         what an op sees of a row: "hidden" or "hidden+residual"
    max_rows, max_slots, max_vectors, max_chain   capacities; 0 for the library's default
    ops           names that chains may use; None for all built-in ones
    row_buckets, batch_buckets   ascending sizes; None for the default series
    windows       whether slots may have a Window; every step then brings positions and prompt
                  lengths
    counters      whether the rows of each slot are counted: counters()
    probes        columns of what `probe` and the like give out; every apply then brings a tensor for
                  them. 0: no such op
    epilogue      None or "add_rmsnorm", which needs epsilon and the state "hidden+residual"

    close() closes its frames too, and waits for what is in flight. While a CUDA graph is alive that
    captured an apply it raises BusyError, and the table (without its frames) stays open: delete the
    graph and close again. A table that is collected before such a graph is freed when the next
    table is made, or with its engine.
    """

    def __init__(
        self,
        engine,
        hidden_size,
        *,
        layers=1,
        dtype="bf16",
        bank_dtype=None,
        state="hidden",
        max_rows=0,
        max_slots=0,
        max_vectors=0,
        max_chain=0,
        ops=None,
        row_buckets=None,
        batch_buckets=None,
        windows=False,
        counters=False,
        probes=0,
        epilogue=None,
        epsilon=0.0,
    ):
        close_busy()
        self.engine = engine
        self.hidden_size = _abi.int64(hidden_size, "hidden_size")
        self.layers = _abi.uint32(layers, "layers") or 1
        self.dtype = tensors.dtype_word(dtype)
        self.state = state
        self.max_rows = _abi.uint32(max_rows, "max_rows") or 2048
        self.probes = _abi.uint32(probes, "probes")
        self.epilogue = epilogue
        self.epsilon = epsilon
        self.layouts = Layouts(self.dtype, self.hidden_size, self.probes, engine.device)
        desc = _abi.new(
            _abi_steering.SteerDesc,
            hidden_size=self.hidden_size,
            layers=self.layers,
            dtype=_abi.DTYPE[self.dtype],
            bank_dtype=_abi.DTYPE[tensors.dtype_word(bank_dtype) if bank_dtype else "none"],
            state=_abi.pick(_abi_steering.STATE, state, "state"),
            max_rows=self.max_rows,
            max_slots=_abi.uint32(max_slots, "max_slots"),
            max_vectors=_abi.uint32(max_vectors, "max_vectors"),
            max_chain=_abi.uint32(max_chain, "max_chain"),
            epilogue=_abi.pick(_abi_steering.EPILOGUE, epilogue or "none", "epilogue"),
            epsilon=epsilon,
            windows=windows,
            counters=counters,
            probes=self.probes,
        )
        if ops is not None:
            names = [_abi.text(name, "an op's name") for name in ops]
            desc.ops = (ctypes.c_char_p * max(len(names), 1))(*names)
            desc.n_ops = len(names)
        for field, sizes in (("row_buckets", row_buckets), ("batch_buckets", batch_buckets)):
            if sizes is not None:
                array, count = _abi.int64_array(sizes, field)
                setattr(desc, field, array)
                setattr(desc, "n_" + field, count)
        pointer = ctypes.c_void_p()
        size = ctypes.c_size_t()

        def destroy(address):
            _abi.call("stg_steer_destroy", address)

        with engine.handle as address:  # which lives until the handle counts as its child
            _abi.call("stg_steer_bytes", address, ctypes.byref(desc), ctypes.byref(size))
            _abi.call("stg_steer_create", address, ctypes.byref(desc), ctypes.byref(pointer))
            self.handle = Handle("steer table", pointer.value, destroy, engine.handle)
        self.device_bytes = size.value  # of records and the vector bank; frames come on top
        self.handle.owned_by(self)

    def close(self):
        """Close the table and its frames. A second time does nothing."""
        self.handle.close()

    def set(self, slot, by_layer, window=None):
        """Put chains into a slot, replacing what it held: {layer: [op, ...]}.

        An op is `op(name, *vectors, **params)`, or a tuple (name, vectors, params). A vector is a
        Vector, or an array that is interned now. window: a Window; None steers at every position.
        Visible from the next step of a frame on; the slot
        is unchanged when this fails. Does not wait for the device, also while a stream captures,
        unless a vector is on the device.
        """
        if window is not None and not isinstance(window, Window):
            raise TypeError(f"window is {window!r}, neither a steergraph.Window nor None")
        with chains.Chains(self.engine, len(by_layer)) as built:
            for layer, ops in by_layer.items():
                built.add(layer, ops)
            where = None if window is None else ctypes.byref(window.struct())
            with self.handle as address:
                _abi.call(
                    "stg_steer_slot_set_windowed",
                    address,
                    slot_of(slot),
                    built.array,
                    built.count,
                    where,
                )

    def clear(self, slot):
        """Empty a slot: its rows are not steered from the next step on.

        A frame holds what its last step named: that is free once the frame has stepped again.
        """
        with self.handle as address:
            _abi.call("stg_steer_slot_clear", address, slot_of(slot))

    def set_params(self, slot, layer, op_index, params):
        """Change parameters of one op of a slot, given in the op's order; None keeps a value."""
        if not chains.is_number(params):
            params = list(params)
        values, given = chains.params_of(self.engine, str(op_index), params)
        array = (ctypes.c_float * _abi_steering.MAX_CALL_PARAMS)(*values)
        slot, layer = slot_of(slot), slot_of(layer)
        op_index = _abi.uint32(op_index, "op_index")
        with self.handle as address:
            _abi.call(
                "stg_steer_set_params", address, slot, layer, op_index, array, given
            )

    def digest(self, slot):
        """16 bytes that say what the slot does: part of the key of a host's prefix cache."""
        digest = (ctypes.c_ubyte * 16)()
        with self.handle as address:
            _abi.call("stg_steer_digest", address, slot_of(slot), digest)
        return bytes(digest)

    def counters(self, slot, layer, stream=None):
        """SlotCounters, by all that the stream has done: waits for it. For tables with counters."""
        counters = _abi.new(_abi_steering.SlotCounters)
        where = tensors.stream_of(self.engine.device, stream)
        slot, layer = slot_of(slot), slot_of(layer)
        with self.handle as address:
            _abi.call("stg_steer_counters", address, slot, layer, where, ctypes.byref(counters))
        return SlotCounters(counters.rows_touched, counters.rows_changed, counters.max_update)

    def frame(self):
        """A row map of its own, for one stream."""
        return Frame(self)

    def once(
        self,
        hidden,
        lengths,
        chains_of_requests,
        *,
        layer=0,
        residual=None,
        out=None,
        weight=None,
        probes=None,
        stream=None,
    ):
        """Steer a batch given by lengths, a chain per request or None: no slots to manage.

        Rows of requests lie one after the other; rows past their sum are padding. Returns what was
        written: `out`, or `hidden`. Tensors are as those of Frame.apply.
        """
        rows, members = describe(self, layer, hidden, residual, out, weight, probes)
        lengths, count = _abi.int64_array(lengths, "a length")
        ops_of = [() if ops is None else ops for ops in chains_of_requests]
        if len(ops_of) != count:
            raise _errors.InvalidError(f"{count} lengths, but {len(ops_of)} chains")
        with chains.Chains(self.engine, len(ops_of)) as built:
            for ops in ops_of:
                built.add(layer, ops)
            once = _abi.new(
                _abi_steering.Once,
                apply=_abi_steering.Apply(ctypes.sizeof(_abi_steering.Apply), *members),
                rows=rows,
                n_requests=count,
                lengths=lengths,
                chains=ctypes.cast(built.array, ctypes.POINTER(_abi_steering.Chain)),
            )
            where = tensors.stream_of(self.engine.device, stream)
            with self.handle as address:
                _abi.call("stg_steer_once", address, ctypes.byref(once), where)
        return hidden if out is None else out

    def device_status(self, stream=None):
        """What the device reported since the last report. Waits for the stream."""
        report = _abi.new(_abi_steering.DeviceReport)
        where = tensors.stream_of(self.engine.device, stream)
        with self.handle as address:
            _abi.call("stg_device_status", address, where, ctypes.byref(report))
        return DeviceReport(report.bad_slot_rows, report.bad_slot, report.non_finite_rows)

    def __repr__(self):
        state = "closed" if self.closed else self.state
        return f"<steergraph.Steering {self.layers} x {self.hidden_size} {self.dtype}: {state}>"


class PlanInfo(NamedTuple):
    """The plan that serves a frame, or a block, since its last step."""

    signature: str
    kernel_key: str
    graph_key: str
    source: str
    tier: int
    compile_ms: float
    tile_rows: int
    threads: int
    registers: int
    local_bytes: int
    shared_bytes: int
    row_bucket: int
    batch_bucket: int
    seq_bucket: int


def info_of(call, *arguments):
    """The PlanInfo of a frame, of a block, or of components."""
    info = _abi.new(_abi_steering.PlanInfo)
    _abi.call(call, *arguments, ctypes.byref(info))
    values = [getattr(info, field) for field in PlanInfo._fields]
    return PlanInfo(*(v.decode() if isinstance(v, bytes) else v for v in values))


class Frame(Held):
    """One row map at fixed device addresses. Fill it with step, use it with apply.

    A CUDA graph that captured an apply uses the frame's memory and keeps it, also when the frame is
    closed or collected. A replay follows the last step.
    """

    def __init__(self, steering):
        pointer = ctypes.c_void_p()

        def destroy(address):
            _abi.library().stg_frame_destroy(address)

        with steering.handle as address:  # which lives until the handle counts as its child
            _abi.call("stg_frame_create", address, ctypes.byref(pointer))
            self.handle = Handle("frame", pointer.value, destroy, steering.handle)
        self.handle.owned_by(self)
        self.steering = steering
        self.rows = 0  # of the last step
        self.number = _frames.give(self)
        self._apply = Applier()
        _locks.own(self, "lock", threading.Lock)

    def close(self):
        """Close the frame; waits for the stream of its last step. A second time does nothing."""
        self.handle.close()

    def step(
        self,
        row_map,
        *,
        rows=None,
        positions=None,
        prompt_lens=None,
        requests=0,
        longest=0,
        stream=None,
    ):
        """One scheduling step: which slot does each row belong to?

        row_map: int32 of numpy or torch, or a sequence: a slot, UNSTEERED or PADDING. On the
        engine's device it is read there, on the stream. `rows` takes only the first of it.
        positions, prompt_lens: where each row is in its sequence, and how long that one's prompt is,
        in memory like row_map's; for tables with windows, and only for those.
        `requests` and `longest` describe the batch where a map on the device, or runs of equal
        entries, do not. stream: None for torch's current one.
        """
        pointer, count, where, kept = tensors.entries_of(row_map, "row_map")
        if where not in ("cpu", self.steering.engine.device):
            raise _errors.InvalidError(
                f"row_map is on {where}, the engine runs on {self.steering.engine.device}"
            )
        if rows is None:
            rows = count
        elif not 0 <= _abi.int64(rows, "rows") <= count:
            raise _errors.InvalidError(f"rows is {rows}, row_map has {count}")
        step = _abi.new(
            _abi_steering.Step,
            rows=rows,
            row_map=pointer,
            on_device=where != "cpu",
            requests=_abi.uint32(requests, "requests"),
            longest=_abi.uint32(longest, "longest"),
        )
        kept = [kept]
        for what, entries in (("positions", positions), ("prompt_lens", prompt_lens)):
            if entries is not None:
                address, length, place, memory = tensors.entries_of(entries, what)
                if length < rows or place != where:
                    raise _errors.InvalidError(
                        f"{what} has {length} entries on {place}, for {rows} rows of a row_map on "
                        f"{where}"
                    )
                setattr(step, what, address)
                kept.append(memory)
        stream = tensors.stream_of(self.steering.engine.device, stream)
        with self.handle as address, self.lock:
            _abi.call("stg_steer_step", address, ctypes.byref(step), stream)
            self.rows = rows
        del kept

    def apply(
        self,
        layer,
        hidden,
        *,
        residual=None,
        out=None,
        weight=None,
        probes=None,
        stream=None,
    ):
        """Apply the chains of one layer, in place or into `out`; returns what was written.

        Tensors are [rows, hidden_size] or have leading dimensions that are one run of rows; they
        hold at least the rows of the last step. Rows past those, and rows of padding, are left as
        they are. With an epilogue, `weight` is the norm's and the residual is written too. With
        probes, what ops such as `probe` give out is written to `probes`, float32 [rows, probes of
        the table], and its other cells stay.
        """
        table = self.steering
        rows, members = describe(table, layer, hidden, residual, out, weight, probes)
        stream = tensors.stream_of(table.engine.device, stream)
        with self.handle as address, self.lock:
            if rows < self.rows:
                raise _errors.InvalidError(
                    f"hidden has {rows} rows, the frame's step has {self.rows}"
                )
            self._apply(address, members, stream)
        return hidden if out is None else out

    def plan(self):
        """The plan of the last step, as a PlanInfo."""
        with self.handle as address, self.lock:
            return info_of("stg_frame_plan", address)

    def __repr__(self):
        state = "closed" if self.closed else f"{self.rows} rows"
        return f"<steergraph.Frame of {self.steering!r}: {state}>"
