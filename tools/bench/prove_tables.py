"""The tables of the suite prove of one recorded run: those that were published of the search that it is
measured by, with ours beside that search in PyTorch.

A candidate's time by the size of its pool; the batches that a compiled step was tried on, and what a first
result costs; how many queries were done after each step of a batch that takes all of them; memory.
"""
import re

from table_text import lines_of, time_text, times_text
from result_file import is_number

SUITE = "prove"
OURS = "steergraph"
ARITHMETICS = {OURS: "float32", "steergraph, tf32x3": "three TF32", "steergraph, tf32": "TF32"}
EAGER = "torch eager step"
PEERS = {
    EAGER: "eager",
    "torch eager step, exit when all are done": "exit when all are done",
    "torch step in a CUDA graph": "in a graph",
    "torch step in a CUDA graph, in batches of 512": "in batches of 512",
}
COMPILED = "torch.compile step (reduce-overhead)"
STEP = re.compile(r"torch, step (\d+)")
POOL = re.compile(r"(\w+), pool (\d+)")
PUBLISHED = re.compile(r"(\w+), (\d+) (repeated|varied|evaluated|unpadded)")
FIRST = "first result, "
SHOWN_STEPS = (1, 2, 3, 5, 8, 12, 16, 20)


def time_of(row: dict):
    """On the device, or by the wall where there is none."""
    return row.get("median_us") or row.get("wall_us")


def rows_at(rows: list[dict]) -> dict:
    """{(name, series): row} of the suite."""
    return {(row["name"], row["series"]): row for row in rows if row["suite"] == SUITE}


def pools_of(at: dict) -> list[tuple]:
    """(base, pool, name) of pools of ours, as the suite measured them."""
    found = [(POOL.fullmatch(name), name) for name, series in at if series == OURS]
    return [(match.group(1), int(match.group(2)), name) for match, name in found if match]


def each_text(us, pool: int) -> str:
    return time_text(us / pool) if us else ""


def number_text(row: dict, key: str, form: str) -> str:
    value = row.get(key)
    return format(value, form) if is_number(value) else ""


def over_text(row: dict) -> str:
    return f"{row['ratio']:.2f}" if row.get("ratio") else ""


def base_lines(at: dict, base: str) -> list[str]:
    """A candidate's time by the size of its pool, ours and each way of theirs; and what they waste."""
    pools = [(pool, name) for own, pool, name in pools_of(at) if own == base]
    arithmetics = [series for series in ARITHMETICS if any((name, series) in at for _, name in pools)]
    peers = [series for series in PEERS if any((name, series) in at for _, name in pools)]
    table = []
    for pool, name in pools:
        ours = at[name, OURS]
        line = [str(pool)]
        line += [each_text(time_of(at.get((name, series), {})), pool) for series in arithmetics]
        line += [over_text(ours), number_text(ours, "useful", ".3f")]
        for series in peers:
            row = at.get((name, series), {})
            waste = number_text(row, "wasted", ".0%")
            line.append(f"{each_text(time_of(row), pool)}{f', {waste} wasted' if waste else ''}")
        table.append(line)
    head = [f"{base}: candidates of a pool", *(f"a candidate, {ARITHMETICS[series]}" for series in arithmetics)]
    head += ["over the floor", "useful", *(f"PyTorch, {PEERS[series]}" for series in peers)]
    return lines_of(head, table, ()) if table else []


def compiled_cells(row: dict) -> list[str]:
    """The first call, later ones, how much was compiled; blanks where there is no row."""
    first, later = row.get("first_call_ms"), row.get("wall_us")
    return [time_text(first * 1e3) if is_number(first) else "", time_text(later) if later else "",
            number_text(row, "compiles", ".0f")]  # fmt: skip


def published_lines(at: dict) -> list[str]:
    """A batch that a warm process meets: ours, and a step that is compiled for its size."""
    compiled = any(series == COMPILED for _, series in at)
    table = []
    for (name, series), ours in at.items():
        if series == OURS and (match := PUBLISHED.fullmatch(name)) and ours["wall_us"]:
            theirs = at.get((name, COMPILED), {})
            size = int(match.group(2))
            line = [name, time_text(ours["wall_us"]), each_text(ours["wall_us"], size), number_text(ours, "compiles", ".0f")]
            table.append(line + ([*compiled_cells(theirs), each_text(theirs.get("wall_us"), size)] if compiled else []))
    head = ["a batch of candidates, by wall", "steergraph, first", "a candidate", "compiles"]
    head += ["torch.compile, first", "later", "compiles", "a candidate"] if compiled else []
    return lines_of(head, table, (0,)) if table else []


def first_lines(at: dict) -> list[str]:
    """What a process pays before its first pool is proved."""
    table = []
    for (name, series), row in at.items():
        if series == OURS and name.startswith(FIRST) and row["wall_us"]:
            parts = [row.get(key) for key in ("compile_ms", "load_ms", "first_call_ms")]
            table.append([name, time_text(row["wall_us"]),
                          *(time_text(ms * 1e3) if is_number(ms) else "" for ms in parts)])
    head = ["proof search, by wall", "all of it", "compiling", "loading", "the first pool"]
    return lines_of(head, table, (0,)) if table else []


def step_lines(at: dict) -> list[str]:
    """Done after each step of a batch, and that each step of theirs costs the same; ours beside all of them."""
    found = {}
    for (name, series), row in at.items():
        if (match := STEP.fullmatch(series)) and row["wall_us"]:
            found.setdefault(name, {})[int(match.group(1))] = row
    lines = []
    for name, steps in found.items():
        pool = next(iter(steps.values())).get("pool", 0)
        table = [[f"step {number}", f"{row['done']:.0f} of {pool:.0f}", time_text(time_of(row))]
                 for number, row in steps.items() if number in SHOWN_STEPS]  # fmt: skip
        whole = sum(time_of(row) for row in steps.values())
        table.append([f"all {len(steps)} steps", "", time_text(whole)])
        ours = time_of(at.get((name, OURS), {}))
        if ours:
            table.append(["steergraph, the whole pool", "", f"{time_text(ours)}, {times_text(whole / ours)} less"])
        lines += [*([""] if lines else []), *lines_of([name, "done", "time"], table, (0,))]  # tables of their own
    return lines


def memory_lines(at: dict) -> list[str]:
    """What a pool takes of memory, beside an eager batch of its size."""
    table = []
    for _, _, name in pools_of(at):
        ours, theirs = at[name, OURS], at.get((name, EAGER), {})
        if is_number(ours.get("memory_mb")) and is_number(theirs.get("allocated_mb")):
            line = [name, number_text(ours, "memory_mb", ".0f"), number_text(ours, "states_mb", ".1f")]
            table.append([*line, number_text(ours, "dense_mb", ".0f"), number_text(theirs, "allocated_mb", ".0f")])
    head = ["memory, MB", "steergraph", "of it derived states", "one padded tensor of them", "PyTorch, eager, at most"]
    return lines_of(head, table, (0,)) if table else []


def prove_lines(rows: list[dict]) -> list[list[str]]:
    """The tables that the rows have something for."""
    at = rows_at(rows)
    bases = list(dict.fromkeys(base for base, _, _ in pools_of(at)))
    return [*(base_lines(at, base) for base in bases), step_lines(at), published_lines(at), first_lines(at),
            memory_lines(at)]  # fmt: skip
