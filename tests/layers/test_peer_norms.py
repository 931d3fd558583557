#!/usr/bin/env python3
"""tools/bench/peers/norm_agreement.py: right results behind the epilogue pass, wrong ones are refused.

Right are those of a peer that fuses add and norm, of one that rounds the sum between them, and of one
that rounds the row once more before the weight.
"""
import math
import random

import peer_support
from peer_support import HIDDEN, bf16, dot, report

import agreement  # noqa: E402
import norm_agreement  # noqa: E402

EPSILON = 1e-6


def norm_exact(row, weight, epsilon=EPSILON, count=HIDDEN) -> list:
    scale = 1 / math.sqrt(dot(row, row) / count + epsilon)
    return [x * scale * w for x, w in zip(row, weight)]


def norm_eager(row, weight) -> list:
    """The row rounded before it is multiplied with the weight."""
    scale = 1 / math.sqrt(dot(row, row) / HIDDEN + EPSILON)
    return [bf16(x * scale) * w for x, w in zip(row, weight)]


def total(hidden, residual) -> list:
    return [x + y for x, y in zip(hidden, residual)]


def rounded(row) -> list:
    return [bf16(x) for x in row]


# What a peer makes of hidden, residual, weight: both tensors.
RIGHT_NORMS = {
    "one that fuses both": lambda h, r, w: (norm_exact(total(h, r), w), total(h, r)),
    "one that rounds the sum": lambda h, r, w: (norm_exact(rounded(total(h, r)), w), total(h, r)),
    "one that rounds the row too": lambda h, r, w: (norm_eager(rounded(total(h, r)), w), total(h, r)),
}
WRONG_NORMS = {
    "a norm of hidden alone": lambda h, r, w: (norm_exact(h, w), total(h, r)),
    "a weight left out": lambda h, r, w: (norm_exact(total(h, r), [1.0] * HIDDEN), total(h, r)),
    "a weight with 1 added": lambda h, r, w: (norm_exact(total(h, r), [1 + x for x in w]), total(h, r)),
    "a weight that is shifted": lambda h, r, w: (norm_exact(total(h, r), w[1:] + w[:1]), total(h, r)),
    "a mean over 1 % fewer": lambda h, r, w: (norm_exact(total(h, r), w, count=0.99 * HIDDEN), total(h, r)),
    "a residual that is as it was": lambda h, r, w: (norm_exact(total(h, r), w), r),
    "tensors in the other's place": lambda h, r, w: (total(h, r), norm_exact(total(h, r), w)),
}


def norm_verdict(make, batch, weight, epsilon=EPSILON):
    verdict = norm_agreement.NormVerdict()
    norm = norm_agreement.Norm(weight, epsilon)
    for before in batch:
        ours = RIGHT_NORMS["one that fuses both"](*before, weight)
        after = [rounded(row) for row in make(*before, weight)]
        expected = [rounded(row) for row in ours]
        verdict.add(agreement.ListMath, before, after, expected, norm, "BF16")
    return verdict


def test_norm_agreement(deviation: float) -> None:
    source = random.Random(11)
    batch = [[[bf16(source.gauss(0, deviation)) for _ in range(HIDDEN)] for _ in range(2)] for _ in range(16)]
    weight = [bf16(source.gauss(1, 0.25)) for _ in range(HIDDEN)]
    size = f"at rows of deviation {deviation:g}"
    for name, make in RIGHT_NORMS.items():
        verdict = norm_verdict(make, batch, weight)
        report(verdict.agrees(), f"agrees with a norm by {name}, {size}", verdict)
    for name, make in WRONG_NORMS.items():
        verdict = norm_verdict(make, batch, weight)
        report(not verdict.agrees(), f"refuses {name}, {size}", verdict)

    def damaged(which, at, change):
        def make(h, r, w):
            result = [rounded(row) for row in RIGHT_NORMS["one that rounds the sum"](h, r, w)]
            result[which][at] = change(result[which][at])
            return result
        return make

    faults = {
        "a NaN": damaged(0, 7, lambda x: math.nan),
        "one element that is off": damaged(0, 7, lambda x: x + 0.0625),
        "one unit in the residual": damaged(1, 7, lambda x: x * (1 + 2.0**-7)),
        "a NaN in the residual": damaged(1, 7, lambda x: math.nan),
    }
    for name, make in faults.items():
        verdict = norm_verdict(make, batch, weight)
        report(not verdict.agrees(), f"refuses {name} behind the epilogue, {size}", verdict)


def test_norm_epsilon() -> None:
    source = random.Random(13)
    batch = [[[bf16(source.gauss(0, 1e-3)) for _ in range(HIDDEN)] for _ in range(2)] for _ in range(16)]
    weight = [1.0] * HIDDEN
    right = RIGHT_NORMS["one that rounds the sum"]
    verdict = norm_verdict(right, batch, weight)
    report(verdict.agrees(), "agrees with a norm of rows that are near epsilon", verdict)
    verdict = norm_verdict(
        lambda h, r, w: (norm_exact(rounded(total(h, r)), w, epsilon=0), total(h, r)), batch, weight)
    report(not verdict.agrees(), "refuses an epsilon that is left out", verdict)


def main() -> int:
    test_norm_agreement(deviation=1.0)
    test_norm_agreement(deviation=8.0)
    test_norm_epsilon()
    return 0 if peer_support.good else 1


raise SystemExit(main())
