#!/usr/bin/env python3
"""Targets and tables of the suite prove: what rows say, and that the rows are those of the bench."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))

import prove_tables  # noqa: E402
import targets  # noqa: E402

good = True


def report(ok: bool, name: str, said="") -> None:
    global good
    good = good and bool(ok)
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)


def row(name, series="steergraph", median=None, wall=None, floor=None, **more) -> dict:
    ratio = median / floor if median and floor else None
    return {"suite": "prove", "name": name, "series": series, "median_us": median, "wall_us": wall,
            "floor_us": floor, "ratio": ratio, **more}  # fmt: skip


def pool_rows(base: str, series: str, each: float) -> list:
    """A candidate takes `each` in pools of 512 and more."""
    return [row(f"{base}, pool {pool}", series, each * max(pool, 512), each * max(pool, 512) + 50,
                each * pool / 2, useful=1, kernels=1, memory_mb=20.0, states_mb=2.0, dense_mb=38.0)
            for pool in targets.PROVE_POOLS]  # fmt: skip


PEER = {"wasted": 0.5, "allocated_mb": 4000.0}
RUN = [
    *pool_rows("countries", "steergraph", 2.0),
    *pool_rows("family", "steergraph", 5.0),
    *pool_rows("family", "steergraph, tf32x3", 3.0),
    *pool_rows("family", "steergraph, tf32", 2.0),
    row("family, pool 512", "torch eager step", 512000.0, 600000.0, **PEER),
    row("family, pool 512", "torch step in a CUDA graph", 256000.0, 300000.0, **{**PEER, "allocated_mb": 1.0}),
    *(row("family, pool 512", f"torch, step {n:02d}", 25600.0, 26000.0, done=min(512, 200 + 20 * n), pool=512, step=n)
      for n in range(1, 21)),
    row("family, 512 repeated", wall=1000.0, compiles=0, useful=1),
    row("family, 512 repeated", "torch.compile step (reduce-overhead)", 9e4, 1e5, first_call_ms=25000.0, compiles=1),
    row("family, 10100 evaluated", wall=50500.0, compiles=0, useful=1),
    row("family, 10100 evaluated", "torch.compile step (reduce-overhead)", 2e6, 2.02e6, first_call_ms=2100.0, compiles=0),
    row("family, 110 unpadded", wall=500.0, compiles=0, useful=1),
    row("first result, empty cache", wall=4e6, compile_ms=3900.0, load_ms=10.0, first_call_ms=90.0),
]  # fmt: skip
CELLS = {
    "P1": ["10 µs", "5 µs (best 5 µs); three TF32 3.00, TF32 2.00", "yes"],
    "P2": ["1.05", "1.000 (best 1.000)", "yes"],
    "P3": ["at least 1.00", "1.000 (best 1.000)", "yes"],
    "P4": ["1.00", "1.000 (best 1.000)", "yes"],
    "P5": ["1.00", "0.400 (best 0.400)", "yes"],
}
LINES = [
    "| family: candidates of a pool | a candidate, float32 | a candidate, three TF32 | a candidate, TF32 |"
    " over the floor | useful | PyTorch, eager | PyTorch, in a graph |",
    "| 64 | 40 µs | 24 µs | 16 µs | 16.00 | 1.000 |  |  |",
    "| 512 | 5 µs | 3 µs | 2 µs | 2.00 | 1.000 | 1 ms, 50% wasted | 500 µs, 50% wasted |",
    "| countries: candidates of a pool | a candidate, float32 | over the floor | useful |",
    "| family, pool 512 | done | time |",
    "| step 1 | 220 of 512 | 25.6 ms |",
    "| step 20 | 512 of 512 | 25.6 ms |",
    "| all 20 steps |  | 512 ms |",
    "| steergraph, the whole pool |  | 2.56 ms, 200 × less |",
    "| a batch of candidates, by wall | steergraph, first | a candidate | compiles | torch.compile, first | later |"
    " compiles | a candidate |",
    "| family, 512 repeated | 1 ms | 1.95 µs | 0 | 25 s | 100 ms | 1 | 195 µs |",
    "| family, 10100 evaluated | 50.5 ms | 5 µs | 0 | 2.1 s | 2.02 s | 0 | 200 µs |",
    "| family, 110 unpadded | 500 µs | 4.55 µs | 0 |  |  |  |  |",
    "| first result, empty cache | 4 s | 3.9 s | 10 ms | 90 ms |",
    "| family, pool 512 | 20 | 2.0 | 38 | 4000 |",
]


def changed(name: str, series="steergraph", **members) -> list:
    """RUN with members of one row changed."""
    return [one | members if (one["name"], one["series"]) == (name, series) else one for one in RUN]


# line, the rows that make it so, what is shown
MISSED = [
    ("P1", changed("family, pool 2048", median_us=2048 * 10.5), "10.5 µs (best 5 µs)"),
    ("P2", changed("family, pool 1024", median_us=1024 * 5.5), "1.100 (best 1.000)"),
    ("P3", changed("countries, pool 64", useful=0.25), "0.250 (best 1.000)"),
    ("P4", changed("family, pool 110", kernels=2), "2.000 (best 1.000)"),
    ("P5", changed("family, pool 8192", "steergraph, tf32", median_us=8192 * 5.5), "1.100 (best 0.400)"),
]
# what is missing, which lines there are without it
ABSENT = [
    ("a pool", [one for one in RUN if one["name"] != "family, pool 16384"], {"P1", "P2", "P3", "P4", "P5"}),
    ("the pool of 512", [one for one in RUN if one["name"] != "family, pool 512"], {"P2", "P3", "P4"}),
    ("a base", [one for one in RUN if not one["name"].startswith("countries")], {"P3", "P4"}),
    ("TF32", [one for one in RUN if one["series"] != "steergraph, tf32"], {"P5"}),
    ("times of a device", [one | {"median_us": None} for one in RUN], {"P1", "P2", "P5"}),
]


def test_targets() -> None:
    found = {line[0]: line for line in targets.lines_of(RUN)}
    report(list(found) == list(CELLS), "has a line for each target", found)
    for name, cells in CELLS.items():
        report(found.get(name, [])[2:5] == cells, f"{name} is met", found.get(name))
    for name, rows, shown in MISSED:
        line = {line[0]: line for line in targets.lines_of(rows)}[name]
        report(line[3].startswith(shown) and line[4] == "**no**", f"{name} is missed", line)
    for what, rows, without in ABSENT:
        names = {line[0] for line in targets.lines_of(rows)}
        report(names == set(CELLS) - without, f"says nothing of a target without {what}", sorted(names))
    missing = [line[0] for line in targets.unmeasured([RUN, []])]
    report(not set(missing) & set(CELLS) and {"S1", "A1", "C3"} < set(missing), "names what no run has", missing)
    left = targets.unmeasured([[]])
    names = [line[0] for line in left]
    report(names == [line.name for line in targets.LINES], "which is all where there is nothing", names)
    bounds = {line[0]: line[2] for line in left}
    report((bounds["P1"], bounds["P3"]) == ("10 µs", "at least 1.00"), "and what it is to be", bounds)


def test_tables() -> None:
    parts = prove_tables.prove_lines(RUN)
    text = [line for part in parts for line in part]
    missing = [line for line in LINES if line not in text]
    report(len(parts) == 6 and not missing, "has the published tables", f"{missing} in {text}")
    report("| step 4 | 280 of 512 | 25.6 ms |" not in text, "of steps some", text)
    both = prove_tables.prove_lines([*RUN, *(one | {"name": "countries, pool 512"} for one in RUN if "done" in one)])
    heads = [number for number, line in enumerate(both[2]) if line.endswith("| done | time |")]
    report(len(heads) == 2 and heads[0] == 0 and both[2][heads[1] - 1] == "", "with a blank between bases", both[2])
    alone = prove_tables.prove_lines([one for one in RUN if not one["series"].startswith("torch")])
    text = [line for part in alone for line in part]
    report("| 512 | 5 µs | 3 µs | 2 µs | 2.00 | 1.000 |" in text and not any("torch" in line for line in text)
           and "| family, 110 unpadded | 500 µs | 4.55 µs | 0 |" in text, "which need no peer", text)  # fmt: skip
    report([bool(part) for part in alone] == [True, True, False, True, True, False], "but those of steps and memory", alone)
    walls = prove_tables.prove_lines([one | {"median_us": None, "ratio": None} for one in RUN])
    report("| 64 | 40.8 µs | 24.8 µs | 16.8 µs |  | 1.000 |  |  |" in walls[1], "takes the wall where there is no device", walls[1])
    report(not any(prove_tables.prove_lines([{**RUN[0], "suite": "steer"}])), "has no table of other suites")


def test_names() -> None:
    """As prove_cases.c and the peer have them."""
    text = (ROOT / "tools" / "bench" / "prove_cases.c").read_text()
    (pools,) = re.findall(r"stg_prove_pools\[STG_PROVE_POOLS\] = \{([^}]*)\}", text)
    pools = [512 if word == "STG_PROVE_BATCH" else int(word) for word in re.findall(r"\w+", pools)]
    report(tuple(pools) == targets.PROVE_POOLS, "knows the pools of the bench", pools)
    series = re.findall(r'STG_BENCH_OURS(?: "(, tf32\w*)")?,', text)
    report({f"steergraph{name}" for name in series} == set(prove_tables.ARITHMETICS), "and its arithmetics", series)
    report('"%s, pool %zu"' in text and '"repeated", "varied", "evaluated",' in text, "and its names", text)
    peer = (ROOT / "tools" / "bench" / "peers" / "prove.py").read_text()
    series = re.findall(r'^    \("(torch[^"]*)", \w+\),$', peer, re.MULTILINE)
    report(series == [*prove_tables.PEERS, prove_tables.COMPILED], "and the series of its peer", series)
    report('f"torch, step {number:02d}"' in peer and prove_tables.STEP.fullmatch("torch, step 07"), "and its steps", peer)


def main() -> int:
    test_targets()
    test_tables()
    test_names()
    return 0 if good else 1


raise SystemExit(main())
