#!/usr/bin/env python3
"""Compile each public header alone: as C99, as C17 and, where there is a compiler, as C++.

check_headers.py --include DIR... --header NAME... --cc CC... [--cxx CXX...]
"""
import argparse
import subprocess

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-fsyntax-only"]
C_WARNINGS = ["-Wstrict-prototypes", "-Wmissing-prototypes"]
CXX_WARNINGS = ["-Wold-style-cast"]


def complaints(command: list[str], header: str) -> str:
    """What the compiler said, nothing if it was content. Twice: the include guard must hold."""
    text = f"#include <steergraph/{header}>\n" * 2
    done = subprocess.run(command + ["-"], input=text, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or "failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", nargs="+", required=True)
    parser.add_argument("--header", nargs="+", required=True)
    parser.add_argument("--cc", nargs="+", required=True)
    parser.add_argument("--cxx", nargs="*", default=[])
    args = parser.parse_args()

    includes = [f"-I{folder}" for folder in args.include]
    languages = [
        ("c99", args.cc + ["-x", "c", "-std=c99"] + C_WARNINGS),
        ("c17", args.cc + ["-x", "c", "-std=c17"] + C_WARNINGS),
    ]
    if args.cxx:
        languages += [
            ("c++11", args.cxx + ["-x", "c++", "-std=c++11"] + CXX_WARNINGS),
            ("c++17", args.cxx + ["-x", "c++", "-std=c++17"] + CXX_WARNINGS),
        ]
    failed = 0
    for header in args.header:
        for language, command in languages:
            said = complaints(command + WARNINGS + includes, header)
            print(f"{'not ok' if said else 'ok'} - {header} alone as {language}")
            if said:
                failed += 1
                print(said)
    return 1 if failed else 0


raise SystemExit(main())
