"""The request form of serving systems, against a loop over requests in float64."""
import unittest

import reference
import support
import tap
from support import exact, np, refusal, steergraph, stored

HIDDEN = 32


class Spec:
    """A layer's spec, as a serving system holds it."""

    def __init__(self, operations):
        self.operations = operations


def wanted_of(operations):
    """Ops of the wire as the reference takes them."""
    ops = []
    for kind, vector, params in operations:
        if kind == "add":
            ops.append(("add", [exact(vector)], {"scale": 1.0 if params is None else params}))
        elif kind == "cap":
            names = ("min", "max")
            bounds = {k: float(np.float32(v)) for k, v in zip(names, params) if v is not None}
            ops.append(("projection_cap", [exact(vector)], bounds))
        else:
            ops.append(("ablation", [exact(vector)], {"scale": params}))
    return ops


class Wire(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)
        self.wire = steergraph.Wire(self.engine)

    def vector(self, dtype):
        values = self.random.standard_normal(HIDDEN)
        return stored(values / np.linalg.norm(values), dtype)

    def rows(self, count, dtype):
        return stored(self.random.standard_normal((count, HIDDEN)), dtype)

    def check(self, before, after, lengths, specs, dtype, residual=None):
        start = 0
        for length, spec in zip(lengths, specs):
            part = slice(start, start + length)
            start += length
            ops = getattr(spec, "operations", spec)
            if not ops:
                self.assertEqual(after[part].tobytes(), before[part].tobytes())
                continue
            other = 0 if residual is None else exact(residual)[part]
            total = exact(before)[part] + other
            steered, off = reference.run(total, wanted_of(ops))
            wanted = steered - other
            bound = off + 2.0**-23 * abs(total) + support.SMALLEST[dtype]
            bound = bound + support.UNIT_ROUNDOFF[dtype] * abs(wanted)
            self.assertLessEqual((abs(exact(after)[part] - wanted) / bound).max(initial=0), 1)
        self.assertEqual(after[start:].tobytes(), before[start:].tobytes())

    def mixture(self, dtype):
        v = self.vector
        shared = v(dtype)
        return [3, 1, 0, 2, 4, 1, 2], [
            Spec([("add", v(dtype), None)]),
            None,
            Spec([("add", v(dtype), None)]),
            [("cap", shared, (-0.1, 0.25)), ("add", v(dtype), None), ("ablation", v(dtype), 0.5)],
            Spec([("ablation", shared, 0.0)]),
            Spec([]),
            [("add", v(dtype), 2.0), ("cap", shared, (None, -0.5)), ("cap", shared, (-1.0, None))],
        ]

    def test_a_mixture_of_requests(self):
        for dtype in ("f32", "f16", "bf16"):
            with self.subTest(dtype):
                lengths, specs = self.mixture(dtype)
                before = self.rows(sum(lengths) + 3, dtype)  # and three rows of padding
                after = before.copy()
                found = self.wire.apply(after, lengths, specs)
                self.assertIs(found, after)
                self.check(before, after, lengths, specs, dtype)

    def test_a_pair_steers_delta_on_the_sum(self):
        lengths, specs = self.mixture("bf16")
        before, residual = (self.rows(sum(lengths), "bf16") for _ in range(2))
        after, kept = before.copy(), residual.copy()
        pair = (after, residual)
        self.assertIs(self.wire.apply(pair, lengths, specs), pair)
        self.check(before, after, lengths, specs, "bf16", residual=kept)
        self.assertEqual(residual.tobytes(), kept.tobytes())

    def test_float32_vectors_keep_their_bits_beside_narrower_ones(self):
        lengths = [2, 2]
        specs = [
            [("add", self.vector("f32"), None), ("ablation", self.vector("bf16"), 0.0)],
            [("add", self.vector("bf16"), None)],
        ]
        before = self.rows(4, "bf16")
        after = self.wire.apply(before.copy(), lengths, specs)
        self.check(before, after, lengths, specs, "bf16")

    def test_grows_with_the_batches(self):
        for count in (4, 90, 300):  # 300 chains of their own: more than the first table's slots
            lengths = [1] * count
            specs = [[("add", self.vector("f32"), None)] for _ in range(count)]
            before = self.rows(count, "f32")
            after = self.wire.apply(before.copy(), lengths, specs)
            self.check(before, after, lengths, specs, "f32")
        before = self.rows(3000, "f32")  # more than the first table's rows
        specs = [[("ablation", self.vector("f32"), 0.0)] * 9]
        after = self.wire.apply(before.copy(), [3000], specs)
        self.check(before, after, [3000], specs, "f32")

    def test_an_array_is_read_in_every_call(self):
        data = self.vector("f32")
        for _ in range(3):
            data[:] = self.vector("f32")
            before = self.rows(1, "f32")
            after = self.wire.apply(before.copy(), [1], [[("add", data, None)]])
            self.check(before, after, [1], [[("add", data, None)]], "f32")

    def test_parameters_may_be_any_number_and_are_read_in_every_call(self):
        data = self.vector("f32")
        vector, scale = self.engine.vector(data), np.array(2.0)
        for form in (2.0, np.float32(2), scale, [2.0]):
            for given in (data, vector):
                before = self.rows(1, "f32")
                after = self.wire.apply(before.copy(), [1], [[("add", given, form)]])
                self.check(before, after, [1], [[("add", data, 2.0)]], "f32")
        scale[()] = 5
        before = self.rows(1, "f32")
        after = self.wire.apply(before.copy(), [1], [[("add", vector, scale)]])
        self.check(before, after, [1], [[("add", data, 5.0)]], "f32")
        for given in (data, vector):
            for bad in ("2", [[2]], object()):
                found = refusal(self.wire.apply, before, [1], [[("add", given, bad)]])
                self.assertIs(found[0], steergraph.InvalidError)

    def test_empty_batches(self):
        rows = self.rows(0, "f32")
        self.assertIs(self.wire.apply(rows, [], []), rows)
        rows = self.rows(2, "f32")
        kept = rows.copy()
        self.wire.apply(rows, [], [])
        self.wire.apply(rows, [2], [None])
        self.assertEqual(rows.tobytes(), kept.tobytes())

    def test_refusals_name_the_request(self):
        rows, v = self.rows(2, "f32"), self.vector("f32")
        kept = rows.copy()
        for specs, kind, said in (
            ([None, [("nudge", v, None)]], steergraph.InvalidError,
             "request 1: op type 'nudge' is not one of 'add', 'cap', 'ablation'"),
            ([None, [("cap", v, 1.0)]], steergraph.InvalidError,
             "request 1: a cap takes (min, max), not 1.0"),
            ([None, [("cap", v, (None, None))]], steergraph.InvalidError, "request 1: "),
            ([None, [("cap", v, (2.0, 1.0))]], steergraph.InvalidError, "request 1: "),
            ([None, [("add", v[:-1], None)]], steergraph.InvalidError, "31 elements"),
            ([None, [("add", v, None)] * 17], steergraph.NotDeclaredError, "17"),
            ([None], steergraph.InvalidError, "2 lengths, but 1 chains"),
            ([None, ("add", v, None)], steergraph.InvalidError, "request 1: an op is 'add'; give a"),
            ([None, [("add",)]], steergraph.InvalidError, "request 1: an op is tuple; give a list"),
            ([None, [("add", v, None, 1)]], steergraph.InvalidError, "request 1: an op is tuple; "),
            ([None, [("ablation", v, 10**400)]], steergraph.InvalidError, "request 1: "),
        ):
            found, text = refusal(self.wire.apply, rows, [1, 1], specs)
            self.assertIs(found, kind, text)
            self.assertIn(said, text)
        found, text = refusal(self.wire.apply, (rows, rows, rows), [1, 1], [None, None])
        self.assertIs(found, steergraph.InvalidError)
        self.assertEqual(text, "hidden is 3 tensors; give one, or a pair (delta, residual)")
        found, text = refusal(self.wire.apply, rows, [1, 2], [None, None])
        self.assertEqual(text, "stg_steer_once: lengths sum to 3, the tensors have 2 rows")
        self.assertEqual(rows.tobytes(), kept.tobytes())

    def test_a_vector_that_is_not_the_engines_or_closed_is_refused_behind_a_cached_chain(self):
        with steergraph.Engine("cpu") as other:
            own, foreign = (e.vector(self.vector("f32")) for e in (self.engine, other))
            self.assertEqual(own.id, foreign.id)  # or this shows nothing
            rows = self.rows(1, "f32")
            self.wire.apply(rows, [1], [[("add", own, None)]])
            kept = rows.copy()
            found = refusal(self.wire.apply, rows, [1], [[("add", foreign, None)]])
            self.assertEqual(
                found, (steergraph.InvalidError, "a vector belongs to another engine")
            )
            own.close()
            found = refusal(self.wire.apply, rows, [1], [[("add", own, None)]])
            self.assertEqual(found, (steergraph.ClosedError, "the vector is closed"))
            self.assertEqual(rows.tobytes(), kept.tobytes())

    def test_an_id_that_is_used_again_steers_by_its_new_vector(self):
        old = self.engine.vector(self.vector("f32"))
        self.wire.apply(self.rows(1, "f32"), [1], [[("add", old, None)]])
        old.close()
        data = self.vector("f32")
        new = self.engine.vector(data)
        before = self.rows(1, "f32")
        after = self.wire.apply(before.copy(), [1], [[("add", new, None)]])
        self.check(before, after, [1], [[("add", data, None)]], "f32")

    def test_a_closed_engine_is_an_error(self):
        self.wire.apply(self.rows(1, "f32"), [1], [None])
        self.engine.close()
        kind, text = refusal(self.wire.apply, self.rows(1, "f32"), [1], [None])
        self.assertIs(kind, steergraph.ClosedError)
        self.assertTrue(text.endswith("is closed"), text)

    def test_the_function_opens_an_engine_by_itself(self):
        lengths, specs = self.mixture("f32")
        before = self.rows(sum(lengths), "f32")
        after = before.copy()
        self.assertIs(steergraph.apply_per_request_steering(after, lengths, specs), after)
        self.check(before, after, lengths, specs, "f32")
        given = before.copy()
        steergraph.apply_per_request_steering(given, lengths, specs, engine=self.engine)
        self.assertEqual(given.tobytes(), after.tobytes())


tap.main()
