"""Does a peer's residual add and RMSNorm agree with steergraph's? See agreement.py.

With x and y what hidden and residual were, w the weight, and norm(s) = s / sqrt(mean(s^2) + eps) * w:
steergraph rounds s = x + y once for the residual, and norm(s) of the unrounded s once for hidden. A peer
may do the same (a kernel that fuses both), or take the norm of the s that it has rounded (add, then
norm). With t the rounded s, that is followed: a = norm(t) may be in the place of b = norm(s), element by
element. With u the type's unit roundoff (bf16: 2^-8), three things are asked, the last two with 5 %
more for products of roundings and for float32:

residual    equal: one sum, rounded once.
element     |difference[j]| <= |a[j] - b[j]| + u (|b[j]| + 2 |a[j]|): one rounding of ours, and two of
            the peer's, which may round the row before it is multiplied with the weight.
length      Roundings average out over a row, a wrong mean, epsilon or weight does not:
            |difference . b| <= |(a - b) . b| + 5 sqrt(sum_j b[j]^2 e[j]^2 / 3), e what the element's
            bound has beside |a - b|.
"""
from agreement import DEVIATIONS, SECOND_ORDER, UNIT_ROUNDOFF


class Norm:
    """What follows a chain: the weight and the epsilon of a case's epilogue."""

    def __init__(self, weight, epsilon: float):
        self.weight, self.epsilon = weight, epsilon

    def of(self, m, row):
        square = m.total(m.each(lambda x: x * x, row))
        scale = 1.0 / m.root(square * (1.0 / m.size(row)) + self.epsilon)
        return m.each(lambda x, w: x * w, m.scale(scale, row), self.weight)


class NormVerdict:
    """What was found of a result so far, each over its bound: above 1 is a disagreement."""

    def __init__(self):
        self.residual = self.element = self.length = 0.0

    def add(self, m, before, after, expected, norm, dtype: str) -> None:
        """Judge rows: (hidden, residual) before, as the peer left them, as steergraph did."""
        unit = UNIT_ROUNDOFF[dtype]
        wrong = m.each(lambda x, y: abs(x - y), after[1], expected[1])
        self.residual = max(self.residual, m.worst(wrong, m.scale(0.0, wrong)))
        exact = m.each(lambda x, y: x + y, *before)
        ours, theirs = norm.of(m, exact), norm.of(m, m.rounded(dtype, exact))
        difference = m.each(lambda x, y: x - y, after[0], expected[0])
        followed = m.each(lambda x, y: x - y, theirs, ours)
        rounding = m.each(lambda a, b: unit * (abs(b) + 2 * abs(a)), theirs, ours)
        bound = m.each(lambda f, e: SECOND_ORDER * (abs(f) + e), followed, rounding)
        self.element = max(self.element, m.worst(m.each(abs, difference), bound))
        variance = m.total(m.each(lambda b, e: (b * e) * (b * e) / 3, ours, rounding))
        reach = SECOND_ORDER * (abs(self.dot(m, followed, ours)) + DEVIATIONS * m.root(variance))
        found = abs(self.dot(m, difference, ours))
        self.length = max(self.length, m.worst(m.numbers(found, exact), m.numbers(reach, exact)))

    @staticmethod
    def dot(m, x, y):
        return m.total(m.each(lambda a, b: a * b, x, y))

    def agrees(self) -> bool:
        return self.residual == 0 and self.element <= 1 and self.length <= 1

    def __str__(self) -> str:
        of_residual = "the residual is not equal, " if self.residual > 0 else ""
        return (f"{of_residual}elements are off by up to {self.element:.3g} times their bound, lengths of "
                f"rows by {self.length:.3g}")
