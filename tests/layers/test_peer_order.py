#!/usr/bin/env python3
"""A peer is checked before it is timed, and one that disagrees fails: peer.py with torch stood in for.

The stand-ins are modules in a folder of this test, put where peer.py imports the real ones from.
"""
import ast
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
    def __init__(self): self.min = self.median = self.max = 3.0
class Side:
    def __init__(self, case): self.case = case
    def buffer(self): return [0]
    def buffers(self, at_least): return [[0]]
    def check(self, series, after):
        if VERDICT: raise Disagreement(f"{series}: case '{self.case.name}': disagrees with steergraph")
def first_call_ms(call): call(); return 1.0
def machine(): return {"card": "Card 1", "driver": 13000, "cuda": "13.0"}
def measure(call, count, repeats):
    print("timed", repeats)
    return Times(), Times()
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


def run_peer(folder: pathlib.Path, disagrees: bool, *words: str):
    for name in ("peer.py", "rows.py", "tensor_file.py"):
        (folder / name).write_text((PEERS / name).read_text())
    (folder / "torch_side.py").write_text(f"VERDICT = {disagrees}\n{FAKE_TORCH_SIDE}")
    (folder / "case.py").write_text(FAKE_CASE)
    (folder / "way.py").write_text(FAKE_PEER)
    command = [sys.executable, "-B", folder / "way.py", "--case", "steer", "1 op", "nowhere",
               "--json", folder / "rows.json", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


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
    test_configuration()
    return 0 if peer_support.good else 1


raise SystemExit(main())
