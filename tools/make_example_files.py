#!/usr/bin/env python3
"""Make the safetensors files that specs/steer_files.json reads: make_example_files.py [--check].

Writes specs/data/vectors.safetensors and specs/data/hidden.safetensors; with --check writes nothing
and fails when they differ from what would be written. Needs only Python's standard library; the same
bytes on every machine, because a value is a sum of twelve uniform numbers (near normal, exact sums).
"""
import json
import pathlib
import random
import struct
import sys

HIDDEN = 256
DATA = pathlib.Path(__file__).resolve().parent.parent / "specs" / "data"


def normal(rng: random.Random, count: int) -> list[float]:
    """Values of mean 0 and variance 1, multiples of 2^-20."""
    return [sum(rng.getrandbits(20) for _ in range(12)) / 2**20 - 6.0 for _ in range(count)]


def f32(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def f16(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}e", *values)


def bf16(values: list[float]) -> bytes:
    """The upper half of float32, rounded to nearest even."""
    words = struct.unpack(f"<{len(values)}I", f32(values))
    return struct.pack(f"<{len(values)}H", *((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words))


def safetensors(tensors: list[tuple[str, str, list[int], bytes]], note: str) -> bytes:
    """u64 length of the header, the header in JSON padded to 8 bytes, the data."""
    header = {"__metadata__": {"made_by": "tools/make_example_files.py", "note": note}}
    data = b""
    for name, dtype, shape, content in tensors:
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def example_files() -> dict[str, bytes]:
    rng = random.Random(20250101)
    vectors = safetensors(
        [
            ("honesty", "F32", [HIDDEN], f32(normal(rng, HIDDEN))),
            ("refusal", "BF16", [HIDDEN], bf16(normal(rng, HIDDEN))),
            ("by_layer", "F16", [4, HIDDEN], f16(normal(rng, 4 * HIDDEN))),
        ],
        "three ways in which people store directions",
    )
    rows = 48
    hidden = safetensors(
        [("hidden", "F16", [rows, HIDDEN], f16(normal(rng, rows * HIDDEN)))], "hidden states of a batch"
    )
    return {"vectors.safetensors": vectors, "hidden.safetensors": hidden}


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    for name, content in example_files().items():
        path = DATA / name
        if check and (not path.is_file() or path.read_bytes() != content):
            print(f"{path}: differs from what this script makes; run it without --check", file=sys.stderr)
            return 1
        if not check:
            DATA.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(f"{path}: {len(content)} bytes")
    return 0


sys.exit(main())
