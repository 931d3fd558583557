#!/usr/bin/env python3
"""What .ci/run leaves out, nobody misses: its lists against the tree, and against what CONTRIBUTING.md says of them."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CI = (ROOT / ".ci" / "run").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MESON = (ROOT / "meson.build").read_text()
CHROMIUM = (ROOT / "tests" / "cli" / "chromium.py").read_text()
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


def a_toolkit_is_looked_for_where_meson_does() -> bool:
    there = re.findall(r"'(.*?)'", find(r"^toolkit_roots = \[(.*?)\]", MESON))
    return there != [] and find(r"for place in (.*?);", CI).split() == there


def a_browser_is_looked_for_as_the_tests_do() -> bool:
    there = re.findall(r'"(.*?)"', find(r"^NAMES = \((.*?)\)", CHROMIUM))
    return there != [] and find(r"for name in (chromium.*?);", CI).split() == there


def entries_and_cubins_are_fuzzed_for_a_minute() -> bool:
    seconds = dict(re.findall(r"^fuzz_(\w+)\)\n  smoke=(\d+)$", FUZZ_RUN, re.MULTILINE))
    return int(seconds["entry"]) + int(seconds["cubin"]) >= 60


def what_is_said_to_be_left_out(function: str, tools: dict[str, str]) -> str:
    """By one function of .ci/run, on a machine with nothing but these."""
    places = "/usr/local/cuda /opt/cuda /usr/lib/cuda /usr;"
    text = CI.replace(places, "/nowhere;")
    parts = [find(rf"^({name}\(\) {{.*?^}})", text) for name in ("leave_out", function)]
    with tempfile.TemporaryDirectory() as folder:
        for name, script in tools.items():
            tool = pathlib.Path(folder, name)
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
        words = ["/bin/bash", "-c", "\n".join(["set -euo pipefail", *parts, function])]
        done = subprocess.run(words, env={"PATH": folder, "HOME": folder, "logs": folder}, capture_output=True, text=True)
        said = pathlib.Path(folder, "left_out")
        return f"{done.returncode} {done.stdout}" + (said.read_text() if said.is_file() else "")


def a_browser_that_cannot_be_had_is_left_out_aloud() -> bool:
    lost = what_is_said_to_be_left_out("install_browser", {"apt-get": "exit 1"})
    had = what_is_said_to_be_left_out("install_browser", {"apt-get": "exit 0"})
    there = what_is_said_to_be_left_out("install_browser", {"apt-get": "exit 1", "chromium": ""})
    words = "the page of cache report in a browser, as no Chromium can be had"
    return (lost, had, there) == (f"0 left out: {words}\n", "0 ", "0 ")


def headers_that_cannot_be_had_are_left_out_aloud() -> bool:
    tools = {name: f'exec /bin/{name} "$@"' for name in ("rm", "mkdir")} | {"python3": "exit 1"}
    words = "the stubs of driver and NVRTC and what runs on them, as CUDA's headers cannot be had"
    return what_is_said_to_be_left_out("cuda_headers", tools) == f"0 left out: {words}\n"


def main() -> int:
    failed = 0
    cases = (
        threads_are_looked_at_as_it_is_said, each_fuzzer_runs, entries_and_cubins_are_fuzzed_for_a_minute,
        a_toolkit_is_looked_for_where_meson_does, a_browser_is_looked_for_as_the_tests_do,
        a_browser_that_cannot_be_had_is_left_out_aloud, headers_that_cannot_be_had_are_left_out_aloud,
    )  # fmt: skip
    for number, case in enumerate(cases, 1):
        good = case()
        failed += not good
        print("ok" if good else "not ok", number, "-", case.__name__)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
