"""Does a peer's result agree with steergraph's? One definition, for torch tensors and for lists.

steergraph keeps a row in float32 through its chain and rounds once. A peer that works op by op in the
row's type rounds every product, every sum and every projection. So the two may differ, by no more than
those roundings: with u the type's unit roundoff (bf16: 2^-8) and h the row after op k, which adds
c * v (c is a scale, or made from the projection p = h . v),

    b[j]   grows by  u (|c v[j]| + |h[j]|)            the product and the sum, per op; u |h[j]| at the end
    dp     =         4 u (|p| + rms(h) |v|)           the projection, its partial sums rounded as well,
                     + sum_i d_i |v_i . v| + 4 |v*b|  and what earlier ops of the chain brought to it
    d_k    =         gain * dp + 2 u |c|              the coefficient; gain 1 for a cap, |scale - 1| for
                                                      an ablation, 0 for an add

An element may differ by b[j] + sum_i d_i |v_i[j]|. That alone would let a small wrong coefficient hide
below the rounding of large elements, so the difference's projection on each vector of the chain is
judged too: roundings average out in it, a wrong coefficient does not. It may be sum_i d_i |v_i . v|
+ 4 |v*b|, v*b element by element (independent errors within +-b have 7 standard deviations there).
Both with 5 % more, for products of roundings and for what float32 rounds.

Rows with no chain must be equal.
"""
import math

UNIT_ROUNDOFF = {"BF16": 2.0**-8, "F16": 2.0**-11, "F32": 2.0**-24}
PROJECTION_ROUNDINGS = 4
SPREAD = 4
SECOND_ORDER = 1.05


class ListMath:
    """One row as a list of floats; numbers of a row are floats."""

    @staticmethod
    def each(function, *rows):
        return [function(*items) for items in zip(*rows)]

    @staticmethod
    def scale(number, row):
        return [number * x for x in row]

    @staticmethod
    def total(row):
        return math.fsum(row)

    @staticmethod
    def root(x):
        return math.sqrt(x)

    @staticmethod
    def clamp(x, low, high):
        return min(max(x, low), high)

    @staticmethod
    def worst(differences, bounds):
        """The largest difference over its bound; infinite where a bound of 0 is passed, or NaN."""
        ratios = [0.0]
        for difference, bound in zip(differences, bounds):
            if difference <= bound:
                ratios.append(difference / bound if bound > 0 else 0.0)
            else:
                ratios.append(difference / bound if bound > 0 and difference > bound else math.inf)
        return max(ratios)

    @staticmethod
    def numbers(number):
        """A number of the row, or of each row, as a list."""
        return [number]

    size = staticmethod(len)


class Followed:
    """A chain followed on rows: the row at the end, and what the bounds are made of."""

    def __init__(self, math_of, before, chain, vectors, unit):
        self.m, self.unit = math_of, unit
        self.row = before
        self.bound = self.m.scale(0.0, before)
        self.errors = []  # (d, vector) per op
        for op in chain:
            self.step(op, vectors[op.vector])
        self.round(self.row)

    def dot(self, x, y):
        return self.m.total(self.m.each(lambda a, b: a * b, x, y))

    def norm(self, x):
        return self.m.root(self.dot(x, x))

    def round(self, row) -> None:
        self.bound = self.m.each(lambda b, x: b + self.unit * abs(x), self.bound, row)

    def along(self, v):
        """How far the projection on v may be off: earlier coefficients, and the roundings."""
        spread = SPREAD * self.norm(self.m.each(lambda a, b: a * b, v, self.bound))
        for error, vector in self.errors:
            spread = spread + error * abs(self.dot(vector, v))
        return spread

    def coefficient(self, op, v) -> tuple:
        """(c, d) of an op on the row as it is."""
        if op.name == "add":
            c = op.params["scale"]
            return c, 2 * self.unit * abs(c)
        p = self.dot(self.row, v)
        scale = self.norm(self.row) * (1.0 / math.sqrt(self.m.size(v))) * self.norm(v)
        error = PROJECTION_ROUNDINGS * self.unit * (abs(p) + scale) + self.along(v)
        if op.name == "ablation":
            gain = op.params["scale"] - 1
            c = gain * p
            return c, abs(gain) * error + 2 * self.unit * abs(c)
        c = self.m.clamp(p, op.params["min"], op.params["max"]) - p
        return c, error + 2 * self.unit * abs(c)

    def step(self, op, v) -> None:
        c, d = self.coefficient(op, v)
        added = self.m.scale(c, v)
        self.row = self.m.each(lambda x, y: x + y, self.row, added)
        self.round(added)
        self.round(self.row)
        self.errors.append((d, v))


def disagreement(m, before, after, expected, chain, vectors, dtype: str) -> tuple:
    """(worst element, worst projection), each over its bound: above 1 is a disagreement.

    `before`, `after` and `expected` are rows of one chain, as `m` has them.
    """
    difference = m.each(lambda x, y: x - y, after, expected)
    if not chain:
        return m.worst(m.each(abs, difference), m.scale(0.0, before)), 0.0
    followed = Followed(m, before, chain, vectors, UNIT_ROUNDOFF[dtype])
    bound = followed.bound
    for error, vector in followed.errors:
        reach = m.scale(error, m.each(abs, vector))
        bound = m.each(lambda b, x: b + x, bound, reach)
    element = m.worst(m.each(abs, difference), m.scale(SECOND_ORDER, bound))
    projection = 0.0
    for index in sorted({op.vector for op in chain}):
        v = vectors[index]
        found = m.numbers(abs(followed.dot(difference, v)))
        projection = max(projection, m.worst(found, m.numbers(SECOND_ORDER * followed.along(v))))
    return element, projection
