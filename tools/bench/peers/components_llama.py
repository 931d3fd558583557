"""Whole Llamas whose linear layers stay PyTorch's, and what stands between them: eager, compiled, ours.

    python3 components_llama.py --json OUT [--library libsteergraph.so] [--models mini,1b,3b,8b]
                                [--kinds bf16,fp8] [--limit SECONDS] [--quick]

Needs torch and a CUDA device. Unlike the peers beside it, it takes no case and measures both sides: rows
of the suite `surgical`, which `table.py record NAME --add OUT` keeps with a run.

A forward pass over 2048 positions of each sequence, in bf16 or with FP8 linear layers; the model is
llama_parts.py's. Series: torch eager, the rotation and the putting together of heads compiled, the eager
pass as a region of ours, and ours: one launch for the rotation, all in a region. Results are compared
before anything is timed. `tensor_ops_percent` is the share of the device's time that goes into what is
not a linear layer, an attention or a norm, by torch.profiler, of a pass that no region holds. Past --limit no
further model is begun.
"""
import argparse
import functools
import gc
import os
import pathlib
import sys
import time
import types

import peer
import rows

# Of the distance from eager's result, over its length: where a rotation rounds differently, so does what
# follows, layer after layer, and most in FP8.
ALLOWED = {"bf16": 0.05, "fp8": 0.2}
REPEATS = 20
MODELS, KINDS = "mini,1b,3b,8b", "bf16,fp8"
EAGER, COMPILED = "torch", "torch.compile of tensor ops"
EAGER_REGION, OURS_REGION = "torch, in a region", "steergraph, in a region"
SERIES = (EAGER, COMPILED, EAGER_REGION, OURS_REGION)
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"


def words_of(known: str):
    def read(text: str) -> list:
        words = [word for word in text.split(",") if word]
        if not words or not set(words) <= set(known.split(",")):
            raise argparse.ArgumentTypeError(f"{text!r}: there is {known.replace(',', ', ')}")
        return words

    return read


def share_of(events, label: str):
    """Per cent of the device's time that went into what has the label, which the host's event with that
    name says of all below it; None where it cannot be told."""

    def is_on(event, device: str) -> bool:
        return str(event.device_type).endswith(device)

    # the label is also drawn on the device, over the kernels that it has
    whole = sum(event.self_device_time_total for event in events if is_on(event, "CUDA") and event.name != label)
    labelled = sum(event.device_time_total for event in events if is_on(event, "CPU") and event.name == label)
    return 100 * labelled / whole if whole > 0 and labelled > 0 else None


class Bench:
    """All series of one model and kind of linear layer."""

    def __init__(self, args, modules, model: str, kind: str):
        self.args, self.modules, self.kind = args, modules, kind
        self.torch, self.parts = modules.torch, modules.llama_parts
        self.shape = self.parts.SHAPES[model]
        self.name = f"{self.shape.name}, batch {self.shape.batch}, {kind}"
        self.wanted = None

    def profiled(self, forward):
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        with profiler.profile(activities=activities) as found:
            forward()
            self.torch.cuda.synchronize()
        return share_of(found.events(), self.parts.TENSOR_OPS)

    def made(self, series: str, engine):
        if series == COMPILED:
            self.torch._dynamo.reset()
            return self.parts.Compiled(self.shape)
        if series == OURS_REGION:
            return self.parts.Ours(self.shape, self.modules.steergraph, self.modules.torch_attention, engine)
        return self.parts.Eager(self.shape)

    def row(self, series: str, llama, engine) -> dict:
        torch, torch_side = self.torch, self.modules.torch_side
        parts = self.made(series, engine)

        def forward():
            return llama.forward(parts)

        call = forward
        if series in (EAGER_REGION, OURS_REGION):
            region = engine.region(f"{self.name}, {series}")
            call = functools.partial(region.run, forward)
        torch.cuda.reset_peak_memory_stats()
        first_ms = torch_side.first_call_ms(call)
        extras = {"first_call_ms": first_ms, "parameters_m": self.shape.parameters() * 1e-6}
        for _ in range(4):  # by then a region has been captured
            result = call()
        extras["off"] = self.off(series, result)
        repeats = 3 if self.args.quick else REPEATS
        device, wall = torch_side.measure(lambda _: call(), 1, repeats)
        extras["peak_mb"] = torch.cuda.max_memory_allocated() * 1e-6
        extras["tokens_per_s"] = self.shape.rows / (device.median * 1e-6)
        share = self.profiled(forward)
        if share is not None:
            extras["tensor_ops_percent"] = share
        case = types.SimpleNamespace(suite="surgical", name=self.name)
        return rows.make(case, series, torch_side.machine(), device, wall, extras)

    def off(self, series: str, result) -> float:
        """The distance from eager's result, over its length."""
        result = result.double()
        if series == EAGER:
            self.wanted = result.clone()
        found = ((result - self.wanted).norm() / self.wanted.norm()).item()
        if not found <= ALLOWED[self.kind]:
            raise RuntimeError(f"the result is off by {found:.3g} of its length, beyond {ALLOWED[self.kind]}")
        return found

    def run(self, found: list, failures) -> None:
        with failures.of(f"{self.name}: "), self.torch.no_grad():
            llama = self.parts.Llama(self.shape, self.kind)
            for series in SERIES:
                with failures.of(f"{self.name}: {series}: "):
                    engine = self.modules.steergraph.Engine("cuda", 0)
                    try:
                        found.append(self.row(series, llama, engine))
                    finally:
                        gc.collect()
                        engine.close()
                    rows.write(self.args.json, found)
        gc.collect()
        self.torch.cuda.empty_cache()


def run(args: argparse.Namespace):
    import torch
    import torch_side

    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device")
    sys.path.insert(0, str(PACKAGE))
    import llama_parts
    import steergraph
    from steergraph import torch_attention

    steergraph.load(args.library)
    modules = types.SimpleNamespace(torch=torch, torch_side=torch_side, llama_parts=llama_parts, steergraph=steergraph,
                                    torch_attention=torch_attention)  # fmt: skip
    found, failures, started = [], peer.Failures(), time.monotonic()
    for model in args.models:
        for kind in args.kinds:
            if time.monotonic() - started > args.limit:
                print(f"{model}, {kind}: left out, past --limit", file=sys.stderr)
                continue
            Bench(args, modules, model, kind).run(found, failures)
    return failures


def parsed(words=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True, metavar="OUT", help="the file of the rows")
    parser.add_argument("--library", help="libsteergraph.so; default: where the package looks")
    parser.add_argument("--models", type=words_of(MODELS), default=MODELS, help=MODELS)
    parser.add_argument("--kinds", type=words_of(KINDS), default=KINDS, help=KINDS)
    parser.add_argument("--limit", type=float, default=1e9, metavar="SECONDS", help="no model begins later")
    parser.add_argument("--quick", action="store_true", help="few repeats")
    return parser.parse_args(words)


def main() -> None:
    args = parsed()
    try:
        with peer.empty_caches():
            failures = run(args)
    except ImportError as error:
        raise SystemExit(f"cannot import {error.name or 'a module'}: {peer.one_line(error)}") from None
    except Exception as error:  # one line, as of every peer
        if os.environ.get("PEER_TRACEBACK"):
            raise
        raise SystemExit(f"{type(error).__name__}: {peer.one_line(error)}") from None
    if failures.notes:
        raise SystemExit(str(failures))


if __name__ == "__main__":
    main()
