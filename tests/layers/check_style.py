#!/usr/bin/env python3
"""Fail on what a grep can see of the style guide (CONTRIBUTING.md): check_style.py [ROOT]"""
import pathlib
import re
import sys

import sources

MAX_LINES = 500
MAX_COLUMNS = 100
LIBRARY = ("codegen", "engine", "runtime", "specs")

# Calls a library layer may not make: pattern, why, the files that may.
CALLS = (
    (r"(?:v?f?printf|puts|putchar|fputs|fputc|putc|perror)", "the library never prints", ()),
    (r"(?:_?_?exit|abort|quick_exit)", "the library never ends its host", ()),
    (r"(?:secure_)?getenv", "the environment is read in engine/options.c", ("engine/options.c",)),
    (r"(?:setenv|unsetenv|putenv)", "the library never changes the environment", ()),
    (
        r"(?:malloc|calloc|realloc|free|strn?dup|posix_memalign|aligned_alloc)",
        "all heap goes through runtime/base/alloc.h",
        ("runtime/base/alloc.c",),
    ),
    (r"(?:system|popen)", "the library starts no program", ()),
    (r"(?:strcpy|strcat|sprintf|gets|strtok)", "unbounded or stateful", ()),
)
TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?![^\n]*#\d)")
GOTO = re.compile(r"\bgoto\s+(?!out\s*;)(\w+)")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def text_faults(path: pathlib.Path, text: str) -> list[tuple[int, str]]:
    lines = text.split("\n")
    faults = []
    if len(lines) - 1 > MAX_LINES:
        faults.append((MAX_LINES + 1, f"{len(lines) - 1} lines, at most {MAX_LINES}: two jobs?"))
    if not text.endswith("\n") or text.endswith("\n\n"):
        faults.append((len(lines), "end the file with one newline"))
    for number, line in enumerate(lines, start=1):
        if "\t" in line or line != line.rstrip():
            faults.append((number, "tab or trailing blank"))
        if len(line) > MAX_COLUMNS and path.suffix in {".c", ".h"}:
            faults.append((number, f"{len(line)} columns, at most {MAX_COLUMNS}"))
    name = path.name.removesuffix(".in")
    head = rf"/\*\n \* (?:[\w/]+/)?{re.escape(name)}: "
    if path.suffix in {".c", ".h", ".in"} and not re.match(head, text):
        faults.append((1, f"begin with '/*' and ' * {name}: ' and the file's job"))
    for match in TODO.finditer(text):
        faults.append((line_of(text, match.start()), "a TODO names its issue, as in #12"))
    return faults


def code_faults(path: pathlib.Path, code: str) -> list[tuple[int, str]]:
    faults = []
    if path.suffix == ".c":
        for match in GOTO.finditer(code):
            faults.append((line_of(code, match.start()), f"goto {match[1]}: the one label is out"))
    if path.parts[0] not in LIBRARY or path.suffix not in {".c", ".h"}:
        return faults
    for pattern, why, exempt in CALLS:
        if path.as_posix() in exempt:
            continue
        for match in re.finditer(rf"(?<![\w.>])({pattern})\s*\(", code):
            faults.append((line_of(code, match.start()), f"{match[1]}: {why}"))
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    paths = sources.files(root)
    faults = []
    for path in paths:
        text = (root / path).read_text()
        found = text_faults(path, text) + code_faults(path, sources.code(text))
        faults += [f"{path}:{number}: {said}" for number, said in sorted(found)]
    print("\n".join(faults) if faults else f"ok 1 - {len(paths)} files keep to the style")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    raise SystemExit(main())
