"""Attention of new rows over a cache of fixed size: SDPA with a mask, eager, compiled, in a graph.

The mask is there before. A graph holds the work over every buffer. Of a cache through every length it has
the series of caches.py.
"""
import peer
from attn_case import AttnCase


def work_of(side):
    import torch

    case = side.case
    places = torch.arange(case.capacity, device=side.positions.device)
    reads = side.positions.view(case.batch, 1, case.rows_each, 1)
    mask = places <= reads

    def attend(queries, keys, values):
        return torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, enable_gqa=case.heads != case.kv_heads)

    def take(buffer, result):
        buffer.out = result

    return attend, lambda buffer: (buffer.queries, buffer.keys, buffer.values), take


def eager(side):
    from rope import call_of

    return peer.Attempt(call_of(side, *work_of(side)))


def in_graph(side):
    from rope import LINES, graph_of

    return peer.Attempt(graph_of(*work_of(side)), line=True, repeats=LINES)


def compiled(side):
    from attn_side import start_compiler
    from rope import call_of
    from torch_side import compile_with

    start_compiler()
    function, arguments, take = work_of(side)
    return peer.Attempt(call_of(side, compile_with(function), arguments, take), compiled=True)


def of(work: str, series: list) -> list:
    """The series, without a form for other works."""
    return [(name, lambda side, make=make: make(side) if side.case.work == work else None) for name, make in series]


if __name__ == "__main__":
    import caches

    peer.main(of("attend", [
        ("torch SDPA with mask", eager),
        ("torch SDPA with mask in a graph", in_graph),
        ("torch.compile SDPA with mask", compiled),
    ]) + of("loop", caches.SERIES), AttnCase, AttnCase.side)  # fmt: skip
