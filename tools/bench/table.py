#!/usr/bin/env python3
"""Keep the table of measured numbers in README.md equal to the results in tools/bench/results.

    steergraph bench steer --json SPEC... | python3 tools/bench/table.py record NAME
    python3 tools/bench/table.py write      render the table between its two markers in README.md
    python3 tools/bench/table.py check      exit 1 when README.md and the results differ

A result file is one run on one card: the array that the bench prints, or, as `record` writes it,
an object with that array in "rows", and the "commit" and the "date" of the run.
"""
import argparse
import datetime
import json
import math
import pathlib
import subprocess
import sys

BEGIN = "<!-- measured: begin, written by tools/bench/table.py -->"
END = "<!-- measured: end -->"
RESULTS = "tools/bench/results"
NOTHING = f"No results yet: `{RESULTS}` is empty."
KERNELS = {"tier0": "every built-in op", "in-use": "the ops in use"}
TEXTS = ("suite", "name", "kernel", "card")
COUNTS = ("driver", "rows", "registers")
TIMES = ("median_us", "min_us", "max_us", "floor_us", "ratio")
HEAD = (
    "workload", "rows", "kernel with", "apply, µs", "min to max", "copy, µs", "ratio", "registers"
)
TEXT_COLUMNS = (0, 2)


class Fault(Exception):
    """One line for the user."""


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_right(member: str, value) -> bool:
    if member in TEXTS:
        return isinstance(value, str) and value != "" and "|" not in value
    if member in COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return is_number(value) and value > 0


def check_row(place: str, row) -> None:
    if not isinstance(row, dict):
        raise Fault(f"{place}: expected an object, as `steergraph bench steer --json` prints it")
    for member in TEXTS + COUNTS + TIMES:
        if member not in row:
            raise Fault(f"{place}: no member '{member}'")
        if not is_right(member, row[member]):
            raise Fault(f"{place}.{member}: {row[member]!r} is no value of a measured row")
    if row["suite"] != "steer" or row["kernel"] not in KERNELS:
        raise Fault(f"{place}: suite '{row['suite']}', kernel '{row['kernel']}' has no table yet")


def read_run(text: str, place: str) -> dict:
    """A checked result file: rows, and commit and date or None."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Fault(f"{place}: {error}") from None
    run = value if isinstance(value, dict) else {"rows": value}
    rows = run.get("rows")
    unknown = set(run) - {"rows", "commit", "date"}
    if unknown or not isinstance(rows, list) or not rows:
        raise Fault(f"{place}: expected rows of the bench, bare or in \"rows\"")
    for index, row in enumerate(rows):
        check_row(f"{place}: rows[{index}]", row)
    cards = {(row["card"], row["driver"]) for row in rows}
    if len(cards) > 1:
        raise Fault(f"{place}: rows of {len(cards)} cards or drivers; a file is one run")
    return {"rows": rows, "commit": run.get("commit"), "date": run.get("date")}


def workload_name(name: str) -> str:
    return pathlib.PurePosixPath(name).name.removesuffix(".json")


def cells(row: dict) -> list[str]:
    return [
        f"`{workload_name(row['name'])}`",
        str(row["rows"]),
        KERNELS[row["kernel"]],
        f"{row['median_us']:.2f}",
        f"{row['min_us']:.2f} to {row['max_us']:.2f}",
        f"{row['floor_us']:.2f}",
        f"{row['ratio']:.2f}",
        str(row["registers"]),
    ]


def render_run(run: dict) -> list[str]:
    first = run["rows"][0]
    driver = f"{first['driver'] // 1000}.{first['driver'] % 1000 // 10}"
    facts = [f"**{first['card']}**", f"CUDA driver {driver}"]
    facts += [f"commit `{run['commit']}`"] if run["commit"] else []
    facts += [run["date"]] if run["date"] else []
    marks = ["---" if column in TEXT_COLUMNS else "---:" for column in range(len(HEAD))]
    lines = [", ".join(facts) + ":", ""]
    for row in [list(HEAD), marks] + [cells(row) for row in run["rows"]]:
        lines.append("| " + " | ".join(row) + " |")
    return lines


def render(root: pathlib.Path) -> str:
    blocks = []
    for path in sorted((root / RESULTS).glob("*.json")):
        place = path.relative_to(root).as_posix()
        blocks.append("\n".join(render_run(read_run(path.read_text(), place))))
    return "\n\n".join(blocks) if blocks else NOTHING


def rendered(root: pathlib.Path) -> tuple[str, str]:
    """README.md as it is, and as it should be."""
    text = (root / "README.md").read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise Fault(f"README.md: needs one line '{BEGIN}' and after it one '{END}'")
    before = text[: text.index(BEGIN) + len(BEGIN)]
    return text, f"{before}\n\n{render(root)}\n\n{text[text.index(END):]}"


def head_commit(root: pathlib.Path) -> str:
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=8"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Fault(f"no commit to record ({done.stderr.strip()}); give --commit")
    return done.stdout.strip()


def record(root: pathlib.Path, name: str, text: str, commit: str | None, date: str | None) -> str:
    run = read_run(text, "standard input")
    value = {
        "commit": commit or run["commit"] or head_commit(root),
        "date": date or run["date"] or datetime.date.today().isoformat(),
        "rows": run["rows"],
    }
    path = root / RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return path.relative_to(root).as_posix()


def work(args: argparse.Namespace) -> int:
    root = args.root
    if args.command == "record":
        print(record(root, args.name, sys.stdin.read(), args.commit, args.date))
        return 0
    text, wanted = rendered(root)
    if args.command == "write":
        if text != wanted:
            (root / "README.md").write_text(wanted)
        return 0
    if text != wanted:
        raise Fault(f"README.md: its table is not that of {RESULTS}; run table.py write")
    print("ok 1 - the table in README.md is that of the results")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, help="the source tree; default: this file's",
                        default=pathlib.Path(__file__).resolve().parents[2])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="exit 1 when README.md and the results differ")
    commands.add_parser("write", help="render the table into README.md")
    keep = commands.add_parser("record", help="keep the rows on standard input as a result file")
    keep.add_argument("name", help="of the file, such as h100")
    keep.add_argument("--commit", help="that was measured; default: what git says")
    keep.add_argument("--date", help="of the run; default: today")
    try:
        return work(parser.parse_args())
    except (Fault, OSError) as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
