"""One exception class per status of the library. The text of an exception is the library's own.

Knows statuses alone: no ctypes, no library.
"""


class SteergraphError(Exception):
    """What a call of the library says when it fails. `status` is the number of its stg_status."""

    status = None

    def __init__(self, message="", status=None):
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidError(SteergraphError, ValueError):
    """An argument is wrong."""

    status = 1


class NoMemoryError(SteergraphError, MemoryError):
    """Host or device memory is exhausted."""

    status = 2


class IoError(SteergraphError, OSError):
    """A file could not be read or written."""

    status = 3


class FormatError(SteergraphError, ValueError):
    """A file or a text is malformed."""

    status = 4


class UnsupportedError(SteergraphError):
    """Valid, but not supported by this build or version."""

    status = 5


class NotFoundError(SteergraphError, LookupError):
    """The named thing does not exist."""

    status = 6


class NotDeclaredError(SteergraphError):
    """Outside what was declared at creation."""

    status = 7


class CapacityError(SteergraphError):
    """A declared capacity is full."""

    status = 8


class BusyError(SteergraphError):
    """Still in use."""

    status = 9


class PendingError(SteergraphError):
    """Being compiled, try again."""

    status = 10


class NotWarmError(SteergraphError):
    """Needs a compile that is not allowed here."""

    status = 11


class CapturingError(SteergraphError):
    """Not allowed while the stream is capturing."""

    status = 12


class NoDeviceError(SteergraphError):
    """No usable CUDA device, driver or compiler."""

    status = 13


class CudaError(SteergraphError):
    """A CUDA driver call failed."""

    status = 14


class CompileError(SteergraphError):
    """NVRTC refused the source."""

    status = 15


class DeviceLostError(SteergraphError):
    """A sticky CUDA error, the context is unusable."""

    status = 16


class ForkedError(SteergraphError):
    """The engine belongs to the parent process."""

    status = 17


class BadSlotError(SteergraphError):
    """A row map on the device held a slot outside the table."""

    status = 18


class NonFiniteError(SteergraphError, ValueError):
    """A non-finite value where a finite one is required."""

    status = 19


class CorruptError(SteergraphError):
    """Stored data does not match its own checksum or key."""

    status = 20


class CancelledError(SteergraphError):
    """Given up because the engine is closing."""

    status = 21


class KvFullError(SteergraphError):
    """A KV cache has no room for a row."""

    status = 22


class CaptureError(SteergraphError):
    """Work of a host could not be captured."""

    status = 23


class ClosedError(InvalidError):
    """The object has been closed, or what it was made from has. Raised by this package alone."""


def _by_status():
    found = {}
    waiting = [SteergraphError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "status" in vars(kind) and kind.status is not None:
            found[kind.status] = kind
    return found


BY_STATUS = _by_status()


def of_status(status, message):
    """The exception for a status; a status that this package does not know is a SteergraphError."""
    kind = BY_STATUS.get(status)
    return SteergraphError(message, status) if kind is None else kind(message)
