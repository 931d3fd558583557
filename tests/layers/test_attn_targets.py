#!/usr/bin/env python3
"""The targets of rope and attend: what rows say of them, and that the rows are those of the bench."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))

import peer_support  # noqa: E402
import targets  # noqa: E402
from peer_support import report  # noqa: E402
from run_tables import CUT_NOTE, LOOP_NOTE, group_of, metrics_lines  # noqa: E402


def row(suite, name, series, median=None, floor=None, wall=None, **more) -> dict:
    ratio = median / floor if median and floor else None
    return {"suite": suite, "name": name, "series": series, "median_us": median, "wall_us": wall,
            "floor_us": floor, "ratio": ratio, **more}  # fmt: skip


APPEND = "4 x 2048, 32/8 heads of 64, append"
DECODING = "32 decoding, 32/8 heads of 128, append"
MET = [
    row("rope", APPEND, "steergraph", 27.5, 25.0, floor_early_us=22.0, moved_mb=100.0),
    row("rope", DECODING, "steergraph", 2.25, 1.5, floor_early_us=1.25, moved_mb=1.5),
    row("rope", targets.PUBLISHED_ROPE, "steergraph", 440.0, 400.0, 450.0, eager_us=445.0),
    row("rope", targets.PUBLISHED_ROPE, "torch rope", 4400.0, 400.0, 4500.0),
    row("attend", targets.LONG, "steergraph", 88.0, 80.0, moved_mb=304.0),
    row("attend", targets.SHORT, "steergraph", 7.5, 5.0, moved_mb=15.0),
    row("attend", targets.EVERY_LENGTH, "steergraph", 12.0, wall=12.0, compiles=3, recompiles=0, lengths=1024,
        mae=1.25e-8, peak_bytes=1000),
    row("attend", targets.EVERY_LENGTH, "torch growing cache", 150.0, wall=180.0, recompiles=0, lengths=1024,
        mae=2e-8, peak_bytes=2000),
    row("attend", targets.EVERY_LENGTH, "torch.compile growing cache", 300.0, wall=300.0, compiles=1,
        recompiles=8, lengths=40, mae=2e-8, peak_bytes=900),
]  # fmt: skip
# name: limit, measured, met, over the early copy, MB/µs, copy MB/µs
MET_CELLS = {
    "A1": ["1.20", "1.100", "yes", "1.25", "3.64", "4.00"],
    "A2": ["3 µs", "2.25 µs", "yes", "1.80", "0.67", "1.00"],
    "A3": ["at least 2.79 ×", "10 ×; over one call of ours 9.9 ×, by wall 10.0 ×", "yes", "", "", ""],
    "A4": ["1.25", "1.100", "yes", "", "3.45", "3.80"],
    "A5": ["9 µs", "7.50 µs", "yes", "", "2.00", "3.00"],
    "A6": ["1.00", "1.000; 3 kernels, 0 recompiles in 1024 lengths; torch.compile's growing cache 8 in 40", "yes",
           "", "", ""],
    "A7": ["at least 1.5 ×", "15 ×", "yes", "", "", ""],
    "A8": ["1000 · 10⁻⁹", "12.5 · 10⁻⁹", "yes", "", "", ""],
    "A9": ["30 %", "-50 %", "yes", "", "", ""],
}  # fmt: skip


def changed(index: int, **members) -> list:
    """MET with members of one row changed, and its ratio with them."""
    rows = [dict(one) for one in MET]
    rows[index] |= members
    if rows[index]["floor_us"]:
        rows[index]["ratio"] = rows[index]["median_us"] / rows[index]["floor_us"]
    return rows


# line, the row that makes it so, what is shown
MISSED = [
    ("A1", changed(0, median_us=30.5), "1.220"),
    ("A2", changed(1, median_us=3.25), "3.25 µs"),
    ("A3", changed(3, median_us=1200.0), "2.73 ×; over one call of ours 2.7 ×, by wall 10.0 ×"),
    ("A4", changed(4, median_us=104.0), "1.300"),
    ("A5", changed(5, median_us=11.5), "11.5 µs"),
    ("A6", changed(6, recompiles=3), "2.000; 3 kernels, 3 recompiles in 1024 lengths; torch.compile's growing cache "
     "8 in 40"),
    ("A7", changed(7, wall_us=15.0), "1.25 ×"),
    ("A8", changed(6, mae=1.25e-6), "1250 · 10⁻⁹"),
    ("A9", changed(6, peak_bytes=2750), "37.5 %"),
]  # fmt: skip
# what is not measured, which lines there are without it
ABSENT = [
    ("a row of ours", [one for one in MET if one["name"] != targets.LONG], {"A4"}),
    ("a peer's row", [one for one in MET if one["series"] != "torch rope"], {"A3"}),
    ("a cache that grows", [one for one in MET if one["series"] != targets.GROWING], {"A7", "A9"}),
    ("a count of compiles", changed(6, compiles=0), {"A6"}),
    ("a distance that is a number", changed(6, mae="nan"), {"A8"}),
    ("a count that is a number", changed(6, recompiles="nan"), {"A6"}),
]


def lines_of(rows: list) -> dict:
    return {line[0]: line for line in targets.lines_of(rows)}


def test_lines() -> None:
    found = lines_of(MET)
    report(list(found) == list(MET_CELLS), "has a line for each target", found)
    for name, cells in MET_CELLS.items():
        report(found.get(name, [])[2:] == cells, f"{name} is met", found.get(name))
    for name, rows, shown in MISSED:
        line = lines_of(rows)[name]
        report(line[3:5] == [shown, "**no**"], f"{name} is missed", line)
    for what, rows, without in ABSENT:
        found = set(lines_of(rows))
        report(found == set(MET_CELLS) - without, f"says nothing of a target without {what}", sorted(found))
    report(targets.lines_of([one for one in MET if one["series"] == "read"]) == [], "says nothing of no rows")
    rows = [one for one in MET if not one["series"].startswith("torch.compile")]
    report(lines_of(rows)["A6"][3] == "1.000; 3 kernels, 0 recompiles in 1024 lengths", "needs no peer for A6", rows)


# --- the rows of the bench ---


def names_of_the_bench() -> set:
    """(suite, name) of every case of attn_cases.c, whose names are literals and macros of literals."""
    text = (ROOT / "tools" / "bench" / "attn_cases.c").read_text()
    macros = dict(re.findall(r'#define (\w+) "([^"]*)"', text))
    found = re.findall(r'\b(ROPE)\(((?:\w+|"[^"]*"|\s)+)\)|\bWORK\(STG_\w+, ((?:\w+|"[^"]*"|\s)+)\)|'
                       r'\.suite = "(\w+)",\s*\.name = ((?:\w+ ?|"[^"]*" ?)+)', text)  # fmt: skip

    def literal(parts: str) -> str:
        words = re.findall(r'"([^"]*)"|(\w+)', parts)
        return "".join(quoted if not word else macros[word] for quoted, word in words)

    names = set()
    for rope, of_rope, of_attend, suite, other in found:
        if of_rope and of_rope.strip() != "text":
            names.add(("rope", literal(of_rope)))
        elif of_attend:
            names.add(("attend", literal(of_attend)))
        elif suite and "(" not in other and other.strip() != "":
            names.add((suite, literal(other)))
    return names


def test_names() -> None:
    names = names_of_the_bench()
    report(len(names) == 7 + 9 + 1, "finds the names of the bench", sorted(names))
    ours = {(one["suite"], one["name"]) for one in MET}
    report(ours <= names, "targets are of rows that the bench has", sorted(ours - names))
    caches = (ROOT / "tools" / "bench" / "peers" / "caches.py").read_text()
    report(f'"{targets.GROWING}":' in caches and '"torch.compile growing cache":' in caches, "and of its peers", caches)
    rope = (ROOT / "tools" / "bench" / "peers" / "rope.py").read_text()
    report('("torch rope", eager)' in rope, "and of the eager rotation", rope)


def test_tables() -> None:
    """The same rows have their places in README.md."""
    places = [group_of(one) for one in MET if one["series"] == "steergraph"]
    report(places == ["rope"] * 3 + ["attend"] * 2 + [None], "has tables for the rows", places)
    lines = [line for line in metrics_lines(MET) if line.startswith("| steergraph ")]
    whole = metrics_lines([one for one in MET if not one["series"].startswith("torch.compile")])
    report(metrics_lines(MET)[-1] == LOOP_NOTE + CUT_NOTE and whole[-1] == LOOP_NOTE,
           "says of a cache that was stopped what that means, and of no other", whole)
    report(lines == ["| steergraph |  | 0 | 12.0 | 15 × | 1.2e-08 | -50 % |"], "and metrics of the cache", lines)


def main() -> int:
    test_lines()
    test_names()
    test_tables()
    return 0 if peer_support.good else 1


raise SystemExit(main())
