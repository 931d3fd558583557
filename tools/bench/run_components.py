"""The tables of a recorded run about masked low-rank components: the op alone, a training step of a small
model of them (peers/components_step.py), and whole Llamas whose linear layers are PyTorch's
(peers/components_llama.py). Lines of Markdown from rows that are right; nothing where there are none.
"""
from result_file import is_number
from table_text import lines_of, time_text, times_text

OURS = "steergraph"
PEERS = {
    "torch in a graph": "in a graph",
    "torch": "eager",
    "torch products alone in a graph": "products alone",
    "torch.compile": "compiled",
    "torch.compile (reduce-overhead)": "reduce-overhead",
}
NOTE = ("The peer is `((x @ V) * m) @ U` by two products of PyTorch's library; its times are over ours, or where we have no "
        "kernel as they are. *Products alone* leaves the mask out. TFLOP/s count each product once, and x V once more on the "
        "way back; beside them what the library reaches with a product of 8192 by 8192.")  # fmt: skip
EAGER = "torch"


def number(value, digits: str) -> str:
    return format(value, digits) if is_number(value) else ""


def peer_text(time, ours) -> str:
    if not time:
        return ""
    return times_text(time / ours) if ours else time_text(time)


def components_lines(rows: list[dict]) -> list[str]:
    """Per workload: our time, what it comes to, the copy of its bytes, and each peer's time over ours."""
    at = {(row["name"], row["series"]): row for row in rows if row["suite"] == "components"}
    names = [name for name, series in at if series == OURS]
    peers = [peer for peer in PEERS if any((name, peer) in at for name in names)]
    table = []
    for name in names:
        ours = at[name, OURS]
        time = ours["median_us"]
        large = at.get((name, "torch in a graph"), {}).get("large_product_tflops")
        table.append([
            name,
            f"{time:.1f}" if time else "no kernel",
            number(ours.get("tflops"), ".0f"),
            number(large, ".0f"),
            number(ours["floor_us"], ".1f"),
            *(peer_text(at.get((name, peer), {}).get("median_us"), time) for peer in peers),
        ])
    head = ["components", "steergraph, µs", "TFLOP/s", "a large product", "copy, µs", *(PEERS[peer] for peer in peers)]
    return [*lines_of(head, table, (0,)), "", NOTE] if table else []


def over_eager(rows: list[dict], row: dict) -> str:
    """How many times as fast as eager."""
    eager = next((each["median_us"] for each in rows if each["name"] == row["name"] and each["series"] == EAGER), None)
    return f"{eager / row['median_us']:.2f} ×" if eager and row["median_us"] else ""


def ms(value) -> str:
    return time_text(value * 1e3) if is_number(value) else ""


def step_lines(rows: list[dict]) -> list[str]:
    """Training steps: by what, how long, and what they cost first and at most."""
    own = [row for row in rows if row["suite"] == "step" and row["median_us"]]
    table = [[
        row["name"], row["series"], f"{row['median_us'] * 1e-3:.2f}", over_eager(own, row), ms(row.get("first_call_ms")),
        ms(row.get("first_calls_ms")), number(row.get("peak_mb"), ".0f"), number(row.get("gradients_off"), ".1e"),
    ] for row in own]  # fmt: skip
    head = ["a training step, 28 modules", "by", "ms", "over eager", "first call", "first five", "peak MB", "gradients off"]
    return lines_of(head, table, (0, 1)) if table else []


def surgical_lines(rows: list[dict]) -> list[str]:
    """Whole Llamas: by what, how long, and how much of it is no linear layer, attention or norm."""
    own = [row for row in rows if row["suite"] == "surgical" and row["median_us"]]
    table = [[
        row["name"], row["series"], f"{row['median_us'] * 1e-3:.2f}", over_eager(own, row),
        number(row.get("tensor_ops_percent"), ".1f"), ms(row.get("first_call_ms")), number(row.get("peak_mb"), ".0f"),
        number(row.get("off"), ".1e"),
    ] for row in own]  # fmt: skip
    head = ["a Llama, forward, 2048 positions", "by", "ms", "over eager", "tensor ops, %", "first call", "peak MB", "off eager"]
    return lines_of(head, table, (0, 1)) if table else []
