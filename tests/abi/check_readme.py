#!/usr/bin/env python3
"""Compile the C of README.md against the library, run it, compare what it prints.

The first block of C in README.md is a program; the first block of text after it is its output. In
the section "Embed it in C" each block of C is a piece of the example host, and the block of text is what
that prints (but for its statistics). Those of FUNCTIONS are functions, which are compiled.
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

EXAMPLE = re.compile(r"^```c\n(.*?)^```\n.*?^```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
EMBEDDING = re.compile(r"^## Embed it in C\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
FUNCTIONS = ("Windows, counters, probes", "Warm it", "KV cache, RoPE, attention", "Masked low-rank components",
             "Search for proofs", "Regions")  # sections
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def run(command: list, **kwargs) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise SystemExit(f"not ok - {words} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def output_of(source: pathlib.Path, binary: pathlib.Path, args: argparse.Namespace) -> str:
    flags = ["-std=c17", "-Wall", "-Wextra", "-Werror"] + ["-I" + path for path in args.include]
    run(args.cc + flags + [source, args.library, "-o", binary])
    changes = {"LD_LIBRARY_PATH": str(args.library.parent), "STEERLLM_COMPILE_STEERING": "1"}
    changes["STEERGRAPH_CACHE_DIR"] = str(binary.parent / "kernels")
    return run([binary], env=os.environ | changes)


def check_embedding(section: str, host: pathlib.Path, printed: str) -> None:
    text = host.read_text()
    for language, block in BLOCK.findall(section):
        if language == "c" and block not in text:
            raise SystemExit(f"not ok - {host} has no such lines:\n{block}")
        if language == "text" and block != printed:
            raise SystemExit(f"not ok - {host} prints\n{printed}and README.md says\n{block}")


def section_of(readme: str, name: str) -> str:
    found = re.search(rf"^##+ {name}\n(.*?)(?=^## |\Z)", readme, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"not ok - README.md has no section '{name}'")
    return found.group(1)


def check_functions(name: str, section: str, source: pathlib.Path, args: argparse.Namespace) -> None:
    blocks = [block for language, block in BLOCK.findall(section) if language == "c"]
    if not blocks:
        raise SystemExit(f"not ok - the section '{name}' has no C")
    heads = ["#include <steergraph/steergraph.h>\n", "#include <stdio.h>\n"]
    source.write_text("".join(heads + blocks))
    flags = ["-std=c17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    run(args.cc + flags + ["-I" + path for path in args.include] + [source])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("readme", "library", "host"):
        parser.add_argument("--" + option, type=pathlib.Path, required=True)
    parser.add_argument("--include", nargs="+", required=True)
    parser.add_argument("--cc", nargs="+", required=True)
    args = parser.parse_args()

    readme = args.readme.read_text()
    found, embedding = EXAMPLE.search(readme), EMBEDDING.search(readme)
    if found is None or embedding is None:
        raise SystemExit(
            f"not ok - {args.readme} has no program with its output, or no 'Embed it in C'"
        )
    program, expected = found.groups()
    with tempfile.TemporaryDirectory(prefix="steergraph-readme-") as folder:
        source = pathlib.Path(folder) / "example.c"
        source.write_text(program)
        printed = output_of(source, source.with_suffix(""), args)
        if printed != expected:
            raise SystemExit(f"not ok - the program prints\n{printed}and README.md says\n{expected}")
        print("ok 1 - the program in README.md builds, runs and prints what it says")
        served = output_of(args.host, pathlib.Path(folder) / "serve", args)
        steps = [line for line in served.splitlines(True) if not line.startswith("stats ")]
        check_embedding(embedding.group(1), args.host, "".join(steps))
        print("ok 2 - the section 'Embed it in C' shows what the example does and prints")
        for number, name in enumerate(FUNCTIONS, 3):
            source = pathlib.Path(folder) / "functions.c"
            check_functions(name, section_of(readme, name), source, args)
            print(f"ok {number} - the functions of the section '{name}' compile")


main()
