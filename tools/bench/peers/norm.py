"""The epilogue without steering: residual add and RMSNorm, eager and compiled, in a CUDA graph.

A graph holds the work over every buffer, as the line of `steergraph bench` does, so that neither the
host nor the start of a replay is in a time. Results are new tensors, as in a model.
"""
import peer


def add_norm(side):
    """hidden, residual -> the normed sum, the sum."""
    import torch

    shape, weight, epsilon = [side.case.hidden_size], side.weight, side.case.epsilon

    def function(hidden, residual):
        total = hidden + residual
        return torch.nn.functional.rms_norm(total, shape, weight, epsilon), total

    return function


def in_graph(side, compiled: bool = False):
    import torch
    from torch_side import compile_with

    if not side.case.has_norm:
        return None
    function = compile_with(add_norm(side)) if compiled else add_norm(side)

    def bind(buffers):
        before = [(buffer.hidden, buffer.residual) for buffer in buffers]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                function(*before[0])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for buffer, inputs in zip(buffers, before):
                buffer.hidden, buffer.residual = function(*inputs)

        def call(_):
            graph.replay()
            return before  # which the graph reads

        return call

    return peer.Attempt(bind, line=True)


if __name__ == "__main__":
    peer.main([
        ("torch add + rms_norm in a graph", in_graph),
        ("torch.compile add + rms_norm in a graph", lambda side: in_graph(side, compiled=True)),
    ])
