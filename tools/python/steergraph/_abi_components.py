"""The structs, enums and functions of <steergraph/components.h>, which _abi.py declares with its own.

Written by hand, in the order of the header; tests/python/test_abi.py holds them against a C compiler.
"""
import ctypes
from ctypes import POINTER, c_bool, c_int, c_int64, c_size_t, c_uint32, c_void_p

from ._abi_steering import PlanInfo

MATH = {"exact": 0, "tf32": 1}
MASK = {"elements": 0, "bool": 1, "absent": 2}


class ComponentsDesc(ctypes.Structure):
    C_NAME = "stg_components_desc"
    _fields_ = [
        ("struct_size", c_size_t),
        ("d_in", c_uint32),
        ("d_out", c_uint32),
        ("components", c_uint32),
        ("dtype", c_int),
        ("math", c_int),
        ("mask", c_int),
        ("bias", c_bool),
        ("delta", c_bool),
        ("backward", c_bool),
        ("tile", c_uint32),
        ("max_rows", c_int64),
        ("row_buckets", POINTER(c_int64)),
        ("n_row_buckets", c_size_t),
    ]


class ComponentsTensors(ctypes.Structure):
    C_NAME = "stg_components_tensors"
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("x", c_void_p),
        ("x_stride", c_int64),
        ("v", c_void_p),
        ("u", c_void_p),
        ("mask", c_void_p),
        ("mask_stride", c_int64),
        ("mask_share", c_int64),
        ("bias", c_void_p),
        ("d", c_void_p),
        ("delta", c_void_p),
        ("y", c_void_p),
        ("y_stride", c_int64),
        ("valid", c_void_p),
        ("sequence", c_int64),
    ]


class ComponentsGrads(ctypes.Structure):
    C_NAME = "stg_components_grads"
    _fields_ = [
        ("struct_size", c_size_t),
        ("dy", c_void_p),
        ("dy_stride", c_int64),
        ("dx", c_void_p),
        ("dx_stride", c_int64),
        ("dv", c_void_p),
        ("du", c_void_p),
        ("dm", c_void_p),
        ("dm_stride", c_int64),
        ("dbias", c_void_p),
        ("dd", c_void_p),
        ("ddelta", c_void_p),
        ("work", c_void_p),
        ("work_bytes", c_size_t),
    ]


STRUCTS = (ComponentsDesc, ComponentsTensors, ComponentsGrads)


# Functions that may fail, as _abi.py lists its own: name, arguments before the error.
FALLIBLE = {
    "stg_components_create": (c_void_p, POINTER(ComponentsDesc), POINTER(c_void_p)),
    "stg_components_destroy": (c_void_p,),
    "stg_components_apply": (c_void_p, POINTER(ComponentsTensors), c_void_p),
    "stg_components_work_bytes": (c_void_p, c_int64, c_int64, POINTER(c_size_t)),
    "stg_components_back": (
        c_void_p,
        POINTER(ComponentsTensors),
        POINTER(ComponentsGrads),
        c_void_p,
    ),
    "stg_components_plan": (c_void_p, c_int64, c_bool, POINTER(PlanInfo)),
}
