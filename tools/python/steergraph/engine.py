"""An engine on one device or on the CPU, its vectors, and the switch of the environment.

An Engine is safe from any thread; calls release the GIL. Several devices: several engines.
"""
import contextlib
import ctypes
import json
import logging
import threading
import time

from . import _abi, _errors, _locks, chains, tensors, warming
from ._handle import Handle, Held
from ._regions import Regions
from .region import Region

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}
_LIMIT_S = 2  # that close() waits for the driver
_logger = logging.getLogger("steergraph")


def enabled():
    """Whether STEERLLM_COMPILE_STEERING asks for steergraph: 1 yes; unset, empty or 0 no.

    Any other value is an InvalidError. For hosts to ask; an Engine does not.
    """
    options = _options(environment=True)
    ask = getattr(_abi.library(), "stg_enabled", None)
    return bool(ask(ctypes.byref(options)) if ask is not None else options.enabled)


def version():
    """The version of the library, "major.minor.patch"."""
    return _abi.library().stg_version().decode()


def _options(environment):
    options = _abi.Options()
    if environment:
        _abi.call("stg_options_from_env", ctypes.byref(options))
    else:
        _abi.library().stg_options_init(ctypes.byref(options))
    return options


def _log_to_logging(level, message):
    _logger.log(_LEVELS.get(level, logging.INFO), "%s", message)


class Vector(Held):
    """An interned vector. Equal bytes of equal type are one; slots hold their own reference.

    Any thread. Closed with its engine, or when it is collected.
    """

    def __init__(self, engine, data, dtype=None):
        pointer, code, length, kept = tensors.vector_of(data, dtype)
        number = ctypes.c_uint64()

        def release(value, parent=engine.handle):
            _abi.call("stg_vector_release", parent.pointer, value)

        self.engine = engine
        self.length = length
        self.dtype = _abi.word_of(_abi.DTYPE, code)
        with engine.handle as address:  # which lives until the handle counts as its child
            _abi.call(
                "stg_vector_intern", address, code, pointer, length, ctypes.byref(number)
            )
            self.handle = Handle("vector", number.value, release, engine.handle)
        del kept  # read during the call alone
        self.handle.owned_by(self)

    @property
    def id(self):
        return self.handle.pointer

    def close(self):
        """Drop the reference. A second time does nothing."""
        self.handle.close()


class Engine(Held):
    """Open an engine. Options not given are those of the environment, or with environment=False
    the library's defaults.

    backend       "auto", "cuda" or "cpu"
    device        CUDA ordinal
    compile       when a kernel that no cache has is compiled: "background", "block", "never"
    launch        "graph" or "plain"
    cache         folders, "RO:RO:RW", packs among RO; "": memory only
    pack          a pack below all of cache; None: the installed one; "": none
    cache_mode    "read_only", "refresh", "off" or "memory": packs alone
    cache_trust   accept folders that others own or can write
    cache_max_bytes, cache_max_entries   of the folder that is written to, beyond which what was
                  unused longest goes; 0 for the library's default
    log           function of (level, message), called from any thread, must not call the engine;
                  None: the logger "steergraph" of logging
    log_level     "off", "error", "warn", "info" or "debug"
    max_plans     batch shapes whose plans and graphs are kept; 0 for the library's default
    compile_threads, compile_queue   of compiles in the background; 0 for the library's default

    close() closes everything that was made from the engine; so does the end of a `with` block.
    """

    def __init__(
        self,
        backend="auto",
        device=0,
        *,
        compile=None,
        launch=None,
        cache=None,
        pack=None,
        cache_mode=None,
        cache_trust=False,
        log=None,
        log_level=None,
        max_plans=0,
        compile_threads=0,
        compile_queue=0,
        cache_max_bytes=None,
        cache_max_entries=None,
        environment=True,
    ):
        options = _options(environment)
        options.backend = _abi.pick(_abi.BACKEND, backend, "backend")
        options.device = device = _abi.int32(device, "device")
        words = (
            ("compile", _abi.COMPILE_MODE, compile),
            ("launch", _abi.LAUNCH_MODE, launch),
            ("cache_mode", _abi.CACHE_MODE, cache_mode),
            ("log_level", _abi.LOG_LEVEL, log_level),
        )
        for field, table, word in words:
            if word is not None:
                setattr(options, field, _abi.pick(table, word, field))
        if cache is not None:
            options.cache_path = _abi.path(cache, "cache")
        if pack is not None:
            options.pack_path = _abi.path(pack, "pack")
        options.cache_trust = cache_trust
        options.max_plans = _abi.uint32(max_plans, "max_plans")
        options.compile_threads = _abi.uint32(compile_threads, "compile_threads")
        options.compile_queue = _abi.uint32(compile_queue, "compile_queue")
        if cache_max_bytes is not None:
            options.cache_max_bytes = _abi.uint64(cache_max_bytes, "cache_max_bytes")
        if cache_max_entries is not None:
            options.cache_max_entries = _abi.uint64(cache_max_entries, "cache_max_entries")
        if log is not None and not callable(log):
            raise TypeError(f"log is {log!r}, neither a function nor None")
        say = log if log is not None else _log_to_logging
        callback = _abi.LOG_FUNCTION(
            lambda _, level, message: say(
                _abi.word_of(_abi.LOG_LEVEL, level), message.decode(errors="replace")
            )
        )
        options.log = callback
        pointer = ctypes.c_void_p()
        _abi.call("stg_engine_create", ctypes.byref(options), ctypes.byref(pointer))

        def destroy(address, callback=callback):  # the callback lives as long as the engine
            _abi.call("stg_engine_destroy", address)

        self.handle = Handle("engine", pointer.value, destroy)
        self.handle.owned_by(self)
        self._params = dict(chains.BUILTIN_PARAMS)
        self._regions = None
        self.is_plain = options.launch == _abi.LAUNCH_MODE["plain"]
        _locks.own(self, "_lock", threading.Lock)
        self._read_info()
        # the device whose tensors the engine takes, as torch writes it
        self.device = "cpu" if self.backend == "cpu" else f"cuda:{device}"

    def _read_info(self):
        info = _abi.new(_abi.EngineInfo)
        with self.handle as address:
            _abi.library().stg_engine_get_info(address, ctypes.byref(info))
            if info.backend == 0:
                raise _errors.InvalidError(
                    f"stg_engine_info of library {version()} is not that of this package"
                )
            self.backend = _abi.word_of(_abi.BACKEND, info.backend)
            self.reason = info.reason.decode(errors="replace")
            self.device_name = info.device.decode(errors="replace")
            self.arch = info.arch.decode()
            self.driver_version = info.driver_version

    def close(self):
        """Close the engine and all that was made from it. A second time does nothing.

        Calls of other threads that have begun come to their end first. BusyError while a CUDA graph
        uses a table of the engine: delete the graph and close again.
        """
        until = None
        while True:
            try:
                return self.handle.close()
            except _errors.BusyError:
                regions = self._regions
                if regions is None or not regions.freed:
                    raise
                # a thread of the driver's says that what regions captured is no longer used
                until = until if until is not None else time.monotonic() + _LIMIT_S
                if time.monotonic() > until:
                    raise
            time.sleep(0.001)

    def vector(self, data, dtype=None):
        """Intern a vector: a numpy array or a torch tensor of one dimension.

        Read now, applied as it is, never normalised. uint16 of numpy is bf16. A tensor on a device
        is copied to the host first, which waits for the device.
        """
        return Vector(self, data, dtype)

    @contextlib.contextmanager
    def as_vector(self, vector):
        """The id of a Vector of this engine, or of an array that is interned meanwhile."""
        if isinstance(vector, Vector):
            if vector.engine is not self:
                raise _errors.InvalidError("a vector belongs to another engine")
            with vector.handle as number:
                yield number
        else:
            with Vector(self, vector) as interned, interned.handle as number:
                yield number

    def register_op(self, definition, name="<python>"):
        """Register an op: the text of its JSON definition, or the definition as a dict.

        `name` stands for the file in messages.
        """
        text = definition if isinstance(definition, str) else json.dumps(definition)
        raw, name = text.encode(), _abi.path(name, "name")
        with self.handle as address:
            _abi.call("stg_op_register", address, name, raw, len(raw))
        read = json.loads(text)
        self._params[read["op"]] = tuple(read.get("params", ()))

    def params_of_op(self, name):
        """The names of an op's parameters in their order; None for an op that is not known."""
        return self._params.get(name)

    def warm(self, manifest, *, deadline=None, threads=0, progress=None):
        """Make what a manifest lists, most used first: kernels, plans and graphs. Returns a dict:
        total = done + failed + left signatures, the kernels by where they came from, ms.

        manifest    a path, or the text of a manifest ("{...}"), or its dict
        deadline    seconds; what is not ready then is `left`
        threads     kernels that are compiled at once; 0: as many as the engine has threads
        progress    function of (done, total, current, eta): current is the signature that is next,
                    None at the end; eta in seconds, None while unknown. Called on this thread;
                    False, or an exception, which is raised here, ends it.
        """
        with self.handle as address:
            return warming.warm(address, manifest, deadline, threads, progress)

    def save_traffic(self, path):
        """Write the manifest of all steps so far: what warm() at the next start is given."""
        with self.handle as address:
            warming.save(address, path)

    def region(self, signature, stream=None, *, batch=0, seq=0, rows=0, pool=None, warmup=3):
        """A Region: work of the host's own that torch captures once and that is launched from then on.

        signature       what the work is: printable ASCII without "|"; equal text and sizes must mean
                        equal work
        stream          a torch.cuda.Stream that it runs on; None: the one that is current at each call
        batch, seq, rows  padded sizes, which are part of the signature; 0: none
        pool            of torch.cuda.graph_pool_handle(), to share memory with other captures; None: its own
        warmup          calls that do the work as it is before it is captured
        """
        return Region(self, signature, stream, batch, seq, rows, pool, warmup)

    def region_of(
        self, buckets=(), *, dim=0, fixed=(), key=None, clone=True, warmup=3, signature=None
    ):
        """A decorator that makes a function of tensors a region for each padded size.

        buckets    sizes that dimension `dim` of the tensors is padded to, ascending; what is larger than
                   the last is cut into pieces. Empty: those of region_bucket
        fixed      names of parameters whose tensors have no such dimension
        key        function without arguments, of what the work depends on besides: its value is part of
                   the signature
        clone      whether results are copies; else they are the tensors of the graph, which the next call
                   writes
        warmup     calls of each size that are not captured
        signature  begins that of its regions; None: the function's name

        The function is called with copies, padded with zeros: it must treat rows one by one, or look at a
        mask. Results whose dimension `dim` has the padded size are cut.
        """
        from .region_of import RegionOf

        def decorate(function):
            return RegionOf(self, function, buckets, dim, fixed, key, clone, warmup, signature)

        return decorate

    def its_regions(self):
        """The Regions of the engine, for what runs regions."""
        if self.closed:
            raise _errors.ClosedError("the engine is closed")
        if self._regions is None:
            with self._lock:
                if self._regions is None:
                    self._regions = Regions(self)
        return self._regions

    def stats(self):
        """What stg_stats in <steergraph/engine.h> has, as a dict: counters since the engine was
        created, and what there is now, such as plans_live, graphs_live (the library's own),
        host_graphs_live (captures, also of torch, that still use a frame) and the bytes held."""
        with self.handle as address:
            ask = _abi.library().stg_engine_stats_json
            room = ctypes.create_string_buffer(ask(address, None, 0) + 256)
            ask(address, room, len(room))
        return json.loads(room.value)

    def __repr__(self):
        state = "closed" if self.closed else self.reason
        return f"<steergraph.Engine {self.device}: {state}>"
