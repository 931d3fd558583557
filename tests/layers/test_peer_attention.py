#!/usr/bin/env python3
"""The parts of tools/bench/peers for rope and attend that need no torch: elements, the case, agreement.

Elements are those of the bench in C, by tests/data/attn_elements.h. Agreement is held against
rotations and attentions worked out here with every rounding of bf16: right ones pass, each wrong one
is refused. Then the peers as processes, where torch cannot be imported.
"""
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types

import peer_support
from peer_support import PEERS, bf16, bf16_bytes, file_bytes, refuses, report

import attend  # noqa: E402
import attn_agreement  # noqa: E402
import attn_case  # noqa: E402
import caches  # noqa: E402
import rope_compiled  # noqa: E402
from case import CaseError  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "attn_elements.h"
DIM = 64


# --- elements ---


def test_elements() -> None:
    tensors = {"QKV": attn_case.QKV, "Q": attn_case.Q, "K": attn_case.K, "V": attn_case.V,
               "TOKENS": attn_case.TOKENS}  # fmt: skip
    rows = re.findall(r"\{STG_ATTN_(\w+), (\d+), (-?[0-9.]+)F\}", DATA.read_text())
    wrong = [row for row in rows if attn_case.value(tensors[row[0]], int(row[1])) != float(row[2])]
    report(len(rows) == 45 and not wrong, "makes the elements of the bench in C", f"{len(rows)} {wrong}")
    some = [attn_case.value(attn_case.QKV, i) for i in range(4096)]
    report(all(bf16(x) == x for x in some), "elements are exact in bf16")
    mean = math.fsum(some) / len(some)
    report(abs(mean) < 0.2 and max(some) > 3.9 and min(some) == -4, "elements fill their range", mean)


# --- the case ---

CASE = {
    "work": "rope", "dtype": "bf16", "heads": 4, "kv_heads": 2, "dim": 2, "batch": 2, "rows_each": 3,
    "capacity": 0, "compiled": True, "lengths": [3, 5], "sample": [0, 5],
}  # fmt: skip


def write_case(folder: pathlib.Path, numbers: dict, heads: int = 4) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "case.json").write_text(json.dumps(numbers))
    tensors = {"q": heads, "k": 2, "v": 2}
    if numbers.get("work") != "rope":
        tensors = {"out": heads}
    rows = 2 if numbers.get("work") != "loop" else 4
    (folder / "expected.safetensors").write_bytes(file_bytes({
        name: ("BF16", [2, n, 2] if rows == 2 else [2, 2, n, 2], bf16_bytes([1.0] * rows * n * 2))
        for name, n in tensors.items()}))  # fmt: skip
    return folder


def test_case(folder: pathlib.Path) -> None:
    read = attn_case.AttnCase(write_case(folder / "rope", CASE), "rope", "x")
    ok = read.rows == 6 and read.packed == 16 and read.positions() == [0, 1, 2, 2, 3, 4]
    report(ok and set(read.expected) == {"q", "k", "v"} and not read.appends(), "reads a rope")
    read = attn_case.AttnCase(write_case(folder / "attend", {**CASE, "work": "attend", "capacity": 8}))
    report(set(read.expected) == {"out"} and read.appends(), "reads an attention")
    loop = {**CASE, "work": "loop", "rows_each": 1, "capacity": 32, "lengths": [1, 1], "sample": [0, 1]}
    read = attn_case.AttnCase(write_case(folder / "loop", loop))
    report(read.expected["out"].shape == [2, 2, 4, 2], "reads a loop")
    bad = [
        ("a work that is none", {**CASE, "work": "steered"}, 4, "not a case of the bench"),
        ("a number that is missing", {k: v for k, v in CASE.items() if k != "dim"}, 4, "KeyError('dim')"),
        ("a choice that is none", {**CASE, "compiled": 1}, 4, "ValueError('compiled')"),
        ("lengths of another batch", {**CASE, "lengths": [3]}, 4, "lengths or sample"),
        ("a row that there is not", {**CASE, "sample": [0, 6]}, 4, "lengths or sample"),
        ("results of another shape", CASE, 3, "'q' is ('BF16', [2, 3, 2]), not ('BF16', [2, 4, 2])"),
    ]
    for name, numbers, heads, said in bad:
        path = write_case(folder / "bad", numbers, heads)
        found = refuses(lambda: attn_case.AttnCase(path), CaseError)
        report(said in found and "\n" not in found, f"refuses {name}", found)


# --- agreement ---


def angles(position: int) -> list:
    return [position * 10000.0 ** (-2 * i / DIM) for i in range(DIM // 2)]


def exact(head, position: int) -> list:
    half = DIM // 2
    low = [head[i] * math.cos(a) - head[i + half] * math.sin(a) for i, a in enumerate(angles(position))]
    high = [head[i + half] * math.cos(a) + head[i] * math.sin(a) for i, a in enumerate(angles(position))]
    return low + high


def eager(head, position: int) -> list:
    """As models do it: cosine and sine, both products and the sum rounded."""
    half = DIM // 2
    cos, sin = ([bf16(f(a)) for a in angles(position)] for f in (math.cos, math.sin))
    low = [bf16(bf16(head[i] * cos[i]) + bf16(-head[i + half] * sin[i])) for i in range(half)]
    high = [bf16(bf16(head[i + half] * cos[i]) + bf16(head[i] * sin[i])) for i in range(half)]
    return low + high


def interleaved(head, position: int) -> list:
    out = [0.0] * DIM
    for i, a in enumerate(angles(position)):
        out[2 * i] = head[2 * i] * math.cos(a) - head[2 * i + 1] * math.sin(a)
        out[2 * i + 1] = head[2 * i + 1] * math.cos(a) + head[2 * i] * math.sin(a)
    return out


ROTATIONS_RIGHT = {"one that rounds once": exact, "one that rounds each operation": eager}
ROTATIONS_WRONG = {
    "the angle of the next position": lambda h, p: exact(h, p + 1),
    "a turn the other way": lambda h, p: exact(h, -p),
    "pairs of neighbours": interleaved,
    "no turn": lambda h, p: h,
    "a head that is 2 % too long": lambda h, p: [1.02 * x for x in exact(h, p)],
    "a NaN": lambda h, p: [math.nan, *exact(h, p)[1:]],
}


def attention(q, keys, values, scale=DIM**-0.5, weight=lambda p: p) -> list:
    scores = [scale * math.fsum(a * b for a, b in zip(q, key)) for key in keys]
    most = max(scores)
    weights = [math.exp(score - most) for score in scores]
    total = math.fsum(weights)
    weights = [weight(w / total) for w in weights]
    return [math.fsum(w * value[d] for w, value in zip(weights, values)) for d in range(DIM)]


ATTENTIONS_RIGHT = {
    "one that rounds once": lambda q, k, v: attention(q, k[:-1], v[:-1]),
    "one that rounds its weights": lambda q, k, v: attention(q, k[:-1], v[:-1], weight=bf16),
}
ATTENTIONS_WRONG = {
    "one key too many": attention,
    "one key too few": lambda q, k, v: attention(q, k[:-2], v[:-2]),
    "no scale": lambda q, k, v: attention(q, k[:-1], v[:-1], scale=1.0),
    "values of the neighbours": lambda q, k, v: attention(q, k[:-1], v[1:]),
}


def verdict_of(make, right, cases) -> attn_agreement.HeadVerdict:
    """Heads of the cases as a peer makes them, against ours."""
    verdict = attn_agreement.HeadVerdict("BF16")
    for row, (position, words) in enumerate(cases):
        theirs, ours = ([bf16(x) if math.isfinite(x) else x for x in f(*words)] for f in (make, right))
        verdict.add(f"row {row}", position, [math.dist(theirs, ours)], [math.hypot(*ours)])
    return verdict


def test_agreement() -> None:
    source = random.Random(17)

    def row(scale=1.0):
        return [bf16(scale * source.uniform(-1, 1)) for _ in range(DIM)]

    turns = [(p, (row(4), p)) for p in (0, 1, 7, 100, 2047, 4095)]
    reads = [(n, (row(4), [row() for _ in range(n)], [row() for _ in range(n)])) for n in (3, 17, 60, 200)]
    for kinds, right, wrong, cases in (
        ("a rotation by", ROTATIONS_RIGHT, ROTATIONS_WRONG, turns),
        ("an attention by", ATTENTIONS_RIGHT, ATTENTIONS_WRONG, reads),
    ):
        ours = right["one that rounds once"]
        for name, make in right.items():
            verdict = verdict_of(make, ours, cases)
            report(verdict.agrees(), f"agrees with {kinds} {name}", verdict)
        for name, make in wrong.items():
            verdict = verdict_of(make, ours, cases)
            report(not verdict.agrees(), f"refuses {kinds} {name}", verdict)
    nothing = attn_agreement.HeadVerdict("F32")
    report(not nothing.agrees(), "does not agree with nothing", nothing)
    nothing.add("row 0", 5, [0.0], [0.0])
    report(nothing.agrees(), "zeros agree with zeros", nothing)
    nothing.add("row 1", 5, [1e-9], [0.0])
    report(not nothing.agrees() and "row 1, head 0" in str(nothing), "and nothing else does", nothing)


# --- series ---


def test_series() -> None:
    rope, loop = (types.SimpleNamespace(case=types.SimpleNamespace(work=work, compiled=False)) for work in ("rope", "loop"))
    made = [series for series, make in rope_compiled.SERIES if make(rope) is not None]
    report(made == [] and len(rope_compiled.SERIES) == 4, "compiles nothing of a case that does not ask for it", made)
    (chosen,) = attend.of("loop", [("way", lambda side: side)])
    report(chosen[0] == "way" and chosen[1](loop) is loop and chosen[1](rope) is None, "a series is of one work", chosen)
    names = [series for series, _ in attend.of("loop", caches.SERIES)]
    report(len(set(names)) == 7 and names[0] == "torch growing cache", "a cache through every length has seven", names)


# --- peers as processes ---


def test_process(folder: pathlib.Path) -> None:
    folder_of_none = folder / "no_torch"
    folder_of_none.mkdir()
    (folder_of_none / "torch.py").write_text("raise ImportError('no torch here', name='torch')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder_of_none), "PYTHONDONTWRITEBYTECODE": "1"}
    for script, work in (("rope", "rope"), ("attend", "attend"), ("attend", "loop")):
        words = [sys.executable, PEERS / f"{script}.py", "--json", folder / "out.json", "--case", work, "x"]
        done = subprocess.run([*words, folder / work], capture_output=True, text=True, env=environment)
        ok = done.returncode == 1 and done.stderr.startswith("cannot import torch: ")
        ok = ok and done.stderr.count("\n") == 1 and not (folder / "out.json").exists()
        report(ok, f"{script}.py says of a case of {work} in one line that torch is missing", done.stderr)
        done = subprocess.run([*words, folder / "none"], capture_output=True, text=True, env=environment)
        ok = done.returncode == 1 and "No such file" in done.stderr and done.stderr.count("\n") == 1
        report(ok, f"{script}.py says of a case that is missing that it is", done.stderr)


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
