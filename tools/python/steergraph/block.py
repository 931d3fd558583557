"""A layer of rope, attention and steering as one launch.

One call at a time, which the block's own lock sees to, on one stream. Calls release the GIL.
"""
import contextlib
import ctypes
import threading

from . import _abi, _errors, _locks
from ._abi_attention import AttendTensors, BlockDesc, BlockTensors, RopeTensors
from ._handle import Handle, Held, close_busy
from ._numbers import Numbers
from .attention import using
from .steering import info_of

_blocks = Numbers("block")
block_of = _blocks.find  # by its number, as ops of torch name it


class Block(Held):
    """A layer as one launch: rope, attend, a steer table on the rows of its output, and, in the last
    layer, the advance of lengths. Parts may be absent, but not both of the first two; all are of
    one cache.

    In a CUDA graph that is being captured an apply adds its nodes, and replays follow later steps.
    """

    def __init__(self, engine, rope=None, attend=None, *, steer=None, advance=False):
        close_busy()
        self.engine, self.rope, self.attend, self.steer = engine, rope, attend, steer
        self.kv = next((part.kv for part in (rope, attend) if part is not None), None)
        self._rows = self._frame = None  # of the last step
        parts = {"rope": rope, "attend": attend, "steer": steer}
        parents = [part.handle for part in parts.values() if part is not None]
        pointer = ctypes.c_void_p()

        def destroy(address):
            _abi.library().stg_block_destroy(address)

        with contextlib.ExitStack() as held:
            address = held.enter_context(engine.handle)
            desc = _abi.new(BlockDesc, advance=advance)
            for name, part in parts.items():
                if part is not None:
                    setattr(desc, name, held.enter_context(part.handle))
            _abi.call("stg_block_create", address, ctypes.byref(desc), ctypes.byref(pointer))
            self.handle = Handle("block", pointer.value, destroy, *parents)
        self.handle.owned_by(self)
        _locks.own(self, "_lock", threading.Lock)
        self.number = _blocks.give(self)

    def close(self):
        """Close the block. A second time does nothing."""
        self.handle.close()

    def step(self, rows, frame=None, *, stream=None):
        """Take the rows as they were stepped, and of a block that steers a frame of its table,
        stepped with as many. As often as they are stepped, behind that; not in a capture."""
        stream = self.kv.streams.of(stream)
        with contextlib.ExitStack() as held:
            address = held.enter_context(self.handle)
            held.enter_context(self._lock)
            map_address = held.enter_context(using(rows))
            frame_address = None
            if frame is not None:
                frame_address = held.enter_context(frame.handle)
                held.enter_context(frame.lock)
            _abi.call("stg_block_step", address, map_address, frame_address, stream)
            self._rows, self._frame = rows, frame

    def apply(
        self, layer, qkv=None, q=None, out=None, *, key_mask=None, steer_layer=0, stream=None
    ):
        """One layer of the step: Rope.apply, Attend.apply and so on with the tensors of those.

        q is where a rope puts Q, a new tensor if None, and what an attend without a rope reads.
        Returns out, or q without an attend.
        """
        layer = _abi.uint32(layer, "layer")
        steer_layer = _abi.uint32(steer_layer, "steer_layer")
        stream = self.kv.streams.of(stream)
        with contextlib.ExitStack() as held:
            address = held.enter_context(self.handle)
            held.enter_context(self._lock)
            rows, frame = self._rows, self._frame
            if rows is None:
                raise _errors.InvalidError("the block has had no step")
            held.enter_context(using(rows))
            if frame is not None:
                held.enter_context(frame.handle)
                held.enter_context(frame.lock)
            given, written = self._prepare(qkv, q, out, key_mask, rows.rows)
            given.layer, given.steer_layer = layer, steer_layer
            _abi.call("stg_block_apply", address, ctypes.byref(given), stream)
        return written

    def _prepare(self, qkv, q, out, key_mask, least):
        """(stg_block_tensors, the tensor that the last part writes)."""
        given = _abi.new(BlockTensors)
        if self.rope is not None:
            (q,), fields = self.rope.prepare(qkv, q, None, None, least)
            given.rope = ctypes.pointer(_abi.new(RopeTensors, **fields))
        elif qkv is not None:
            raise _errors.InvalidError("qkv is given, but the block has no rope")
        if self.attend is None:
            if out is not None:
                raise _errors.InvalidError("out is given, but the block has no attend")
            return given, q
        out, fields = self.attend.prepare(q, out, None, None, None, key_mask, least)
        given.attend = ctypes.pointer(_abi.new(AttendTensors, **fields))
        return given, out

    def plan(self):
        """The plan of the last step, as a PlanInfo; the signature is of all parts."""
        with self.handle as address, self._lock:
            return info_of("stg_block_plan", address)

    def __repr__(self):
        state = "closed" if self.closed else "open"
        return f"<steergraph.Block {self.rope!r} {self.attend!r}: {state}>"
