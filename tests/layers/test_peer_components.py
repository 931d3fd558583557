#!/usr/bin/env python3
"""The parts of tools/bench/peers for components that need no torch: elements, the case, agreement.

Elements are those of the bench in C, by tests/data/components_elements.h. Agreement is held against the
op worked out here with every rounding of bf16: right ones pass, each wrong one is refused. Then the
peer as a process, where torch cannot be imported.
"""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import types

import peer_support
from peer_support import PEERS, bf16, file_bytes, refuses, report

import components  # noqa: E402
import components_case  # noqa: E402
from case import CaseError  # noqa: E402
from components_agreement import REACH, VectorVerdict  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "components_elements.h"


# --- elements ---


def test_elements() -> None:
    tensors = {name: getattr(components_case, name) for name in ("X", "V", "U", "MASK", "DY")}
    rows = re.findall(r"\{STG_BENCH_COMPONENTS_(\w+), (\d+), (-?[0-9.]+)F\}", DATA.read_text())
    wrong = [row for row in rows if components_case.value(tensors[row[0]], int(row[1])) != float(row[2])]
    report(len(rows) == 45 and not wrong, "makes the elements of the bench in C", f"{len(rows)} {wrong}")
    for name, low, high in (("X", -2, 2), ("V", -1 / 8, 1 / 8), ("U", -1 / 16, 1 / 16), ("MASK", 0, 1)):
        some = [components_case.value(tensors[name], i) for i in range(4096)]
        ok = all(bf16(x) == x for x in some) and min(some) == low and high - (high - low) / 128 <= max(some) < high
        report(ok, f"elements of {name} are exact in bf16 and fill their range", (min(some), max(some)))


# --- the case ---

CASE = {
    "d_in": 3, "d_out": 2, "components": 5, "rows": 8, "dtype": "bf16", "tf32": False, "mask_of_bool": False,
    "share": 4, "both": True, "compiled": False, "sample": [0, 7], "columns": [0, 4],
}  # fmt: skip
SHAPES = {"y": [2, 2], "dx": [2, 3], "dv": [3, 2], "du": [2, 2], "dm": [2, 2]}


def write_case(folder: pathlib.Path, numbers: dict, shapes: dict) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "case.json").write_text(json.dumps(numbers))
    (folder / "expected.safetensors").write_bytes(file_bytes({
        name: ("F32", shape, struct.pack(f"<{math.prod(shape)}f", *[1.0] * math.prod(shape)))
        for name, shape in shapes.items()}))  # fmt: skip
    return folder


def test_case(folder: pathlib.Path) -> None:
    read = components_case.ComponentsCase(write_case(folder / "both", CASE, SHAPES), "components", "x")
    report(set(read.expected) == set(SHAPES) and read.mask_rows == 2, "reads both ways")
    report(read.kind() == "BF16" and read.flop() == 2 * 8 * 5 * (3 + 2 + 9 + 4), "counts its products", read.flop())
    alone = {**CASE, "both": False, "dtype": "f32", "tf32": True}
    read = components_case.ComponentsCase(write_case(folder / "y", alone, {"y": [2, 2]}))
    report(read.parts() == ("y",) and read.kind() == "TF32", "reads y alone", read.parts())
    bools = {**CASE, "mask_of_bool": True, "share": 1}
    read = components_case.ComponentsCase(write_case(folder / "bool", bools, {k: v for k, v in SHAPES.items() if k != "dm"}))
    report("dm" not in read.parts() and read.bytes() == 8 * 5, "a mask of bool has no gradient", read.parts())
    bad = [
        ("a number that is missing", {k: v for k, v in CASE.items() if k != "share"}, SHAPES, "KeyError('share')"),
        ("a size of none", {**CASE, "d_in": 0}, SHAPES, "ValueError('d_in')"),
        ("a choice that is none", {**CASE, "both": 1}, SHAPES, "ValueError('both')"),
        ("a row that there is not", {**CASE, "sample": [8]}, SHAPES, "ValueError('sample')"),
        ("a component that there is not", {**CASE, "columns": [5]}, SHAPES, "ValueError('columns')"),
        ("results of another shape", CASE, {**SHAPES, "dv": [2, 3]}, "'dv' is ('F32', [2, 3]), not ('F32', [3, 2])"),
        ("results that are missing", CASE, {"y": [2, 2]}, "'dx' is None"),
    ]
    for name, numbers, shapes, said in bad:
        path = write_case(folder / "bad", numbers, shapes)
        found = refuses(lambda: components_case.ComponentsCase(path), CaseError)
        report(said in found and "\n" not in found, f"refuses {name}", found)


# --- agreement ---

D_IN, COUNT, D_OUT = 24, 40, 64


def same(x: float) -> float:
    return x


def op(x, v, u, m, rounded=same) -> list:
    """A row of y; `rounded` after each step."""
    t = [rounded(math.fsum(x[i] * v[i][k] for i in range(D_IN))) for k in range(COUNT)]
    s = [rounded(t[k] * m[k]) for k in range(COUNT)]
    return [rounded(math.fsum(s[k] * u[k][o] for k in range(COUNT))) for o in range(D_OUT)]


def turned(u) -> list:
    """The same elements, read as the transposed matrix."""
    flat = [u[k][o] for k in range(COUNT) for o in range(D_OUT)]
    return [[flat[o * COUNT + k] for o in range(D_OUT)] for k in range(COUNT)]


RIGHT = {"one that rounds once": lambda *words: [bf16(y) for y in op(*words)], "an eager one": lambda *words: op(*words, bf16)}
WRONG = {
    "no mask": lambda x, v, u, m: op(x, v, u, [1.0] * COUNT),
    "the neighbour's mask": lambda x, v, u, m: op(x, v, u, [*m[1:], m[0]]),
    "a component left out": lambda x, v, u, m: op(x, v, u, [0.0, 0.0, *m[2:]]),
    "a turned matrix": lambda x, v, u, m: op(x, v, turned(u), m),
    "a row that is 3 % too long": lambda *words: [1.03 * y for y in op(*words)],
    "a NaN": lambda *words: [math.nan, *op(*words)[1:]],
}


def test_agreement() -> None:
    source = random.Random(23)

    def matrix(rows: int, columns: int) -> list:
        return [[bf16(source.uniform(-1, 1)) for _ in range(columns)] for _ in range(rows)]

    v, u = matrix(D_IN, COUNT), matrix(COUNT, D_OUT)
    cases = [(x, v, u, [abs(k) for k in m]) for x, m in zip(matrix(4, D_IN), matrix(4, COUNT), strict=True)]

    def verdict_of(make) -> VectorVerdict:
        verdict = VectorVerdict("BF16")
        for words in cases:
            theirs, ours = make(*words), op(*words)
            verdict.add("y", [math.dist(theirs, ours)], [math.hypot(*ours)])
        return verdict

    for name, make in RIGHT.items():
        verdict = verdict_of(make)
        report(verdict.agrees(), f"agrees with {name}", verdict)
    for name, make in WRONG.items():
        verdict = verdict_of(make)
        report(not verdict.agrees(), f"refuses {name}", verdict)
    nothing = VectorVerdict("F32")
    report(not nothing.agrees(), "does not agree with nothing", nothing)
    nothing.add("dv,", [0.0], [0.0])
    report(nothing.agrees(), "zeros agree with zeros", nothing)
    nothing.add("dv,", [0.0, 1e-9], [1.0, 0.0])
    report(not nothing.agrees() and "dv, 1" in str(nothing), "and nothing else does", nothing)
    report(REACH["F32"] < REACH["F16"] < REACH["TF32"] < REACH["BF16"], "a wider type has a tighter bound", REACH)


# --- the peer ---


def test_series() -> None:
    names = [series for series, _ in components.SERIES]
    report(len(set(names)) == len(names) == 5, "has five series", names)
    plain = types.SimpleNamespace(case=types.SimpleNamespace(compiled=False, both=True))
    made = [name for name, make in components.SERIES[2:] if make(plain) is not None]
    report(made == [], "compiles nothing that does not ask for it, and has no products alone of both ways", made)


def test_process(folder: pathlib.Path) -> None:
    folder_of_none = folder / "no_torch"
    folder_of_none.mkdir()
    (folder_of_none / "torch.py").write_text("raise ImportError('no torch here', name='torch')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder_of_none), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, PEERS / "components.py", "--json", folder / "out.json", "--case", "components", "x"]
    done = subprocess.run([*words, folder / "both"], capture_output=True, text=True, env=environment)
    ok = done.returncode == 1 and done.stderr.startswith("cannot import torch: ")
    ok = ok and done.stderr.count("\n") == 1 and not (folder / "out.json").exists()
    report(ok, "says in one line that torch is missing", done.stderr)
    done = subprocess.run([*words, folder / "none"], capture_output=True, text=True, env=environment)
    ok = done.returncode == 1 and "No such file" in done.stderr and done.stderr.count("\n") == 1
    report(ok, "says of a case that is missing that it is", done.stderr)


def main() -> int:
    test_elements()
    test_agreement()
    test_series()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test_case(folder)
        test_process(folder)
    return 0 if peer_support.good else 1


raise SystemExit(main())
