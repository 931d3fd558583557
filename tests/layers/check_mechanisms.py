#!/usr/bin/env python3
"""Hold tests/MECHANISMS.md against the tree: check_mechanisms.py [ROOT]

Each promise there names a case that tests it and the edits of the code without which it fails. The
case has to be there and to be run, and each text that an edit replaces has to stand exactly once in
its function, or the row says nothing any more. That the case does fail without the code is seen by
prove_mechanisms.py.
"""
import dataclasses
import pathlib
import re
import sys

TABLE = "tests/MECHANISMS.md"
NEW_LINE = "⏎"

PROMISE = re.compile(r"\*\*(.+)\*\*")
TEST = re.compile(r"- test `(\w+)/(\w+):(\w+)`")
EDIT = re.compile(r"- without `([\w./]+?)(?::(\w+))?`: `(.+?)` → (?:`(.+)`|nothing)")
FAILS = re.compile(r"- fails: `(.+)`")


@dataclasses.dataclass
class Edit:
    """Replace one text of a file, of one of its functions where that is named."""

    file: str
    function: str | None
    old: str
    new: str

    def span(self, text: str) -> tuple[int, int] | None:
        """Where the function's body is in the file's text; None: there is none of this name."""
        if self.function is None:
            return 0, len(text)
        name = re.escape(self.function)
        match = re.search(rf"^(?!#)\w[^;{{}}()]*\b{name}\([^;{{}}]*\{{\n.*?^\}}", text, re.MULTILINE | re.DOTALL)
        return match.span() if match else None

    def apply(self, text: str) -> str:
        """The file's text without the mechanism; ValueError: the edit no longer fits it."""
        span = self.span(text)
        if span is None:
            raise ValueError(f"{self.file} has no function {self.function}")
        begin, end = span
        count = text.count(self.old, begin, end)
        if count != 1:
            place = self.file if self.function is None else f"{self.file}:{self.function}"
            raise ValueError(f"'{self.old}' stands {count} times in {place}")
        return text[:begin] + text[begin:end].replace(self.old, self.new) + text[end:]


@dataclasses.dataclass
class Row:
    line: int
    promise: str
    suite: str = ""
    program: str = ""
    case: str = ""
    edits: list[Edit] = dataclasses.field(default_factory=list)
    fails: str = ""

    def name(self) -> str:
        return f"{self.suite}/{self.program}:{self.case}"

    def source(self, root: pathlib.Path) -> pathlib.Path | None:
        """The file of the test program."""
        for suffix in (".c", ".py"):
            path = root / "tests" / self.suite / f"test_{self.program}{suffix}"
            if path.is_file():
                return path
        return None


def parse(text: str) -> tuple[list[Row], list[tuple[int, str]]]:
    """The rows of the table, and what is no part of one: (line, what is wrong)."""
    rows: list[Row] = []
    faults = []
    for number, line in enumerate(text.split("\n"), start=1):
        row = rows[-1] if rows else None
        if match := PROMISE.fullmatch(line):
            rows.append(Row(number, match[1]))
        elif not line.startswith("- ") or row is None:
            continue
        elif match := TEST.fullmatch(line):
            row.suite, row.program, row.case = match.groups()
        elif match := EDIT.fullmatch(line):
            row.edits.append(Edit(match[1], match[2], match[3], (match[4] or "").replace(NEW_LINE, "\n")))
        elif match := FAILS.fullmatch(line):
            row.fails = match[1]
        else:
            faults.append((number, f"'{line[:40]}' is neither a test nor an edit nor a failure"))
    return rows, faults


def case_fault(root: pathlib.Path, row: Row) -> str | None:
    path = row.source(root)
    if path is None:
        return f"there is no tests/{row.suite}/test_{row.program}.c or .py"
    text = path.read_text()
    if path.suffix == ".py":
        is_there = re.search(rf"^    def {row.case}\(self", text, re.MULTILINE)
        return None if is_there else f"{path.name} has no {row.case}"
    if not re.search(rf"^static void {row.case}\(void \*\*", text, re.MULTILINE):
        return f"{path.name} has no {row.case}"
    if not re.search(rf"(?<!void )\b{row.case}\b", text):
        return f"{path.name} never runs {row.case}"
    return None


def row_faults(root: pathlib.Path, row: Row) -> list[str]:
    if not (row.case and row.edits and row.fails):
        return ["a test, what to do without, or how the test then fails is missing"]
    faults = [case_fault(root, row)]
    texts: dict[str, str] = {}
    for edit in row.edits:
        path = root / edit.file
        if not path.is_file():
            faults.append(f"there is no {edit.file}")
            continue
        try:
            texts[edit.file] = edit.apply(texts.get(edit.file) or path.read_text())
        except ValueError as error:
            faults.append(str(error))
    return [fault for fault in faults if fault is not None]


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rows, faults = parse((root / TABLE).read_text())
    for row in rows:
        faults += [(row.line, fault) for fault in row_faults(root, row)]
    for number, said in sorted(faults):
        print(f"{TABLE}:{number}: {said}")
    if not faults:
        print(f"ok 1 - {len(rows)} mechanisms have their tests")
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
