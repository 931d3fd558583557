#!/usr/bin/env python3
"""Keep the table of measured numbers in README.md equal to the results in tools/bench/results.

    steergraph bench all --peers --json | python3 tools/bench/table.py record NAME [--add ROWS.json]
    python3 tools/bench/table.py write      render the table between its two markers in README.md
    python3 tools/bench/table.py check      exit 1 when README.md and the results differ

A result file is one run on one card: the array that the bench prints, or, as `record` writes it,
an object with that array in "rows", and the "commit" and the "date" of the run. Rows of `bench steer
SPEC...` by older versions, which had a "kernel" and no "series", keep their own table.

Of a run the README shows, per workload of the suites steer and decode, our time, the floor, how many
times ours each PyTorch peer takes, and how many times that of the same batch ours is, unsteered or in a
table that declares nothing more, where that was measured; what a batch takes whose vectors come by RPC;
what is said of warming up, and of calls beside compiles; what the cache costs beside its targets; of the
suites rope and attend the same as of steer, a layer as one graph beside plain launches, and a KV cache
through every length beside those of PyTorch; and tokens per second of a whole model, whose rows peers/llama.py writes into a file for --add. All else stays in the file. Under them it shows the run's plot, which `steergraph bench
show` draws into a file of the same name, NAME.svg.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
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

# Rows of today.
ROW_TEXTS = ("suite", "name", "series", "card", "cuda")
ROW_NUMBERS = ("median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio")
NO_NUMBERS = ("inf", "-inf", "nan")  # as the bench writes them; only extras may be so
OURS = "steergraph"
GROUPS = {
    "steer": "prefill",
    "hidden": "single ops, hidden 2048",
    "norm": "add + RMSNorm",
    "declares": "1 op, 2048 rows, in a table that",
    "decode": "decode",
    "rope": "split and rotate",
    "attend": "attention, and layers of both",
}
OVER = {"unsteered_x": "over unsteered", "without_x": "over without"}
LLAMA_REFERENCE = "torch reference loop"
RPC_OURS = "steergraph in one call"
RPC_OTHERS = ("SHA-256, adaptive", "SHA-256, eager launches")
PEERS = {
    "torch eager loop": "eager loop",
    "torch.compile loop (dynamic)": "compiled loop",
    "torch.compile loop (reduce-overhead)": "reduce-overhead",
    "torch loop in a CUDA graph": "loop in a graph",
    "torch gather/scatter": "gather/scatter",
    "torch row-wise": "row-wise",
    "torch.compile row-wise": "row-wise compiled",
    "torch uniform op": "whole-batch op",
    "torch eager op": "eager",
    "torch.compile op (dynamic)": "compiled",
    "torch.compile op (reduce-overhead)": "reduce-overhead",
    "torch add + rms_norm in a graph": "in a graph",
    "torch.compile add + rms_norm in a graph": "compiled, in a graph",
    "torch rope": "eager",
    "torch rope in a graph": "in a graph",
    "torch.compile rope": "compiled",
    "torch.compile rope in a graph": "compiled, in a graph",
    "torch.compile rope (reduce-overhead)": "reduce-overhead",
    "torch.compile rope (max-autotune)": "max-autotune",
    "torch SDPA with mask": "SDPA with mask",
    "torch SDPA with mask in a graph": "in a graph",
    "torch.compile SDPA with mask": "compiled",
}
# Of a loop over every length: ours, and what it is measured by.
LOOP = "every length"
GROWING = "torch growing cache"
PLAIN = "steergraph, plain launches"
LOOP_NOTE = ("Speed-up and memory are over the eager cache that grows; recompiles are those after the first of "
             "each function, over all lengths; MAE is the mean distance from float64.")


class Fault(Exception):
    """One line for the user."""


def is_number(value) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def is_text(value) -> bool:
    """Whether README.md can show it within a cell: one line, and no mark of a table or of HTML."""
    return (isinstance(value, str) and value.strip() != "" and value.isprintable()
            and not set(value) & {"|", "<"})


def is_right(member: str, value) -> bool:
    if member in TEXTS:
        return is_text(value)
    if member in COUNTS:
        return isinstance(value, int) and is_number(value) and value >= 0
    return is_number(value) and value > 0


def check_old_row(place: str, row: dict) -> None:
    for member in TEXTS + COUNTS + TIMES:
        if member not in row:
            raise Fault(f"{place}: no member '{member}'")
        if not is_right(member, row[member]):
            raise Fault(f"{place}.{member}: {row[member]!r} is no value of a measured row")
    if row["suite"] != "steer" or row["kernel"] not in KERNELS:
        raise Fault(f"{place}: suite '{row['suite']}', kernel '{row['kernel']}' has no table")


def check_row(place: str, row) -> None:
    if not isinstance(row, dict):
        raise Fault(f"{place}: expected an object, as `steergraph bench --json` prints it")
    if "kernel" in row:
        check_old_row(place, row)
        return
    for member in (*ROW_TEXTS, "driver", *ROW_NUMBERS):
        if member not in row:
            raise Fault(f"{place}: no member '{member}'")
    for member in ROW_TEXTS:
        if not is_text(row[member]):
            raise Fault(f"{place}.{member}: {row[member]!r} is no value of a measured row")
    if not is_right("driver", row["driver"]):
        raise Fault(f"{place}.driver: {row['driver']!r} is no value of a measured row")
    for member in set(row) - set(ROW_TEXTS):
        value = row[member]
        if member in ROW_NUMBERS:
            right = value is None or (is_number(value) and value > 0)
        else:
            right = is_number(value) or value in NO_NUMBERS
        if not right:
            raise Fault(f"{place}.{member}: {value!r} is no value of a measured row")
    median, floor, ratio = row["median_us"], row["floor_us"], row["ratio"]
    known = None if median is None or floor is None else median / floor
    if (known is None) != (ratio is None) or (known and not math.isclose(known, ratio, rel_tol=1e-5)):
        raise Fault(f"{place}.ratio: {ratio!r} is not median_us over floor_us")


def check_fact(place: str, value) -> None:
    if value is not None and not (is_text(value) and "`" not in value):
        raise Fault(f"{place}: {value!r} is no text of one line")


def read_run(text: bytes, place: str) -> dict:
    """A checked result file: rows, and commit and date or None."""
    try:
        value = json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise Fault(f"{place}: {error}") from None
    except RecursionError:
        raise Fault(f"{place}: nested too deeply for rows of the bench") from None
    run = value if isinstance(value, dict) else {"rows": value}
    rows = run.get("rows")
    unknown = set(run) - {"rows", "commit", "date"}
    if unknown or not isinstance(rows, list) or not rows:
        raise Fault(f"{place}: expected rows of the bench, bare or in \"rows\"")
    for member in ("commit", "date"):
        check_fact(f"{place}: {member}", run.get(member))
    for index, row in enumerate(rows):
        check_row(f"{place}: rows[{index}]", row)
    cards = {(row["card"], row["driver"]) for row in rows}
    if len(cards) > 1:
        raise Fault(f"{place}: rows of {len(cards)} cards or drivers; a file is one run")
    if len({"kernel" in row for row in rows}) > 1:
        raise Fault(f"{place}: rows with a kernel and rows with a series; a file is one run")
    names = [(row["suite"], row["name"], row["series"]) for row in rows if "kernel" not in row]
    for name in names:
        if names.count(name) > 1:
            raise Fault(f"{place}: two rows of suite '{name[0]}', '{name[1]}', series '{name[2]}'")
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


def lines_of(head: list[str], rows: list[list[str]], text_columns) -> list[str]:
    marks = ["---" if column in text_columns else "---:" for column in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in [head, marks, *rows]]


def time_text(us: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    if us < 1:
        return f"{us * 1e3:.3g} ns"
    return f"{us:.3g} µs" if us < 100 else f"{us:.0f} µs"


def times_text(factor: float) -> str:
    return f"{factor:.0f} ×" if factor >= 99.5 else f"{factor:.3g} ×"


def factor_text(factor) -> str:
    """As any extra it may also be "inf" or "nan"."""
    return f"{factor:.3f}" if is_number(factor) else ""


def calls_text(calls) -> str:
    """Absent where later calls save nothing; as any extra it may also be "inf" or "nan"."""
    if calls is None or calls == "nan":
        return ""
    return "never" if isinstance(calls, str) else f"{calls:.0f}"


def group_of(row: dict) -> str | None:
    """The table that shows a row of ours: workloads of one kind, which have the same peers."""
    if row["series"] != OURS or row["ratio"] is None or row["name"].endswith(", warm"):
        return None
    if row["suite"] == "steer":
        return next((name for name in ("hidden", "norm", "declares") if row["name"].startswith(name)), "steer")
    return row["suite"] if row["suite"] in ("decode", "rope", "attend") else None


def workload_lines(rows: list[dict], group: str) -> list[str]:
    """Per workload: our time, the floor, the ratio, over others of ours, and each peer's time over ours."""
    times = {(row["suite"], row["name"], row["series"]): row["median_us"] for row in rows}
    ours = [row for row in rows if group_of(row) == group]
    keys = [(row["suite"], row["name"]) for row in ours]
    peers = [peer for peer in PEERS if any(times.get((*key, peer)) for key in keys)]
    over = [extra for extra in OVER if any(extra in row for row in ours)]
    table = []
    for row, key in zip(ours, keys):
        line = [row["name"], f"{row['median_us']:.2f}", f"{row['floor_us']:.2f}"]
        line.append(f"{row['ratio']:.2f}")
        line += [factor_text(row.get(extra)) for extra in over]
        for peer in peers:
            time = times.get((*key, peer))
            line.append(times_text(time / row["median_us"]) if time else "")
        table.append(line)
    head = [GROUPS[group], "steergraph, µs", "floor, µs", "ratio", *(OVER[extra] for extra in over)]
    return lines_of(head + [PEERS[peer] for peer in peers], table, (0,)) if table else []


def rpc_lines(rows: list[dict]) -> list[str]:
    """Bytes of vectors in, steered rows out: our one call, and what others take over ours."""
    times = {(row["name"], row["series"]): row["wall_us"] for row in rows if row["suite"] == "rpc"}
    table = []
    for (name, series), time in times.items():
        if series == RPC_OURS and time:
            others = [times.get((name, other)) for other in RPC_OTHERS]
            table.append([name, f"{time:.1f}",
                          *(times_text(other / time) if other else "" for other in others)])
    head = ["RPC: vectors in, rows out", "steergraph, µs", *RPC_OTHERS]
    return lines_of(head, table, (0,)) if table else []


def warmup_lines(rows: list[dict]) -> list[str]:
    table = []
    for row in rows:
        if row["suite"] == "warmup" and row["wall_us"] is not None and "p99_us" not in row:
            table.append([row["name"], row["series"], time_text(row["wall_us"]),
                          calls_text(row.get("amortise_calls"))])
    return lines_of(["warm-up", "by", "time", "calls to amortise"], table, (0, 1)) if table else []


def pace_lines(rows: list[dict]) -> list[str]:
    """Calls at a steady pace, with and without compiles beside them."""
    table = []
    for row in rows:
        facts = [row.get(key) for key in ("calls", "p50_us", "p99_us", "p100_us", "calls_2ms_over_p50")]
        if row["suite"] == "warmup" and all(is_number(fact) for fact in facts):
            calls, *times, over = facts
            table.append([row["name"], f"{calls:.0f}", *(time_text(time) for time in times), f"{over:.0f}"])
    head = ["calls of a table in use", "number", "p50", "p99", "longest", "2 ms over p50"]
    return lines_of(head, table, (0,)) if table else []


def cache_lines(rows: list[dict]) -> list[str]:
    """What the cache costs, and what it may cost at most."""
    table = []
    for row in rows:
        if row["suite"] == "cache" and row["wall_us"] is not None:
            more = [row.get(key) for key in ("p99_us", "target_us")]
            table.append([row["name"], row["series"], time_text(row["wall_us"]),
                          *(time_text(time) if is_number(time) else "" for time in more)])
    return lines_of(["cache", "by", "time", "p99", "target"], table, (0, 1)) if table else []


def llama_lines(rows: list[dict]) -> list[str]:
    """Tokens per second of a whole model: ours, and the loop in PyTorch."""
    speeds = {(row["name"], row["series"]): row.get("tokens_per_s") for row in rows if row["suite"] == "llama"}
    table = []
    for (name, series), speed in speeds.items():
        if series == OURS and is_number(speed) and speed > 0:
            other = speeds.get((name, LLAMA_REFERENCE))
            known = is_number(other) and other > 0
            table.append([name, f"{speed:.0f}", f"{other:.0f}" if known else "",
                          f"{speed / other:.2f} ×" if known else ""])
    head = ["a Llama of 16 layers, batch 8, decoding", "steergraph, tokens/s", "loop, tokens/s", "over the loop"]
    return lines_of(head, table, (0,)) if table else []


def block_lines(rows: list[dict]) -> list[str]:
    """A layer's parts as one graph and as launches of their own: on the host's clock, and the host's part."""
    graphs = {row["name"]: row for row in rows if row["suite"] == "attend" and row["series"] == OURS}
    table = []
    for plain in rows:
        graph = graphs.get(plain["name"])
        if plain["suite"] == "attend" and plain["series"] == PLAIN and graph is not None:
            times = (graph["wall_us"], plain["wall_us"], graph.get("cpu_us"), plain.get("cpu_us"))
            table.append([plain["name"], *(f"{time:.1f}" if is_number(time) else "" for time in times)])
    head = ["a layer, µs", "one graph", "plain launches", "host, one graph", "host, plain launches"]
    return lines_of(head, table, (0,)) if table else []


def recompiles_text(row: dict, most: float) -> str:
    count, lengths = row.get("recompiles"), row.get("lengths")
    if not is_number(count):
        return ""
    cut = is_number(lengths) and lengths < most
    return f"{count:.0f} by length {lengths:.0f}" if cut else f"{count:.0f}"


def overhead_text(bytes_of_it, bytes_of_growing) -> str:
    if not (is_number(bytes_of_it) and is_number(bytes_of_growing) and bytes_of_growing > 0):
        return ""
    return f"{100 * (bytes_of_it / bytes_of_growing - 1):+.0f} %"


def metrics_lines(rows: list[dict]) -> list[str]:
    """A cache through every length: what was compiled, what a token costs, beside one that grows."""
    loops = [row for row in rows if row["suite"] == "attend" and row["name"].startswith(LOOP)]
    growing = next((row for row in loops if row["series"] == GROWING), {})
    most = max((row["lengths"] for row in loops if is_number(row.get("lengths"))), default=0)
    table = []
    for row in loops:
        graphs, mae = row.get("cudagraphs"), row.get("mae")
        speed = growing.get("wall_us") and row["wall_us"] and growing["wall_us"] / row["wall_us"]
        table.append([
            row["series"],
            "" if graphs is None else "yes" if graphs == 1 else "no",
            recompiles_text(row, most),
            f"{row['wall_us']:.1f}" if row["wall_us"] else "",
            times_text(speed) if speed else "",
            f"{mae:.1e}" if is_number(mae) else "",
            overhead_text(row.get("peak_bytes"), growing.get("peak_bytes")),
        ])
    head = [f"a cache, {loops[0]['name']}" if loops else "", "CUDA graphs enabled", "recompiles per model",
            "a token, µs", "speed-up", "MAE", "peak memory overhead"]  # fmt: skip
    return [*lines_of(head, table, (0, 1)), "", LOOP_NOTE] if table else []


def render_run(run: dict) -> list[str]:
    first = run["rows"][0]
    driver = f"{first['driver'] // 1000}.{first['driver'] % 1000 // 10}"
    facts = [f"**{first['card']}**", f"CUDA driver {driver}" if first["driver"] else "no CUDA driver"]
    facts += [f"NVRTC {first['cuda']}"] if "cuda" in first else []
    facts += [f"commit `{run['commit']}`"] if run["commit"] else []
    facts += [run["date"]] if run["date"] else []
    lines = [", ".join(facts) + ":"]
    if "kernel" in first:
        return lines + ["", *lines_of(list(HEAD), [cells(row) for row in run["rows"]], TEXT_COLUMNS)]
    parts = [workload_lines(run["rows"], group) for group in GROUPS]
    more = (block_lines, metrics_lines, rpc_lines, warmup_lines, pace_lines, cache_lines, llama_lines)
    parts += [lines(run["rows"]) for lines in more]
    parts = [part for part in parts if part]
    for part in parts:
        lines += ["", *part]
    return lines if parts else [*lines, "", "No row that is shown here."]


def render(root: pathlib.Path) -> str:
    blocks = []
    for path in sorted((root / RESULTS).glob("*.json")):
        place = path.relative_to(root).as_posix()
        blocks.append("\n".join(render_run(read_run(path.read_bytes(), place))))
        plot = path.with_suffix(".svg")
        if plot.is_file():
            blocks.append(f"![The times of this run as bars]({plot.relative_to(root).as_posix()})")
    return "\n\n".join(blocks) if blocks else NOTHING


def write_whole(path: pathlib.Path, text: str) -> None:
    """The old file or the new one, never a part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        part.write_bytes(text.encode("utf-8"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def rendered(root: pathlib.Path) -> tuple[str, str]:
    """README.md as it is, and as it should be."""
    try:
        text = (root / "README.md").read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(f"README.md: {error}") from None
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


def record(root: pathlib.Path, name: str, text: bytes, commit: str | None, date: str | None,
           more: list[pathlib.Path]) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
        raise Fault(f"{name!r} is no name of a result file; take letters, digits, '_', '.', '-'")
    check_fact("--commit", commit)
    check_fact("--date", date)
    run = read_run(text, "standard input")
    for path in more:
        run["rows"] += read_run(path.read_bytes(), str(path))["rows"]
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
    text, wanted = rendered(root)
    if args.command == "write":
        if text != wanted:
            write_whole(root / "README.md", wanted)
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
