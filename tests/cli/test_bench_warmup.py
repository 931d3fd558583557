#!/usr/bin/env python3
"""The bench suites warmup and padding where no GPU is seen, and the words that they take."""
import os
import pathlib

import cli
import tap
from cli import FAILED, WRONG

TIMES = ["median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio"]


class NoGpu(cli.Case):
    """A driver may be there; it then sees no device."""

    def setUp(self):
        super().setUp()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        self.environment["TMPDIR"] = str(self.folder)


class Padding(NoGpu):
    def rows(self, *words):
        rows = self.succeed("bench", "padding", "--json", *words).json()
        self.assertEqual(len({row["series"] for row in rows}), len(rows))
        return {row["series"]: row for row in rows}

    def test_signatures_and_compiles_are_counted_without_a_gpu_and_nothing_is_timed(self):
        rows = self.rows()
        for row in rows.values():
            self.assertEqual(row["suite"], "padding")
            self.assertEqual(row["name"], "1000 random shapes")
            self.assertIsInstance(row["card"], str)
            self.assertEqual([row[key] for key in TIMES], [None] * len(TIMES))
            self.assertFalse([key for key in row if key.endswith(("_ms", "_us")) and key not in TIMES])
        buckets = rows["steergraph, buckets"]
        every = rows["steergraph, a signature for every shape"]
        fixed = rows["steergraph, one fixed size of 2048 rows"]
        self.assertEqual(fixed["signatures"], 1)
        self.assertEqual(every["padded_rows_x"], 1)
        self.assertLess(buckets["signatures"], every["signatures"] / 10)
        self.assertTrue(1 < buckets["padded_rows_x"] < fixed["padded_rows_x"])

    def test_a_signature_for_every_shape_is_what_specialising_by_it_compiles(self):
        rows = self.rows()
        by_counts = rows["a compile for every requests, longest, rows"]["compiles"]
        self.assertEqual(rows["steergraph, a signature for every shape"]["signatures"], by_counts)
        self.assertGreaterEqual(rows["a compile for every list of lengths"]["compiles"], by_counts)
        self.assertLessEqual(rows["a compile for every number of rows"]["compiles"], by_counts)

    def test_two_runs_meet_the_same_shapes(self):
        self.assertEqual(self.rows("--quick"), self.rows("--quick"))

    def test_no_word_may_follow(self):
        self.assertIn("'x' is one word too many for padding", self.refuse(WRONG, "bench", "padding", "x"))


class Warmup(NoGpu):
    def fail(self, *words):
        """The message of a failed bench, which says on stderr what it does before it fails."""
        outcome = self.run_command("bench", "warmup", *words)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertEqual(outcome.out, "", outcome)
        lines = outcome.err.splitlines()
        if "child" not in words:
            self.assertEqual(lines.pop(0), "bench: warmup", outcome)
        self.assertEqual(len(lines), 1, outcome)
        return lines[0]

    def test_one_message_says_that_it_needs_a_gpu_and_nothing_stays(self):
        for words in ([], ["--quick"], ["1821"]):
            with self.subTest(words=words):
                self.assertIn("bench warmup needs a GPU: ", self.fail(*words))
        left = [path.name for path in pathlib.Path(self.folder).iterdir() if path.name != "home"]
        self.assertEqual(left, [])

    def test_a_measured_process_needs_a_gpu_too(self):
        for kind in ("cold", "disk", "tiers"):
            with self.subTest(kind=kind):
                cache = os.path.join(self.folder, "cache")
                message = self.fail("child", kind, "0", "--json", "--cache", cache)
                self.assertRegex(message, "no CUDA (driver|device)|built without CUDA headers")

    def test_a_measured_process_takes_its_cache_for_a_pack(self):
        missing = os.path.join(self.folder, "none.sgp")
        outcome = self.run_command("bench", "warmup", "child", "pack", "0", "--json", "--cache", missing)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertRegex(outcome.err, "none.sgp.*\n.*(no CUDA (driver|device)|built without CUDA headers)")

    def test_words_that_are_no_time_are_refused(self):
        for words in (["soon"], ["0"], ["-1"], ["nan"], ["1", "2"], ["child", "lukewarm", "0"], ["child", "cold"]):
            with self.subTest(words=words):
                message = self.fail("--", *words)
                self.assertIn(f"'{words[0]}' is not the microseconds of an eager call", message)


tap.main()
