"""Writers of the vector files that people have, in plain Python: safetensors, GGUF, .npy, raw, JSON.

For files of examples and of tests: the same arguments give the same bytes on every machine. Elements
are bytes, made by ELEMS[dtype](values); a tensor is (name, dtype, shape, elements), its shape row-major
with the last dimension fastest.
"""
import json
import struct


def f64(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def f32(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def f16(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}e", *values)


def bf16(values: list[float]) -> bytes:
    """The upper half of float32, rounded to nearest even; values are finite."""
    words = struct.unpack(f"<{len(values)}I", f32(values))
    return struct.pack(f"<{len(values)}H", *((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words))


ELEMS = {"F64": f64, "F32": f32, "F16": f16, "BF16": bf16}
Tensor = tuple[str, str, list[int], bytes]


def safetensors(tensors: list[Tensor], metadata: dict[str, str]) -> bytes:
    """u64 length of the header, the header in JSON padded to 8 bytes, the data."""
    header: dict = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, dtype, shape, content in tensors:
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    return safetensors_framed(header, data)


def safetensors_framed(header: dict, data: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


NPY_DESCRS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def npy(dtype: str, shape: list[int], content: bytes, version: int = 1) -> bytes:
    """As np.save writes it: the header padded with spaces to a multiple of 64 and a newline."""
    dims = "".join(f"{n}, " for n in shape)[: -1 if len(shape) == 1 else -2]
    text = f"{{'descr': '{NPY_DESCRS[dtype]}', 'fortran_order': False, 'shape': ({dims}), }}".encode()
    head = 10 if version == 1 else 12
    text += b" " * (-(head + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def directions(layers: dict[int, list[float]], **members: str) -> bytes:
    """{"directions": {"12": [...]}}, other members first."""
    lists = {str(layer): values for layer, values in layers.items()}
    return json.dumps({**members, "directions": lists}).encode() + b"\n"


GGUF_TYPES = {"F32": 0, "F16": 1, "F64": 28, "BF16": 30}
# Types of a metadata value, with the format of struct.
GGUF_NUMBERS = {
    "u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"),
    "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d"),
}  # fmt: skip
GGUF_STRING, GGUF_ARRAY = 8, 9
GGUF_ALIGNMENT = 32


def gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(kind: str, value) -> bytes:
    """Type and value; kind is "string", a number's type, or "[kind]" for an array of these."""
    if kind.startswith("["):
        items = [gguf_value(kind[1:-1], item) for item in value]
        of_what = items[0][:4] if items else gguf_value(kind[1:-1], "" if kind == "[string]" else 0)[:4]
        return struct.pack("<I", GGUF_ARRAY) + of_what + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)
    if kind == "string":
        return struct.pack("<I", GGUF_STRING) + gguf_text(value)
    number, layout = GGUF_NUMBERS[kind]
    return struct.pack("<I", number) + struct.pack(layout, value)


def gguf(tensors: list[Tensor], metadata: list[tuple[str, str, object]], version: int = 3) -> bytes:
    """Versions 2 and 3, little-endian. Metadata is (key, kind, value), see gguf_value."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, value in metadata:
        head += gguf_text(key) + gguf_value(kind, value)
    data = b""
    alignment = dict((key, value) for key, _, value in metadata).get("general.alignment", GGUF_ALIGNMENT)
    for name, dtype, shape, content in tensors:
        # dimensions are written fastest first
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += gguf_text(name) + dims + struct.pack("<IQ", GGUF_TYPES[dtype], len(data))
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


def control_vector(layers: dict[int, list[float]], hint: str = "", dtype: str = "F32", version: int = 3) -> bytes:
    """A GGUF control vector as repeng and llama.cpp write it: direction.N in the order of `layers`."""
    metadata: list[tuple[str, str, object]] = [("general.architecture", "string", "controlvector")]
    if hint:
        metadata.append(("controlvector.model_hint", "string", hint))
    metadata.append(("controlvector.layer_count", "u32", len(layers)))
    tensors = [(f"direction.{n}", dtype, [len(v)], ELEMS[dtype](v)) for n, v in layers.items()]
    return gguf(tensors, metadata, version)
