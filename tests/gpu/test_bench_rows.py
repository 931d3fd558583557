#!/usr/bin/env python3
"""bench steer and bench decode on a device: every row has its keys, and every baseline agreed.

Whether a time is good is no matter of a test.
"""
import math
import pathlib

import tap
from cli import FAILED, SPECS, Case

TEXTS = ("suite", "name", "series", "card", "cuda")
VERSION = pathlib.Path("/proc/driver/nvidia/version")
TIMES = ("median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio")
# A peer without torch: rows of its cases, by the name of its file.
PEER = """
import json, pathlib, sys
words = sys.argv
rows = [{"suite": words[i + 1], "name": words[i + 2], "series": pathlib.Path(words[0]).stem,
         "card": "Card 1", "driver": 13000, "cuda": "13.0", "median_us": 20.0, "min_us": 19.0,
         "max_us": 24.0, "wall_us": 30.0, "floor_us": None, "ratio": None}
        for i, word in enumerate(words) if word == "--case"]
pathlib.Path(words[words.index("--json") + 1]).write_text(json.dumps(rows))
"""
BASELINES = {"eager launches", "slice loop", "slice loop in a graph", "gather/scatter", "adaptive"}


class Rows(Case):
    def setUp(self):
        super().setUp()
        self.skip_without("gpu", "compiler")

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
        self.assertEqual("driver_release" in row, VERSION.is_file())
        if VERSION.is_file():
            self.assertIn(f" {row['driver_release']} ", VERSION.read_text())
        for key, value in row.items():
            if key in TIMES and value is not None:
                self.assertTrue(math.isfinite(value) and value > 0, key)
            elif key not in (*TEXTS, "driver_release") and value is not None:
                self.assertTrue(math.isfinite(value) and value >= 0, key)
        if row["median_us"] is not None:
            self.assertLessEqual(row["min_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["max_us"])
        no_early_form = ("attend", "prove", "components")  # reads and sums that wait for nobody
        if row["floor_us"] is not None and row["suite"] not in no_early_form:
            self.assertGreater(row["floor_early_us"], 0)
        if row["median_us"] is not None and row["floor_us"] is not None:
            self.assertAlmostEqual(row["ratio"], row["median_us"] / row["floor_us"], places=6)

    def series(self, rows, name):
        return {row["series"] for row in rows if row["name"] == name}

    def test_components_have_every_case_or_say_that_there_is_no_kernel(self):
        rows = self.rows_of("components")
        names = {row["name"] for row in rows}
        self.assertEqual(len(names), 30)
        for row in rows:
            with self.subTest(row=row):
                if row["series"] == "steergraph" and "unsupported" not in row:
                    self.assertTrue(0 < row["worst_ratio"] <= 1 and row["tflops"] > 0 and row["gflop"] > 0)
                elif row["series"] == "steergraph":
                    self.assertIsNone(row["median_us"])
        for name in names:
            known = next(row["median_us"] for row in rows if row["name"] == name and row["series"] == "steergraph")
            self.assertEqual(self.series(rows, name), {"steergraph", "copy"} if known else {"steergraph"})
        unsupported = {row["name"].partition(" ")[0] for row in rows if row.get("unsupported")}
        self.assertLessEqual(unsupported, {"512", "2048", "4096"})

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

    def test_prove_has_pools_in_every_arithmetic_and_one_kernel_for_all_sizes(self):
        rows = self.rows_of("prove")
        series = {"steergraph", "steergraph, tf32x3", "steergraph, tf32"}
        for base in ("countries", "family"):
            for pool in (64, 110, 256, 512, 1024):
                self.assertEqual(self.series(rows, f"{base}, pool {pool}"), series)
            for name in ("512 repeated", "512 varied", "110 unpadded"):
                (row,) = [row for row in rows if row["name"] == f"{base}, {name}"]
                self.assertEqual((row["compiles"], row["useful"]), (0, 1))
        for row in rows:
            if ", pool " in row["name"]:
                with self.subTest(row=row):
                    self.assertEqual((row["kernels"], row["useful"]), (1, 1))
                    self.assertGreater(row["peak_tflop_per_s"], row["tflop_per_s"])
                    self.assertGreater(row["states_mb"], 0)
                    self.assertGreater(row.get("same_outcomes", 1), 0.9)
        cold, warm = (row for row in rows if row["name"].startswith("first result, "))
        self.assertEqual((cold["compiles"], warm["compiles"]), (1, 0))
        self.assertGreater(cold["compile_ms"], 0)

    def run_with_peers(self, **scripts):
        """bench decode with peers of this case; scripts of it in the place of PEER."""
        folder = self.folder / "peers"
        folder.mkdir(exist_ok=True)
        for name in ("peer", "loop", "gather", "rowwise"):
            (folder / f"{name}.py").write_text(scripts.get(name, PEER))
        return self.run_command("bench", "decode", "--quick", "--json", "--peers", "--peers-from", folder)

    def test_a_run_with_peers_joins_them_and_says_how_long_it_took(self):
        rows = self.run_with_peers().json()
        run = [row for row in rows if row["suite"] == "run"]
        self.assertEqual([row["name"] for row in run], ["decode", "peers", "all of it"])
        self.assertEqual(rows[-1], run[-1])
        decode, of_peers, whole = (row["wall_us"] for row in run)
        self.assertGreater(of_peers, 0)
        self.assertGreaterEqual(whole, decode + of_peers)
        peers = [row for row in rows if row["series"] in ("loop", "gather", "rowwise")]
        self.assertEqual({row["series"] for row in peers}, {"loop", "gather", "rowwise"})
        ours = {row["name"]: row for row in rows if row["series"] == "steergraph"}
        for row in peers:
            for key in ("floor_us", "floor_early_us"):
                self.assertEqual(row[key], ours[row["name"]][key])

    def test_peers_go_on_when_one_fails_and_the_command_does(self):
        outcome = self.run_with_peers(gather="import sys; sys.exit('broken')")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("peer 'gather.py': broken", outcome.err.splitlines()[-1])
        rows = outcome.json()
        run = [row["name"] for row in rows if row["suite"] == "run"]
        self.assertEqual(run, ["decode", "peer gather.py failed", "peers", "all of it"])
        self.assertLessEqual({"steergraph", "copy", "loop", "rowwise"}, {row["series"] for row in rows})


if __name__ == "__main__":
    tap.main()
