"""The structs, enums and functions of <steergraph/attention.h>, which _abi.py declares with its own.

Written by hand, in the order of the header; tests/python/test_abi.py holds them against a C compiler.
"""
import ctypes
from ctypes import POINTER, c_bool, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p

from ._abi_steering import PlanInfo

ORDER = {"rows_first": 0, "heads_first": 1}
LAYOUT = {"concat": 0, "interleaved": 1, "grouped": 2, "head_fastest": 3}
PAIRS = {"half": 0, "interleaved": 1}
ROUND = {"final": 0, "each_op": 1}
TRIG = {"default": 0, "f32": 1, "dtype": 2, "swapped_bf16": 3}
SCALING = {"none": 0, "linear": 1, "llama3": 2}
XPOS = {"none": 0, "halves": 1, "pairs": 2}


class KvDesc(ctypes.Structure):
    C_NAME = "stg_kv_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("layers", c_uint32),
        ("batch", c_uint32),
        ("kv_heads", c_uint32),
        ("dim", c_uint32),
        ("capacity", c_int64),
        ("dtype", c_int),
        ("block", c_uint32),
        ("n_blocks", c_uint32),
        ("k", c_void_p),
        ("v", c_void_p),
        ("len", c_void_p),
        ("block_table", c_void_p),
    ]


class KvTensors(ctypes.Structure):
    C_NAME = "stg_kv_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("k", c_void_p),
        ("v", c_void_p),
        ("len", c_void_p),
        ("block_table", c_void_p),
        ("blocks", c_int64),
        ("layer_stride", c_int64),
        ("seq_stride", c_int64),
        ("head_stride", c_int64),
    ]


class KvReport(ctypes.Structure):
    C_NAME = "stg_kv_report"
    _fields_ = [
        ("struct_size", c_size_t),
        ("full_rows", c_uint64),
        ("full_row", c_int64),
        ("full_seq", c_int32),
        ("bad_rows", c_uint64),
        ("bad_row", c_int64),
        ("bad_seq", c_int32),
    ]


class RowsDesc(ctypes.Structure):
    C_NAME = "stg_rows_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("kv", c_void_p),
        ("batch", c_uint32),
        ("max_rows", c_uint32),
    ]


class RowsStep(ctypes.Structure):
    C_NAME = "stg_rows_step"
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("seq", c_void_p),
        ("pos", c_void_p),
        ("pos_is_64", c_bool),
        ("on_device", c_bool),
        ("requests", c_uint32),
        ("longest", c_uint32),
    ]


class RopeDesc(ctypes.Structure):
    C_NAME = "stg_rope_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("heads", c_uint32),
        ("kv_heads", c_uint32),
        ("dim", c_uint32),
        ("rot", c_uint32),
        ("dtype", c_int),
        ("layout", c_int),
        ("pairs", c_int),
        ("round", c_int),
        ("trig", c_int),
        ("base", c_double),
        ("scaling", c_int),
        ("factor", c_double),
        ("low_freq", c_double),
        ("high_freq", c_double),
        ("original", c_int64),
        ("xpos", c_int),
        ("xpos_base", c_float),
        ("table", c_void_p),
        ("table_positions", c_int64),
        ("order", c_int),
        ("kv", c_void_p),
        ("backward", c_bool),
        ("transpose", c_bool),
    ]


class RopeTensors(ctypes.Structure):
    C_NAME = "stg_rope_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer", c_uint32),
        ("qkv", c_void_p),
        ("qkv_stride", c_int64),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("q_stride", c_int64),
        ("k_stride", c_int64),
        ("v_stride", c_int64),
        ("pos", c_void_p),
        ("pos_is_64", c_bool),
        ("rows", c_int64),
    ]


class HeadsTensors(ctypes.Structure):
    C_NAME = "stg_heads_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("from_order", c_int),
        ("heads", c_uint32),
        ("rows", c_int64),
        ("from", c_void_p),
        ("to", c_void_p),
        ("from_stride", c_int64),
        ("to_stride", c_int64),
    ]


class AttendDesc(ctypes.Structure):
    C_NAME = "stg_attend_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("heads", c_uint32),
        ("scale", c_float),
        ("window", c_int64),
        ("key_mask", c_bool),
        ("order", c_int),
        ("kv", c_void_p),
        ("batch", c_uint32),
        ("kv_heads", c_uint32),
        ("dim", c_uint32),
        ("tokens", c_int64),
        ("dtype", c_int),
    ]


class AttendTensors(ctypes.Structure):
    C_NAME = "stg_attend_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer", c_uint32),
        ("q", c_void_p),
        ("out", c_void_p),
        ("q_stride", c_int64),
        ("out_stride", c_int64),
        ("k", c_void_p),
        ("v", c_void_p),
        ("seq_stride", c_int64),
        ("head_stride", c_int64),
        ("pos_stride", c_int64),
        ("len", c_void_p),
        ("key_mask", c_void_p),
        ("mask_stride", c_int64),
    ]


class BlockDesc(ctypes.Structure):
    C_NAME = "stg_block_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("rope", c_void_p),
        ("attend", c_void_p),
        ("steer", c_void_p),
        ("advance", c_bool),
    ]


class BlockTensors(ctypes.Structure):
    C_NAME = "stg_block_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer", c_uint32),
        ("rope", POINTER(RopeTensors)),
        ("attend", POINTER(AttendTensors)),
        ("steer_layer", c_uint32),
    ]


STRUCTS = (KvDesc, KvTensors, KvReport, RowsDesc, RowsStep, RopeDesc, RopeTensors, HeadsTensors)
STRUCTS += (AttendDesc, AttendTensors, BlockDesc, BlockTensors)

_HANDLE = POINTER(c_void_p)


# Functions that may fail, as _abi.py lists its own: name, arguments before the error.
FALLIBLE = {
    "stg_kv_bytes": (c_void_p, POINTER(KvDesc), POINTER(c_size_t)),
    "stg_kv_create": (c_void_p, POINTER(KvDesc), _HANDLE),
    "stg_kv_destroy": (c_void_p,),
    "stg_kv_set_len": (c_void_p, POINTER(c_uint32), POINTER(c_int32), c_size_t, c_void_p),
    "stg_kv_set_blocks": (
        c_void_p,
        c_uint32,
        c_int64,
        POINTER(c_int32),
        c_size_t,
        c_void_p,
    ),
    "stg_kv_advance": (c_void_p, c_void_p, c_void_p),
    "stg_kv_status": (c_void_p, c_void_p, POINTER(KvReport)),
    "stg_rows_create": (c_void_p, POINTER(RowsDesc), _HANDLE),
    "stg_rows_destroy": (c_void_p,),
    "stg_rows_step_set": (c_void_p, POINTER(RowsStep), c_void_p),
    "stg_rope_create": (c_void_p, POINTER(RopeDesc), _HANDLE),
    "stg_rope_destroy": (c_void_p,),
    "stg_rope_apply": (c_void_p, c_void_p, POINTER(RopeTensors), c_void_p),
    "stg_rope_backward": (c_void_p, c_void_p, POINTER(RopeTensors), c_void_p),
    "stg_heads_transpose": (c_void_p, POINTER(HeadsTensors), c_void_p),
    "stg_attend_create": (c_void_p, POINTER(AttendDesc), _HANDLE),
    "stg_attend_destroy": (c_void_p,),
    "stg_attend_apply": (c_void_p, c_void_p, POINTER(AttendTensors), c_void_p),
    "stg_block_create": (c_void_p, POINTER(BlockDesc), _HANDLE),
    "stg_block_step": (c_void_p, c_void_p, c_void_p, c_void_p),
    "stg_block_apply": (c_void_p, POINTER(BlockTensors), c_void_p),
    "stg_block_plan": (c_void_p, POINTER(PlanInfo)),
}
# The others: name, result, arguments.
PLAIN = {
    "stg_kv_get_tensors": (None, c_void_p, POINTER(KvTensors)),
    "stg_block_destroy": (None, c_void_p),
}
