"""What all peers share: words, one line per failure, and the order check, then time, then report.

    python3 PEER.py --case SUITE NAME FOLDER [--case ...] --json OUT

A peer is a list of (series, make). make(side) gives an Attempt, or None where the series has no form
for the case. Its result is checked on a copy of the case's rows before anything is timed.

A series that fails is passed over: the file has the rows of all others, each as soon as it is there,
and the last line of stderr says what failed.
"""
import argparse
import contextlib
import importlib
import os
import sys
import tempfile
import traceback

import rows
from case import Case, CaseError
from tensor_file import TensorFileError

LINE = 32  # buffers of a line, at least: its start is then little of it


class Attempt:
    """bind(buffers) gives call(index), which works on that buffer.

    `calls` divides the times: the ops that one call makes, where the time of one op is wanted. A call
    of a `line` works on every buffer, whatever its index, and its times are divided by their number.
    `repeats` bounds how often a long call is timed. `more(machine)` gives further rows of the case.
    """

    def __init__(self, bind, calls: int = 1, compiled: bool = False, line: bool = False,
                 repeats: int = 1 << 30):
        self.bind, self.calls, self.compiled, self.line = bind, calls, compiled, line
        self.repeats = repeats
        self.extras, self.more = {}, lambda machine: []


def run_one(torch_side, side, series: str, make, repeats: int) -> list:
    attempt = make(side)
    if attempt is None:
        return []
    scratch = side.buffer()
    call = attempt.bind([scratch])
    first_ms = torch_side.first_call_ms(lambda: call(0))
    side.check(series, scratch)
    buffers = side.buffers(LINE if attempt.line else 1)
    call = attempt.bind(buffers)
    device, wall = torch_side.measure(call, len(buffers), min(repeats, attempt.repeats))
    calls = len(buffers) if attempt.line else attempt.calls
    for times in (device, wall):
        for name in ("min", "median", "max"):
            setattr(times, name, getattr(times, name) / calls)
    if attempt.compiled:
        attempt.extras["first_call_ms"] = first_ms
    machine = torch_side.machine()
    return [rows.make(side.case, series, machine, device, wall, attempt.extras), *attempt.more(machine)]


class Failures:
    """A context that lets work fail, and notes how."""

    def __init__(self):
        self.notes, self.place = [], ""

    def of(self, place: str):
        self.place = place
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _) -> bool:
        if error is None or not isinstance(error, Exception):  # nothing, or we are to end
            return False
        if os.environ.get("PEER_TRACEBACK"):
            traceback.print_exc()
        said = one_line(error)
        self.notes.append(f"{kind.__name__}: {said if said.startswith(self.place) else self.place + said}")
        return True

    def __str__(self) -> str:
        more = len(self.notes) - 1
        return self.notes[0] + (f" (and {more} more)" if more > 0 else "")


def run(args: argparse.Namespace, peers: list, kind, sides) -> Failures:
    cases = [kind(folder, suite, name) for suite, name, folder in args.case]
    import torch_side  # after the cases: they are refused without waiting for torch

    if not torch_side.torch.cuda.is_available():
        raise CaseError("torch finds no CUDA device")
    repeats = 5 if args.quick else torch_side.REPEATS
    found, failures, side = [], Failures(), None
    for case in cases:
        with failures.of(f"case '{case.name}': "):
            side = importlib.import_module(sides(case)).Side(case)
        for series, make in peers if side is not None and side.case is case else []:
            with failures.of(f"{series}: case '{case.name}': "):
                more = run_one(torch_side, side, series, make, repeats)
                rows.write(args.json, found + more)
                found += more
    return failures


@contextlib.contextmanager
def empty_caches():
    """torch compiles from nothing, if it was not imported before: what a first call costs is part of what
    is measured."""
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
        yield


def main(peers: list, kind=Case, sides=lambda case: "torch_side") -> None:
    """`kind` reads a case; the module `sides(case)` has the class Side, which puts it on the device."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", nargs=3, action="append", required=True,
                        metavar=("SUITE", "NAME", "FOLDER"), help="a case folder and its names")
    parser.add_argument("--json", required=True, metavar="OUT", help="the file of the rows")
    parser.add_argument("--quick", action="store_true", help="few repeats")
    args = parser.parse_args()
    try:
        with empty_caches():
            failures = run(args, peers, kind, sides)
        if failures.notes:
            raise SystemExit(str(failures))
    except ImportError as error:
        raise SystemExit(f"cannot import {error.name or 'a module'}: {one_line(error)}") from None
    except (CaseError, TensorFileError) as error:
        raise SystemExit(one_line(error)) from None
    except Exception as error:  # the caller shows the last line of what is said
        if os.environ.get("PEER_TRACEBACK"):
            raise
        raise SystemExit(f"{type(error).__name__}: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:600]


if __name__ == "__main__":
    sys.exit("peer.py is what the peers share; run one of them")
