#!/usr/bin/env python3
"""The parts of tools/bench/peers that need no torch: the file reader, the case, rows, agreement.

Agreement is held against results worked out here with every rounding of bf16: right ones pass, each
wrong one is refused. Then a peer as a process, where torch cannot be imported.
"""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import peer_support
from peer_support import HIDDEN, PEERS, bf16, bf16_bytes, dot, file_bytes, refuses, report

import agreement  # noqa: E402
import case as cases  # noqa: E402
import rows  # noqa: E402
import tensor_file  # noqa: E402

# --- the file reader ---

DATA = struct.pack("<4f", 1, -2.5, 0, 3)
PAIR = {"a": ("F32", [2, 2], DATA), "b": ("BF16", [3], bf16_bytes([1.0, -0.5, 1.0078125]))}


def header_of(**info) -> bytes:
    text = json.dumps({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16], **info}}).encode()
    return struct.pack("<Q", len(text)) + text + DATA


BAD_FILES = [
    ("a file of 3 bytes", b"abc", "3 bytes are no safetensors file"),
    ("a header past the end", struct.pack("<Q", 100) + b"{}", "a header of 100 bytes does not fit"),
    ("a header that is no JSON", struct.pack("<Q", 2) + b"{]", "header: "),
    ("a type that is not read", header_of(dtype="I64"), "a: dtype 'I64'"),
    ("a negative size", header_of(shape=[-2, 2]), "a: shape [-2, 2] is none"),
    ("a range past the data", header_of(data_offsets=[4, 20]), "a: bytes 4 to 20 are not in the 16"),
    ("a range of another size", header_of(data_offsets=[0, 12]), "a: 12 bytes for shape [2, 2]"),
    ("a range that ends before it begins", header_of(data_offsets=[16, 0]), "a: bytes 16 to 0"),
]


def test_files(folder: pathlib.Path) -> None:
    path = folder / "x.safetensors"
    path.write_bytes(file_bytes(PAIR))
    tensors = tensor_file.read(path)
    report(tensors["a"].floats() == [1, -2.5, 0, 3] and tensors["a"].shape == [2, 2], "reads float32")
    report(tensors["b"].floats() == [1.0, -0.5, 1.0078125], "reads bfloat16", tensors["b"].floats())
    for name, data, said in BAD_FILES:
        path.write_bytes(data)
        found = refuses(lambda: tensor_file.read(path), tensor_file.TensorFileError)
        report(said in found and found.startswith(str(path)), f"refuses {name}", found)
    text = json.dumps({
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]},
    }).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + DATA)
    found = refuses(lambda: tensor_file.read(path), tensor_file.TensorFileError)
    report("'a' and 'b' overlap" in found, "refuses tensors that overlap", found)


# --- the case ---

SPEC = {
    "geometry": {"hidden_size": 4, "dtype": "bf16"},
    "vectors": {"v0": {"file": "tensors.safetensors", "tensor": "vectors", "row": 0}},
    "slots": {"s": {"layers": {"0": [
        {"op": "projection_cap", "v": "v0", "min": "-inf", "max": 0.5}, {"op": "add", "v": "v0"}]}}},
    "batch": {"requests": [{"slot": "s", "rows": 1, "repeat": 2}, {"slot": None, "rows": 1}]},
}  # fmt: skip


def write_case(folder: pathlib.Path, spec: dict, n_rows: int = 3) -> pathlib.Path:
    hidden = ("BF16", [n_rows, 4], bf16_bytes([0.5] * 4 * n_rows))
    folder.mkdir(exist_ok=True)
    (folder / "workload.json").write_text(json.dumps(spec))
    vectors = ("F32", [1, 4], struct.pack("<4f", 1, 0, 0, 0))
    (folder / "tensors.safetensors").write_bytes(file_bytes({"hidden": hidden, "vectors": vectors}))
    (folder / "expected.safetensors").write_bytes(file_bytes({"hidden": hidden}))
    return folder


NORM_SPEC = {
    **SPEC,
    "geometry": {**SPEC["geometry"], "state": "hidden+residual"},
    "epilogue": {"kind": "add_rmsnorm", "eps": 1e-6, "weight": {"file": "x", "tensor": "weight"}},
    "batch": {"requests": [{"slot": None, "rows": 3}]},
}


def test_norm_case(folder: pathlib.Path) -> None:
    path = write_case(folder / "norm", NORM_SPEC)
    found = refuses(lambda: cases.Case(path), cases.CaseError)
    report("tensor 'residual': expected BF16 [3, 4], found nothing" in found, "refuses no residual", found)
    tensors = tensor_file.read(path / "tensors.safetensors")
    members = {name: (tensor.dtype, tensor.shape, tensor.data) for name, tensor in tensors.items()}
    members |= {"residual": members["hidden"], "weight": ("BF16", [4], bf16_bytes([1.0] * 4))}
    (path / "tensors.safetensors").write_bytes(file_bytes(members))
    found = refuses(lambda: cases.Case(path), cases.CaseError)
    report("tensor 'residual': expected" in found, "refuses a result without a residual", found)
    both = {name: members["hidden"] for name in ("hidden", "residual")}
    (path / "expected.safetensors").write_bytes(file_bytes(both))
    read = cases.Case(path)
    ok = read.has_norm and read.epsilon == 1e-6 and read.weight.floats() == [1.0] * 4
    report(ok and read.longest_chain() == 0, "reads a case with an epilogue")
    (path / "workload.json").write_text(json.dumps({**NORM_SPEC, "batch": SPEC["batch"]}))
    found = refuses(lambda: cases.Case(path), cases.CaseError)
    report("peers steer nothing ahead of an epilogue" in found, "refuses one that is steered", found)


def test_case(folder: pathlib.Path) -> None:
    read = cases.Case(write_case(folder / "good", SPEC), "steer", "x")
    chain = read.requests[1].chain
    ok = [(r.first, r.end, len(r.chain)) for r in read.requests] == [(0, 1, 2), (1, 2, 2), (2, 3, 0)]
    ok = ok and chain[0].params == {"min": -math.inf, "max": 0.5} and chain[1].params == {"scale": 1.0}
    report(ok and not read.is_uniform() and read.longest_chain() == 2, "reads a case")
    swap = {**SPEC, "slots": {"s": {"layers": {"0": [{"op": "swap", "v": "v0"}]}}}}
    pair = {**SPEC, "geometry": {**SPEC["geometry"], "state": "hidden+residual"}}
    bad = [
        ("an op that peers do not know", swap, 3, "layers.0[0].op: peers know add, ablation"),
        ("a residual", pair, 3, "geometry.state: peers steer hidden alone"),
        ("a tensor of another shape", SPEC, 2, "tensor 'hidden': expected BF16 [3, 4]"),
        ("no workload", {}, 3, "not a case of the bench"),
    ]
    for name, spec, n_rows, said in bad:
        path = write_case(folder / "bad", spec, n_rows)
        found = refuses(lambda: cases.Case(path), cases.CaseError)
        report(said in found and "\n" not in found, f"refuses {name}", found)
    found = refuses(lambda: cases.Case(folder / "none"), cases.CaseError)
    report("No such file" in found, "refuses a folder that is not there", found)


# --- rows ---


def test_rows(folder: pathlib.Path) -> None:
    class Named:
        suite, name = "steer", "1 op"

    times = rows.Times([4.0, 1.0, 2.0, 9.0])
    report((times.min, times.median, times.max) == (1.0, 3.0, 9.0), "sums up times")
    machine = {"card": "Card 1", "driver": 13000, "cuda": "13.0"}
    row = rows.make(Named, "torch eager loop", machine, times, times, {"first_call_ms": 5.0})
    rows.write(folder / "rows.json", [row])
    back = json.loads((folder / "rows.json").read_text())
    report(back == [row] and rows.fault(row) == "", "writes rows that read back equal", back)
    for name, change in (("a time of 0", {"median_us": 0}), ("an infinite time", {"max_us": math.inf}),
                         ("no card", {"card": ""}), ("an extra that is a text", {"first_call_ms": "5"})):
        found = refuses(lambda: rows.write(folder / "no.json", [{**row, **change}]), ValueError)
        report(found != "" and not (folder / "no.json").exists(), f"refuses {name}", found)


# --- agreement ---


def ours(row, chain, vectors) -> list:
    """Every op exact, one rounding at the end."""
    for op in chain:
        v = vectors[op.vector]
        p = dot(row, v)
        c = {"add": lambda: op.params["scale"], "ablation": lambda: (op.params["scale"] - 1) * p,
             "projection_cap": lambda: min(max(p, op.params["min"]), op.params["max"]) - p}[op.name]()
        row = [x + c * y for x, y in zip(row, v)]
    return [bf16(x) for x in row]


def eager(row, chain, vectors) -> list:
    """Every intermediate rounded, and the projection from four partial sums that are rounded too."""
    for op in chain:
        v = vectors[op.vector]
        part = len(v) // 4
        p = 0.0
        for i in range(4):
            p = bf16(p + bf16(dot(row[i * part : (i + 1) * part], v[i * part : (i + 1) * part])))
        if op.name == "add":
            c = op.params["scale"]
        elif op.name == "ablation":
            c = bf16((op.params["scale"] - 1) * p)
        else:
            c = bf16(min(max(p, op.params["min"]), op.params["max"]) - p)
        row = [bf16(x + bf16(c * y)) for x, y in zip(row, v)]
    return row


def verdict_of(before, after, expected, chain, vectors):
    """Of rows which share a chain."""
    verdict = agreement.Verdict()
    for rows_of in zip(before, after, expected):
        verdict.add(agreement.ListMath, *rows_of, chain, vectors, "BF16")
    return verdict


def add(vector: int, scale: float = 1.0):
    return cases.Op("add", vector, {"scale": scale})


def ablation(vector: int, scale: float = 0.0):
    return cases.Op("ablation", vector, {"scale": scale})


def cap(vector: int, low: float = -0.5, high: float = 0.5):
    return cases.Op("projection_cap", vector, {"min": low, "max": high})


CHAINS = {
    "an add": [add(0, 1.5)],
    "a large add": [add(0, 8.25)],
    "an ablation": [ablation(1)],
    "a flip": [ablation(1, -1.0)],
    "a cap": [cap(2)],
    "two ops": [add(0, 4.0), cap(2)],
    "ops on one vector": [add(2, 3.0), cap(2), ablation(2, 0.5)],
    "eight ops": [add(0), cap(1), ablation(2), add(3), cap(4), ablation(5), add(6), cap(7)],
}

# what the peer does, where it should do what CHAINS says
WRONG = [
    ("a cap off by half", "a cap", [cap(2, -0.25, 0.25)]),
    ("a cap on one side only", "a cap", [cap(2, -math.inf, 0.5)]),
    ("a cap that is missing", "a cap", []),
    ("an add of half", "an add", [add(0, 0.75)]),
    ("an add of the wrong sign", "an add", [add(0, -1.5)]),
    ("an add of another vector", "an add", [add(1, 1.5)]),
    ("an ablation of half", "an ablation", [ablation(1, 0.5)]),
    ("an ablation as a flip", "an ablation", [ablation(1, -1.0)]),
    ("two ops in the other order", "two ops", [cap(2), add(0, 4.0)]),
    ("the first of two ops left out", "two ops", [cap(2)]),
    ("the last of two ops off by half", "two ops", [add(0, 4.0), cap(2, -0.25, 0.25)]),
    ("the caps of eight ops off by half", "eight ops", [
        cap(op.vector, -0.25, 0.25) if op.name == "projection_cap" else op for op in CHAINS["eight ops"]]),
    ("the last of eight ops left out", "eight ops", CHAINS["eight ops"][:-1]),
    ("the third of eight ops left out", "eight ops", CHAINS["eight ops"][:2] + CHAINS["eight ops"][3:]),
]


def make_batch(n_rows: int, deviation: float) -> tuple:
    source = random.Random(5)
    before = [[bf16(source.gauss(0, deviation)) for _ in range(HIDDEN)] for _ in range(n_rows)]
    vectors = []
    for _ in range(8):
        v = [source.gauss(0, 1) for _ in range(HIDDEN)]
        norm = math.sqrt(dot(v, v))
        vectors.append([bf16(x / norm) for x in v])
    # the vectors are not quite orthogonal, as real ones are not
    mixed = [a + 0.5 * b for a, b in zip(vectors[0], vectors[2])]
    norm = math.sqrt(dot(mixed, mixed))
    vectors[0] = [bf16(x / norm) for x in mixed]
    return before, vectors


def test_agreement(n_rows: int, deviation: float) -> None:
    before, vectors = make_batch(n_rows, deviation)
    size = f"at rows of deviation {deviation:g}"
    expected = {name: [ours(row, chain, vectors) for row in before] for name, chain in CHAINS.items()}
    for name, chain in CHAINS.items():
        after = [eager(row, chain, vectors) for row in before]
        verdict = verdict_of(before, after, expected[name], chain, vectors)
        ok = verdict.agrees() and after != expected[name]
        report(ok, f"agrees with {name} rounded after each step, {size}", verdict)
    for name, right, wrong in WRONG:
        after = [eager(row, wrong, vectors) for row in before]
        verdict = verdict_of(before, after, expected[right], CHAINS[right], vectors)
        report(not verdict.agrees(), f"refuses {name}, {size}", verdict)


def test_lost_steps() -> None:
    """Rows so coarse that eager code loses an add to rounding, in every row alike."""
    source = random.Random(7)
    vectors = [[1 / 16] * 256]
    before = [[bf16(source.uniform(8, 15)) for _ in range(256)] for _ in range(64)]
    chain = [add(0, 0.2)]
    expected = [[x + 0.2 / 16 for x in row] for row in before]  # a row of float32, say
    after = [eager(row, chain, vectors) for row in before]
    verdict = verdict_of(before, after, expected, chain, vectors)
    report(after == before and verdict.agrees(), "agrees where every add is lost to rounding", verdict)
    after = [eager(row, [add(0, 2.0)], vectors) for row in before]
    verdict = verdict_of(before, after, expected, chain, vectors)
    report(verdict.mean() > 1, "refuses a larger add in such rows", verdict)


def test_single_faults() -> None:
    before, vectors = make_batch(8, 1.0)
    chain = CHAINS["a cap"]
    expected = [ours(row, chain, vectors) for row in before]
    after = [eager(row, chain, vectors) for row in before]
    after[3][7] = math.nan
    verdict = verdict_of(before, after, expected, chain, vectors)
    report(not verdict.agrees() and verdict.element == math.inf, "refuses a NaN", verdict)
    after = [eager(row, chain, vectors) for row in before]
    after[3][7] = bf16(after[3][7] + 0.25)
    verdict = verdict_of(before, after, expected, chain, vectors)
    report(verdict.element > 1, "refuses one element that is off", verdict)
    touched = [list(row) for row in before]
    touched[5][1] = bf16(touched[5][1] * 1.02)
    verdict = verdict_of(before, before, before, [], vectors)
    report(verdict.agrees() and verdict.element == 0, "an unsteered row may be as it was", verdict)
    verdict = verdict_of(before, touched, before, [], vectors)
    report(verdict.element == math.inf, "refuses a change of one", verdict)


# --- a peer as a process ---


def test_process(folder: pathlib.Path) -> None:
    folder_of_none = folder / "no_torch"
    folder_of_none.mkdir()
    (folder_of_none / "torch.py").write_text("raise ImportError('no torch here', name='torch')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder_of_none), "PYTHONDONTWRITEBYTECODE": "1"}
    scripts = ["compiled", "gather", "loop", "norm", "per_op", "reduced", "rowwise", "uniform"]
    known = {"agreement", "case", "norm_agreement", "peer", "rows", "tensor_file", "torch_side"}
    elsewhere = {"attend", "attn_agreement", "attn_case", "attn_side", "caches", "loop_side", "rope",
                 "rope_compiled"}  # test_peer_attention.py
    elsewhere |= {"prove", "prove_agreement", "prove_case", "prove_dense", "prove_side"}  # test_peer_prove.py
    elsewhere |= {"components", "components_agreement", "components_case", "components_side"}  # test_peer_components.py
    elsewhere |= {"components_llama", "components_model", "components_step", "llama_parts"}  # test_peer_models.py
    found = {path.stem for path in PEERS.glob("*.py")}
    report(found == known | elsewhere | set(scripts) | {"llama"}, "every script of the peers is tried here", found)
    words = [sys.executable, PEERS / "llama.py", "--json", folder / "out.json"]  # takes no case
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    ok = done.returncode == 1 and done.stderr.startswith("cannot import torch: ")
    ok = ok and done.stderr.count("\n") == 1 and not (folder / "out.json").exists()
    report(ok, "llama.py says in one line that torch is missing", done.stderr)
    for script in scripts:
        words = [sys.executable, PEERS / f"{script}.py", "--json", folder / "out.json"]
        words += ["--case", "steer", "1 op", folder / "good"]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        ok = done.returncode == 1 and done.stderr.startswith("cannot import torch: ")
        ok = ok and done.stderr.count("\n") == 1 and not (folder / "out.json").exists()
        report(ok, f"{script}.py says in one line that torch is missing", done.stderr)
    words[-1] = folder / "none"
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    ok = done.returncode == 1 and "No such file" in done.stderr and done.stderr.count("\n") == 1
    report(ok, "a case that is missing is said before torch is looked for", done.stderr)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test_files(folder)
        test_case(folder)
        test_norm_case(folder)
        test_rows(folder)
        test_lost_steps()
        test_agreement(n_rows=24, deviation=1.0)
        test_agreement(n_rows=64, deviation=8.0)
        test_single_faults()
        test_process(folder)
    return 0 if peer_support.good else 1


raise SystemExit(main())
