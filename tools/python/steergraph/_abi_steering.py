"""The structs, enums and functions of <steergraph/steer.h>, which _abi.py declares with its own.

Written by hand, in the order of the header; tests/python/test_abi.py holds them against a C compiler.
"""
import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64
from ctypes import c_size_t, c_ubyte, c_uint32, c_uint64, c_void_p

ROW_UNSTEERED = -1
ROW_PADDING = -2
MAX_CALL_VECTORS = 4
MAX_CALL_PARAMS = 8

STATE = {"hidden": 0, "hidden+residual": 1}
EPILOGUE = {"none": 0, "add_rmsnorm": 1}
PHASE = {"both": 0, "prompt": 1, "generation": 2}


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


STRUCTS = (SteerDesc, OpCall, Chain, Window, Step, Apply, Once, SlotCounters, DeviceReport, PlanInfo)

_HANDLE = POINTER(c_void_p)

# Functions that may fail, as _abi.py lists its own: name, arguments before the error.
FALLIBLE = {
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
}
# The others: name, result, arguments.
PLAIN = {"stg_frame_destroy": (None, c_void_p)}
