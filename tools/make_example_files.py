#!/usr/bin/env python3
"""Make the safetensors files that specs/ reads: make_example_files.py [--check].

Writes specs/data/ (what steer_files.json reads) and specs/bad/data/ (files with one fault each); with
--check writes nothing and fails when a file differs from what would be written. Needs only Python's
standard library; the same bytes on every machine, because a value is a sum of twelve uniform numbers
(near normal, exact sums).
"""
import json
import pathlib
import random
import struct
import sys

HIDDEN = 256
SPECS = pathlib.Path(__file__).resolve().parent.parent / "specs"


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
    header: dict = {"__metadata__": {"made_by": "tools/make_example_files.py", "note": note}}
    data = b""
    for name, dtype, shape, content in tensors:
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    return framed(header, data)


def framed(header: dict, data: bytes) -> bytes:
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
    return {"data/vectors.safetensors": vectors, "data/hidden.safetensors": hidden}


def bad_files() -> dict[str, bytes]:
    """Files of width 4: one that is sound with tensors that do not fit, and five that are broken."""
    one = [1.0, 0.0, 0.0, 0.0]
    good = safetensors(
        [
            ("v", "F32", [4], f32(one)),
            ("nan", "F32", [4], f32([1.0, 0.0, float("nan"), 0.0])),
            ("narrow", "F32", [3], f32(one[:3])),
            ("large", "F32", [4], f32([1e30, 0.0, 0.0, 0.0])),
            ("matrix", "F32", [2, 4], f32(one + one)),
            ("integers", "I64", [4], struct.pack("<4q", 1, 0, 0, 0)),
        ],
        "a sound file",
    )
    entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    return {
        "bad/data/good.safetensors": good,
        "bad/data/truncated.safetensors": good[:-8],
        "bad/data/huge_header.safetensors": struct.pack("<Q", 2**40) + good[8:],
        "bad/data/overlap.safetensors": framed(
            {"v": entry, "w": {**entry, "data_offsets": [8, 24]}}, bytes(24)
        ),
        "bad/data/not_safetensors.safetensors": b"This is a text, not tensors.\n",
    }


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    for name, content in {**example_files(), **bad_files()}.items():
        path = SPECS / name
        if check and (not path.is_file() or path.read_bytes() != content):
            print(f"{path}: differs from what this script makes; run it without --check", file=sys.stderr)
            return 1
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(f"{path}: {len(content)} bytes")
    return 0


sys.exit(main())
