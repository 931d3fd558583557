"""The C interface as ctypes sees it: structs, enums, functions, and finding the library.

What steering and attention have is in _abi_steering.py and _abi_attention.py. Structs are written by
hand, in the order of the headers; tests/python/test_abi.py holds every size,
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
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p

from . import _abi_attention, _abi_components, _abi_region, _abi_steering, _errors, _locks

ERROR_MESSAGE_BYTES = 512

# Enums: the words that this package takes, and the values that the library takes.
DTYPE = {"none": 0, "bf16": 1, "f16": 2, "f32": 3}
DTYPE_BYTES = {"bf16": 2, "f16": 2, "f32": 4}
BACKEND = {"auto": 0, "cuda": 1, "cpu": 2}
COMPILE_MODE = {"default": 0, "block": 1, "never": 2, "background": 3}
LAUNCH_MODE = {"default": 0, "graph": 1, "plain": 2}
CACHE_MODE = {"default": 0, "read_only": 1, "refresh": 2, "off": 3, "memory": 4}
LOG_LEVEL = {"default": 0, "off": 1, "error": 2, "warn": 3, "info": 4, "debug": 5}

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


STRUCTS = (Error, Options, EngineInfo, WarmProgress, WarmDesc, WarmReport)
STRUCTS += _abi_steering.STRUCTS + _abi_attention.STRUCTS + _abi_components.STRUCTS
STRUCTS += _abi_region.STRUCTS

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
    "stg_warm": (
        c_void_p,
        c_char_p,
        c_char_p,
        c_size_t,
        POINTER(WarmDesc),
        POINTER(WarmReport),
    ),
    "stg_traffic_save": (c_void_p, c_char_p),
    **_abi_steering.FALLIBLE,
    **_abi_attention.FALLIBLE,
    **_abi_components.FALLIBLE,
    **_abi_region.FALLIBLE,
}
# The others: name, result, arguments.
_PLAIN = {
    "stg_version": (c_char_p,),
    "stg_status_name": (c_char_p, c_int),
    "stg_status_text": (c_char_p, c_int),
    "stg_options_init": (None, POINTER(Options)),
    "stg_engine_get_info": (None, c_void_p, POINTER(EngineInfo)),
    "stg_engine_stats_json": (c_size_t, c_void_p, c_char_p, c_size_t),
    "stg_warm_report_json": (c_size_t, POINTER(WarmReport), c_char_p, c_size_t),
    **_abi_steering.PLAIN,
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
