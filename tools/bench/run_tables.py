"""The tables of one recorded run, as README.md shows them: lines of Markdown from rows that are right.

Of a run they have, per workload of the suites steer and decode, our time, the floor and the
early floor, the ratio to each and that of a table with every op, how many times ours each PyTorch peer
takes, and how many times that of the same batch ours is, unsteered or in a table that declares nothing
more, where that was measured; the same peers over one call of ours; what a batch takes whose vectors
come by RPC; what is said of warming up, and of calls beside compiles; what the cache costs beside its
targets; of the suites rope and attend as of steer, a layer as one graph beside plain launches,
and a KV cache through every length beside those of PyTorch; of the suite prove what prove_tables.py
says; what run_components.py shows of components and of whole models that have them; how long the run
took; and tokens per second of a whole model, whose rows peers/llama.py writes into a file for --add. All
else stays in the file.

Must not know of files and documents, which are table.py's.
"""
import pathlib

from prove_tables import prove_lines
from result_file import KERNELS, RELEASE, RUN, is_number
from run_components import components_lines, step_lines, surgical_lines
from table_text import lines_of, time_text, times_text

HEAD = (
    "workload", "rows", "kernel with", "apply, µs", "min to max", "copy, µs", "ratio", "registers"
)
TEXT_COLUMNS = (0, 2)

OURS = "steergraph"
EVERY_OP = "steergraph, every op"
GROUPS = {
    "steer": "prefill",
    "hidden": "single ops, hidden 2048",
    "norm": "add + RMSNorm",
    "declares": "1 op, 2048 rows, in a table that",
    "decode": "decode",
    "rope": "split and rotate",
    "attend": "attention, and layers of both",
}
BY_CALL = ("steer", "decode", "rope", "attend")  # groups whose peers are timed one call at a time
BUT_LINES = ("rope", "attend")  # of which those in a graph are timed in lines, as ours
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
FAILED = " failed"  # the end of a row's name, which begins with "peer "
# Of a loop over every length: ours, and what it is measured by.
LOOP = "every length"
GROWING = "torch growing cache"
PLAIN = "steergraph, plain launches"
LOOP_NOTE = ("Speed-up and memory are over the eager cache that grows; recompiles are those after the first of "
             "each function, over all lengths; MAE is the mean distance from float64.")
CUT_NOTE = " What was stopped by a length, for its compiles took too long, was timed up to there, where a token costs less."


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


def factor_text(factor) -> str:
    """As any extra it may also be "inf" or "nan"."""
    return f"{factor:.3f}" if is_number(factor) else ""


def call_text(factor: float) -> str:
    return times_text(factor).removesuffix(" ×")


def ratio_text(time, floor) -> str:
    return f"{time / floor:.2f}" if time and floor else ""


def early_cells(row: dict) -> list[str]:
    """The floor of launches that overlap as ours do, and the ratio to it."""
    early = row.get("floor_early_us")
    known = is_number(early) and early > 0
    return [f"{early:.2f}", ratio_text(row["median_us"], early)] if known else ["", ""]


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
    """Per workload: our time, the floors, the ratios, over others of ours, and each peer's time over ours."""
    times = {(row["suite"], row["name"], row["series"]): row["median_us"] for row in rows}
    ours = [row for row in rows if group_of(row) == group]
    keys = [(row["suite"], row["name"]) for row in ours]
    peers = [peer for peer in PEERS if any(times.get((*key, peer)) for key in keys)]
    over = [extra for extra in OVER if any(extra in row for row in ours)]
    early = any("floor_early_us" in row for row in ours)
    every_op = any((*key, EVERY_OP) in times for key in keys)
    table = []
    for row, key in zip(ours, keys):
        line = [row["name"], f"{row['median_us']:.2f}", f"{row['floor_us']:.2f}"]
        line.append(f"{row['ratio']:.2f}")
        line += early_cells(row) if early else []
        line += [ratio_text(times.get((*key, EVERY_OP)), row["floor_us"])] if every_op else []
        line += [factor_text(row.get(extra)) for extra in over]
        for peer in peers:
            time = times.get((*key, peer))
            line.append(times_text(time / row["median_us"]) if time else "")
        table.append(line)
    head = [GROUPS[group], "steergraph, µs", "floor, µs", "ratio"]
    head += ["early floor, µs", "ratio to it"] if early else []
    head += ["ratio, every op"] if every_op else []
    head += [OVER[extra] for extra in over] + [PEERS[peer] for peer in peers]
    return lines_of(head, table, (0,)) if table else []


def call_lines(rows: list[dict], group: str) -> list[str]:
    """Per workload with peers: one call of ours, and each peer's over it, by events and by wall."""
    at = {(row["suite"], row["name"], row["series"]): row for row in rows}
    ours = [row for row in rows if group_of(row) == group and is_number(row.get("eager_us")) and row["wall_us"]]
    keys = [(row["suite"], row["name"]) for row in ours]
    peers = [peer for peer in PEERS if any((*key, peer) in at for key in keys)
             and not (group in BUT_LINES and peer.endswith("in a graph"))]
    table = []
    for row, key in zip(ours, keys):
        found = [at.get((*key, peer), {}) for peer in peers]
        if any(found):
            line = [row["name"], f"{row['eager_us']:.1f}", f"{row['wall_us']:.1f}"]
            pairs = [(peer.get("median_us"), peer.get("wall_us")) for peer in found]
            line += [f"{call_text(device / row['eager_us'])} / {times_text(wall / row['wall_us'])}"
                     if device and wall else "" for device, wall in pairs]
            table.append(line)
    head = [f"{GROUPS[group]}, one call", "between events, µs", "by wall, µs"]
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
            of = f", of {row['loaded']:.0f}" if is_number(row.get("loaded")) else ""
            table.append([row["name"] + of, row["series"], time_text(row["wall_us"]),
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


def is_cut(row: dict, most: float) -> bool:
    """Whether a cache was stopped ahead of its last length."""
    return is_number(row.get("lengths")) and row["lengths"] < most


def recompiles_text(row: dict, most: float) -> str:
    count = row.get("recompiles")
    if not is_number(count):
        return ""
    return f"{count:.0f} by length {row['lengths']:.0f}" if is_cut(row, most) else f"{count:.0f}"


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
            "" if is_cut(row, most) else overhead_text(row.get("peak_bytes"), growing.get("peak_bytes")),
        ])
    head = [f"a cache, {loops[0]['name']}" if loops else "", "CUDA graphs enabled", "recompiles per model",
            "a token, µs", "speed-up", "MAE", "peak memory overhead"]  # fmt: skip
    note = LOOP_NOTE + (CUT_NOTE if any(is_cut(row, most) for row in loops) else "")
    return [*lines_of(head, table, (0, 1)), "", note] if table else []


def run_lines(rows: list[dict]) -> list[str]:
    """How long the run itself took, and which of its peers failed while others went on."""
    times = {row["name"]: row["wall_us"] for row in rows if row["suite"] == RUN and row["wall_us"]}
    names = [row["name"] for row in rows if row["suite"] == RUN]
    failed = [f"`{name[len('peer '):-len(FAILED)]}`" for name in names if name.endswith(FAILED)]
    whole = times.pop("all of it", None)
    parts = ", ".join(f"`{name}` {us * 1e-6:.0f} s" for name, us in times.items())
    lines = [f"The whole run took {whole * 1e-6:.0f} s" + (f": {parts}." if parts else ".")] if whole else []
    return lines + ([f"Not every series of {', '.join(failed)} came to its end; what is blank may be theirs."]
                    if failed else [])


def facts_of(run: dict) -> str:
    """The machine, the commit and the date."""
    first = run["rows"][0]
    driver = f"{first['driver'] // 1000}.{first['driver'] % 1000 // 10}"
    driver += f" ({first[RELEASE]})" if RELEASE in first else ""
    facts = [f"**{first['card']}**", f"CUDA driver {driver}" if first["driver"] else "no CUDA driver"]
    facts += [f"NVRTC {first['cuda']}"] if "cuda" in first else []
    facts += [f"commit `{run['commit']}`"] if run["commit"] else []
    facts += [run["date"]] if run["date"] else []
    return ", ".join(facts) + ":"


def render_run(run: dict) -> list[str]:
    lines = [facts_of(run)]
    if "kernel" in run["rows"][0]:
        return lines + ["", *lines_of(list(HEAD), [cells(row) for row in run["rows"]], TEXT_COLUMNS)]
    parts = []
    for group in GROUPS:
        parts.append(workload_lines(run["rows"], group))
        parts += [call_lines(run["rows"], group)] if group in BY_CALL else []
    parts += prove_lines(run["rows"])
    more = (block_lines, metrics_lines, components_lines, step_lines, surgical_lines, rpc_lines, warmup_lines, pace_lines,
            cache_lines, llama_lines, run_lines)
    parts += [lines(run["rows"]) for lines in more]
    parts = [part for part in parts if part]
    for part in parts:
        lines += ["", *part]
    return lines if parts else [*lines, "", "No row that is shown here."]
