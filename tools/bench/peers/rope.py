"""Split and rotate packed rows in PyTorch, eager and in a CUDA graph, as models do it.

Where the case has a cache, K and V are put into it. A graph holds the work over every buffer. Cosines
and sines are there before, as a model makes them once for all layers; V is not copied where it need
not be, which ours does but of the published case. Behind these the same compiled, which
rope_compiled.py has.
"""
import peer
from attn_case import AttnCase

LINES = 12  # times that a graph over every buffer is timed: each holds many calls


def work_of(side):
    """(function of tensors, a buffer's arguments for it, what takes its results)."""
    from attn_side import rotate

    case = side.case
    sizes = [heads * case.dim for heads in (case.heads, case.kv_heads, case.kv_heads)]

    def split(packed, cos, sin):
        q, k, v = (part.view(case.rows, -1, case.dim) for part in packed.split(sizes, -1))
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def append_prompt(packed, cos, sin, cache_k, cache_v):
        q, k, v = split(packed, cos, sin)
        for cache, new in ((cache_k, k), (cache_v, v)):
            rows = new.view(case.batch, case.rows_each, case.kv_heads, case.dim)
            cache[:, :, : case.rows_each].copy_(rows.transpose(1, 2))
        return q

    def append_row(packed, cos, sin, cache_k, cache_v, sequences, positions):
        q, k, v = split(packed, cos, sin)
        cache_k[sequences, :, positions] = k
        cache_v[sequences, :, positions] = v
        return q

    def take(buffer, result):
        if case.appends():
            buffer.q = result
        else:
            buffer.q, buffer.k, buffer.v = result

    if not case.appends():
        return split, lambda buffer: (buffer.packed, side.cos, side.sin), take
    if case.rows_each > 1:
        return append_prompt, lambda b: (b.packed, side.cos, side.sin, b.cache_k, b.cache_v), take
    sequences = side.positions.new_tensor(range(case.batch))
    return append_row, lambda b: (b.packed, side.cos, side.sin, b.cache_k, b.cache_v, sequences,
                                  side.positions), take  # fmt: skip


def call_of(side, function, arguments, take):
    def bind(buffers):
        prepared = [arguments(buffer) for buffer in buffers]
        return lambda index: take(buffers[index], function(*prepared[index]))

    return bind


def graph_of(function, arguments, take):
    """bind for an Attempt of a line."""

    def bind(buffers):
        import torch

        prepared = [arguments(buffer) for buffer in buffers]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                function(*prepared[0])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for buffer, inputs in zip(buffers, prepared):
                take(buffer, function(*inputs))

        def call(_):
            graph.replay()
            return prepared  # which the graph reads

        return call

    return bind


def eager(side):
    return peer.Attempt(call_of(side, *work_of(side)))


def in_graph(side):
    return peer.Attempt(graph_of(*work_of(side)), line=True, repeats=LINES)


if __name__ == "__main__":
    import rope_compiled

    peer.main([("torch rope", eager), ("torch rope in a graph", in_graph), *rope_compiled.SERIES], AttnCase,
              AttnCase.side)  # fmt: skip
