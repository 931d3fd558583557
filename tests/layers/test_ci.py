#!/usr/bin/env python3
"""What .ci/run leaves out, nobody misses: its lists against the tree, and against what CONTRIBUTING.md says of them."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CI = (ROOT / ".ci" / "run").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
FUZZ_BUILD = (ROOT / "tests" / "fuzz" / "meson.build").read_text()
FUZZ_RUN = (ROOT / "tests" / "fuzz" / "run.sh").read_text()


def find(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def threads_are_looked_at_as_it_is_said() -> bool:
    run = find(r"^threaded_tests=\((.*?)\)", CI).split()
    return run != [] and run == find(r"`-Db_sanitize=thread`, tests `(.*?)`", CONTRIBUTING).split()


def each_fuzzer_runs() -> bool:
    there = set(re.findall(r"^  '(\w+)': \['fuzz_", FUZZ_BUILD, re.MULTILINE))
    there |= set(re.findall(r"'(\w+)'", find(r"foreach format : \[(.*?)\]", FUZZ_BUILD)))
    run = find(r"^  local names=\((.*?)\)", CI).split()
    return len(there) > 6 and sorted(run) == sorted(there)


def entries_and_cubins_are_fuzzed_for_a_minute() -> bool:
    seconds = dict(re.findall(r"^fuzz_(\w+)\)\n  smoke=(\d+)$", FUZZ_RUN, re.MULTILINE))
    return int(seconds["entry"]) + int(seconds["cubin"]) >= 60


def main() -> int:
    failed = 0
    cases = (threads_are_looked_at_as_it_is_said, each_fuzzer_runs, entries_and_cubins_are_fuzzed_for_a_minute)
    for number, case in enumerate(cases, 1):
        good = case()
        failed += not good
        print("ok" if good else "not ok", number, "-", case.__name__)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
