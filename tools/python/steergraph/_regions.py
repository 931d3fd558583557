"""The regions of an engine: what was captured, what the library keeps of it, and what is to be freed.

The library knows a graph by its token. Any thread. region.py has what a host sees.
"""
import collections
import contextlib
import ctypes
import itertools
import threading
import time
import weakref

from . import _abi, _abi_region, _errors, _locks
from ._handle import Handle

_TOKENS = 16  # that are asked for at once
_NAMES = 4096  # whose calls, or whose failures, are remembered
_LIMIT_S = 2  # that closing waits for launches
_CAPTURE = _errors.CaptureError.status
_CUDA = _errors.CudaError.status
_NOT_FOUND = _errors.NotFoundError.status


class Record:
    """What torch captured of a region for one stream. `kept` lives as long as it."""

    def __init__(self, key, graph, outputs, kept):
        self.key = key
        # as C takes it
        self.given = (
            ctypes.c_char_p(key[0].encode()),
            *map(ctypes.c_int64, key[1:4]),
            ctypes.c_void_p(key[4]),
        )
        self.graph = graph
        self.outputs = outputs
        self.kept = kept
        self.is_live = True  # until the graph is freed
        self.ref = weakref.ref(self)


def _fill(error, status, message):
    """What a callback says of its failure; the status."""
    if error:
        found = ctypes.cast(error, ctypes.POINTER(_abi.Error)).contents
        found.code = status
        found.message = message.encode(errors="replace")[: _abi.ERROR_MESSAGE_BYTES - 1]
    return status


def _line(error):
    """An exception in one line."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__


def _make_room(table, name):
    """For one name more. What is lost is found out again."""
    if len(table) >= _NAMES and name not in table:
        table.clear()


class Regions:
    """Those of an engine, which makes one of these at its first region. It does not keep the engine."""

    def __init__(self, engine):
        self._device = engine.device
        self._index = int(engine.device.partition(":")[2] or 0)
        self.capture = None  # how torch does it; None: on the CPU
        # the stream that is current; None where it is not the one that is asked for
        self.here = lambda index, stream: None
        if engine.device != "cpu":
            from . import _capture

            self.capture = _capture
            self.here = _capture.here
        self.captures = self.capture is not None and not engine.is_plain
        self._engine = engine.handle
        self._records = {}  # (text, batch, seq, rows, stream): Record, unless it was evicted
        self._tokens = {}  # all whose memory may still be in use
        self._next = itertools.count(1)
        self._calls = collections.Counter()  # that were not captured, by name
        self._failed = {}  # why, by name
        self._sides = {}  # streams for captures, by the stream that runs
        self._unwanted = collections.deque()  # name and texts of functions that nobody has any more
        self._names = set()
        self._going = []  # threads that are in a launch
        self.freed = False  # graphs, when the engine was closed
        self._here = threading.local()
        self._launch = _abi_region.LAUNCH_FUNCTION(self._launch_token)
        self._replay = _abi.library().stg_region_replay
        _locks.own(self, "_lock", threading.RLock)
        with engine.handle as address:
            self.handle = Handle("regions of an engine", address, self._release, engine.handle)
        self.handle.first = True  # graphs hold what was captured with them
        self.handle.owned_by(engine)

    def take_name(self, wanted, may_differ):
        """A name that no other function has."""
        with self._lock:
            names = itertools.chain([wanted], (f"{wanted} #{i}" for i in itertools.count(2)))
            name = next(name for name in names if name not in self._names)
            if name != wanted and not may_differ:
                raise _errors.InvalidError(f"signature {wanted!r} is another function's")
            self._names.add(name)
            return name

    def give_up(self, name, texts):
        """A function is gone, and with it its records, at the next call that may let them go. Takes no
        lock: a finalizer calls it."""
        self._unwanted.append((name, texts))

    # What there is.

    def _launch_token(self, token, stream, error):
        try:
            record = self._tokens[token]
            record.graph.replay()
        except Exception as failure:
            self._here.raised = failure
            return _fill(error, _CUDA, _line(failure))
        self._here.launched = record
        return 0

    def found(self, name, stream):
        return self._records.get((*name, stream))

    def found_here(self, name):
        """The record for the stream that is current; None too where the device is not."""
        return self._records.get((*name, self.here(self._index, None)))

    def replay(self, name, stream):
        """The record that was launched; None where there is none, or no longer."""
        record = self._records.get((*name, stream))
        return None if record is None else self.launch(record)

    def replay_here(self, name, stream):
        """As replay, but None too where the stream is not current, or captures. The shortest way, for
        what comes each time."""
        record = self._records.get((*name, self.here(self._index, stream)))
        if record is None:
            return None
        try:
            return self.launch(record)
        except _errors.CapturingError:
            return None

    def launch(self, expected):
        """Launch a record, whose stream is current. Returns what was launched; None where it is no more."""
        here = self._here
        here.raised = here.launched = None
        error, going, thread = _abi.Error(), self._going, threading.get_ident()
        try:
            # seen by whoever closes the engine, or else that is seen here; a handle's lock takes longer
            going.append(thread)
            if self.handle.closed or self._engine.closed:
                raise _errors.ClosedError("the engine is closed")
            status = self._replay(self._engine.pointer, *expected.given, error)
        finally:
            going.remove(thread)
        if status == 0:
            return here.launched
        if here.raised is not None:
            raise here.raised
        if status != _NOT_FOUND:
            raise _abi.failure(status, error)
        with self._lock:
            if self._records.get(expected.key) is expected:
                del self._records[expected.key]
        return None

    def adopt(self, name, stream, taken, outputs, kept):
        """Let the engine have what was captured."""
        token = next(self._next)
        record = Record((*name, stream), taken.graph, outputs, kept)
        owner = _abi.new(
            _abi_region.RegionOwner,
            signature=name[0].encode(),
            batch=name[1],
            seq=name[2],
            rows=name[3],
            launch=self._launch,
            user=token,
            token=token,
            bytes=taken.bytes,
        )
        self._tokens[token] = record
        try:
            with self._engine as address:
                _abi.call("stg_region_adopt", address, ctypes.byref(owner), stream)
        except BaseException:
            del self._tokens[token]
            record.graph.reset()
            raise
        self._records[record.key] = record

    def drain(self):
        """Free the graphs that the engine let go. Not in a capture, which would not survive it."""
        tokens, count = (ctypes.c_uint64 * _TOKENS)(), ctypes.c_size_t(_TOKENS)
        with self._engine as address:
            self._forget_unwanted(address)
            while count.value == _TOKENS:
                _abi.call("stg_region_dropped", address, tokens, _TOKENS, ctypes.byref(count))
                for token in tokens[: count.value]:
                    self._let_go(self._tokens.pop(token))

    def _forget_unwanted(self, address):
        # always the same queue: a finalizer that runs beside may have it in its hand
        for _ in range(len(self._unwanted)):
            try:
                name, texts = self._unwanted.popleft()
            except IndexError:
                return  # another thread has the rest
            try:
                for text in texts:
                    self._forget(address, text)
                self._names.discard(name)
            except _errors.BusyError:
                self._unwanted.append((name, texts))

    def _forget(self, address, text):
        _abi.call("stg_region_forget", address, text.encode())
        with self._lock:
            for table in (self._records, self._failed, self._calls):
                # who adds to it has no lock: look at a copy
                for key in [key for key in list(table) if key[0] == text]:
                    table.pop(key, None)

    def _let_go(self, record):
        with self._lock:
            if self._records.get(record.key) is record:
                del self._records[record.key]
            record.is_live = False
            record.graph.reset()

    def forget(self, text):
        with self._engine as address:
            self._forget(address, text)
        if self.capture is not None and not self.capture.is_capturing():
            self.drain()

    def _release(self, address):
        """With the engine. The graphs are freed when nothing of them runs any more."""
        until = time.monotonic() + _LIMIT_S
        while self._going:
            if threading.get_ident() in self._going or time.monotonic() > until:
                raise _errors.BusyError(
                    "a region is being launched; close the engine when that has returned"
                )
            time.sleep(0.0001)
        if not self._tokens:
            return
        if self.capture.is_capturing():
            raise _errors.BusyError("the stream is capturing; close the engine when it has ended")
        with self._lock:
            for text in {record.key[0] for record in self._tokens.values()}:
                _abi.call("stg_region_forget", address, text.encode())
            self.capture.wait(self._device)
            for record in self._tokens.values():
                record.is_live = False
                record.graph.reset()
            self._tokens.clear()
            self._records.clear()
            self.freed = True

    # What is done.

    @contextlib.contextmanager
    def current(self, stream):
        """The CUDA stream that a region runs on, current meanwhile; None on the CPU."""
        if self.capture is None:
            yield None
        else:
            with self.capture.on(self._device, stream):
                address = self.capture.here(self._index, None)
                if address is None:
                    raise _errors.InvalidError(
                        f"the stream is of another device than the engine, which is on {self._device}"
                    )
                yield address

    def enqueue(self, name, stream, function, why=None):
        """Call a function by way of stg_region_run, which counts it and records nothing: on an engine
        that does not, or since torch could not, which it says once."""
        outputs, raised = [], []

        def record(_, given, pointers, error):
            if why is not None and given != (stream or None):
                return _fill(error, _CAPTURE, why)
            try:
                outputs.append(function())
            except BaseException as failure:
                raised.append(failure)
                return _fill(error, _CAPTURE, _line(failure))
            return 0

        call = _abi.new(
            _abi_region.RegionCall,
            signature=name[0].encode(),
            batch=name[1],
            seq=name[2],
            rows=name[3],
            record=_abi_region.RECORD_FUNCTION(record),
        )
        try:
            with self._engine as address:
                _abi.call("stg_region_run", address, ctypes.byref(call), stream, None)
        except _errors.SteergraphError as error:
            failure = raised[0] if raised else error
        else:
            return outputs[0]
        self._failed.pop(name, None)  # it is not the capture that is at fault
        raise failure

    def is_cold(self, name, warmup):
        """Whether a call is one of the first, which are not captured; it counts as one then."""
        with self._lock:
            cold = self._calls[name] < warmup
            if cold:
                _make_room(self._calls, name)
                self._calls[name] += 1
        return cold

    def why_not(self, name):
        return self._failed.get(name)

    def note_failure(self, name, error):
        _make_room(self._failed, name)
        self._failed[name] = why = _line(error)
        return why

    def side(self, stream):
        with self._lock:
            if stream not in self._sides:
                self._sides[stream] = self.capture.stream_of(self._device)
            return self._sides[stream]

    @contextlib.contextmanager
    def taking(self, stream, pool):
        """A capture of what is to run on a stream. `pool` is one, or says which when it begins."""
        if self.capture.is_capturing():
            raise _errors.CapturingError("the stream captures; let it have the work itself")
        with self._lock:  # a graph whose memory is shared must not be freed meanwhile
            self.drain()
            pool = pool() if callable(pool) else pool
            try:
                with self.capture.capturing(self.side(stream), pool) as taken:
                    yield taken
            except BaseException:
                self._sides.pop(stream, None)  # its capture may not have ended well
                raise
