"""Regions: a host's own work, captured by torch once for each signature, padded sizes and stream.

The graphs are torch's; the engine keeps, bounds, evicts and counts them, as its own plans, and says
when one is to go (_regions.py). What a function of tensors needs besides is in region_of.py.
"""
import contextlib
import ctypes
import re

from . import _abi, _abi_region, _errors

_is_signature = re.compile(f"[ -{{}}~]{{1,{_abi_region.MAX_SIGNATURE}}}").fullmatch  # without '|'


def bucket(size, sizes=()):
    """The size to which `size` is padded: the smallest of `sizes`, which ascend, that holds it; without
    them 1 2 4 8, by 8 to 64, by 16 to 128, by 32 to 256, then powers of two. CapacityError beyond."""
    array, count = _abi.int64_array(sizes, "sizes")
    padded = ctypes.c_int64()
    size = _abi.int64(size, "size")
    _abi.call("stg_region_bucket", array if count else None, count, size, ctypes.byref(padded))
    return padded.value


def chunks(size, sizes=()):
    """[(first, size, padded)] of the pieces that `size` is cut into, none larger than the last of
    `sizes`; of 0 there are none."""
    array, count = _abi.int64_array(sizes, "sizes")
    given = array if count else None, count, _abi.int64(size, "size")
    needed = ctypes.c_size_t()
    _abi.call("stg_region_chunks", *given, None, 0, ctypes.byref(needed))
    room = (_abi_region.RegionChunk * max(needed.value, 1))()
    _abi.call("stg_region_chunks", *given, room, len(room), ctypes.byref(needed))
    return [(chunk.first, chunk.size, chunk.padded) for chunk in room[: needed.value]]


class Region:
    """A piece of work that runs again and again on the same tensors. Engine.region makes it.

        with engine.region("step", batch=64) as going:
            if going:            # False: what was recorded has been launched
                outputs = model(static_input)

    Calls that are not replayed do the body as it is: the first `warmup` ones; all of them on the CPU,
    with launch="plain", while the stream captures, and where it could not be captured. The first call
    after the warm-up captures the body, which does nothing then, and launches what it captured. So
    each call does the work once. What the body assigns when it is captured holds the results of later
    replays. Tensors that it reads must stay where they are.

    A body that raises while it is captured ends the capture; the exception goes on, and later calls do
    the body as it is, until forget().

    One thread at a time; another makes a Region of its own with the same signature.
    """

    def __init__(self, engine, signature, stream, batch, seq, rows, pool, warmup):
        if not isinstance(signature, str):
            raise TypeError(f"signature is {signature!r}, not a str")
        if _is_signature(signature) is None:
            raise _errors.InvalidError(
                f"signature is {signature!r}; write 1 to {_abi_region.MAX_SIGNATURE} printable ASCII "
                "characters without '|'"
            )
        sizes = (("batch", batch), ("seq", seq), ("rows", rows))
        self.name = (signature, *(_abi.integer(size, word, 0, 2**63 - 1) for word, size in sizes))
        self.engine = engine
        self._regions = engine.its_regions()
        self._stream = stream
        self._pool = pool
        self._warmup = _abi.uint32(warmup, "warmup")
        self._entered = []

    @property
    def recorded(self):
        """Whether there is a record for the stream, as far as is known: another plan may have taken its
        place since."""
        regions = self._regions
        with regions.current(self._stream) as stream:
            return regions.found(self.name, stream) is not None

    def run(self, function, kept=None):
        """Call a function, or launch what was recorded of it. Returns what it returned, then or when it
        was recorded. One that torch cannot capture is called as it is from then on, which the log says
        once; what it raises by itself goes on. `kept` lives as long as the record."""
        regions = self._regions
        record = regions.replay_here(self.name, self._stream)
        if record is not None:
            return record.outputs
        with regions.current(self._stream) as stream:
            if not regions.captures:
                return regions.enqueue(self.name, stream, function)
            if regions.capture.is_capturing():
                return function()
            record = regions.replay(self.name, stream)
            if record is not None:
                return record.outputs
            why = regions.why_not(self.name)
            if why is not None:
                return regions.enqueue(self.name, stream, function, why)
            if regions.is_cold(self.name, self._warmup):
                with regions.capture.beside(regions.side(stream)):
                    return function()
            return self._first(stream, function, kept)

    def _first(self, stream, function, kept):
        regions = self._regions
        try:
            with regions.taking(stream, self._pool) as taken:
                outputs = function()
        except Exception as error:
            if regions.capture.is_out_of_memory(error):
                return function()  # which passes
            why = regions.note_failure(self.name, error)
            return regions.enqueue(self.name, stream, function, why)
        regions.adopt(self.name, stream, taken, outputs, kept)
        record = regions.replay(self.name, stream)
        return record.outputs if record is not None else function()

    @contextlib.contextmanager
    def record(self):
        """Capture the body of a `with`, which does nothing then; replay() does it. The value is False
        where there is a record already: the body must do nothing. UnsupportedError where nothing is
        captured: on the CPU, and with launch="plain"."""
        regions = self._regions
        if not regions.captures:
            raise _errors.UnsupportedError(
                "this engine captures nothing; let the work be done as it is each time"
            )
        with regions.current(self._stream) as stream:
            if regions.found(self.name, stream) is not None:
                yield False
                return
            with regions.taking(stream, self._pool) as taken:
                yield True
            regions.adopt(self.name, stream, taken, None, None)

    def replay(self):
        """Launch what was recorded. NotFoundError where nothing was, or it was evicted: record again."""
        regions = self._regions
        if regions.replay_here(self.name, self._stream) is not None:
            return
        with regions.current(self._stream) as stream:
            if regions.replay(self.name, stream) is not None:
                return
        raise _errors.NotFoundError(f"region {self.name[0]!r} has no record for this stream")

    def forget(self):
        """Let the records of the signature go, of all sizes and streams. BusyError while one is being
        launched."""
        self._regions.forget(self.name[0])

    def __enter__(self):
        if self._regions.replay_here(self.name, self._stream) is not None:
            self._entered.append(None)
            return False
        with contextlib.ExitStack() as stack:
            going = self._enter(stack)
            self._entered.append(stack.pop_all())
        return going

    def _enter(self, stack):
        regions = self._regions
        stream = stack.enter_context(regions.current(self._stream))
        if not regions.captures or regions.capture.is_capturing():
            return True
        if regions.replay(self.name, stream) is not None:
            return False
        if regions.why_not(self.name) is None:
            if regions.is_cold(self.name, self._warmup):
                stack.enter_context(regions.capture.beside(regions.side(stream)))
            else:
                stack.enter_context(self._captured(stream))
        return True

    @contextlib.contextmanager
    def _captured(self, stream):
        regions = self._regions
        try:
            with regions.taking(stream, self._pool) as taken:
                yield
        except Exception as error:
            if not regions.capture.is_out_of_memory(error):
                regions.note_failure(self.name, error)
            raise
        regions.adopt(self.name, stream, taken, None, None)
        if regions.replay(self.name, stream) is None:
            raise _errors.NotFoundError(
                f"region {self.name[0]!r} was evicted before it was launched; allow more plans"
            )

    def __exit__(self, *raised):
        stack = self._entered.pop()
        return False if stack is None else stack.__exit__(*raised)

    def __repr__(self):
        return f"<steergraph.Region {self.name[0]!r} batch={self.name[1]} seq={self.name[2]} rows={self.name[3]}>"
