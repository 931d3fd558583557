#!/usr/bin/env python3
"""Keep the table of measured numbers in README.md equal to the results in tools/bench/results.

    steergraph bench all --peers --json | python3 tools/bench/table.py record NAME [--add ROWS.json]
    python3 tools/bench/table.py write      render the tables between their markers in README.md and
                                            tools/bench/results/targets.md
    python3 tools/bench/table.py check      exit 1 when one of them and the results differ

A result file is one run on one card: the array that the bench prints, or, as `record` writes it,
an object with that array in "rows", and the "commit" and the "date" of the run. Rows of `bench steer
SPEC...` by older versions, which had a "kernel" and no "series", keep their own table.

What README.md shows of a run is in run_tables.py; under it stands the run's plot, which `steergraph bench
show` draws into a file of the same name, NAME.svg. targets.md has the targets, and what each run says of
them (targets.py).
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

import targets
from result_file import RUN, Fault, check_fact, read_run
from run_tables import facts_of, render_run
from table_text import lines_of

BEGIN = "<!-- measured: begin, written by tools/bench/table.py -->"
END = "<!-- measured: end -->"
RESULTS = "tools/bench/results"
TARGETS = f"{RESULTS}/targets.md"
TARGETS_BEGIN = "<!-- targets: begin, written by tools/bench/table.py -->"
TARGETS_END = "<!-- targets: end -->"
UNMEASURED = "Of these no recorded run says anything:"
NOTHING = f"No results yet: `{RESULTS}` is empty."


def render(root: pathlib.Path) -> str:
    blocks = []
    for path in sorted((root / RESULTS).glob("*.json")):
        place = path.relative_to(root).as_posix()
        blocks.append("\n".join(render_run(read_run(path.read_bytes(), place))))
        plot = path.with_suffix(".svg")
        if plot.is_file():
            blocks.append(f"![The times of this run as bars]({plot.relative_to(root).as_posix()})")
    return "\n\n".join(blocks) if blocks else NOTHING


def render_targets(root: pathlib.Path) -> str:
    """The targets beside every run that says something of them, and those that no run does."""
    blocks, runs = [], []
    for path in sorted((root / RESULTS).glob("*.json")):
        run = read_run(path.read_bytes(), path.relative_to(root).as_posix())
        runs.append(run["rows"])
        table = targets.lines_of(run["rows"])
        if table:
            blocks.append("\n".join([facts_of(run), "", *lines_of(list(targets.HEAD), table, targets.TEXT_COLUMNS)]))
    if blocks and (left := targets.unmeasured(runs)):
        blocks.append("\n".join([UNMEASURED, "", *lines_of(list(targets.HEAD[:4]), left, targets.TEXT_COLUMNS)]))
    return "\n\n".join(blocks) if blocks else NOTHING


def write_whole(path: pathlib.Path, text: str) -> None:
    """The old file or the new one, never a part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        part.write_bytes(text.encode("utf-8"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def rendered(root: pathlib.Path, name: str, marks: tuple[str, str], body: str) -> tuple[str, str]:
    """A document as it is, and as it should be."""
    begin, end = marks
    try:
        text = (root / name).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(f"{name}: {error}") from None
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise Fault(f"{name}: needs one line '{begin}' and after it one '{end}'")
    before = text[: text.index(begin) + len(begin)]
    return text, f"{before}\n\n{body}\n\n{text[text.index(end):]}"


def documents(root: pathlib.Path) -> dict[str, tuple[str, str]]:
    """By name, each as it is and as it should be."""
    found = {"README.md": rendered(root, "README.md", (BEGIN, END), render(root))}
    if (root / TARGETS).exists():
        found[TARGETS] = rendered(root, TARGETS, (TARGETS_BEGIN, TARGETS_END), render_targets(root))
    return found


def head_commit(root: pathlib.Path) -> str:
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=8"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Fault(f"no commit to record ({done.stderr.strip()}); give --commit")
    return done.stdout.strip()


def joined(rows: list[dict], more: list[dict]) -> list[dict]:
    """The rows of two runs; what both say of how long a part took is added up."""
    places = {row["name"]: index for index, row in enumerate(rows) if row.get("suite") == RUN}
    found = list(rows)
    for row in more:
        index = places.get(row["name"]) if row.get("suite") == RUN else None
        if index is None:
            found.append(row)
        elif row["wall_us"] is not None:
            found[index] = {**found[index], "wall_us": (found[index]["wall_us"] or 0) + row["wall_us"]}
    return found


def record(root: pathlib.Path, name: str, text: bytes, commit: str | None, date: str | None,
           more: list[pathlib.Path]) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
        raise Fault(f"{name!r} is no name of a result file; take letters, digits, '_', '.', '-'")
    check_fact("--commit", commit)
    check_fact("--date", date)
    run = read_run(text, "standard input")
    for path in more:
        run["rows"] = joined(run["rows"], read_run(path.read_bytes(), str(path))["rows"])
    run |= {"rows": read_run(json.dumps(run["rows"]).encode(), "all rows")["rows"]}  # of one card
    value = {
        "commit": commit or run["commit"] or head_commit(root),
        "date": date or run["date"] or datetime.date.today().isoformat(),
        "rows": run["rows"],
    }
    path = root / RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return path.relative_to(root).as_posix()


def work(args: argparse.Namespace) -> int:
    root = args.root
    if args.command == "record":
        print(record(root, args.name, sys.stdin.buffer.read(), args.commit, args.date, args.add))
        return 0
    for name, (text, wanted) in documents(root).items():
        if args.command == "write" and text != wanted:
            write_whole(root / name, wanted)
        if args.command == "check" and text != wanted:
            raise Fault(f"{name}: its table is not that of {RESULTS}; run table.py write")
    if args.command == "check":
        print("ok 1 - the tables in README.md and targets.md are those of the results")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, help="the source tree; default: this file's",
                        default=pathlib.Path(__file__).resolve().parents[2])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="exit 1 when a document and the results differ")
    commands.add_parser("write", help="render the tables into the documents")
    keep = commands.add_parser("record", help="keep the rows on standard input as a result file")
    keep.add_argument("name", help="of the file, such as h100")
    keep.add_argument("--add", metavar="FILE", type=pathlib.Path, action="append", default=[],
                      help="rows of the same card that another program wrote")
    keep.add_argument("--commit", help="that was measured; default: what git says")
    keep.add_argument("--date", help="of the run; default: today")
    try:
        return work(parser.parse_args())
    except (Fault, OSError) as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
