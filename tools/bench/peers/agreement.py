"""Does a peer's result agree with steergraph's? One definition, for torch tensors and for lists.

steergraph keeps a row in float32 through its chain and rounds once. A peer that works op by op in the
row's type rounds every product, every sum and every projection. So the two may differ, by no more than
those roundings. With u the type's unit roundoff (bf16: 2^-8) and h the row after op k, which adds c * v
(c is a scale, or made from the projection p = h . v):

    b[j]   grows by  u (|c v[j]| + |h[j]|)           per op, the product and the sum; u |h[j]| at the end
    s[j]^2 grows by  one third of the squares        the same as variances
    dp     =         3 u (|p| + rms(h) |v|)          the projection, whose partial sums may be rounded,
                     + reach(v)                      and what earlier ops of the chain brought to it
    d_k    =         gain * dp + 2 u |c|             the coefficient; gain 1 for a cap, |scale - 1| for
                                                     an ablation, 0 for an add
    reach(v) =       sum_i d_i |v_i . v| + 5 |v*s|   how far a projection on v may be off; v*s element
                                                     by element

Three things are asked, each with 5 % more for products of roundings and for float32:

element     |difference[j]| <= b[j] + sum_i d_i |v_i[j]|.
projection  |difference . v_k| <= reach(v_k) and what rounding op by op comes to by itself. A row stands
            on its type's grid, and what is less than half a step is lost to it in every element alike:
            that is followed op by op. Other roundings average out, a wrong coefficient does not.
mean        Rows of bf16 are coarse: where p is 20, a bound of 0.25 in the place of 0.5 is below the
            rounding of one row. Over rows roundings average out again: the mean of sign(c) times the
            difference's projection, over all ops of a kind in the case, is at most the root mean square
            of reach over sqrt(count), and the mean of sum_i u |c_i| |v_i . v| for numbers of the op that
            are rounded alike in every row, and of what rounding op by op comes to.

Rows with no chain must be equal.
"""
import math
import struct

UNIT_ROUNDOFF = {"BF16": 2.0**-8, "F16": 2.0**-11, "F32": 2.0**-24}
PROJECTION_ROUNDINGS = 3
DEVIATIONS = 5
SECOND_ORDER = 1.05


def rounded(dtype: str, x: float) -> float:
    """The number of a type that is nearest to x, ties to even."""
    if dtype == "F16":
        return struct.unpack("<e", struct.pack("<e", x))[0]
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    if dtype == "BF16":
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


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
    def numbers(number, row):
        """The numbers of all rows in `row` as a list."""
        return [number]

    @staticmethod
    def rounded(dtype, row):
        return [rounded(dtype, x) for x in row]

    @staticmethod
    def rounded_number(dtype, number):
        return rounded(dtype, number)

    size = staticmethod(len)


class Followed:
    """A chain followed on rows: the row at the end, and what the bounds are made of."""

    def __init__(self, math_of, before, chain, vectors, dtype: str):
        self.m, self.dtype, self.unit = math_of, dtype, UNIT_ROUNDOFF[dtype]
        self.row = before
        self.by_op = before  # rounded after every product and every sum, as eager code does
        self.bound = self.m.scale(0.0, before)
        self.variance = self.m.scale(0.0, before)
        self.steps = []  # (c, d, vector) per op
        for op in chain:
            self.step(op, vectors[op.vector])
            self.step_by_op(op, vectors[op.vector])
        self.round(self.row)

    def dot(self, x, y):
        return self.m.total(self.m.each(lambda a, b: a * b, x, y))

    def norm(self, x):
        return self.m.root(self.dot(x, x))

    def round(self, row) -> None:
        unit = self.unit
        self.bound = self.m.each(lambda b, x: b + unit * abs(x), self.bound, row)
        self.variance = self.m.each(lambda s, x: s + (unit * x) * (unit * x) / 3, self.variance, row)

    def reach(self, v):
        """How far the projection on v may be off: coefficients so far, and roundings."""
        variance = self.m.total(self.m.each(lambda a, s: a * a * s, v, self.variance))
        reach = DEVIATIONS * self.m.root(variance)
        for _, error, vector in self.steps:
            reach = reach + error * abs(self.dot(vector, v))
        return reach

    def shared(self, v):
        """The part of it that rows may have in common."""
        shared = 0.0
        for c, _, vector in self.steps:
            shared = shared + self.unit * abs(c) * abs(self.dot(vector, v))
        return shared

    def coefficient(self, op, p):
        """What an op adds of its vector, where p is the projection on it."""
        if op.name == "add":
            return op.params["scale"]
        if op.name == "ablation":
            return (op.params["scale"] - 1) * p
        return self.m.clamp(p, op.params["min"], op.params["max"]) - p

    def coefficient_error(self, op, v, p, c):
        """How far c may be off."""
        rounding = 2 * self.unit * abs(c)
        if op.name == "add":
            return rounding
        scale = self.norm(self.row) * (1.0 / math.sqrt(self.m.size(v))) * self.norm(v)
        error = PROJECTION_ROUNDINGS * self.unit * (abs(p) + scale) + self.reach(v)
        gain = abs(op.params["scale"] - 1) if op.name == "ablation" else 1
        return gain * error + rounding

    def step(self, op, v) -> None:
        p = self.dot(self.row, v)
        c = self.coefficient(op, p)
        d = self.coefficient_error(op, v, p, c)
        added = self.m.scale(c, v)
        self.row = self.m.each(lambda x, y: x + y, self.row, added)
        self.round(added)
        self.round(self.row)
        self.steps.append((c, d, v))

    def step_by_op(self, op, v) -> None:
        m = self.m
        p = m.rounded_number(self.dtype, self.dot(self.by_op, v))
        c = self.coefficient(op, p)
        if op.name != "add":  # its vector is scaled once, not per call
            c = m.rounded_number(self.dtype, c)
        added = m.rounded(self.dtype, m.scale(c, v))
        self.by_op = m.rounded(self.dtype, m.each(lambda x, y: x + y, self.by_op, added))

    def rounding_by_op(self, v):
        """How far rounding op by op takes the projection on v."""
        return self.dot(self.m.each(lambda x, y: x - y, self.by_op, self.row), v)


class Verdict:
    """What was found of a result so far, each over its bound: above 1 is a disagreement."""

    def __init__(self):
        self.element = self.projection = 0.0
        # op name: [(signed difference, reach, shared, signed rounding)] of rows that the op changes
        self.kinds = {}

    def add(self, m, before, after, expected, chain, vectors, dtype: str) -> None:
        """Judge rows that share a chain, as `m` has them."""
        difference = m.each(lambda x, y: x - y, after, expected)
        size = m.each(abs, difference)
        if not chain:
            self.element = max(self.element, m.worst(size, m.scale(0.0, before)))
            return
        followed = Followed(m, before, chain, vectors, dtype)
        bound = followed.bound
        for _, error, vector in followed.steps:
            bound = m.each(lambda b, x: b + x, bound, m.scale(error, m.each(abs, vector)))
        self.element = max(self.element, m.worst(size, m.scale(SECOND_ORDER, bound)))
        for op, (c, _, v) in zip(chain, followed.steps):
            found = followed.dot(difference, v)
            reach = SECOND_ORDER * followed.reach(v)
            rounding = followed.rounding_by_op(v)
            bound = reach + abs(rounding)
            worst = m.worst(m.numbers(abs(found), before), m.numbers(bound, before))
            self.projection = max(self.projection, worst)
            parts = (c, found, reach, SECOND_ORDER * followed.shared(v), rounding)
            for number, d, r, s, e in zip(*(m.numbers(part, before) for part in parts)):
                if number != 0:
                    signed = math.copysign(d, d * number), r, s, math.copysign(e, e * number)
                    self.kinds.setdefault(op.name, []).append(signed)

    def mean(self) -> float:
        worst = 0.0
        for rows in self.kinds.values():
            count = len(rows)
            found = abs(math.fsum(d for d, _, _, _ in rows)) / count
            reach = math.sqrt(math.fsum(r * r for _, r, _, _ in rows)) / count
            rounding = abs(math.fsum(e for _, _, _, e in rows)) / count
            bound = reach + math.fsum(s for _, _, s, _ in rows) / count + rounding
            worst = max(worst, ListMath.worst([found], [bound]))
        return worst

    def agrees(self) -> bool:
        return self.element <= 1 and self.projection <= 1 and self.mean() <= 1

    def __str__(self) -> str:
        return (f"elements are off by up to {self.element:.3g} times their bound, projections by "
                f"{self.projection:.3g}, their mean by {self.mean():.3g}")
