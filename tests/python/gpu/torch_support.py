"""What the torch half shares: the device, vectors, judging rows, the exit where torch is missing.

Programs are called with the path of the library; --cpu runs what needs no GPU on the CPU backend.
Exit status 77 where there is no torch, or no GPU without --cpu.
"""
import gc
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in ("tools/python", "tests/cli", "tests/python"):
    sys.path.insert(0, str(ROOT / folder))


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch
except ImportError:
    skip("torch is not installed")

import reference  # noqa: E402
import steergraph  # noqa: E402

ON_CPU = "--cpu" in sys.argv
if not ON_CPU and not torch.cuda.is_available():
    skip("torch finds no CUDA device")

steergraph.load(sys.argv[1])
DEVICE = torch.device("cpu" if ON_CPU else "cuda:0")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
UNIT_ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
SMALLEST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24, torch.float32: 2.0**-149}


def engine():
    return steergraph.Engine("cpu" if ON_CPU else "cuda", 0)


def unit_vectors(count, hidden, dtype, seed=3):
    """Unit vectors on the host, as a table's slots take them."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(count, hidden, generator=random, dtype=torch.float64)
    return list((values / values.norm(dim=1, keepdim=True)).to(dtype))


def rows_of(*shape, dtype, seed=5):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random, dtype=torch.float64).to(dtype).to(DEVICE)


def chain(*items):
    """(ops as slots take them, ops as reference.run takes them on the device)."""
    given = [steergraph.op(name, *vectors, **params) for name, vectors, params in items]
    wanted = [(name, [v.double().to(DEVICE) for v in vs], params) for name, vs, params in items]
    return given, wanted


def refusal(function, *arguments, **named):
    """(class, text) of what a call raises; fails when it raises nothing."""
    try:
        function(*arguments, **named)
    except Exception as error:  # the caller compares the class
        return type(error), str(error)
    raise AssertionError(f"{function} refused nothing")


def closed_late(what):
    """Close what graphs of the host were captured with, once the last name of these is gone."""
    gc.collect()
    for _ in range(100):  # each waits for a tenth of a second: CUDA says late that they are gone
        if what.closed:
            break
        try:
            what.close()
        except steergraph.BusyError:
            pass
    return what.closed


def worst(before, after, ops):
    """The largest error of steered rows, in units of its bound."""
    wanted, off = reference.run(before.double(), ops)
    bound = off + UNIT_ROUNDOFF[after.dtype] * wanted.abs() + SMALLEST[after.dtype]
    return ((after.double() - wanted).abs() / bound).max().item()
