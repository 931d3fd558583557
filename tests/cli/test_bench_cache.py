#!/usr/bin/env python3
"""The bench suite cache: its rows, that it leaves nothing, and the words that it takes."""
import os
import signal
import time

import cli
import tap
from cli import FAILED, WRONG

HEAD = ["suite", "name", "series", "card", "driver", "cuda"]
TIMES = ["median_us", "min_us", "max_us", "wall_us", "floor_us", "ratio"]
ONE, MANY, IN_ORDER = "one process", "many processes", "many processes, in one order"


class CacheBench(cli.Case):
    """No GPU is seen; temporary folders are made in a folder of the case's own."""

    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        self.environment["TMPDIR"] = str(self.temporary)

    def left(self):
        return sorted(path.name for path in self.temporary.iterdir())

    def fail(self, *words):
        """The message of a failed bench, behind what it says that it does."""
        outcome = self.run_command("bench", "cache", *words)
        self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
        self.assertEqual(self.left(), [])
        return outcome.err.splitlines()[-1]


class Rows(CacheBench):
    outcome = None

    def setUp(self):
        super().setUp()
        if Rows.outcome is None:
            Rows.outcome = self.succeed("bench", "cache", "--quick", "--json")
            self.assertEqual(self.left(), [])
        self.rows = {(row["name"], row["series"]): row for row in Rows.outcome.json()}

    def ours(self, name):
        return self.rows[name, "steergraph"]

    def test_every_row_has_a_wall_time_and_the_processor(self):
        self.assertEqual(len(self.rows), len(Rows.outcome.json()))
        for key, row in self.rows.items():
            with self.subTest(row=key):
                self.assertEqual(list(row)[: len(HEAD) + len(TIMES)], HEAD + TIMES)
                self.assertEqual(row["suite"], "cache")
                self.assertIsInstance(row["card"], str)
                self.assertGreater(row["wall_us"], 0)
                self.assertEqual([row[time] for time in TIMES if time != "wall_us"], [None] * 5)

    def test_what_has_a_target_says_it(self):
        targets = {name: row["target_us"] for (name, _), row in self.rows.items() if "target_us" in row}
        self.assertEqual(
            targets,
            {"disk hit": 150, "cache ls": 5e5, "memory hit, the table of kernels alone": 0.2},
        )

    def test_a_hit_in_memory_says_of_how_many_kernels_it_is(self):
        self.assertEqual(self.ours("memory hit, the table of kernels alone")["loaded"], 10000)

    def test_a_hit_on_disk_is_shown_in_its_parts(self):
        row = self.ours("disk hit")
        self.assertEqual(row["entries"], 100)
        self.assertTrue(100_000 < row["entry_bytes"] < 250_000, row)
        self.assertGreaterEqual(row["p99_us"], row["wall_us"])
        self.assertGreaterEqual(row["cpu_p99_us"], row["cpu_us"])
        for part in ("cpu_us", "list_us", "read_us", "decode_us", "compare_us"):
            self.assertGreater(row[part], 0)

    def test_the_commands_work_on_all_entries(self):
        for name in ("cache ls", "cache gc --dry-run, half of it", "cache verify"):
            self.assertEqual(self.ours(name)["entries"], 100)
            self.assertGreater(self.ours(name)["cpu_us"], 0)

    def test_many_processes_compile_each_kernel_once(self):
        crowds = {series: row for (_, series), row in self.rows.items() if series != "steergraph"}
        if not self.has_compiler():
            self.assertEqual(crowds, {})
            self.assertIn("bench: cache: no rows of many processes: ", Rows.outcome.err)
            return
        self.assertEqual(set(crowds), {ONE, MANY, IN_ORDER})
        self.assertEqual(crowds[ONE]["processes"], 1)
        self.assertNotIn("alone_x", crowds[ONE])
        for series, row in crowds.items():
            with self.subTest(series=series):
                self.assertEqual(row["compiles"], row["kernels"])
                self.assertEqual(row["hits"], (row["processes"] - 1) * row["kernels"])
                self.assertGreater(row["compile_ms"], 0)
                if series != ONE:
                    self.assertGreater(row["processes"], 1)
                    ratio = row["wall_us"] / crowds[ONE]["wall_us"]
                    self.assertAlmostEqual(row["alone_x"], ratio)

    def test_a_loaded_kernel_needs_a_gpu_and_it_says_so(self):
        self.assertNotIn(("memory hit", "steergraph"), self.rows)
        self.assertIn("bench: cache: no row of a loaded kernel: ", Rows.outcome.err)

    def test_its_processes_do_not_speak(self):
        self.assertEqual(Rows.outcome.err.splitlines().count("bench: cache"), 1)


class Words(CacheBench):
    def test_a_number_is_that_of_the_entries(self):
        rows = self.succeed("bench", "cache", "13", "--quick", "--json").json()
        counts = {row["name"]: row["entries"] for row in rows if "entries" in row}
        self.assertEqual(len(counts), 4)
        self.assertEqual(set(counts.values()), {13})

    def test_words_that_are_no_number_of_entries_are_refused(self):
        for words in (["many"], ["9"], ["1000001"], ["-20"], ["1e3"], ["20", "30"], ["child"],
                      ["child", "folder", "0"], ["child", "folder", "0", "0"]):
            with self.subTest(words=words):
                message = self.fail("--", *words)
                self.assertIn(
                    f"bench cache: '{words[0]}' is no number of entries, 10 to 1000000", message)

    def test_it_has_no_peers(self):
        line = self.refuse(WRONG, "bench", "cache", "20", "--peers")
        self.assertIn("--peers", line)


class Folder(CacheBench):
    def test_a_temporary_folder_that_cannot_be_made_is_named(self):
        self.environment["TMPDIR"] = str(self.folder / "nowhere")
        self.assertIn(f"'{self.folder / 'nowhere'}/steergraph-bench-", self.fail("--quick"))

    def test_a_signal_ends_it_and_the_folder_is_removed(self):
        process = self.start("bench", "cache", "20000")  # far from done when the signal comes
        self.addCleanup(process.kill)
        limit = time.monotonic() + 60
        while not list(self.temporary.glob("*/full/v1/*/*.sgc")):
            self.assertLess(time.monotonic(), limit)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (-signal.SIGTERM, b""))
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    tap.main()
