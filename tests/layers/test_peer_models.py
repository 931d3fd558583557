#!/usr/bin/env python3
"""The parts of the peers of whole models that need no torch: their words, which series a shape has, the
share of a label, and that they say in one line that torch is missing."""
import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest.mock

import peer_support
from peer_support import PEERS, refuses, report

import components_llama as llama  # noqa: E402
import components_step as step  # noqa: E402


def test_words_of_a_step() -> None:
    args = step.parsed(["--json", "o"])
    report(args.shapes == [(16, 128), (32, 256), (64, 256), (128, 256)], "a step has the published shapes", args.shapes)
    report(args.series == list(step.SERIES.values()) and args.limit > 1e8, "and all series", args.series)
    report(args.autotune_shapes == [(64, 256)], "max-autotune is of one shape", args.autotune_shapes)
    args = step.parsed(["--json", "o", "--shapes", "2x3", "--series", "region,eager"])
    report(args.shapes == [(2, 3)] and args.series == [step.EAGER, step.OURS_REGION], "words choose, in our order", args.series)
    wanted = [series for series in step.SERIES.values() if step.is_wanted(series, (16, 128), step.parsed(["--json", "o"]))]
    report(step.AUTOTUNED not in wanted and len(wanted) == 5, "of other shapes it is left out", wanted)
    for word in ("16", "0x3", "ax3", "3x"):
        said = refuses(lambda word=word: step.shape_of(word), argparse.ArgumentTypeError)
        report(f"'{word}' is no shape" in said, f"refuses the shape {word}", said)
    said = refuses(lambda: step.series_of("eager,fast"), argparse.ArgumentTypeError)
    report("there is eager, region-eager, components, region, reduced, autotuned" in said, "refuses a series of none", said)


def test_words_of_llamas() -> None:
    args = llama.parsed(["--json", "o"])
    report(args.models == ["mini", "1b", "3b", "8b"] and args.kinds == ["bf16", "fp8"], "Llamas have the published models", args)
    args = llama.parsed(["--json", "o", "--models", "1b,mini", "--kinds", "bf16"])
    report(args.models == ["1b", "mini"] and args.kinds == ["bf16"], "words choose", args)
    for words in (["--models", "70b"], ["--kinds", ""]):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = refuses(lambda words=words: llama.parsed(["--json", "o", *words]), SystemExit)
        report(code == "2" and "there is " in said.getvalue(), f"refuses {' '.join(words)}", said.getvalue())


def test_models_of_llamas() -> None:
    names = {f"torch{part}": types.ModuleType(f"torch{part}") for part in ("", ".nn", ".nn.functional")}
    for function in ("linear", "rms_norm", "scaled_dot_product_attention", "silu"):
        setattr(names["torch.nn.functional"], function, None)
    with unittest.mock.patch.dict(sys.modules, names):
        import llama_parts

        shapes = {name: (s.layers, s.batch, s.sequence, s.hidden) for name, s in llama_parts.SHAPES.items()}
    wanted = {"mini": (4, 8, 2048, 2048), "1b": (16, 4, 2048, 2048), "3b": (26, 2, 2048, 3072), "8b": (32, 1, 2048, 4096)}
    report(shapes == wanted, "Llamas have the published layers, batches, sequences and widths", shapes)
    published = {"1b": 940.6, "3b": 3141.2, "8b": 6738.4}  # millions, with 32 000 embeddings in and out and the norms
    sizes = {}
    for name in published:
        s = llama_parts.SHAPES[name]
        sizes[name] = round((s.parameters() + 2 * 32000 * s.hidden + (2 * s.layers + 1) * s.hidden) / 1e6, 1)
    report(sizes == published, "and parameters", sizes)
    mini = llama_parts.SHAPES["mini"]
    report((mini.heads, mini.d_ff) == (16, 4096), "and the mini model its heads and hidden rows", (mini.heads, mini.d_ff))


def event(device: str, name: str, own: float, whole: float):
    return types.SimpleNamespace(device_type=f"DeviceType.{device}", name=name, self_device_time_total=own, device_time_total=whole)


def test_share() -> None:
    events = [
        event("CPU", "tensor ops", 0, 30), event("CPU", "aten::mm", 0, 60), event("CPU", "tensor ops", 0, 10),
        event("CUDA", "gemm", 60, 60), event("CUDA", "cat", 40, 40), event("CUDA", "tensor ops", 40, 40),
    ]  # fmt: skip
    found = llama.share_of(events, "tensor ops")
    report(found == 40, "a share is of the kernels' time", found)
    report(llama.share_of(events[:3], "tensor ops") is None, "without kernels there is none")
    report(llama.share_of(events[3:], "tensor ops") is None, "and none where the label has nothing")


def test_process(folder: pathlib.Path) -> None:
    none = folder / "no_torch"
    none.mkdir()
    (none / "torch.py").write_text("raise ImportError('no torch here', name='torch')\n")
    environment = {**os.environ, "PYTHONPATH": str(none), "PYTHONDONTWRITEBYTECODE": "1"}
    for script in ("components_step.py", "components_llama.py"):
        words = [sys.executable, PEERS / script, "--json", folder / "out.json"]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        ok = done.returncode == 1 and done.stderr == "cannot import torch: no torch here\n"
        report(ok and not (folder / "out.json").exists(), f"{script} says in one line that torch is missing", done.stderr)


def main() -> int:
    test_words_of_a_step()
    test_words_of_llamas()
    test_models_of_llamas()
    test_share()
    with tempfile.TemporaryDirectory() as name:
        test_process(pathlib.Path(name))
    return 0 if peer_support.good else 1


raise SystemExit(main())
