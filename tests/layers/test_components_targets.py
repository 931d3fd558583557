#!/usr/bin/env python3
"""The targets and tables of components, training steps and whole Llamas: what rows say of them, and that the
rows are those of the bench and its peers."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))
sys.path.insert(0, str(ROOT / "tools" / "bench" / "peers"))

import components  # noqa: E402
import components_llama  # noqa: E402
import components_step  # noqa: E402
import run_components  # noqa: E402
import targets  # noqa: E402

good = True


def report(ok: bool, name: str, said="") -> None:
    global good
    good = good and bool(ok)
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        print(said)


def row(suite, name, series, median=None, floor=None, **more) -> dict:
    return {"suite": suite, "name": name, "series": series, "median_us": median, "wall_us": median, "floor_us": floor,
            "ratio": median / floor if median and floor else None, **more}  # fmt: skip


OURS, GRAPH = "steergraph", targets.GRAPH
NAMES = targets.COMPONENTS
LIMITS = dict(zip(("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"), (2.5, 3, 2.2, 4, 1.8, 2.5, 1.6, 2.5)))
WORKLOADS = {
    "L1": "128 to 128, tf32", "L2": "128 to 341, tf32", "L3": "128 to 128, bf16", "L4": "128 to 341, bf16",
    "L5": "128 to 128, tf32, both ways", "L6": "128 to 341, tf32, both ways", "L7": "128 to 128, bf16, both ways",
    "L8": "128 to 341, bf16, both ways",
}  # fmt: skip
STEPS = [
    row("step", targets.STEP, "torch", 20000.0, peak_mb=8000.0, gradients_off=2e-3, first_call_ms=900.0,
        first_calls_ms=1000.0),
    row("step", targets.STEP, targets.STEP_OURS, 8000.0, peak_mb=6000.0, gradients_off=3e-3, first_call_ms=1500.0,
        first_calls_ms=1600.0),
]  # fmt: skip
ROWS = [
    *(row("components", name, OURS, 50.0, 25.0, tflops=200.0, gflop=10.0) for name in NAMES),
    *(row("components", name, GRAPH, 205.0, 25.0, large_product_tflops=400.0) for name in NAMES),
    *STEPS,
]


def cells(rows: list) -> dict:
    return {line[0]: line[2:5] for line in targets.lines_of(rows)}


def test_lines() -> None:
    found = cells(ROWS)
    report(list(found) == [*LIMITS, "L9", "L10", "L11", "L12"], "has a line for each target", found)
    for name, limit in LIMITS.items():
        report(found[name] == [f"at least {limit:g} ×", "4.10 ×", "yes"], f"{name} is met", found[name])
        slow = [{**one, "median_us": 49.0 * limit} if one["name"] == WORKLOADS[name] and one["series"] == GRAPH else one
                for one in ROWS]  # fmt: skip
        report(cells(slow)[name][2] == "**no**" and sum(line[2] == "**no**" for line in cells(slow).values()) == 1,
               f"{name} is of '{WORKLOADS[name]}' alone", cells(slow))  # fmt: skip
        lacking = [one for one in ROWS if (one["name"], one["series"]) != (WORKLOADS[name], OURS)]
        report(set(found) - set(cells(lacking)) == {name, "L9"}, f"{name} needs our row", cells(lacking))
    report(found["L9"] == ["at least 1 ×", "4.10 × (best 4.10 ×)", "yes"], "L9 is met", found["L9"])
    lost = [{**one, "median_us": 45.0} if one["name"] == NAMES[5] and one["series"] == GRAPH else one for one in ROWS]
    report(cells(lost)["L9"][1:] == ["0.90 × (best 4.10 ×)", "**no**"], "L9 is the worst of all shapes", cells(lost))
    report([found[name][1:] for name in ("L10", "L11", "L12")] ==
           [["2.50 ×", "yes"], ["75 %", "yes"], ["3 · 10⁻³", "yes"]], "a step meets its own", found)  # fmt: skip
    slow = [*ROWS[:-1], {**ROWS[-1], "median_us": 12000.0, "peak_mb": 9000.0, "gradients_off": 0.25}]
    report([cells(slow)[name][1:] for name in ("L10", "L11", "L12")] ==
           [["1.67 ×", "**no**"], ["112 %", "**no**"], ["250 · 10⁻³", "**no**"]], "and misses them", cells(slow))  # fmt: skip


def test_unmeasured() -> None:
    left = {line[0]: line[2:] for line in targets.unmeasured([ROWS])}
    report("L1" not in left and "L12" not in left, "what a run measures is not left", sorted(left))
    report(left["S2"] == ["1.20", "not measured yet"], "what none measures is", left)
    both = targets.unmeasured([STEPS, ROWS[:-2]])
    report([line[0] for line in both] == list(left), "runs are looked at together", both)
    report(len(targets.unmeasured([])) == len(targets.LINES), "without a run all are left")


def test_names() -> None:
    text = (ROOT / "tools" / "bench" / "components_case.c").read_text()
    bench = set(re.findall(r'\{(?:\.name = )?"([^"]+)", ', text))
    report(len(bench) >= 28 and set(NAMES) <= bench, "targets are of cases that the bench has", sorted(set(NAMES) - bench))
    report(len(set(NAMES)) == 12 and set(WORKLOADS.values()) <= set(NAMES), "and all of those shapes are twelve", NAMES)
    series = {name for name, _ in components.SERIES}
    report(set(run_components.PEERS) == series and GRAPH in series, "tables have the peer's series", series)
    steps = set(components_step.SERIES.values())
    report({"torch", targets.STEP_OURS} <= steps, "targets have the step's series", steps)
    shapes = components_step.shapes_of(components_step.SHAPES)
    report(targets.STEP in {f"{batch} x {sequence}" for batch, sequence in shapes}, "and one of its shapes", shapes)
    report(run_components.EAGER in components_llama.SERIES, "a Llama is over eager", components_llama.SERIES)


def test_tables() -> None:
    rows = [
        *ROWS[:1], row("components", NAMES[0], GRAPH, 205.0, 25.0, large_product_tflops=400.0),
        row("components", "4096, f16", OURS, unsupported=1),
        row("components", "4096, f16", GRAPH, 1500.0, large_product_tflops=700.0),
        row("components", NAMES[0], "copy", 25.0, 25.0),
    ]  # fmt: skip
    lines = run_components.components_lines(rows)
    report(lines[0] == "| components | steergraph, µs | TFLOP/s | a large product | copy, µs | in a graph |", "has a head",
           lines[0])  # fmt: skip
    report(lines[2] == f"| {NAMES[0]} | 50.0 | 200 | 400 | 25.0 | 4.1 × |", "has our time and the peers'", lines)
    report(lines[3] == "| 4096, f16 | no kernel |  | 700 |  | 1.5 ms |", "says where we have no kernel", lines)
    report(lines[-1] == run_components.NOTE and run_components.components_lines([]) == [], "with a note, or nothing", lines)
    lines = run_components.step_lines(STEPS)
    report(lines[3] == "| 64 x 256 | steergraph, the step as a region | 8.00 | 2.50 × | 1.5 s | 1.6 s | 6000 | 3.0e-03 |",
           "has steps", lines)  # fmt: skip
    rows = [row("surgical", "1B, batch 4, bf16", "torch", 40000.0, tensor_ops_percent=14.25, peak_mb=4000.0, off=0.0),
            row("surgical", "1B, batch 4, bf16", components_llama.OURS_REGION, 32000.0, first_call_ms=50.0)]  # fmt: skip
    lines = run_components.surgical_lines(rows)
    report(lines[2] == "| 1B, batch 4, bf16 | torch | 40.00 | 1.00 × | 14.2 |  | 4000 | 0.0e+00 |", "has Llamas", lines)
    report(lines[3] == "| 1B, batch 4, bf16 | steergraph, in a region | 32.00 | 1.25 × |  | 50 ms |  |  |", "and ours", lines)
    report(run_components.step_lines(rows) == [] and run_components.surgical_lines(STEPS) == [], "each of its own suite")


def main() -> int:
    test_lines()
    test_unmeasured()
    test_names()
    test_tables()
    return 0 if good else 1


raise SystemExit(main())
