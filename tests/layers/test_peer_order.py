#!/usr/bin/env python3
"""A peer is checked before it is timed, and one that disagrees fails: peer.py with torch stood in for.

The stand-ins are modules in a folder of this test, put where peer.py imports the real ones from.
"""
import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from peer_support import PEERS, report, refuses
import peer_support

import peer  # noqa: E402

TORCH_SIDE = PEERS / "torch_side.py"


class Disagreement(Exception):
    pass


class FakeTimes:
    min, median, max = 2.0, 4.0, 8.0


class FakeCase:
    suite, name = "steer", "1 op"


class FakeSide:
    """A side that notes what it is asked for; `agrees` says how it judges."""

    def __init__(self, agrees: bool):
        self.agrees, self.notes, self.case, self.made = agrees, [], FakeCase, 0

    def buffer(self):
        self.made += 1
        return f"buffer {self.made}"

    def buffers(self, at_least: int):
        return [self.buffer() for _ in range(max(2, at_least))]

    def check(self, series, after):
        self.notes.append(("check", series, after))
        if not self.agrees:
            raise Disagreement(f"{series}: disagrees")


class FakeTorchSide:
    def __init__(self, notes):
        self.notes = notes

    def first_call_ms(self, call):
        call()
        return 7.0

    def measure(self, call, count, repeats):
        self.notes.append(("measure", count, repeats))
        call(0)
        return FakeTimes(), FakeTimes()

    @staticmethod
    def machine():
        return {"card": "Card 1", "driver": 13000, "cuda": "13.0"}


def attempt_of(side, **more):
    def make(_):
        def bind(buffers):
            side.notes.append(("bind", tuple(buffers)))
            return lambda index: side.notes.append(("call", buffers[index]))

        return peer.Attempt(bind, **more)

    return make


def test_order() -> None:
    side = FakeSide(True)
    found = peer.run_one(FakeTorchSide(side.notes), side, "way", attempt_of(side, calls=2), 100)
    expected = [
        ("bind", ("buffer 1",)), ("call", "buffer 1"), ("check", "way", "buffer 1"),
        ("bind", ("buffer 2", "buffer 3")), ("measure", 2, 100), ("call", "buffer 2"),
    ]  # fmt: skip
    report(side.notes == expected, "runs once, checks what that left, and then times", side.notes)
    report(len(found) == 1 and found[0]["median_us"] == 2.0 and "first_call_ms" not in found[0],
           "divides times by the ops of a call", found)
    side = FakeSide(True)
    found = peer.run_one(FakeTorchSide(side.notes), side, "way", attempt_of(side, line=True, compiled=True), 5)
    report(found[0]["median_us"] == 4.0 / peer.LINE and found[0]["first_call_ms"] == 7.0,
           "divides times of a line by its buffers, and keeps what compiling took", found)
    report(peer.run_one(FakeTorchSide([]), side, "way", lambda _: None, 5) == [],
           "has no row where a series has no form for the case")


def test_disagreement() -> None:
    side = FakeSide(False)
    said = refuses(lambda: peer.run_one(FakeTorchSide(side.notes), side, "way", attempt_of(side), 100),
                   Disagreement)
    report(said == "way: disagrees", "refuses a peer that disagrees", said)
    report("measure" not in {note[0] for note in side.notes}, "and times nothing of it", side.notes)


# What `python3 PEER.py` finds in the place of torch_side.py and case.py. VERDICT: what check does.
FAKE_TORCH_SIDE = '''
REPEATS = 100
class Disagreement(Exception): pass
class torch:
    class cuda:
        is_available = staticmethod(lambda: True)
class Times:
    def __init__(self, time=3.0): self.min = self.median = self.max = time
class Side:
    def __init__(self, case):
        self.case = case
        if case.name == "of no side": raise MemoryError("too large")
    def buffer(self): return [0]
    def buffers(self, at_least): return [[0]]
    def check(self, series, after):
        if VERDICT: raise Disagreement(f"{series}: case '{self.case.name}': disagrees with steergraph")
        if series == "a wrong way": raise ValueError("no\\nway")
def first_call_ms(call): call(); return 1.0
def machine(): return {"card": "Card 1", "driver": 13000, "cuda": "13.0"}
def measure(call, count, repeats):
    print("timed", repeats)
    return Times(0.0 if call(0) == "in no time" else 3.0), Times()
'''
FAKE_CASE = '''
class CaseError(Exception): pass
class Case:
    def __init__(self, folder, suite, name): self.suite, self.name = suite, name
'''
FAKE_PEER = '''
import peer
peer.main([("way", lambda side: peer.Attempt(lambda buffers: lambda index: None))])
'''
# One that works between two that do not, and behind those one that ends its own process.
FAKE_PEERS = '''
import os, peer
def way(result):
    return lambda side: peer.Attempt(lambda buffers: lambda index: result)
def last(side):
    if side.case.name == "the last": os._exit(9)
def broken(side):
    raise RuntimeError("broken")
peer.main([("broken", broken), ("way", way(None)), ("a wrong way", way(None)), ("too quick", way("in no time")),
           ("another way", way(None)), ("end", last)])
'''


def run_peer(folder: pathlib.Path, disagrees: bool, *words: str, text: str = FAKE_PEER, names=("1 op",), **env):
    for name in ("peer.py", "rows.py", "tensor_file.py"):
        (folder / name).write_text((PEERS / name).read_text())
    (folder / "torch_side.py").write_text(f"VERDICT = {disagrees}\n{FAKE_TORCH_SIDE}")
    (folder / "case.py").write_text(FAKE_CASE)
    (folder / "way.py").write_text(text)
    command = [sys.executable, "-B", folder / "way.py", "--json", folder / "rows.json", *words]
    for name in names:
        command += ["--case", "steer", name, "nowhere"]
    environment = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def rows_in(folder: pathlib.Path) -> list:
    return [(row["name"], row["series"]) for row in json.loads((folder / "rows.json").read_text())]


def test_failures(folder: pathlib.Path) -> None:
    """What fails takes nothing else with it."""
    both = [("1 op", "way"), ("1 op", "another way")]
    done = run_peer(folder, False, text=FAKE_PEERS)
    said = "RuntimeError: broken: case '1 op': broken (and 2 more)"
    report(done.returncode == 1 and done.stderr == said + "\n", "says which series failed, and how many", done)
    report(rows_in(folder) == both, "keeps the rows of all others", rows_in(folder))
    done = run_peer(folder, False, text=FAKE_PEERS, PEER_TRACEBACK="1")
    words = ("in broken\n", "ValueError: no\n", "ValueError: row 1: median_us: 0.0 is no time")
    report(all(word in done.stderr for word in words) and done.stderr.endswith(said + "\n"),
           "and where, when it is asked", done.stderr)
    done = run_peer(folder, False, text=FAKE_PEERS, names=("of no side", "1 op"))
    said = "MemoryError: case 'of no side': too large (and 3 more)\n"
    report(done.returncode == 1 and done.stderr == said, "says which case has no place on the device", done)
    report(rows_in(folder) == both, "and keeps the rows of the others", rows_in(folder))
    (folder / "rows.json").unlink()
    done = run_peer(folder, False, text=FAKE_PEERS, names=("1 op", "the last", "2 ops"))
    report(done.returncode == 9, "one that is ended", done)
    report(rows_in(folder) == [*both, ("the last", "way"), ("the last", "another way")],
           "has left the rows that were there", rows_in(folder))
    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("rows.json"))
    report(left == ["rows.json"], "and no part of a file", left)


def test_process(folder: pathlib.Path) -> None:
    done = run_peer(folder, False)
    ok = done.returncode == 0 and done.stdout == "timed 100\n" and (folder / "rows.json").is_file()
    report(ok, "a peer that agrees is timed 100 times and ends well", done)
    done = run_peer(folder, False, "--quick")
    report(done.returncode == 0 and done.stdout == "timed 5\n", "or 5 times", done)
    (folder / "rows.json").unlink()
    done = run_peer(folder, True)
    said = "Disagreement: way: case '1 op': disagrees with steergraph\n"
    report(done.returncode == 1 and done.stderr == said, "one that disagrees ends with 1 and a line", done)
    report(done.stdout == "" and not (folder / "rows.json").exists(),
           "and neither is timed nor leaves rows", done)


def test_configuration() -> None:
    numbers = {}
    for node in ast.parse(TORCH_SIDE.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            numbers |= {target.id: node.value.value for target in node.targets}
    report((numbers["WARMUP"], numbers["REPEATS"]) == (10, 100), "warms up 10 times and counts 100", numbers)


def main() -> int:
    test_order()
    test_disagreement()
    with tempfile.TemporaryDirectory() as folder:
        test_process(pathlib.Path(folder))
        test_failures(pathlib.Path(folder))
    test_configuration()
    return 0 if peer_support.good else 1


raise SystemExit(main())
