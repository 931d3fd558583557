"""KV caches of fixed size, and the rows of a step: which sequence and position each row is.

Kv: any thread. Rows: one call at a time, which its own lock sees to, on one stream. Calls release
the GIL.
"""
import ctypes
import threading
from typing import NamedTuple

from . import _abi, _abi_attention, _errors, _locks, tensors
from ._abi_attention import KvDesc, KvTensors, RowsDesc, RowsStep
from ._handle import Handle, Held, close_busy
from ._numbers import Numbers
from ._streams import Streams

_rows = Numbers("rows object")
rows_of = _rows.find  # by its number, as ops of torch name it


class KvReport(NamedTuple):
    """Rows that were not appended: what the exception of Kv.check has as `report`."""

    full_rows: int  # without room at their position; each layer counts its own
    full_row: int  # the lowest such row of a step, and its sequence; -1: none
    full_seq: int
    bad_rows: int  # of a sequence that there is not, or at no position
    bad_row: int
    bad_seq: int


class KvPlaces(NamedTuple):
    """Addresses of a cache and its strides in elements, as stg_kv_tensors has them."""

    k: int
    v: int
    lengths: int
    block_table: int  # None: dense
    blocks: int  # of a sequence; 0: dense
    layer_stride: int
    seq_stride: int
    head_stride: int


class Kv(Held):
    """A cache of K and V of all layers, and the lengths of its sequences.

    batch         sequences
    kv_heads, dim of K and V
    capacity      positions of a sequence, up to 2^31 - 2
    layers        of the model
    dtype         "bf16", "f16" or "f32", or torch's and numpy's names for them
    block, blocks paged: positions of a block, a power of two from 8 to 1024, and blocks of a layer.
                  0: dense
    k, v          memory for them, [layers, batch, kv_heads, capacity, dim], or paged [layers,
                  blocks, kv_heads, block, dim]: arrays of numpy or tensors of torch, which the cache
                  keeps. None: the library's own
    lengths       likewise int32 [batch], of what is in k and v; None: zeros of the library's own
    block_table   likewise int32 [batch, ceil(capacity / block)]; None: -1 of the library's own

    Change lengths and block table by the calls below: a write of your own is not seen in time.

    close() closes what was made of the cache, and waits for what is in flight. While a CUDA graph is
    alive that captured one of them it raises BusyError; close again when it is gone.
    """

    def __init__(
        self,
        engine,
        *,
        batch,
        kv_heads,
        dim,
        capacity,
        layers=1,
        dtype="bf16",
        block=0,
        blocks=0,
        k=None,
        v=None,
        lengths=None,
        block_table=None,
    ):
        close_busy()
        self.engine = engine
        self.layers = _abi.uint32(layers, "layers") or 1
        self.batch = _abi.uint32(batch, "batch")
        self.kv_heads = _abi.uint32(kv_heads, "kv_heads")
        self.dim = _abi.uint32(dim, "dim")
        self.capacity = _abi.int64(capacity, "capacity")
        self.dtype = tensors.dtype_word(dtype)
        self.block, self.blocks = _abi.uint32(block, "block"), _abi.uint32(blocks, "blocks")
        self.k, self.v, self.lengths, self.block_table = k, v, lengths, block_table
        desc = _abi.new(
            KvDesc,
            layers=self.layers,
            batch=self.batch,
            kv_heads=self.kv_heads,
            dim=self.dim,
            capacity=self.capacity,
            dtype=_abi.DTYPE[self.dtype],
            block=self.block,
            n_blocks=self.blocks,
            k=self._states(k, "k"),
            v=self._states(v, "v"),
            len=self._words(lengths, "lengths", (self.batch,)),
            block_table=self._words(block_table, "block_table", (self.batch, self._table_row())),
        )
        streams = self.streams = Streams(engine.device)  # of all that is made of the cache
        pointer = ctypes.c_void_p()
        size = ctypes.c_size_t()

        def destroy(address, kept=(k, v, lengths, block_table)):  # as long as the library has them
            streams.wait("KV cache")
            _abi.call("stg_kv_destroy", address)

        with engine.handle as address:  # which lives until the handle counts as its child
            _abi.call("stg_kv_bytes", address, ctypes.byref(desc), ctypes.byref(size))
            _abi.call("stg_kv_create", address, ctypes.byref(desc), ctypes.byref(pointer))
            self.handle = Handle("KV cache", pointer.value, destroy, engine.handle)
        self.device_bytes = size.value  # what the library allocated
        self.handle.owned_by(self)

    def _table_row(self):
        return -(-self.capacity // self.block) if self.block else 0

    def _states(self, tensor, what):
        """The address of memory for K or V."""
        if tensor is None:
            return None
        pool = (self.blocks, self.kv_heads, self.block)
        dense = (self.batch, self.kv_heads, self.capacity)
        wanted = (self.layers, *(pool if self.block else dense), self.dim)
        view = tensors.view_of(tensor, what)
        if (view.dtype, view.shape, view.device) != (self.dtype, wanted, self.engine.device):
            raise _errors.InvalidError(
                f"{what} is {view.dtype} {list(view.shape)} on {view.device}, the cache takes "
                f"{self.dtype} {list(wanted)} on {self.engine.device}"
            )
        distance = 1
        for extent, stride in zip(reversed(view.shape), reversed(view.strides)):
            if extent > 1 and stride != distance:
                raise _errors.InvalidError(f"{what} is not contiguous")
            distance *= extent
        tensors.check_written(tensor, what, "a cache")
        return view.pointer

    def _words(self, array, what, wanted):
        """The address of memory for lengths or a block table."""
        if array is None:
            return None
        if not (tensors.is_torch(array) or tensors.is_numpy(array)):
            raise TypeError(f"{what} is {type(array).__name__}, not an array or a tensor")
        address, shape, device, _ = tensors.integers_of(array, what, ("int32",), len(wanted))
        if (shape, device) != (wanted, self.engine.device):
            raise _errors.InvalidError(
                f"{what} has shape {list(shape)} on {device}, the cache takes {list(wanted)} on "
                f"{self.engine.device}"
            )
        tensors.check_written(array, what, "a cache")
        return address

    def close(self):
        """Close the cache and what was made of it. A second time does nothing."""
        self.handle.close()

    def set_lengths(self, seqs, lengths, stream=None):
        """Set how long sequences are, in the order of the stream: 0 for a new request, less than it
        was to take rows back. `lengths`: one for each, or one for all."""
        seqs = [_abi.uint32(seq, "a sequence") for seq in seqs]
        if not hasattr(lengths, "__len__") or getattr(lengths, "shape", None) == ():
            lengths = [lengths] * len(seqs)
        lengths = [_abi.int32(length, "a length") for length in lengths]
        if len(seqs) != len(lengths):
            raise _errors.InvalidError(f"{len(seqs)} sequences, but {len(lengths)} lengths")
        count = len(seqs)
        of_seqs = (ctypes.c_uint32 * max(count, 1))(*seqs)
        to = (ctypes.c_int32 * max(count, 1))(*lengths)
        stream = self.streams.of(stream)
        with self.handle as address:
            _abi.call("stg_kv_set_len", address, of_seqs, to, count, stream)

    def set_blocks(self, seq, blocks, first=0, stream=None):
        """Say which blocks have the positions of a sequence from first * block on; -1: none."""
        numbers = [_abi.int32(block, "a block") for block in blocks]
        array = (ctypes.c_int32 * max(len(numbers), 1))(*numbers)
        seq, first = _abi.uint32(seq, "seq"), _abi.int64(first, "first")
        stream = self.streams.of(stream)
        with self.handle as address:
            _abi.call("stg_kv_set_blocks", address, seq, first, array, len(numbers), stream)

    def advance(self, rows, stream=None):
        """At the end of a step: each sequence grows by the rows that it had and that had room."""
        stream = self.streams.of(stream)
        with self.handle as address, rows.handle as map_address, rows.lock:
            _abi.call("stg_kv_advance", address, map_address, stream)

    def check(self, stream=None):
        """Raise KvFullError when a row since the last check had no room, BadSlotError when one was
        of no sequence of the cache; `report` of the exception has what there is to say. Waits for
        the stream."""
        report = _abi.new(_abi_attention.KvReport)
        stream = self.streams.of(stream)
        try:
            with self.handle as address:
                _abi.call("stg_kv_status", address, stream, ctypes.byref(report))
        except (_errors.KvFullError, _errors.BadSlotError) as error:
            error.report = KvReport(*(getattr(report, field) for field in KvReport._fields))
            raise

    def places(self):
        """Where everything is, as KvPlaces; for memory of the library's own too."""
        found = _abi.new(KvTensors)
        with self.handle as address:
            _abi.library().stg_kv_get_tensors(address, ctypes.byref(found))
        names = ("k", "v", "len", *KvPlaces._fields[3:])
        return KvPlaces(*(getattr(found, name) for name in names))

    def __repr__(self):
        state = "closed" if self.closed else ("paged" if self.block else "dense")
        sizes = f"{self.layers} x {self.batch} x {self.kv_heads} x {self.capacity} x {self.dim}"
        return f"<steergraph.Kv {sizes} {self.dtype}: {state}>"


def streams_of(engine, kv):
    """The streams of what is made of a cache, or of an object that has none."""
    return Streams(engine.device) if kv is None else kv.streams


class Rows(Held):
    """Which sequence and position each row of a step is, at fixed addresses. Fill it with step.

    kv        the cache whose sequences the rows are of, or None: rows of tensors, of `batch`
              sequences, each with a position
    max_rows  of a step; 0 for the library's default

    A CUDA graph that captured something with the rows follows the last step when it is replayed.
    """

    def __init__(self, engine, kv=None, *, batch=0, max_rows=0):
        close_busy()
        self.engine = engine
        self.kv = kv
        self.rows = 0  # of the last step
        self.steps = 0  # so far
        batch, max_rows = _abi.uint32(batch, "batch"), _abi.uint32(max_rows, "max_rows")
        parent = engine.handle if kv is None else kv.handle
        streams = self.streams = streams_of(engine, kv)
        pointer = ctypes.c_void_p()

        def destroy(address):
            streams.wait("rows")
            _abi.call("stg_rows_destroy", address)

        with engine.handle as address, parent as above:
            desc = _abi.new(RowsDesc, kv=None if kv is None else above)
            desc.batch, desc.max_rows = batch, max_rows
            _abi.call("stg_rows_create", address, ctypes.byref(desc), ctypes.byref(pointer))
            self.handle = Handle("rows object", pointer.value, destroy, parent)
        self.handle.owned_by(self)
        _locks.own(self, "lock", threading.Lock)
        self.number = _rows.give(self)

    def close(self):
        """Close the rows; waits for the stream of their last step. A second time does nothing."""
        self.handle.close()

    def step(self, seq, pos=None, *, rows=None, requests=0, longest=0, stream=None):
        """One scheduling step.

        seq: int32 of numpy or torch, or a sequence of numbers: the sequence of each row; negative:
        padding, which is neither read nor written. On the engine's device it is read there, on the
        stream. `rows` takes only the first of it.
        pos: int32 or int64, where in its sequence each row is, in memory like seq's. None, the decode
        form: a row is at the length of its sequence, which has no other row.
        `requests` and `longest` describe a batch on the device: its sequences, and the most rows of
        one. stream: None for torch's current one.
        """
        address, count, where, kept = tensors.entries_of(seq, "seq")
        if where not in ("cpu", self.engine.device):
            raise _errors.InvalidError(
                f"seq is on {where}, the engine runs on {self.engine.device}"
            )
        if rows is None:
            rows = count
        elif not 0 <= _abi.int64(rows, "rows") <= count:
            raise _errors.InvalidError(f"rows is {rows}, seq has {count}")
        step = _abi.new(
            RowsStep,
            rows=rows,
            seq=address,
            on_device=where != "cpu",
            requests=_abi.uint32(requests, "requests"),
            longest=_abi.uint32(longest, "longest"),
        )
        if pos is not None:
            place, length, device, memory, step.pos_is_64 = tensors.positions_of(pos, "pos")
            if length < rows or device != where:
                raise _errors.InvalidError(
                    f"pos has {length} entries on {device}, for {rows} rows of seq on {where}"
                )
            step.pos = place
            kept = kept, memory
        stream = self.streams.of(stream)
        with self.handle as address, self.lock:
            _abi.call("stg_rows_step_set", address, ctypes.byref(step), stream)
            self.rows = rows
            self.steps += 1
        del kept

    def __repr__(self):
        state = "closed" if self.closed else f"{self.rows} rows"
        return f"<steergraph.Rows of {self.kv!r}: {state}>"
