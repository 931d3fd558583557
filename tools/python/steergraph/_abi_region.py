"""The structs, enums and functions of <steergraph/region.h>, which _abi.py declares with its own.

Written by hand, in the order of the header; tests/python/test_abi.py holds them against a C compiler.
"""
import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

MOVES = {"fixed": 0, "in": 1, "out": 2, "inout": 3, "record": 4}
MAX_SIGNATURE = 512

# The last of each is a stg_error, which _abi.py has.
RECORD_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), c_void_p)
LAUNCH_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)


class RegionPointer(ctypes.Structure):
    C_NAME = "stg_region_pointer"
    _fields_ = [("address", c_void_p), ("bytes", c_size_t), ("moves", c_int)]


class RegionCall(ctypes.Structure):
    C_NAME = "stg_region_call"
    _fields_ = [
        ("struct_size", c_size_t),
        ("signature", c_char_p),
        ("batch", c_int64),
        ("seq", c_int64),
        ("rows", c_int64),
        ("record", RECORD_FUNCTION),
        ("user", c_void_p),
        ("pointers", POINTER(RegionPointer)),
        ("n_pointers", c_size_t),
    ]


class RegionFacts(ctypes.Structure):
    C_NAME = "stg_region_facts"
    _fields_ = [
        ("struct_size", c_size_t),
        ("recorded", c_bool),
        ("replayed", c_bool),
        ("eager", c_bool),
        ("status", c_int),
        ("why", c_char * 256),
    ]


class RegionChunk(ctypes.Structure):
    C_NAME = "stg_region_chunk"
    _fields_ = [("first", c_int64), ("size", c_int64), ("padded", c_int64)]


class RegionOwner(ctypes.Structure):
    C_NAME = "stg_region_owner"
    _fields_ = [
        ("struct_size", c_size_t),
        ("signature", c_char_p),
        ("batch", c_int64),
        ("seq", c_int64),
        ("rows", c_int64),
        ("launch", LAUNCH_FUNCTION),
        ("user", c_void_p),
        ("token", c_uint64),
        ("bytes", c_size_t),
    ]


STRUCTS = (RegionPointer, RegionCall, RegionFacts, RegionChunk, RegionOwner)


# Functions that may fail, as _abi.py lists its own: name, arguments before the error.
FALLIBLE = {
    "stg_region_run": (c_void_p, POINTER(RegionCall), c_void_p, POINTER(RegionFacts)),
    "stg_region_forget": (c_void_p, c_char_p),
    "stg_region_adopt": (c_void_p, POINTER(RegionOwner), c_void_p),
    "stg_region_replay": (c_void_p, c_char_p, c_int64, c_int64, c_int64, c_void_p),
    "stg_region_dropped": (c_void_p, POINTER(c_uint64), c_size_t, POINTER(c_size_t)),
    "stg_region_bucket": (POINTER(c_int64), c_size_t, c_int64, POINTER(c_int64)),
    "stg_region_chunks": (
        POINTER(c_int64),
        c_size_t,
        c_int64,
        POINTER(RegionChunk),
        c_size_t,
        POINTER(c_size_t),
    ),
}
