"""The training step of a small Llama of 28 masked low-rank modules: PyTorch's own ways, and ours.

    python3 components_step.py --json OUT [--library libsteergraph.so] [--shapes 16x128,64x256]
                               [--series WORD,...] [--autotune-shapes 64x256] [--limit SECONDS]
                               [--mask-gradients] [--quick]

Needs torch and a CUDA device. Unlike the peers beside it, it takes no case and measures both sides: rows
of the suite `step`, which `table.py record NAME --add OUT` keeps with a run.

A step is zero_grad, forward, the mean of the logits as the loss, backward, and AdamW on 11.05 million
parameters, in TF32; the model is components_model.py's. Series: torch eager, torch.compile of the forward
in two modes (the second at --autotune-shapes alone, as it takes minutes), the eager step as a region of
ours, our components in the eager step, and that step as a region. Of each the gradients of the first
way back are held against float64, before anything is timed. `first_call_ms` is the first step with all
that is compiled or captured for it, from empty caches, `first_calls_ms` the first five together;
`peak_mb` is the most that torch's allocator held from there on. Past --limit no further compiled series is
begun.
"""
import argparse
import concurrent.futures
import gc
import os
import pathlib
import sys
import tempfile
import time
import types

import peer
import rows

SHAPES = "16x128,32x256,64x256,128x256"
ALLOWED = 0.05  # of a gradient's distance from float64's, over its length
FIRST_CALLS = 5
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
EAGER, COMPILED, AUTOTUNED = "torch", "torch.compile (reduce-overhead)", "torch.compile (max-autotune)"
EAGER_REGION, OURS, OURS_REGION = "torch, the step as a region", "steergraph components", "steergraph, the step as a region"
SERIES = {"eager": EAGER, "region-eager": EAGER_REGION, "components": OURS, "region": OURS_REGION,
          "reduced": COMPILED, "autotuned": AUTOTUNED}  # fmt: skip


def shape_of(word: str) -> tuple:
    batch, _, sequence = word.partition("x")
    if not (batch.isdigit() and sequence.isdigit() and int(batch) > 0 and int(sequence) > 0):
        raise argparse.ArgumentTypeError(f"{word!r} is no shape, such as 64x256")
    return int(batch), int(sequence)


def shapes_of(text: str) -> list:
    return [shape_of(word) for word in text.split(",") if word]


def series_of(text: str) -> list:
    words = [word for word in text.split(",") if word]
    unknown = [word for word in words if word not in SERIES]
    if unknown or not words:
        raise argparse.ArgumentTypeError(f"{text!r}: there is {', '.join(SERIES)}")
    return [name for word, name in SERIES.items() if word in words]


def is_wanted(series: str, shape: tuple, args) -> bool:
    return series in args.series and (series != AUTOTUNED or shape in args.autotune_shapes)


class Ours:
    """An engine whose cache is empty, and components of each geometry of the model, for a number of rows.
    Their kernels are compiled side by side, as a host does that knows its modules."""

    def __init__(self, steergraph, torch_components, model, components_model, device: str = "cuda"):
        self.folder = tempfile.TemporaryDirectory(prefix="peer-")
        self.engine = steergraph.Engine(device, 0, cache=self.folder.name)
        self.apply = torch_components.components
        self.shapes = components_model.SHAPES
        shapes = sorted(set(self.shapes.values()))

        def made(shape):
            return steergraph.Components(
                self.engine, *shape, components_model.COMPONENTS, "f32", math="tf32", max_rows=model.batch * model.sequence)  # fmt: skip

        with concurrent.futures.ThreadPoolExecutor(len(shapes)) as threads:
            self.made = dict(zip(shapes, threads.map(made, shapes), strict=True))

    def op(self, name: str, x, v, u, mask):
        return self.apply(self.made[self.shapes[name.partition(".")[2]]], x, v, u, mask)

    def close(self):
        self.engine.close()
        self.folder.cleanup()


class Step:
    """One way to do a step: `forward()` gives the loss, `call()` does the whole of it."""

    def __init__(self, torch, model, forward, capturable: bool):
        self.torch, self.model, self.forward = torch, model, forward
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=capturable)

    def call(self):
        self.torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad()
        for mask in self.model.masks.values():
            mask.grad = None
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Bench:
    """All series of one shape."""

    def __init__(self, args, modules, shape: tuple, started: float):
        self.args, self.modules, self.shape, self.started = args, modules, shape, started
        self.torch = modules.torch
        self.name = f"{shape[0]} x {shape[1]}"
        self.ours = None

    def model(self, dtype=None):
        return self.modules.model.Model(*self.shape, dtype=dtype or self.torch.float32, mask_gradients=self.args.mask_gradients)

    def reference(self) -> list:
        model = self.model(self.torch.float64)
        return [grad.cpu() for grad in model.gradients(model.loss())]

    def made(self, series: str, model):
        """(the step's forward, how it is run, whether it is captured)."""
        torch = self.torch
        if series in (COMPILED, AUTOTUNED):
            torch._dynamo.reset()
            for tensor in model.tensors():  # as parameters and buffers of a Module are: not copied at each call
                torch._dynamo.mark_static_address(tensor)
            mode = "reduce-overhead" if series == COMPILED else "max-autotune"
            return torch.compile(model.loss, mode=mode), False
        if series in (OURS, OURS_REGION):
            self.ours = Ours(self.modules.steergraph, self.modules.torch_components, model, self.modules.model)
            return lambda: model.loss(self.ours.op), series == OURS_REGION
        return model.loss, series == EAGER_REGION

    def region_of(self, step, series: str):
        """The step as a region: an engine keeps what torch captured of it."""
        engine = self.ours.engine if self.ours is not None else self.modules.steergraph.Engine("cuda", 0)
        region = engine.region(f"training step, {series}", batch=self.shape[0], seq=self.shape[1])
        return engine, lambda: region.run(step.call)

    def rows_of(self, series: str, wanted: list) -> list:
        """One series: gradients, then times. All that it made is let go."""
        torch, torch_side = self.torch, self.modules.torch_side
        engine = step = call = model = None
        try:
            model = self.model()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = time.perf_counter()
            forward, captured = self.made(series, model)
            step = Step(torch, model, forward, captured)
            grads = model.gradients(forward())  # of a compiled one all that it compiles for
            torch.cuda.synchronize()
            grads_ms = (time.perf_counter() - before) * 1e3
            found = self.modules.model.off([grad.cpu() for grad in grads], wanted)
            del grads
            if not found <= ALLOWED:
                raise RuntimeError(f"gradients are off by {found:.3g} of their length, beyond {ALLOWED}")
            call = step.call
            if captured:
                engine, call = self.region_of(step, series)
            first = [torch_side.first_call_ms(call) for _ in range(FIRST_CALLS)]
            repeats = 5 if self.args.quick else torch_side.REPEATS
            device, wall = torch_side.measure(lambda _: call(), 1, repeats)
            case = types.SimpleNamespace(suite="step", name=self.name)
            extras = {
                "first_call_ms": grads_ms + first[0], "first_calls_ms": grads_ms + sum(first),
                "peak_mb": torch.cuda.max_memory_allocated() * 1e-6, "gradients_off": found,
                "tokens_per_s": self.shape[0] * self.shape[1] / (device.median * 1e-6),
            }  # fmt: skip
            return [rows.make(case, series, torch_side.machine(), device, wall, extras)]
        finally:
            del step, call, model
            self.close(engine)

    def close(self, engine) -> None:
        gc.collect()
        if engine is not None and (self.ours is None or engine is not self.ours.engine):
            engine.close()
        if self.ours is not None:
            self.ours.close()
            self.ours = None
        self.torch._dynamo.reset()
        gc.collect()
        self.torch.cuda.empty_cache()

    def is_late(self, series: str) -> bool:
        return series in (COMPILED, AUTOTUNED) and time.monotonic() - self.started > self.args.limit

    def run(self, found: list, failures) -> None:
        with failures.of(f"{self.name}: "):
            wanted = self.reference()
            self.torch.cuda.empty_cache()
            for series in SERIES.values():
                if not is_wanted(series, self.shape, self.args):
                    continue
                if self.is_late(series):
                    print(f"{self.name}: {series}: left out, past --limit", file=sys.stderr)
                    continue
                with failures.of(f"{self.name}: {series}: "):
                    found += self.rows_of(series, wanted)
                    rows.write(self.args.json, found)


def run(args: argparse.Namespace):
    import torch
    import torch_side

    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device")
    import components_model

    modules = types.SimpleNamespace(torch=torch, torch_side=torch_side, model=components_model)
    if set(args.series) & {EAGER_REGION, OURS, OURS_REGION}:
        sys.path.insert(0, str(PACKAGE))
        import steergraph
        from steergraph import torch_components

        steergraph.load(args.library)
        modules.steergraph, modules.torch_components = steergraph, torch_components
    torch.backends.cuda.matmul.allow_tf32 = True
    found, failures, started = [], peer.Failures(), time.monotonic()
    for shape in args.shapes:
        Bench(args, modules, shape, started).run(found, failures)
    return failures


def parsed(words=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True, metavar="OUT", help="the file of the rows")
    parser.add_argument("--library", help="libsteergraph.so; default: where the package looks")
    parser.add_argument("--shapes", type=shapes_of, default=SHAPES, help="batch x sequence, separated by commas")
    parser.add_argument("--series", type=series_of, default=",".join(SERIES), help=", ".join(SERIES))
    parser.add_argument("--autotune-shapes", type=shapes_of, default="64x256", help="of max-autotune")
    parser.add_argument("--limit", type=float, default=1e9, metavar="SECONDS", help="no compiled series begins later")
    parser.add_argument("--mask-gradients", action="store_true", help="masks have gradients too")
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
