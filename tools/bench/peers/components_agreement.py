"""Does a peer's y, or one of its gradients, agree with float64's? Vector by vector.

A vector is a row of y or dx, or what one component has of dv, du or dm. With u what the operands of
products are rounded to (bf16 2^-8, f16 2^-11, TF32 2^-10, as it may be cut) the peer's may be away by

    |theirs - ours| <= 4 u |ours|

in length; in float32 by 2^-16 |ours|. An eager peer rounds t, t * m and the result, and may add partial
sums in its type: each is half a unit of an element and of either sign, so that over a vector they come
to little more than u. A mask that is another row's, a product left out, a transposed matrix are far
beyond it. Needs no torch.
"""
import math

REACH = {"BF16": 4 * 2.0**-8, "F16": 4 * 2.0**-11, "TF32": 4 * 2.0**-10, "F32": 2.0**-16}


class VectorVerdict:
    """What was found of vectors so far: the worst distance over its bound, above 1 a disagreement."""

    def __init__(self, kind: str):
        self.reach, self.worst, self.place, self.count = REACH[kind], 0.0, "", 0

    def add(self, place: str, distances: list, lengths: list) -> None:
        """|theirs - ours| and |ours| of some vectors."""
        for i, (distance, length) in enumerate(zip(distances, lengths, strict=True)):
            bound = self.reach * length
            ratio = 0.0 if distance == 0 else distance / bound if bound > 0 else math.inf
            ratio = ratio if math.isfinite(distance) and math.isfinite(length) else math.inf
            self.count += 1
            if ratio > self.worst:
                self.worst, self.place = ratio, f"{place} {i}"

    def agrees(self) -> bool:
        return self.count > 0 and self.worst <= 1

    def __str__(self) -> str:
        return f"of {self.count} vectors the worst, {self.place}, is off by {self.worst:.3g} times its bound"
