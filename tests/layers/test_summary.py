#!/usr/bin/env python3
"""The closing line of a test run, from outputs and from a meson log: a wrong sum hides a failure."""
import json
import pathlib
import subprocess
import sys
import tempfile

SUMMARY = pathlib.Path(__file__).parent.parent.parent / "tools" / "test_summary.py"

CMOCKA_PASS = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[       OK ] b\n[  PASSED  ] 2 test(s).\n"
CMOCKA_FAIL = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[  FAILED  ] b\n[  FAILED  ] b\n"
CMOCKA_SKIP = (
    "[ RUN      ] a\n[  SKIPPED ] a\n[ RUN      ] b\n[       OK ] b\n"
    "[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] a\n"
)
CMOCKA_CRASH = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"

# exit status, output, the line, the exit status of the summary
CASES = [
    ("counts the cases of a cmocka program", 0, CMOCKA_PASS, "2 passed, 0 failed, 0 skipped", 0),
    ("counts a failed case once", 1, CMOCKA_FAIL, "1 passed, 1 failed, 0 skipped", 1),
    ("counts a skipped case once", 0, CMOCKA_SKIP, "1 passed, 0 failed, 1 skipped", 0),
    ("counts a crash as its case's failure", 139, CMOCKA_CRASH, "1 passed, 1 failed, 0 skipped", 1),
    ("believes the status when all cases passed", 1, CMOCKA_PASS, "2 passed, 1 failed, 0 skipped", 1),
    ("counts a silent program as one", 0, "", "1 passed, 0 failed, 0 skipped", 0),
    ("counts a silent failure as one", 3, "", "0 passed, 1 failed, 0 skipped", 1),
    ("counts a program without its device as skipped", 77, "", "0 passed, 0 failed, 1 skipped", 0),
    ("counts lines of scripts", 1, "ok 1 - x\nnot ok - y\nok\n", "2 passed, 1 failed, 0 skipped", 1),
    ("counts skipped lines", 0, "ok 1 - x\nok 2 - y # SKIP no\n", "1 passed, 0 failed, 1 skipped", 0),
]
RESULTS = {0: "OK", 77: "SKIP"}


def summarise(words: list[str]) -> tuple[str, int]:
    done = subprocess.run([sys.executable, SUMMARY, *words], capture_output=True, text=True)
    return done.stdout.strip(), done.returncode


def report(name: str, got: tuple[str, int], expected: tuple[str, int]) -> bool:
    print(f"{'ok' if got == expected else 'not ok'} - {name}")
    if got != expected:
        print(f"  got {got}, expected {expected}")
    return got == expected


def main() -> int:
    good = True
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "output"
        log = pathlib.Path(folder) / "testlog.json"
        for name, status, text, line, expected in CASES:
            output.write_text(text)
            good &= report(name, summarise([f"{status}:{output}"]), (line, expected))
            test = {"name": "t", "stdout": text, "result": RESULTS.get(status, "FAIL")}
            log.write_text(json.dumps(test) + "\n")
            good &= report(f"{name}, from meson", summarise([str(log)]), (line, expected))
        absent = (f"{folder}/no.json is not there: the tests did not start\n"
                  "0 passed, 1 failed, 0 skipped", 1)
        good &= report("takes no log for a failure", summarise([f"{folder}/no.json"]), absent)
        log.write_text("")
        nothing = ("0 passed, 0 failed, 0 skipped", 1)
        good &= report("takes no test at all for a failure", summarise([str(log)]), nothing)
        log.write_text('{"name": "t", "result": "TIMEOUT"}\n{"name": "u", "result": "OK"}\n')
        both = ("1 passed, 1 failed, 0 skipped", 1)
        good &= report("adds programs up, a timeout failed", summarise([str(log)]), both)
    return 0 if good else 1


raise SystemExit(main())
