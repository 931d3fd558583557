#!/usr/bin/env python3
"""Bench suites that need no GPU."""
import cli
import tap
from cli import FAILED, QUICK, WRONG

HEAD = ["suite", "name", "series", "card", "driver", "cuda"]
TIMES = ["median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio"]


# A quick run has those whose numbers are held against each other, in place of all ops: each is a program
# for one interpreter.
OPS = ["scale_norm", "add", "ablation", "mixed"]


class Numerics(cli.Case):
    every = None  # the rows of all ops: they say the same each time

    def every_row(self):
        if Numerics.every is None:
            Numerics.every = self.rows(*OPS) if QUICK else self.rows()
        return Numerics.every

    def rows(self, *words):
        outcome = self.succeed("bench", "numerics", "--quick", "--json", *words)
        return {row["name"]: row for row in outcome.json()}

    def test_a_row_for_each_op_dtype_length_and_width(self):
        rows = self.every_row()
        ops = [op["op"] for op in self.succeed("ops", "--json").json()["ops"] if op["output"] is None]
        self.assertGreaterEqual(len(ops), 8)
        expected = {
            f"{op} x{chain}, {dtype}, {hidden} wide"
            for op in (OPS if QUICK else [*ops, "mixed"])
            for dtype in ("bf16", "f16", "f32")
            for chain in (1, 2, 4, 8)
            for hidden in (4096, 4097)
        }
        self.assertEqual(set(rows), expected)
        for name, row in rows.items():
            with self.subTest(name=name):
                self.assertEqual(list(row)[: len(HEAD)], HEAD)
                self.assertEqual([row[key] for key in TIMES], [None] * len(TIMES))
                self.assertEqual(row["suite"], "numerics")
                self.assertIsInstance(row["card"], str)
                self.assertEqual(row["violations"], 0)
                self.assertTrue(0 < row["worst_ratio"] <= 1, row)
                self.assertTrue(0 <= row["differs_share"] < 1, row)

    def test_16_bit_rows_use_their_bound_and_differ_from_eager_ones_where_those_round_more(self):
        rows = self.every_row()
        for dtype in ("bf16", "f16"):
            for hidden in (4096, 4097):
                with self.subTest(dtype=dtype, hidden=hidden):
                    at = {
                        (op, chain): rows[f"{op} x{chain}, {dtype}, {hidden} wide"]
                        for op in ("scale_norm", "add", "ablation")
                        for chain in (1, 8)
                    }
                    # the rounding at the store is nearly all of the bound
                    self.assertGreater(at["scale_norm", 1]["worst_ratio"], 0.9)
                    # one product, rounded once: the same in both
                    self.assertEqual(at["scale_norm", 1]["differs_share"], 0)
                    self.assertEqual(
                        at["scale_norm", 1]["eager_worst_ratio"], at["scale_norm", 1]["worst_ratio"]
                    )
                    for op in ("add", "ablation"):
                        self.assertGreater(at[op, 1]["differs_share"], 0)
                        self.assertGreater(at[op, 8]["differs_share"], 0.3)
                        self.assertGreater(at[op, 8]["eager_worst_ratio"], 1)

    def test_two_runs_are_the_same(self):
        first = {name: row for name, row in self.every_row().items() if name.startswith("mixed ")}
        self.assertEqual(self.rows("mixed"), first)

    def test_words_choose_the_ops(self):
        rows = self.rows("swap", "add")
        self.assertEqual({name.split()[0] for name in rows}, {"swap", "add"})

    def test_an_op_that_is_not_known_is_refused(self):
        outcome = self.run_command("bench", "numerics", "swop")
        self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
        self.assertIn("bench numerics: ", outcome.err)
        self.assertIn("'swop'", outcome.err)


class Rpc(cli.Case):
    @classmethod
    def setUpClass(cls):
        cls.rows = None

    def setUp(self):
        super().setUp()
        if Rpc.rows is None:
            Rpc.rows = self.succeed("bench", "rpc", "--quick", "--json").json()

    def of(self, series):
        return {row["name"]: row for row in Rpc.rows if row["series"] == series}

    def test_interning_is_measured_for_known_and_new_vectors(self):
        names = {
            f"8 KiB {kind}, table of {size}" for kind in ("known", "new") for size in (32, 100)
        }
        for series in {row["series"] for row in Rpc.rows if row["name"].startswith("8 KiB")}:
            self.assertIn(series, ("steergraph", "SHA-256"))
            self.assertLessEqual(names, set(self.of(series)))
        for name in names:
            row = self.of("steergraph")[name]
            self.assertGreater(row["wall_us"], 0)
            self.assertIsNone(row["median_us"])
            if name in self.of("SHA-256"):
                ratio = self.of("SHA-256")[name]["wall_us"] / row["wall_us"]
                self.assertAlmostEqual(row["sha256_x"], ratio)

    def test_requests_are_taken_from_bytes_to_rows_both_ways(self):
        names = {
            f"32 requests, {distinct} {kind}"
            for distinct in (1, 2, 4, 8, 16, 32)
            for kind in ("known", "new")
        }
        for series in ("steergraph", "steergraph in one call"):
            rows = self.of(series)
            self.assertLessEqual(names, set(rows))
            for name in names:
                parts = [rows[name][key] for key in ("intern_us", "set_us", "step_us")]
                self.assertGreater(rows[name]["wall_us"], 0)
                self.assertGreater(parts[0], 0)
                self.assertGreater(parts[2], 0)

    def test_a_word_too_many_is_refused(self):
        said = self.refuse(WRONG, "bench", "rpc", "more")
        self.assertIn("'more'", said)


tap.main()
