#!/usr/bin/env python3
"""Sum up a test run in one line: N passed, N failed, N skipped.

test_summary.py testlog.json           what `meson test` wrote
test_summary.py STATUS:OUTPUT_FILE...  exit statuses and outputs of programs run by hand

Counts the cases inside a program where its output shows them (cmocka, or lines of TAP), else
the program as one. Exit status 1 when anything failed or nothing ran.
"""
import json
import pathlib
import re
import sys

RUN = re.compile(r"^\[ RUN {6}\] ", re.MULTILINE)
PASSED = re.compile(r"^\[ {7}OK \] ", re.MULTILINE)
SKIPPED = re.compile(r"^\[  SKIPPED \] (\w+)$", re.MULTILINE)
LINE_OK = re.compile(r"^ok\b(?!.*# SKIP)", re.MULTILINE)
LINE_SKIP = re.compile(r"^ok\b.*# SKIP", re.MULTILINE)
LINE_NOT_OK = re.compile(r"^not ok\b", re.MULTILINE)
SKIP_STATUS = 77


def count_cases(output: str) -> tuple[int, int, int]:
    """Passed, failed and skipped cases that the output shows. cmocka names skipped ones twice."""
    passed = len(PASSED.findall(output))
    skipped = len(set(SKIPPED.findall(output)))
    failed = max(len(RUN.findall(output)) - passed - skipped, 0)
    return (
        passed + len(LINE_OK.findall(output)),
        failed + len(LINE_NOT_OK.findall(output)),
        skipped + len(LINE_SKIP.findall(output)),
    )


def count_program(verdict: str, output: str) -> tuple[int, int, int]:
    """A program's cases; at least one says what its verdict ("ok", "skip", "fail") says."""
    passed, failed, skipped = count_cases(output)
    if verdict == "fail":
        return passed, max(failed, 1), skipped
    if verdict == "skip":
        return passed, 0, max(skipped, 1)
    return (passed, 0, skipped) if passed + skipped else (1, 0, 0)


def of_testlog(path: pathlib.Path) -> list[tuple[int, int, int]]:
    verdicts = {"OK": "ok", "EXPECTEDFAIL": "ok", "SKIP": "skip"}
    if not path.is_file():
        print(f"{path} is not there: the tests did not start")
        return [(0, 1, 0)]
    counts = []
    for line in path.read_text().splitlines():
        test = json.loads(line)
        output = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
        counts.append(count_program(verdicts.get(test["result"], "fail"), output))
    return counts


def of_outputs(pairs: list[str]) -> list[tuple[int, int, int]]:
    counts = []
    for pair in pairs:
        status, path = pair.split(":", 1)
        verdict = {"0": "ok", str(SKIP_STATUS): "skip"}.get(status, "fail")
        output = pathlib.Path(path).read_text(errors="replace")
        counts.append(count_program(verdict, output))
    return counts


def main() -> int:
    words = sys.argv[1:]
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    if words[0].endswith(".json"):
        counts = of_testlog(pathlib.Path(words[0]))
    else:
        counts = of_outputs(words)
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed + skipped == 0 else 0


raise SystemExit(main())
