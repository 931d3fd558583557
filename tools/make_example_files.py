#!/usr/bin/env python3
"""Make the vector files that specs/ reads: make_example_files.py [--check].

Writes specs/data/ (what examples of specs/ read) and specs/bad/data/ (files with one fault each); with --check writes nothing and fails when a file differs from what would be written. Needs only Python's
standard library; the same bytes on every machine, because a value is a sum of twelve uniform numbers
(near normal, exact sums).
"""
import pathlib
import random
import struct
import sys

from vector_writers import Tensor, bf16, control_vector, directions, f16, f32, f64, gguf, npy, safetensors, safetensors_framed

HIDDEN = 256
CONSTANTS = 3  # of specs/bad/data/people.facts
SPECS = pathlib.Path(__file__).resolve().parent.parent / "specs"


def normal(rng: random.Random, count: int) -> list[float]:
    """Values of mean 0 and variance 1, multiples of 2^-20."""
    return [sum(rng.getrandbits(20) for _ in range(12)) / 2**20 - 6.0 for _ in range(count)]


def noted(tensors: list[Tensor], note: str) -> bytes:
    return safetensors(tensors, {"made_by": "tools/make_example_files.py", "note": note})


def example_files() -> dict[str, bytes]:
    rng = random.Random(20250101)
    vectors = noted(
        [
            ("honesty", "F32", [HIDDEN], f32(normal(rng, HIDDEN))),
            ("refusal", "BF16", [HIDDEN], bf16(normal(rng, HIDDEN))),
            ("by_layer", "F16", [4, HIDDEN], f16(normal(rng, 4 * HIDDEN))),
        ],
        "three ways in which people store directions",
    )
    rows = 48
    hidden = noted(
        [("hidden", "F16", [rows, HIDDEN], f16(normal(rng, rows * HIDDEN)))], "hidden states of a batch"
    )
    by_layer = npy("F16", [4, HIDDEN], f16(normal(rng, 4 * HIDDEN)))
    axis = npy("F64", [HIDDEN], f64(normal(rng, HIDDEN)))
    blob = f32(normal(rng, 6 * HIDDEN))
    layers = noted(
        [(f"model.layers.{n}.axis", "F16", [HIDDEN], f16(normal(rng, HIDDEN))) for n in range(4)],
        "a tensor for each layer",
    )
    by_hand = {n: [round(x, 3) for x in normal(rng, 64)] for n in (4, 8, 12)}
    happy = {n: normal(rng, 64) for n in range(1, 32)}
    calm = {n: normal(rng, 64) for n in range(1, 25)}
    return {
        "data/vectors.safetensors": vectors,
        "data/hidden.safetensors": hidden,
        "data/by_layer.npy": by_layer,
        "data/axis.npy": axis,
        "data/blob.f32": blob,
        "data/layers.safetensors": layers,
        "data/happy.gguf": control_vector(happy, "Mistral"),
        "data/calm.gguf": control_vector(calm, dtype="F16", version=2),
        "data/directions.json": directions(by_hand, note="made by tools/make_example_files.py"),
    }


def bad_control_vectors() -> dict[str, bytes]:
    """Width 4, directions of blocks 1 to 3 where nothing else is said."""
    one = [1.0, 0.0, 0.0, 0.0]
    three = [(f"direction.{n}", "F32", [4], f32(one)) for n in (1, 2, 3)]

    def said(key: str, kind: str, value: object) -> bytes:
        return gguf(three, [("general.architecture", "string", "controlvector"), (key, kind, value)])

    return {
        "bad/data/three.gguf": control_vector({n: one for n in (1, 2, 3)}, "mistral"),
        "bad/data/five.gguf": control_vector({n: one for n in (1, 2, 3, 4, 5)}),
        "bad/data/gap.gguf": control_vector({1: one, 3: one}),
        "bad/data/narrow.gguf": control_vector({1: one, 2: one[:2]}),
        "bad/data/embedding.gguf": control_vector({0: one, 1: one}),
        "bad/data/nan.gguf": control_vector({1: one, 2: [0.0, float("nan"), 0.0, 0.0]}),
        "bad/data/zero.gguf": control_vector({1: [0.0] * 4, 2: [0.0] * 4}),
        "bad/data/large.gguf": control_vector({1: [3e38, 0.0, 0.0, 0.0]}),
        "bad/data/rank.gguf": gguf(
            [("direction.3.1", "F32", [4], f32(one))], [("general.architecture", "string", "controlvector")]
        ),
        "bad/data/model.gguf": gguf(
            [("output_norm.weight", "F32", [4], f32(one))], [("general.architecture", "string", "llama")]
        ),
        "bad/data/project.gguf": said("glp.mode", "string", "project"),
        "bad/data/alpha.gguf": said("glp.alpha_default", "f32", 1.5),
        "bad/data/hook.gguf": said("glp.hook_point", "string", "ffn_out_pre_residual"),
    }


def policy(constants: int, changed: dict[str, tuple[list[int], list[float]]]) -> bytes:
    """Weights of a net of width 2 with one block, for 1 predicate and states of 1 atom; some of them changed."""
    shapes = {"predicate.weight": [4, 2], "entity.weight": [constants + 2, 2]}
    for layer in ("in", "blocks.0", "head", "out"):
        shapes |= {f"{layer}.weight": [2, 2], f"{layer}.bias": [2]}
    for norm in ("in_norm", "blocks.0.norm"):
        shapes |= {f"{norm}.weight": [2], f"{norm}.bias": [2]}
    tensors = {name: (shape, [0.5] * (shape[0] * (shape[1] if len(shape) > 1 else 1))) for name, shape in shapes.items()}
    tensors |= changed
    return noted([(name, "F32", shape, f32(values)) for name, (shape, values) in tensors.items()], "a policy")


def bad_files() -> dict[str, bytes]:
    """Files of width 4: sound ones with tensors that do not fit, and broken ones."""
    one = [1.0, 0.0, 0.0, 0.0]
    good = noted(
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
    hand = directions({1: one, 2: one})
    array = npy("F32", [2, 4], f32(one + one))
    entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    return {
        "bad/data/good.safetensors": good,
        "bad/data/truncated.safetensors": good[:-8],
        "bad/data/huge_header.safetensors": struct.pack("<Q", 2**40) + good[8:],
        "bad/data/overlap.safetensors": safetensors_framed(
            {"v": entry, "w": {**entry, "data_offsets": [8, 24]}}, bytes(24)
        ),
        "bad/data/not_safetensors.safetensors": b"This is a text, not tensors.\n",
        "bad/data/unknown.dat": b"This is a text, not tensors.\n",
        "bad/data/matrix.npy": array,
        "bad/data/cut.npy": array[:-4],
        "bad/data/long.npy": array + array,
        "bad/data/beyond.npy": npy("F64", [4], f64([1.0, 0.0, 1e300, 0.0])),
        "bad/data/fortran.npy": array.replace(b"False", b"True "),
        "bad/data/integers.npy": array.replace(b"<f4", b"<i4"),
        "bad/data/zero_row.npy": npy("F32", [2, 4], f32(one) + bytes(16)),
        **bad_control_vectors(),
        "bad/data/policy.safetensors": policy(CONSTANTS, {}),
        "bad/data/policy_wide.safetensors": policy(CONSTANTS, {"head.bias": ([3], [0.5] * 3)}),
        "bad/data/policy_nan.safetensors": policy(CONSTANTS, {"out.bias": ([2], [0.5, float("nan")])}),
        "bad/data/directions.json": hand,
        "bad/data/padded.json": hand.replace(b'"2"', b'"02"'),
        "bad/data/ragged.json": hand.replace(b"[1.0, 0.0, 0.0, 0.0], ", b"[1.0, 0.0, 0.0], "),
        "bad/data/by_layer.json": b'{"2": [1, 0, 0, 0]}\n',
        "bad/data/cut.json": hand[:-8],
        "bad/data/six.f32": f32(one + one[:2]),
        "bad/data/odd.f32": f32(one) + b"\0",
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
