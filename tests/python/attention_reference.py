"""Rotation and attention in float64, for arrays of numpy, with bounds of how far a result may be off.

The bounds are those of engine/oracle/rope.h and decode.h, of one rounding to the stored type.
"""
import math

import numpy as np

EPSILON = 2.0**-23


def parts_of(layout, heads, kv_heads, dim):
    """Where in a packed row the elements of q, k and v are: index arrays [heads of each, dim]."""
    index = np.arange((heads + 2 * kv_heads) * dim)
    if layout == "head_fastest":
        sizes = heads * dim, kv_heads * dim, kv_heads * dim
        parts = np.split(index, np.cumsum(sizes)[:2])
        return tuple(part.reshape(dim, -1).T for part in parts)
    if layout == "grouped":
        group = index.reshape(kv_heads, heads // kv_heads + 2, dim)
        return group[:, :-2].reshape(heads, dim), group[:, -2], group[:, -1]
    # interleaved, with as many KV heads as heads, is the same
    rows = index.reshape(-1, dim)
    return rows[:heads], rows[heads : heads + kv_heads], rows[heads + kv_heads :]


def frequencies(rot, base=10000.0, llama3=None):
    """Inverse frequencies, rounded once. llama3: (factor, low, high, original)."""
    inverse = base ** (-np.arange(0, rot, 2) / rot)
    if llama3 is not None:
        factor, low, high, original = llama3
        waves = 2 * math.pi / inverse
        smooth = ((original / waves - low) / (high - low)).clip(0, 1)
        inverse = (1 - smooth) * inverse / factor + smooth * inverse
    return inverse.astype(np.float32)


def rotate(heads, positions, inverse, pairs="half", back=False):
    """(rotated [rows, heads, dim], bound without the store's rounding) of float64 heads."""
    half = len(inverse)
    angles = positions[:, None].astype(np.float64) * inverse.astype(np.float64)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None] * (-1 if back else 1)
    first = slice(0, half) if pairs == "half" else slice(0, 2 * half, 2)
    second = slice(half, 2 * half) if pairs == "half" else slice(1, 2 * half, 2)
    a, b = heads[..., first], heads[..., second]
    out, bound = heads.copy(), np.zeros_like(heads)
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    off = EPSILON * (positions[:, None, None] + 4) * np.hypot(a, b)
    bound[..., first] = bound[..., second] = off
    return out, bound


def attend(q, keys, values, scale):
    """(out, bound without the store's rounding) of one query head over float64 keys [n, dim]."""
    if len(keys) == 0:
        return np.zeros_like(q), np.zeros_like(q)
    scores = scale * (keys @ q)
    away = abs(scores - scores.max())
    weights = np.exp(-away)
    weights /= weights.sum()
    out = weights @ values
    errors = EPSILON * ((len(q) / 8 + 8) * abs(scale) * (abs(keys) @ abs(q)) + away)
    spread = (weights * np.expm1(errors)) @ (abs(values) + abs(out))
    # chunks have at most 1024 positions here
    sums = EPSILON * (32 + len(keys) / 64 + 33) * (weights @ abs(values))
    return out, 1.01 * (spread + sums)
