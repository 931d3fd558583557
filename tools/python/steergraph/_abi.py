"""The C interface as ctypes sees it: structs, enums, functions, and finding the library.

Structs are written by hand, in the order of the headers; tests/python/test_abi.py holds every size,
offset and value against a C compiler. Knows nothing of what the calls are for.
"""
import ctypes
import ctypes.util
import operator
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64
from ctypes import c_size_t, c_ubyte, c_uint32, c_uint64, c_void_p

from . import _abi_attention, _abi_components, _errors, _locks

ROW_UNSTEERED = -1
ROW_PADDING = -2
MAX_CALL_VECTORS = 4
MAX_CALL_PARAMS = 8
ERROR_MESSAGE_BYTES = 512

# Enums: the words that this package takes, and the values that the library takes.
DTYPE = {"none": 0, "bf16": 1, "f16": 2, "f32": 3}
DTYPE_BYTES = {"bf16": 2, "f16": 2, "f32": 4}
BACKEND = {"auto": 0, "cuda": 1, "cpu": 2}
COMPILE_MODE = {"default": 0, "block": 1, "never": 2, "background": 3}
LAUNCH_MODE = {"default": 0, "graph": 1, "plain": 2}
CACHE_MODE = {"default": 0, "read_only": 1, "refresh": 2, "off": 3, "memory": 4}
LOG_LEVEL = {"default": 0, "off": 1, "error": 2, "warn": 3, "info": 4, "debug": 5}
STATE = {"hidden": 0, "hidden+residual": 1}
EPILOGUE = {"none": 0, "add_rmsnorm": 1}
PHASE = {"both": 0, "prompt": 1, "generation": 2}

LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Error(ctypes.Structure):
    C_NAME = "stg_error"
    _fields_ = [("code", c_int), ("message", c_char * ERROR_MESSAGE_BYTES)]


class Options(ctypes.Structure):
    C_NAME = "stg_options"
    _fields_ = [
        ("struct_size", c_size_t),
        ("enabled", c_bool),
        ("backend", c_int),
        ("device", c_int),
        ("compile", c_int),
        ("launch", c_int),
        ("cache_path", c_char_p),
        ("pack_path", c_char_p),
        ("cache_mode", c_int),
        ("cache_trust", c_bool),
        ("nvrtc_options", c_char_p),
        ("log", LOG_FUNCTION),
        ("log_user", c_void_p),
        ("log_level", c_int),
        ("max_plans", c_uint32),
        ("compile_threads", c_uint32),
        ("compile_queue", c_uint32),
        ("cache_max_bytes", c_uint64),
        ("cache_max_entries", c_uint64),
    ]


class EngineInfo(ctypes.Structure):
    C_NAME = "stg_engine_info"
    _fields_ = [
        ("struct_size", c_size_t),
        ("backend", c_int),
        ("reason", c_char_p),
        ("device", c_char_p),
        ("arch", c_char_p),
        ("driver_version", c_int),
    ]


class SteerDesc(ctypes.Structure):
    C_NAME = "stg_steer_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("hidden_size", c_int64),
        ("layers", c_uint32),
        ("dtype", c_int),
        ("bank_dtype", c_int),
        ("state", c_int),
        ("max_rows", c_uint32),
        ("max_slots", c_uint32),
        ("max_vectors", c_uint32),
        ("max_chain", c_uint32),
        ("ops", POINTER(c_char_p)),
        ("n_ops", c_size_t),
        ("row_buckets", POINTER(c_int64)),
        ("n_row_buckets", c_size_t),
        ("batch_buckets", POINTER(c_int64)),
        ("n_batch_buckets", c_size_t),
        ("epilogue", c_int),
        ("epsilon", c_float),
        ("windows", c_bool),
        ("counters", c_bool),
        ("probes", c_uint32),
    ]


class OpCall(ctypes.Structure):
    C_NAME = "stg_op_call"
    _fields_ = [
        ("op", c_char_p),
        ("vectors", c_uint64 * MAX_CALL_VECTORS),
        ("params", c_float * MAX_CALL_PARAMS),
        ("params_given", c_uint32),
    ]


class Chain(ctypes.Structure):
    C_NAME = "stg_chain"
    _fields_ = [("layer", c_uint32), ("ops", POINTER(OpCall)), ("n_ops", c_size_t)]


class Window(ctypes.Structure):
    C_NAME = "stg_window"
    _fields_ = [
        ("struct_size", c_size_t),
        ("phase", c_int),
        ("from", c_int64),
        ("to", c_int64),
        ("has_from", c_bool),
        ("has_to", c_bool),
    ]


class Step(ctypes.Structure):
    C_NAME = "stg_step"
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("row_map", c_void_p),
        ("on_device", c_bool),
        ("requests", c_uint32),
        ("longest", c_uint32),
        ("positions", c_void_p),
        ("prompt_lens", c_void_p),
    ]


class Apply(ctypes.Structure):
    C_NAME = "stg_apply"
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer", c_uint32),
        ("hidden", c_void_p),
        ("out", c_void_p),
        ("residual", c_void_p),
        ("row_stride", c_int64),
        ("weight", c_void_p),
        ("probes", c_void_p),
        ("probe_stride", c_int64),
    ]


class Once(ctypes.Structure):
    C_NAME = "stg_once"
    _fields_ = [
        ("struct_size", c_size_t),
        ("apply", Apply),
        ("rows", c_int64),
        ("n_requests", c_size_t),
        ("lengths", POINTER(c_int64)),
        ("chains", POINTER(Chain)),
    ]


class SlotCounters(ctypes.Structure):
    C_NAME = "stg_slot_counters"
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows_touched", c_uint64),
        ("rows_changed", c_uint64),
        ("max_update", c_float),
    ]


class DeviceReport(ctypes.Structure):
    C_NAME = "stg_device_report"
    _fields_ = [
        ("struct_size", c_size_t),
        ("bad_slot_rows", c_uint32),
        ("bad_slot", c_int32),
        ("non_finite_rows", c_uint32),
    ]


class PlanInfo(ctypes.Structure):
    C_NAME = "stg_plan_info"
    _fields_ = [
        ("struct_size", c_size_t),
        ("signature", c_char_p),
        ("kernel_key", c_char * 33),
        ("graph_key", c_char * 33),
        ("source", c_char_p),
        ("tier", c_int),
        ("compile_ms", c_double),
        ("tile_rows", c_uint32),
        ("threads", c_uint32),
        ("registers", c_uint32),
        ("local_bytes", c_uint32),
        ("shared_bytes", c_uint32),
        ("row_bucket", c_int64),
        ("batch_bucket", c_int64),
        ("seq_bucket", c_int64),
    ]


class WarmProgress(ctypes.Structure):
    C_NAME = "stg_warm_progress"
    _fields_ = [
        ("struct_size", c_size_t),
        ("done", c_size_t),
        ("total", c_size_t),
        ("current", c_char_p),
        ("eta_s", c_double),
    ]


WARM_FUNCTION = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(WarmProgress))


class WarmDesc(ctypes.Structure):
    C_NAME = "stg_warm_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("deadline_ms", c_uint32),
        ("threads", c_uint32),
        ("progress", WARM_FUNCTION),
        ("user", c_void_p),
    ]


class WarmReport(ctypes.Structure):
    C_NAME = "stg_warm_report"
    _fields_ = [
        ("struct_size", c_size_t),
        ("total", c_size_t),
        ("done", c_size_t),
        ("failed", c_size_t),
        ("left", c_size_t),
        ("kernels_memory", c_size_t),
        ("kernels_disk", c_size_t),
        ("kernels_compiled", c_size_t),
        ("kernels_failed", c_size_t),
        ("graphs", c_size_t),
        ("ms", c_double),
        ("regions", c_size_t),
    ]


STRUCTS = (Error, Options, EngineInfo, SteerDesc, OpCall, Chain, Window, Step, Apply, Once)
STRUCTS += (SlotCounters, DeviceReport, PlanInfo)
STRUCTS += (WarmProgress, WarmDesc, WarmReport, *_abi_attention.STRUCTS, *_abi_components.STRUCTS)

_ERROR = POINTER(Error)
_HANDLE = POINTER(c_void_p)

# Functions that return a status and take a stg_error last: name, the arguments before it.
_FALLIBLE = {
    "stg_options_from_env": (POINTER(Options),),
    "stg_engine_create": (POINTER(Options), _HANDLE),
    "stg_engine_destroy": (c_void_p,),
    "stg_op_register": (c_void_p, c_char_p, c_char_p, c_size_t),
    "stg_vector_intern": (c_void_p, c_int, c_void_p, c_size_t, POINTER(c_uint64)),
    "stg_vector_release": (c_void_p, c_uint64),
    "stg_steer_bytes": (c_void_p, POINTER(SteerDesc), POINTER(c_size_t)),
    "stg_steer_create": (c_void_p, POINTER(SteerDesc), _HANDLE),
    "stg_steer_destroy": (c_void_p,),
    "stg_steer_slot_set": (c_void_p, c_uint32, POINTER(Chain), c_size_t),
    "stg_steer_slot_set_windowed": (
        c_void_p,
        c_uint32,
        POINTER(Chain),
        c_size_t,
        POINTER(Window),
    ),
    "stg_steer_slot_clear": (c_void_p, c_uint32),
    "stg_steer_set_params": (c_void_p, c_uint32, c_uint32, c_size_t, POINTER(c_float), c_uint32),
    "stg_steer_digest": (c_void_p, c_uint32, POINTER(c_ubyte)),
    "stg_steer_step": (c_void_p, POINTER(Step), c_void_p),
    "stg_steer_apply": (c_void_p, POINTER(Apply), c_void_p),
    "stg_steer_once": (c_void_p, POINTER(Once), c_void_p),
    "stg_steer_counters": (c_void_p, c_uint32, c_uint32, c_void_p, POINTER(SlotCounters)),
    "stg_frame_create": (c_void_p, _HANDLE),
    "stg_frame_plan": (c_void_p, POINTER(PlanInfo)),
    "stg_device_status": (c_void_p, c_void_p, POINTER(DeviceReport)),
    "stg_warm": (
        c_void_p,
        c_char_p,
        c_char_p,
        c_size_t,
        POINTER(WarmDesc),
        POINTER(WarmReport),
    ),
    "stg_traffic_save": (c_void_p, c_char_p),
    **_abi_attention.fallible(PlanInfo),
    **_abi_components.fallible(PlanInfo),
}
# The others: name, result, arguments.
_PLAIN = {
    "stg_version": (c_char_p,),
    "stg_status_name": (c_char_p, c_int),
    "stg_status_text": (c_char_p, c_int),
    "stg_options_init": (None, POINTER(Options)),
    "stg_engine_get_info": (None, c_void_p, POINTER(EngineInfo)),
    "stg_engine_stats_json": (c_size_t, c_void_p, c_char_p, c_size_t),
    "stg_frame_destroy": (None, c_void_p),
    "stg_warm_report_json": (c_size_t, POINTER(WarmReport), c_char_p, c_size_t),
    **_abi_attention.PLAIN,
}
# Functions that older libraries lack.
_OPTIONAL = {"stg_enabled": (c_bool, POINTER(Options))}

_SONAMES = ("libsteergraph.so.0", "libsteergraph.so")
_locks.own(sys.modules[__name__], "_lock", threading.Lock)
_library = None


class LibraryError(_errors.SteergraphError, ImportError):
    """libsteergraph could not be found, or is not the one that this package was written for."""


def load(path=None):
    """Load libsteergraph, once per process; the other calls of the package do it by themselves.

    Looked for: `path`; beside this package; where the dynamic loader looks (LD_LIBRARY_PATH, the
    system's folders); where pkg-config says that steergraph is installed. Any thread.
    """
    global _library
    with _lock:
        if _library is None:
            _library = _declare(_open(path))
        elif path is not None and not _is_same(_library._name, path):
            raise LibraryError(f"libsteergraph is loaded already, from {_library._name}")
        return _library


def library():
    """The loaded library; loads it at the first call."""
    return _library if _library is not None else load()


def call(name, *arguments):
    """Call a function that may fail; its error becomes an exception. Releases the GIL."""
    error = Error()
    status = getattr(library(), name)(*arguments, ctypes.byref(error))
    if status != 0:
        raise failure(status, error)


def failure(status, error):
    """The exception for a status that is not 0, and the error that came with it."""
    return _errors.of_status(status, error.message.decode(errors="replace"))


def new(struct, **fields):
    """A struct with its size filled in."""
    return struct(struct_size=ctypes.sizeof(struct), **fields)


def integer(value, what, low, high, kind=_errors.InvalidError):
    """An int that C's type holds: ctypes would wrap any other silently."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, not an integer") from None
    if not low <= number <= high:
        raise kind(f"{what} is {number}, not in {low}..{high}")
    return number


def uint32(value, what):
    return integer(value, what, 0, 2**32 - 1)


def uint64(value, what):
    return integer(value, what, 0, 2**64 - 1)


def int32(value, what):
    return integer(value, what, -(2**31), 2**31 - 1)


def int64(value, what):
    return integer(value, what, -(2**63), 2**63 - 1)


def int64_array(values, what):
    """(array, count) of integers."""
    numbers = [int64(value, what) for value in values]
    return (c_int64 * max(len(numbers), 1))(*numbers), len(numbers)


def text(value, what):
    """A str as C reads it, up to its end."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, not a str")
    return _whole(value.encode(), value, what)


def path(value, what):
    """A path, or a list of folders with colons, in the bytes that the system has for it."""
    return _whole(os.fsencode(value), value, what)


def _whole(raw, value, what):
    if b"\0" in raw:
        raise _errors.InvalidError(f"{what} is {value!r}, which has a NUL byte")
    return raw


def pick(table, word, what):
    """The value of a word of an enum."""
    try:
        return table[word]
    except (KeyError, TypeError):
        words = ", ".join(repr(w) for w in table if w != "none")
        raise _errors.InvalidError(f"{what} is {word!r}, not one of {words}") from None


def word_of(table, value):
    return next((word for word, number in table.items() if number == value), str(value))


def _candidates():
    here = pathlib.Path(__file__).resolve().parent
    for name in _SONAMES:
        if (here / name).is_file():
            yield str(here / name)
    yield from _SONAMES
    if shutil.which("pkg-config"):
        words = ["pkg-config", "--variable=libdir", "steergraph"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode == 0 and done.stdout.strip():
            yield from (f"{done.stdout.strip()}/{name}" for name in _SONAMES)


def _open(path):
    refusals = []
    for candidate in [os.fsdecode(path)] if path is not None else _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            refusals.append(str(error))
    raise LibraryError(
        f"libsteergraph cannot be loaded: {refusals[0]}; install it, have its folder in "
        "LD_LIBRARY_PATH when Python starts, or name it: "
        "steergraph.load('/path/to/libsteergraph.so')"
    )


def _declare(opened):
    for name, arguments in _FALLIBLE.items():
        function = _function(opened, name)
        function.argtypes = [*arguments, _ERROR]
        function.restype = c_int
    for name, (result, *arguments) in {**_PLAIN, **_OPTIONAL}.items():
        if name in _OPTIONAL and not hasattr(opened, name):
            continue
        function = _function(opened, name)
        function.argtypes = arguments
        function.restype = result
    _check_options(opened)
    return opened


def _function(opened, name):
    try:
        return getattr(opened, name)
    except AttributeError:
        raise LibraryError(f"{opened._name} has no {name}: it is of another version") from None


def _check_options(opened):
    """Structs of two versions differ in size; the library writes its own into the options."""
    room = (ctypes.c_char * 4096)()
    options = ctypes.cast(room, POINTER(Options))
    opened.stg_options_init(options)
    if options.contents.struct_size != ctypes.sizeof(Options):
        raise LibraryError(
            f"{opened._name} is version {opened.stg_version().decode()}, whose stg_options has "
            f"{options.contents.struct_size} bytes; this package was written for "
            f"{ctypes.sizeof(Options)}"
        )


def _is_same(loaded, path):
    return pathlib.Path(loaded).resolve() == pathlib.Path(os.fsdecode(path)).resolve()
