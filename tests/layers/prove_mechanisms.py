#!/usr/bin/env python3
"""See every test of tests/MECHANISMS.md fail without its mechanism.

Copies the tree to FOLDER, builds there, and for each row (with every WORD in its promise, its test
or its files): disables the mechanism, builds the test, runs it, and puts the text back. A row is right when
the case then fails; where it says something else than the row, that is printed. FOLDER is kept for
the next time.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import check_mechanisms as table

HERE = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 300  # no test takes longer, but one that lost what ends it
CAUSES = re.compile(r"^(?:not ok|.*(?:Error|error:|!=|^0x|FAIL|Assert))", re.MULTILINE)


def copy_tree(to: pathlib.Path) -> None:
    """What git has or would take; files that are the same keep their stamps."""
    words = ["git", "-C", HERE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source, target = HERE / name, to / name
        if not source.is_file():
            continue
        data = source.read_bytes()
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(source.stat().st_mode)


class Build:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.folder = root / "build"
        if not (self.folder / "build.ninja").is_file():
            subprocess.run(["meson", "setup", self.folder, root], check=True, stdout=subprocess.DEVNULL)
        self.tests = self.introspect("--tests")
        self.files = {each["id"]: each["filename"] for each in self.introspect("--targets")}
        self.sound: dict[str, bool] = {}  # of cases by their rows: whether they pass as the tree is

    def introspect(self, what):
        words = ["meson", "introspect", what, self.folder]
        return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)

    def find(self, row: table.Row) -> dict:
        """The test of meson that runs the row's program."""
        wanted = {f"test_{row.program}", f"test_{row.suite}_{row.program}", f"test_{row.program}.py"}
        for test in self.tests:
            names = {pathlib.Path(word).name for word in test["cmd"][:2]}  # an interpreter may come first
            if any(suite.split(":")[-1] == row.suite for suite in test["suite"]) and names & wanted:
                return test
        raise LookupError(f"no test of suite {row.suite} runs test_{row.program}")

    def make(self, test) -> str | None:
        """Build what the test needs; the compiler's words if it cannot be built."""
        files = [os.path.relpath(file, self.folder) for each in test["depends"] for file in self.files[each]]
        done = subprocess.run(["ninja", "-j1", "-C", self.folder, *files], capture_output=True, check=False)
        return done.stdout.decode() if done.returncode != 0 else None

    def run(self, test, case: str) -> tuple[bool, str]:
        """(whether the case fails, what was said)."""
        environment = os.environ | test["env"] | {"CMOCKA_MESSAGE_OUTPUT": "TAP", "STG_TEST_CASE": case}
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                test["cmd"], env=environment, cwd=test["workdir"] or self.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )
            try:
                process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                output.write(b"\nran for too long\n")
            with contextlib.suppress(ProcessLookupError):  # children of a test that gave up live on
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            said = output.read()
        text = said.decode(errors="replace")
        if process.returncode < 0:
            text += f"\nended by signal {-process.returncode}\n"
        # a program that dies runs no further cases
        passed = re.search(rf"^ok \d+ - (?:\w+\.)?{case}\s*$", text, re.MULTILINE)
        failed = re.search(rf"^not ok \d+ - (?:\w+\.)?{case}\s*$", text, re.MULTILINE)
        return bool(failed) or (process.returncode != 0 and not passed), text


def says(row: table.Row, word: str) -> bool:
    return any(word in text for text in (row.promise, row.name(), *(edit.file for edit in row.edits)))


def prove(build: Build, row: table.Row) -> str | None:
    """What is wrong with the row, or None."""
    test = build.find(row)
    if row.name() not in build.sound:
        build.sound[row.name()] = build.make(test) is None and not build.run(test, row.case)[0]
    if not build.sound[row.name()]:
        return f"{row.case} fails as the tree is"
    kept = {edit.file: (build.root / edit.file).read_text() for edit in row.edits}
    try:
        for edit in row.edits:
            path = build.root / edit.file
            path.write_text(edit.apply(path.read_text()))
        said = build.make(test)
        if said is not None:
            return f"is not built: {said[-2000:]}"
        fails, said = build.run(test, row.case)
    finally:
        for name, text in kept.items():
            (build.root / name).write_text(text)
    if not fails:
        return f"{row.case} does not fail"
    if row.fails not in said:  # numbers depend on the machine and the hour
        print(f"# {row.line}: says now:\n" + "\n".join(line for line in said.split("\n") if CAUSES.match(line))[:2000])
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("words", metavar="WORD", nargs="*")
    args = parser.parse_args()
    root = args.folder.resolve()
    if root.is_relative_to(HERE):  # it would be copied into itself, and committed
        parser.error(f"FOLDER {root} is in the tree itself, give one outside of {HERE}")
    copy_tree(root)
    rows, faults = table.parse((HERE / table.TABLE).read_text())
    rows = [row for row in rows if all(says(row, word) for word in args.words)]
    build = Build(root)
    wrong = len(faults)
    for row in rows:
        fault = prove(build, row)
        wrong += fault is not None
        print("ok" if fault is None else "not ok", f"{row.line}: {row.promise}", fault or "", flush=True)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
