#!/usr/bin/env python3
"""bench steer and bench decode on a device: every row has its keys, and every baseline agreed.

Whether a time is good is no matter of a test.
"""
import math

import tap
from cli import SPECS, Case

TEXTS = ("suite", "name", "series", "card", "cuda")
TIMES = ("median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio")
BASELINES = {"eager launches", "slice loop", "slice loop in a graph", "gather/scatter", "adaptive"}


class Rows(Case):
    def setUp(self):
        super().setUp()
        doctor = self.run_command("doctor", "--json").json()
        for part in ("gpu", "compiler"):
            if not doctor[part]["ok"]:
                self.skipTest(f"no {part}")

    def rows_of(self, *words):
        rows = self.succeed("bench", *words, "--quick", "--json").json()
        for row in rows:
            with self.subTest(row=row):
                self.check_row(row)
        return rows

    def check_row(self, row):
        for key in TEXTS:
            self.assertTrue(isinstance(row[key], str) and row[key], key)
        self.assertGreaterEqual(row["driver"], 12000)
        self.assertEqual(list(row)[:12], [*TEXTS[:4], "driver", "cuda", *TIMES])
        for key, value in row.items():
            if key in TIMES and value is not None:
                self.assertTrue(math.isfinite(value) and value > 0, key)
            elif key not in TEXTS and value is not None:
                self.assertTrue(math.isfinite(value) and value >= 0, key)
        if row["median_us"] is not None:
            self.assertLessEqual(row["min_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["max_us"])
        if row["median_us"] is not None and row["floor_us"] is not None:
            self.assertAlmostEqual(row["ratio"], row["median_us"] / row["floor_us"], places=6)

    def series(self, rows, name):
        return {row["series"] for row in rows if row["name"] == name}

    def test_steer_has_every_series_of_its_batches_and_changes_their_rows(self):
        rows = self.rows_of("steer")
        for row in rows:
            with self.subTest(row=row):
                if row["series"] == "steergraph" and "rows" in row:
                    self.assertGreater(row["rows_changed"], row["rows"] / 2)
                if row["series"] in BASELINES:
                    self.assertGreater(row["steergraph_x"], 0)
        ours = {"steergraph", "copy"}
        self.assertEqual(self.series(rows, "32 distinct"), ours | BASELINES)
        self.assertEqual(self.series(rows, "32 caps"), ours | BASELINES | {"fused"})
        self.assertEqual(self.series(rows, "8 ops"), ours | {"steergraph, every op"})
        self.assertEqual(self.series(rows, "pair"), ours)
        at = {row["name"]: row for row in rows if row["series"] == "steergraph"}
        for name in ("norm, 2048 rows", "norm, 256 rows", "norm, 32 rows"):
            self.assertEqual(self.series(rows, name), ours)
            self.assertEqual(self.series(rows, f"{name}, unsteered"), ours)
            ratio = at[name]["median_us"] / at[f"{name}, unsteered"]["median_us"]
            self.assertAlmostEqual(at[name]["unsteered_x"], ratio, places=6)
        for name in ("host, graph launch", "host, plain launch"):
            (row,) = [row for row in rows if row["name"] == name]
            self.assertAlmostEqual(row["cpu_x"], row["cpu_us"] / row["bare_launch_cpu_us"], places=6)

    def test_workloads_of_every_state_are_timed(self):
        for name in ("steer_uniform", "steer_pair", "steer_norm"):
            rows = self.rows_of("steer", SPECS / f"{name}.json")
            self.assertEqual([row["series"] for row in rows], ["steergraph, every op", "steergraph"])

    def test_decode_has_cold_and_warm_rows(self):
        rows = self.rows_of("decode")
        for name in ("32 rows, 1 op", "1 row, 1 op", "256 rows, 1 op"):
            self.assertEqual(self.series(rows, name), {"steergraph", "copy"} | BASELINES)
            self.assertEqual(self.series(rows, f"{name}, warm"), {"steergraph", "copy"})

    def check_ours(self, rows):
        for row in rows:
            if row["series"].startswith("steergraph"):
                with self.subTest(row=row):
                    self.assertLess(row["mae"], 0.02)

    def test_rope_has_each_case_beside_its_copy(self):
        rows = self.rows_of("rope")
        self.check_ours(rows)
        self.assertEqual(len({row["name"] for row in rows}), 7)
        for row in rows:
            self.assertEqual(self.series(rows, row["name"]), {"steergraph", "copy"})

    def test_attend_has_reads_layers_in_both_forms_and_one_compile_for_every_length(self):
        rows = self.rows_of("attend")
        self.check_ours(rows)
        self.assertEqual(self.series(rows, "8 x 148 to 1024, 12 heads of 64, paged"), {"steergraph", "read"})
        both = {"steergraph", "steergraph, plain launches", "read"}
        self.assertEqual(self.series(rows, "block, 8 x 148 to 1024"), both)
        self.assertEqual(self.series(rows, "block, 8 x 148 to 1024, steered"), both)
        (loop,) = [row for row in rows if row["name"].startswith("every length to 1024")]
        self.assertEqual((loop["lengths"], loop["recompiles"], loop["cudagraphs"]), (1024, 0, 1))
        self.assertLess(loop["mae"], 1e-6)


if __name__ == "__main__":
    tap.main()
