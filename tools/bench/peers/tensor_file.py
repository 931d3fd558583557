"""Read a safetensors file by the format's definition: 8 bytes of header length, JSON, data.

Needs nothing but the standard library, so it runs where torch is missing. Checks what a reader must:
ranges lie in the data, match shape and type, and do not overlap.
"""
import json
import math
import pathlib
import struct

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
MAX_HEADER_BYTES = 64 << 20


class TensorFileError(Exception):
    """One line: file, what is wrong."""


class Tensor:
    """A tensor of a file: `dtype` as the file has it, `shape`, and `data`, its little-endian bytes."""

    def __init__(self, dtype: str, shape: list, data: bytes):
        self.dtype, self.shape, self.data = dtype, shape, data

    def floats(self) -> list:
        count = len(self.data) // BYTES[self.dtype]
        if self.dtype == "BF16":
            words = struct.unpack(f"<{count}H", self.data)
            return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(w << 16 for w in words))))
        return list(struct.unpack(f"<{count}{'f' if self.dtype == 'F32' else 'e'}", self.data))


def is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_header(path: pathlib.Path, raw: bytes) -> tuple:
    """(members, offset of the data)."""
    if len(raw) < 8:
        raise TensorFileError(f"{path}: {len(raw)} bytes are no safetensors file")
    (size,) = struct.unpack("<Q", raw[:8])
    if size > min(len(raw) - 8, MAX_HEADER_BYTES):
        raise TensorFileError(f"{path}: a header of {size} bytes does not fit a file of {len(raw)}")
    try:
        header = json.loads(raw[8 : 8 + size].decode())
    except ValueError as error:
        raise TensorFileError(f"{path}: header: {error}") from None
    if not isinstance(header, dict):
        raise TensorFileError(f"{path}: the header is no object")
    header.pop("__metadata__", None)
    return header, 8 + size


def read_range(place: str, info, data_bytes: int) -> tuple:
    """(dtype, shape, first byte, end) of one member of the header, checked."""
    info = info if isinstance(info, dict) else {}
    dtype, shape, offsets = (info.get(key) for key in ("dtype", "shape", "data_offsets"))
    if dtype not in BYTES:
        raise TensorFileError(f"{place}: dtype {dtype!r}; {', '.join(BYTES)} are read")
    if not isinstance(shape, list) or not all(is_count(size) for size in shape):
        raise TensorFileError(f"{place}: shape {shape!r} is none")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
        raise TensorFileError(f"{place}: data_offsets {offsets!r} are none")
    first, end = offsets
    if not first <= end <= data_bytes:
        raise TensorFileError(f"{place}: bytes {first} to {end} are not in the {data_bytes} of the data")
    if end - first != math.prod(shape) * BYTES[dtype]:
        raise TensorFileError(f"{place}: {end - first} bytes for shape {shape} of {dtype}")
    return dtype, shape, first, end


def read(path) -> dict:
    """{name: Tensor} of a file."""
    path = pathlib.Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TensorFileError(f"{path}: {error.strerror}") from None
    header, start = read_header(path, raw)
    tensors, ranges = {}, []
    for name, info in header.items():
        dtype, shape, first, end = read_range(f"{path}: {name}", info, len(raw) - start)
        tensors[name] = Tensor(dtype, shape, raw[start + first : start + end])
        ranges.append((first, end, name))
    ranges.sort()
    for (_, end, name), (first, _, other) in zip(ranges, ranges[1:]):
        if first < end:
            raise TensorFileError(f"{path}: '{name}' and '{other}' overlap")
    return tensors
