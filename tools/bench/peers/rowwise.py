"""One vectorised expression for all rows: each row gathers its vector and its numbers.

What a careful user writes: with p = h . v, every op adds (a + b p + k (clamp(p, low, high) - p)) v,
an add by a, an ablation by b, a cap by k; a row without an op has a zero vector.
"""
import peer


def table_of(side, step: int) -> tuple:
    """Vectors and numbers of the ops number `step`, one row each, and the index of each batch row."""
    import torch

    inf = float("inf")
    numbers, vectors, index, known = [(0.0, 0.0, 0.0, -inf, inf)], [0], [], {}
    for request in side.case.requests:
        at = 0
        if step < len(request.chain):
            op = request.chain[step]
            if op.key() not in known:
                known[op.key()] = len(numbers)
                numbers.append(numbers_of(op))
                vectors.append(op.vector)
            at = known[op.key()]
        index += [at] * (request.end - request.first)
    values = side.vectors[torch.tensor(vectors).cuda()].clone()
    values[0] = 0
    columns = torch.tensor(numbers, dtype=side.hidden.dtype).cuda().unsqueeze(-1).unbind(1)
    return torch.tensor(index).cuda(), values, columns


def numbers_of(op) -> tuple:
    inf = float("inf")
    if op.name == "add":
        return op.params["scale"], 0.0, 0.0, -inf, inf
    if op.name == "ablation":
        return 0.0, op.params["scale"] - 1, 0.0, -inf, inf
    return 0.0, 0.0, 1.0, op.params["min"], op.params["max"]


def expression(hidden, tables):
    h = hidden
    for index, vectors, (a, b, k, low, high) in tables:
        v = vectors[index]
        p = (h * v).sum(-1, keepdim=True)
        c = a[index] + b[index] * p + k[index] * (p.clamp(low[index], high[index]) - p)
        h = h + c * v
    hidden.copy_(h)


def rowwise(side, compiled: bool = False):
    from torch_side import compile_with

    tables = [table_of(side, step) for step in range(side.case.longest_chain())]
    function = compile_with(expression) if compiled else expression
    return peer.Attempt(
        lambda buffers: lambda index: function(buffers[index], tables), compiled=compiled)


if __name__ == "__main__":
    peer.main([
        ("torch row-wise", rowwise),
        ("torch.compile row-wise", lambda side: rowwise(side, compiled=True)),
    ])
