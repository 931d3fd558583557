"""Per-request edits of hidden states: ctypes bridge to libsteergraph.

    import steergraph

    engine = steergraph.Engine()
    table = steergraph.Steering(engine, hidden_size=4096, layers=32, dtype="bf16")
    table.set(0, {12: [steergraph.op("add", direction, scale=4.0)]})
    frame = table.frame()
    frame.step(row_map)           # per scheduling step
    frame.apply(12, hidden)       # per layer

KV caches, rotation and attention: Kv, Rows, Rope, Attend, Block. Masked low-rank components:
Components. Work of the host's own, captured by torch and launched as one: Engine.region,
Engine.region_of.

Imports neither numpy nor torch. With torch: steergraph.torch_op (ops for torch.compile),
steergraph.norm (RMSNorm modules), steergraph.attach (hooks on a model).
"""
from ._abi import LibraryError, load
from ._errors import (
    BadSlotError,
    BusyError,
    CancelledError,
    CapacityError,
    CaptureError,
    CapturingError,
    ClosedError,
    CompileError,
    CorruptError,
    CudaError,
    DeviceLostError,
    ForkedError,
    FormatError,
    InvalidError,
    IoError,
    KvFullError,
    NoDeviceError,
    NoMemoryError,
    NonFiniteError,
    NotDeclaredError,
    NotFoundError,
    NotWarmError,
    PendingError,
    SteergraphError,
    UnsupportedError,
)
from .attention import Attend, Rope
from .block import Block
from .chains import Op, op
from .components import Components, Gradients
from .engine import Engine, Vector, enabled, version
from .kv import Kv, KvReport, Rows
from .region import Region
from .region import bucket as region_bucket
from .region import chunks as region_chunks
from .steering import (
    PADDING,
    UNSTEERED,
    DeviceReport,
    Frame,
    PlanInfo,
    SlotCounters,
    Steering,
    Window,
)
from .wire import Wire, apply_per_request_steering

__all__ = [
    "Attend",
    "BadSlotError",
    "Block",
    "BusyError",
    "CancelledError",
    "CapacityError",
    "CaptureError",
    "CapturingError",
    "ClosedError",
    "CompileError",
    "Components",
    "CorruptError",
    "CudaError",
    "DeviceLostError",
    "DeviceReport",
    "Engine",
    "ForkedError",
    "FormatError",
    "Frame",
    "Gradients",
    "InvalidError",
    "IoError",
    "Kv",
    "KvFullError",
    "KvReport",
    "LibraryError",
    "NoDeviceError",
    "NoMemoryError",
    "NonFiniteError",
    "NotDeclaredError",
    "NotFoundError",
    "NotWarmError",
    "Op",
    "PADDING",
    "PendingError",
    "PlanInfo",
    "Region",
    "Rope",
    "Rows",
    "SlotCounters",
    "SteergraphError",
    "Steering",
    "UNSTEERED",
    "UnsupportedError",
    "Vector",
    "Window",
    "Wire",
    "apply_per_request_steering",
    "enabled",
    "load",
    "op",
    "region_bucket",
    "region_chunks",
    "version",
]
