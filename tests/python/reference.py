"""Ops and chains in float64, op by op, for arrays of numpy and tensors of torch alike.

A row is the last dimension. `bound` is how far a result may be off: the storage's rounding, and a
few roundings of float32 per op, where dots and norms of a row bring those of the whole row along.
"""
import math


def dot(h, v):
    return (h * v).sum(-1)[..., None]


def norm(h):
    return dot(h, h) ** 0.5


def add(h, v, scale=1.0):
    return h + scale * v


def ablation(h, v, scale=0.0):
    return h + (scale - 1) * dot(h, v) * v


def projection_cap(h, v, min=-math.inf, max=math.inf):
    p = dot(h, v)
    return h + (p.clip(min, max) - p) * v


def add_keep_norm(h, v, scale=1.0):
    g = h + scale * v
    return g * (norm(h) / norm(g))


def add_norm_matched(h, v, scale=1.0):
    return h + scale * norm(h) * v


def gated_add(h, u, v, scale=1.0, sharpness=1.0, threshold=0.0):
    return h + scale * v / (1 + math.e ** (-sharpness * (dot(h, u) - threshold)))


def swap(h, a, b):
    return h + dot(h, a) * (b - a)


def scale_norm(h, scale=1.0):
    return scale * h


OPS = {
    op.__name__: op
    for op in (
        ablation,
        add,
        add_keep_norm,
        add_norm_matched,
        gated_add,
        projection_cap,
        scale_norm,
        swap,
    )
}


def run(h, ops):
    """Rows after a chain, and its bound without the storage's rounding. ops: (name, vectors,
    params by name), vectors in float64."""
    largest, size, off = abs(h), norm(h), 0.0 * h
    reach = 1.0
    for name, vectors, params in ops:
        before = h
        h = OPS[name](h, *vectors, **params)
        lengths = [float((v * v).sum()) ** 0.5 for v in vectors] or [1.0]
        reach = max(reach, *lengths) * max(1.0, *lengths)
        largest = largest + abs(h) + abs(h - before)
        size = size + norm(h) + norm(h - before)
        peak = max([float(abs(v).max()) for v in vectors], default=1.0)
        off = off + h.shape[-1] ** 0.5 * reach * size * peak
    return h, 2.0**-23 * ((len(ops) + 2) * largest + off)


def rms_norm(total, weight, epsilon):
    return total / ((total * total).mean(-1)[..., None] + epsilon) ** 0.5 * weight
