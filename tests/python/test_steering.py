"""Every op, chains of them, residuals, norms, slots and digests, against float64 (reference.py)."""
import unittest

import reference
import support
import tap
from support import exact, np, refusal, steergraph, stored

DTYPES = ("f32", "f16", "bf16")
HIDDEN = 96

# Two vectors of each op at most, and parameters that differ from the defaults.
PARAMS = {
    "ablation": {"scale": -0.5},
    "add": {"scale": 2.5},
    "add_keep_norm": {"scale": 1.5},
    "add_norm_matched": {"scale": 0.25},
    "gated_add": {"scale": 2.0, "sharpness": 0.5, "threshold": 0.25},
    "projection_cap": {"min": -0.25, "max": 0.5},
    "scale_norm": {"scale": 0.75},
    "swap": {},
}
VECTORS = {"gated_add": 2, "scale_norm": 0, "swap": 2}


def unit_vectors(random, count, dtype, hidden=HIDDEN):
    values = random.standard_normal((count, hidden))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return list(stored(values, dtype))


def ops_of(names, vectors):
    """(chain as the package takes it, chain as the reference takes it)."""
    given, wanted = [], []
    vectors = iter(vectors)
    for name in names:
        own = [next(vectors) for _ in range(VECTORS.get(name, 1))]
        params = {k: float(np.float32(v)) for k, v in PARAMS[name].items()}
        given.append(steergraph.op(name, *own, **params))
        wanted.append((name, [exact(v) for v in own], params))
    return given, wanted


class Case(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(7)
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)

    def table(self, dtype, **declared):
        declared.setdefault("max_chain", 16)
        hidden = declared.pop("hidden", HIDDEN)
        return steergraph.Steering(self.engine, hidden, dtype=dtype, **declared)

    def rows(self, count, dtype, hidden=HIDDEN):
        return stored(self.random.standard_normal((count, hidden)), dtype)

    def holds(self, found, wanted, off, dtype):
        """Every element within its bound: the chain's and the store's."""
        bound = off + support.UNIT_ROUNDOFF[dtype] * abs(wanted) + support.SMALLEST[dtype]
        worst = (abs(exact(found) - wanted) / bound).max(initial=0)
        self.assertLessEqual(worst, 1, f"{worst} times the bound")


class Chains(Case):
    def check(self, dtype, names, rows=5, hidden=HIDDEN):
        table = self.table(dtype, hidden=hidden)
        vectors = unit_vectors(self.random, 2 * len(names), dtype, hidden)
        given, wanted = ops_of(names, vectors)
        table.set(3, {0: given})
        frame = table.frame()
        frame.step([3] * rows)
        before = self.rows(rows, dtype, hidden)
        after = frame.apply(0, before.copy())
        self.holds(after, *reference.run(exact(before), wanted), dtype)
        self.assertFalse((after == before).all())

    def test_every_op_in_every_type(self):
        self.assertEqual(set(reference.OPS), set(PARAMS))
        for dtype in DTYPES:
            for name in PARAMS:
                with self.subTest(dtype=dtype, op=name):
                    self.check(dtype, [name])

    def test_chains_act_in_order(self):
        for dtype in DTYPES:
            self.check(dtype, ["add", "projection_cap", "ablation"])
            self.check(dtype, ["swap", "add_norm_matched", "gated_add", "scale_norm"])

    def test_random_chains(self):
        names = sorted(PARAMS)
        for case in range(60):
            chain = list(self.random.choice(names, self.random.integers(1, 9)))
            dtype = DTYPES[case % 3]
            with self.subTest(case=case, dtype=dtype, chain=chain):
                self.check(dtype, chain, rows=3)

    def test_odd_sizes(self):
        for hidden in (1, 7, 100, 257):
            with self.subTest(hidden):
                self.check("bf16", ["add", "projection_cap"], hidden=hidden)

    def test_order_of_the_same_ops_matters(self):
        table = self.table("f32", hidden=2)
        v = np.float32([0, 1])
        add, cap = steergraph.op("add", v, scale=10), steergraph.op("projection_cap", v, max=2)
        table.set(0, {0: [add, cap]})
        table.set(1, {0: [cap, add]})
        frame = table.frame()
        frame.step([0, 1])
        rows = frame.apply(0, np.zeros((2, 2), np.float32))
        self.assertEqual(rows[:, 1].tolist(), [2, 10])

    def test_parameters_in_every_form(self):
        table = self.table("f32", hidden=2)
        v = np.float32([0, 1])
        for number, item in enumerate(
            (
                steergraph.op("add", v, scale=3),
                ("add", v, 3),
                ("add", [v], (3,)),
                ("add", (self.engine.vector(v),), {"scale": 3}),
                ("projection_cap", v, (3, None)),
                ("add", v, np.float32(3)),
                ("add", v, np.array(3)),
                ("add", v, np.float16([3])),
                ("add", v, [np.array(3.0)]),
            )
        ):
            table.set(number, {0: [item]})
        table.set(9, {0: [("add", v)]})
        table.set(10, {0: [("projection_cap", v, (-(10**400), 0))]})
        frame = table.frame()
        frame.step(range(11))
        rows = frame.apply(0, np.zeros((11, 2), np.float32))
        self.assertEqual(rows[:, 1].tolist(), [3] * 9 + [1, 0])

    def test_parameters_that_are_no_numbers(self):
        table = self.table("f32", hidden=2)
        for bad in ("3", b"3", ["3"], [[3]], {"scale": "3"}, object(), 3j):
            kind, text = refusal(table.set, 0, {0: [("add", np.float32([0, 1]), bad)]})
            self.assertIs(kind, steergraph.InvalidError, text)
            self.assertIn("of op 'add'", text)


class Batches(Case):
    def test_a_mixture_steers_each_row_by_its_own_chain_and_leaves_the_others(self):
        for dtype in DTYPES:
            table = self.table(dtype)
            chains = []
            for slot, names in enumerate((["add"], ["projection_cap", "add"], ["ablation"])):
                given, wanted = ops_of(names, unit_vectors(self.random, 4, dtype))
                table.set(slot, {0: given})
                chains.append(wanted)
            row_map = np.int32([2, -1, 0, 0, 1, -2, 1, 2, -1])
            frame = table.frame()
            frame.step(row_map)
            before = self.rows(len(row_map), dtype)
            after = frame.apply(0, before.copy())
            for row, slot in enumerate(row_map):
                if slot < 0:
                    self.assertEqual(after[row].tobytes(), before[row].tobytes())
                else:
                    wanted = reference.run(exact(before[row : row + 1]), chains[slot])
                    self.holds(after[row : row + 1], *wanted, dtype)

    def test_layers_have_chains_of_their_own(self):
        table = self.table("f32", hidden=2, layers=3)
        v = np.float32([0, 1])
        table.set(0, {0: [("add", v, 1)], 2: [("add", v, 5)]})
        frame = table.frame()
        frame.step([0])
        found = [frame.apply(layer, np.zeros((1, 2), np.float32))[0, 1] for layer in range(3)]
        self.assertEqual(found, [1, 0, 5])

    def test_out_of_place_copies_rows_that_are_not_steered(self):
        table = self.table("bf16")
        table.set(0, {0: [("scale_norm", (), 2)]})
        frame = table.frame()
        frame.step([0, -1, -2])
        before = self.rows(3, "bf16")
        kept, out = before.copy(), np.full_like(before, 7)
        self.assertIs(frame.apply(0, before, out=out), out)
        self.assertEqual(before.tobytes(), kept.tobytes())
        self.assertEqual(exact(out)[0].tolist(), (2 * exact(before)[0]).tolist())
        self.assertEqual(out[1].tobytes(), before[1].tobytes())
        self.assertTrue((out[2] == 7).all())

    def test_residual_ops_see_the_sum_and_only_hidden_is_written(self):
        for dtype in DTYPES:
            table = self.table(dtype, state="hidden+residual")
            given, wanted = ops_of(["projection_cap", "add"], unit_vectors(self.random, 2, dtype))
            table.set(0, {0: given})
            frame = table.frame()
            frame.step([0, 0, -1])
            before, residual = self.rows(3, dtype), self.rows(3, dtype)
            kept = residual.copy()
            after = frame.apply(0, before.copy(), residual=residual)
            total = exact(before) + exact(residual)
            steered, off = reference.run(total[:2], wanted)
            update = steered - exact(residual)[:2]
            self.holds(after[:2], update, off + 2.0**-23 * abs(total[:2]), dtype)
            self.assertEqual(after[2].tobytes(), before[2].tobytes())
            self.assertEqual(residual.tobytes(), kept.tobytes())

    def test_norm_behind_the_chain(self):
        epsilon = 1e-5
        for dtype in DTYPES:
            table = self.table(
                dtype, state="hidden+residual", epilogue="add_rmsnorm", epsilon=epsilon
            )
            given, wanted = ops_of(["add", "ablation"], unit_vectors(self.random, 2, dtype))
            table.set(0, {0: given})
            frame = table.frame()
            frame.step([0, -1, 0])
            hidden, residual = self.rows(3, dtype), self.rows(3, dtype)
            weight = stored(1 + self.random.standard_normal(HIDDEN) / 4, dtype)
            total = exact(hidden) + exact(residual)
            steered, off = reference.run(total, wanted)
            steered[1], off[1] = total[1], off[0].max()
            frame.apply(0, hidden, residual=residual, weight=weight)
            normed = reference.rms_norm(steered, exact(weight), float(np.float32(epsilon)))
            self.holds(residual, steered, off, dtype)
            scale = abs(exact(weight)) / np.sqrt((steered**2).mean(-1, keepdims=True))
            grown = scale * (off + abs(steered) * (off**2).sum(-1, keepdims=True) ** 0.5
                             / np.linalg.norm(steered, axis=-1, keepdims=True))
            self.holds(hidden, normed, grown + 2.0**-23 * 16 * abs(normed), dtype)

    def test_once_takes_lengths_and_chains(self):
        table = self.table("f32", hidden=2)
        v = np.float32([0, 1])
        rows = np.zeros((6, 2), np.float32)
        chains = [[("add", v, 4)], None, [("add", v, 9)], [("add", v)]]
        found = table.once(rows, [1, 2, 0, 1], chains)
        self.assertIs(found, rows)
        self.assertEqual(rows[:, 1].tolist(), [4, 0, 0, 1, 0, 0])
        kind, text = refusal(table.once, rows, [3, 4], [None, None])
        self.assertEqual(
            (kind, text),
            (
                steergraph.InvalidError,
                "stg_steer_once: lengths sum to 7, the tensors have 6 rows",
            ),
        )
        kind, text = refusal(table.once, rows, [1], [])
        self.assertEqual(text, "1 lengths, but 0 chains")


class Windows(Case):
    PROMPT = 5

    def steered(self, window, positions=range(8)):
        """The positions that are steered, of a prompt of 5 rows and what was generated."""
        positions = list(positions)
        table = self.table("f32", hidden=2, windows=True)
        table.set(0, {0: [("add", np.float32([0, 1]), 1)]}, window)
        frame = table.frame()
        frame.step(
            [0] * len(positions),
            positions=np.int32(positions),
            prompt_lens=[self.PROMPT] * len(positions),
        )
        rows = frame.apply(0, np.zeros((len(positions), 2), np.float32))
        return [position for position, row in zip(positions, rows) if row[1] == 1]

    def test_phases_and_bounds(self):
        window = steergraph.Window
        for given, wanted in (
            (None, range(8)),
            (window(), range(8)),
            (window("prompt"), range(5)),
            (window("generation"), range(5, 8)),
            (window(start=2, stop=4), range(2, 4)),
            (window(start=-2), range(3, 8)),
            (window("prompt", stop=-1), range(4)),
            (window(start=0, stop=1), range(1)),
        ):
            with self.subTest(given):
                self.assertEqual(self.steered(given), list(wanted))

    def test_a_chunk_of_a_prompt_is_a_prompt(self):
        self.assertEqual(self.steered(steergraph.Window("generation"), [4]), [])
        self.assertEqual(self.steered(steergraph.Window("generation"), [5]), [5])

    def test_refusals(self):
        v = np.float32([0, 1])
        plain = self.table("f32", hidden=2)
        kind, _ = refusal(plain.set, 0, {0: [("add", v)]}, steergraph.Window("prompt"))
        self.assertIs(kind, steergraph.NotDeclaredError)
        table = self.table("f32", hidden=2, windows=True)
        kind, text = refusal(table.set, 0, {0: [("add", v)]}, steergraph.Window("late"))
        self.assertEqual(text, "phase is 'late', not one of 'both', 'prompt', 'generation'")
        for given in ("prompt", ("prompt", 1, 2), {"phase": "prompt"}):
            kind, text = refusal(table.set, 0, {0: [("add", v)]}, given)
            self.assertIs(kind, TypeError)
            self.assertEqual(text, f"window is {given!r}, neither a steergraph.Window nor None")
        kind, _ = refusal(table.set, 0, {0: [("add", v)]}, steergraph.Window(start=4, stop=2))
        self.assertIs(kind, steergraph.InvalidError)
        frame = table.frame()
        self.assertIs(refusal(frame.step, [0])[0], steergraph.InvalidError)
        kind, text = refusal(frame.step, [0, 0], positions=[1], prompt_lens=[5, 5])
        self.assertEqual(text, "positions has 1 entries on cpu, for 2 rows of a row_map on cpu")
        kind, text = refusal(frame.step, [0], positions=np.int64([1]), prompt_lens=[5])
        self.assertEqual(text, "positions is int64; give int32")
        kind, text = refusal(table.set, 0, {0: [("add", v)]}, steergraph.Window(start=2**63))
        self.assertEqual(text, f"start is {2**63}, not in {-(2**63)}..{2**63 - 1}")


class Probes(Case):
    def table_of(self, **declared):
        return self.table("f32", hidden=2, **declared)

    def test_projections_ahead_of_and_behind_an_edit(self):
        v = np.float32([0, 1])
        table = self.table_of(probes=3)
        probe = steergraph.op
        chain = [probe("probe", v, column=2), ("add", v, 4), probe("probe", v, column=0)]
        table.set(0, {0: chain})
        frame = table.frame()
        frame.step([0, -1])
        rows = np.float32([[1, 2], [3, 4]])
        cells = np.full((2, 5), -7, np.float32)
        frame.apply(0, rows, probes=cells[:, 1:4])  # rows of it are apart
        self.assertEqual(rows.tolist(), [[1, 6], [3, 4]])
        self.assertEqual(cells.tolist(), [[-7, 6, -7, 2, -7], [-7] * 5])

    def test_once_gives_out_too(self):
        v = np.float32([0, 1])
        table = self.table_of(probes=1)
        rows, cells = np.float32([[1, 2], [3, 4]]), np.zeros((2, 1), np.float32)
        table.once(rows, [1, 1], [None, [("probe", v, 0)]], probes=cells)
        self.assertEqual(cells.tolist(), [[0], [4]])

    def test_refusals(self):
        v = np.float32([0, 1])
        plain = self.table_of()
        self.assertIs(
            refusal(plain.set, 0, {0: [("probe", v, 0)]})[0], steergraph.NotDeclaredError
        )
        table = self.table_of(probes=2)
        kind, text = refusal(table.set, 0, {0: [("probe", v, 2)]})
        self.assertIs(kind, steergraph.NotDeclaredError, text)
        frame = table.frame()
        frame.step([0])
        rows = np.zeros((1, 2), np.float32)
        self.assertIs(refusal(frame.apply, 0, rows)[0], steergraph.InvalidError)
        for cells, found in (
            (np.zeros((1, 3), np.float32), "f32 [1, 3]"),
            (np.zeros((2, 2), np.float32), "f32 [2, 2]"),
            (np.zeros((1, 2), np.float16), "f16 [1, 2]"),
        ):
            kind, text = refusal(frame.apply, 0, rows, probes=cells)
            self.assertEqual(text, f"probes is {found}, the apply takes f32 [1, 2]")
        cells = np.zeros((1, 2), np.float32)
        cells.flags.writeable = False
        kind, text = refusal(frame.apply, 0, rows, probes=cells)
        self.assertEqual(text, "probes is read-only")
        plain = self.table("f32", hidden=2).frame()
        plain.step([0])
        kind, text = refusal(plain.apply, 0, rows, probes=np.zeros((1, 1), np.float32))
        self.assertIs(kind, steergraph.InvalidError)
        self.assertEqual(text, "probes is given, but the table declares none; set probes when it is created")


class Counters(Case):
    def test_rows_are_counted_until_the_slot_is_cleared(self):
        v = np.float32([0, 1])
        table = self.table("f32", hidden=2, layers=2, counters=True)
        table.set(1, {1: [("projection_cap", v, (None, 3))]})
        frame = table.frame()
        frame.step([1, 1, -1])
        frame.apply(1, np.float32([[0, 2], [0, 5], [0, 9]]))
        self.assertEqual(table.counters(1, 1), (2, 1, 2.0))
        self.assertEqual(table.counters(1, 0), steergraph.SlotCounters(0, 0, 0.0))
        table.clear(1)
        self.assertEqual(table.counters(1, 1).rows_touched, 0)

    def test_refusals(self):
        table = self.table("f32", hidden=2, counters=True)
        self.assertIs(refusal(table.counters, 64, 0)[0], steergraph.CapacityError)
        self.assertIs(refusal(table.counters, 0, 1)[0], steergraph.InvalidError)
        plain = self.table("f32", hidden=2)
        self.assertIs(refusal(plain.counters, 0, 0)[0], steergraph.NotDeclaredError)


class Slots(Case):
    def steered(self, table, frame, slot=0):
        frame.step([slot])
        return frame.apply(0, np.zeros((1, 2), np.float32))[0, 1]

    def test_are_set_replaced_changed_and_cleared(self):
        table = self.table("f32", hidden=2, max_slots=2)
        frame = table.frame()
        v = np.float32([0, 1])
        table.set(0, {0: [("add", v, 1), ("add", v, 2)]})
        self.assertEqual(self.steered(table, frame), 3)
        table.set_params(0, 0, 1, np.float32(4))
        self.assertEqual(self.steered(table, frame), 5)
        table.set_params(0, 0, 1, [5])
        self.assertEqual(self.steered(table, frame), 6)
        table.set(0, {0: [("add", v, 9)]})
        self.assertEqual(self.steered(table, frame), 9)
        table.clear(0)
        table.clear(0)
        self.assertEqual(self.steered(table, frame), 0)

    def test_an_apply_follows_its_step_and_not_a_later_change(self):
        table = self.table("f32", hidden=2)
        v = np.float32([0, 1])
        table.set(0, {0: [("add", v, 1)]})
        frame = table.frame()
        frame.step([0])
        table.set(0, {0: [("add", v, 2)]})
        self.assertEqual(frame.apply(0, np.zeros((1, 2), np.float32))[0, 1], 1)
        self.assertEqual(self.steered(table, frame), 2)

    def test_a_full_table_refuses_and_goes_on(self):
        table = self.table("f32", hidden=2, max_slots=2, max_vectors=2)
        vectors = [np.float32([k, 1]) for k in range(3)]
        table.set(0, {0: [("add", vectors[0])]})
        table.set(1, {0: [("add", vectors[1])]})
        self.assertIs(
            refusal(table.set, 1, {0: [("add", v) for v in vectors]})[0], steergraph.CapacityError
        )
        frame = table.frame()
        self.assertEqual(self.steered(table, frame, 1), 1)
        table.clear(0)
        self.assertEqual(self.steered(table, frame), 0)  # the frame lets go of what was cleared
        table.set(0, {0: [("add", vectors[2], 7)]})
        self.assertEqual(self.steered(table, frame), 7)

    def test_digests_say_what_a_slot_does(self):
        table = self.table("f32", hidden=2)
        v, w = np.float32([0, 1]), np.float32([1, 0])
        chains = ([("add", v, 1)], [("add", v, 2)], [("add", w, 1)], [("ablation", v, 1)])
        for slot, ops in enumerate(chains):
            table.set(slot, {0: ops})
        table.set(9, {0: [("add", v.copy(), 1)]})
        digests = [table.digest(slot) for slot in range(4)]
        self.assertEqual(len(set(digests)), 4)
        self.assertEqual(table.digest(9), digests[0])
        self.assertEqual(table.digest(10), bytes(16))

    def test_plans_and_reports(self):
        table = self.table("f32", hidden=2)
        frame = table.frame()
        frame.step([-1] * 5)
        plan = frame.plan()
        self.assertIn("hidden=2 dtype=f32", plan.signature)
        self.assertEqual((plan.source, plan.tier), ("cpu", -1))
        self.assertGreaterEqual(plan.row_bucket, 5)
        self.assertEqual(table.device_status(), (0, 0, 0))


tap.main()
