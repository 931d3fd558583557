#!/usr/bin/env python3
"""Compile the C program of README.md against the library, run it, compare what it prints.

The first block of C in README.md is the program; the first block of text after it is its output.
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

EXAMPLE = re.compile(r"^```c\n(.*?)^```\n.*?^```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def run(command: list, **kwargs) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise SystemExit(f"not ok - {words} exited {done.returncode}\n{done.stdout}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("readme", "library"):
        parser.add_argument("--" + option, type=pathlib.Path, required=True)
    parser.add_argument("--include", nargs="+", required=True)
    parser.add_argument("--cc", nargs="+", required=True)
    args = parser.parse_args()

    found = EXAMPLE.search(args.readme.read_text())
    if found is None:
        raise SystemExit(f"not ok - {args.readme} has no block of c with a block of text after it")
    program, expected = found.groups()
    with tempfile.TemporaryDirectory(prefix="steergraph-readme-") as folder:
        source = pathlib.Path(folder) / "example.c"
        source.write_text(program)
        binary = source.with_suffix("")
        flags = ["-std=c17", "-Wall", "-Wextra", "-Werror"] + ["-I" + path for path in args.include]
        run(args.cc + flags + [source, args.library, "-o", binary])
        printed = run([binary], env=os.environ | {"LD_LIBRARY_PATH": str(args.library.parent)})
    if printed != expected:
        raise SystemExit(f"not ok - the program prints\n{printed}and README.md says\n{expected}")
    print("ok 1 - the program in README.md builds, runs and prints what it says")


main()
