"""Does a peer's rotation or attention agree with steergraph's? Head by head.

With u the type's unit roundoff (bf16: 2^-8), a head h of ours and p the position of its row, the
peer's may be away from it by

    |theirs - h| <= (4 u + 2^-22 (p + 16)) |h|

in length. Roundings are a few per element and of either sign: cosine and sine, two products and a sum
of a rotation, the weights of an attention; over a head they average to less than 2 u. The second part
is float32's: the angle of position p is off by about 2^-24 p. A turn by a neighbour's angle, another
pairing, a key too many or too few with a weight that counts are far beyond both. Needs no torch.
"""
import math

UNIT_ROUNDOFF = {"BF16": 2.0**-8, "F16": 2.0**-11, "F32": 2.0**-24}


def reach(dtype: str, position: int) -> float:
    """How far a head may be away, over its length."""
    return 4 * UNIT_ROUNDOFF[dtype] + 2.0**-22 * (position + 16)


class HeadVerdict:
    """What was found of heads so far: the worst distance over its bound, above 1 a disagreement."""

    def __init__(self, dtype: str):
        self.dtype, self.worst, self.place = dtype, 0.0, ""
        self.heads = 0

    def add(self, place: str, position: int, distances: list, lengths: list) -> None:
        """The heads of one row: |theirs - ours| and |ours| of each."""
        for head, (distance, length) in enumerate(zip(distances, lengths)):
            bound = reach(self.dtype, position) * length
            ratio = 0.0 if distance == 0 else distance / bound if bound > 0 else math.inf
            ratio = ratio if math.isfinite(distance) and math.isfinite(length) else math.inf
            self.heads += 1
            if ratio > self.worst:
                self.worst, self.place = ratio, f"{place}, head {head}"

    def agrees(self) -> bool:
        return self.heads > 0 and self.worst <= 1

    def __str__(self) -> str:
        return f"of {self.heads} heads the worst, {self.place}, is off by {self.worst:.3g} times its bound"
