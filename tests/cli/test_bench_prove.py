#!/usr/bin/env python3
"""bench prove on the CPU: its rows, the processes that it starts, and its peer with another in PyTorch's place."""
import math
import unittest

import tap
from cli import FAILED, QUICK, ROOT, WRONG, Case

SCRIPTS = ROOT / "tools" / "bench" / "peers"
COUNTS = ("pool", "us_each", "candidates_per_s", "useful", "steps_each", "children_a_step", "states", "proved", "close")
# What is run in the place of the peer: it reads the files as the peer does, and says what it read.
PEER = f"""
import pathlib, sys
sys.path.insert(0, {str(SCRIPTS)!r})
import prove_case, rows
words, found = sys.argv, []
for i, word in enumerate(words):
    if word == "--case":
        case = prove_case.ProveCase(words[i + 3], words[i + 1], words[i + 2])
        case.weights()
        extras = {{"read": len(case.candidates), "depth": sum(case.expected["depth"]), "facts": len(case.base.facts),
                   "known": len(set(case.expected["outcome"]) & {{1, 2, 3, 4}})}}
        time = rows.Times([20.0])
        found.append(rows.make(case, "torch eager step", {{"card": "Card 1", "driver": 13000, "cuda": "13.0"}},
                               time, time, extras))
rows.write(words[words.index("--json") + 1], found)
"""


class Prove(Case):
    def setUp(self):
        super().setUp()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""


@unittest.skipIf(QUICK, "minutes under a sanitizer; bench_prove_bed and bench_prove_suite call what makes the rows")
class Rows(Prove):
    every = None  # the rows of a run with the peer, which takes seconds

    def rows(self):
        if Rows.every is None:
            peers = self.folder / "peers"
            peers.mkdir()
            (peers / "peer.py").write_text("")
            (peers / "prove.py").write_text(PEER)
            outcome = self.succeed("bench", "prove", "--quick", "--json", "--peers", "--peers-from", peers)
            Rows.every = outcome.json()
        return Rows.every

    def ours(self):
        return {row["name"]: row for row in self.rows() if row["suite"] == "prove" and row["series"] == "steergraph"}

    def test_rows_are_of_a_base_and_what_a_cpu_can_afford(self):
        names = ["first result, empty cache", "first result, disk cache", "countries, 512 repeated",
                 "countries, 512 varied", "countries, 110 unpadded", "countries, pool 64", "countries, pool 110"]
        self.assertEqual(list(self.ours()), names)
        for name, row in self.ours().items():
            with self.subTest(name=name):
                self.assertGreater(row["wall_us"], 0)
                self.assertIsNone(row["median_us"])  # there is no device
                self.assertIsNone(row["floor_us"])

    def test_pools_say_what_was_done(self):
        for name, row in self.ours().items():
            if name.startswith("first"):
                continue
            with self.subTest(name=name):
                self.assertTrue(all(math.isfinite(row[key]) for key in COUNTS))
                self.assertEqual(row["pool"], int(name.split(", ")[1].removeprefix("pool ").split()[0]))
                self.assertAlmostEqual(row["us_each"] * row["candidates_per_s"], 1e6, delta=1)
                self.assertEqual(row["useful"], 1)
                self.assertTrue(1 <= row["steps_each"] <= 20)
                self.assertTrue(1 <= row["children_a_step"] <= 120)
                self.assertGreater(row["states"], row["pool"])
        pool = self.ours()["countries, pool 64"]
        self.assertAlmostEqual(pool["gflop"], pool["states"] * 1.435648e-3, places=6)
        self.assertAlmostEqual(pool["dense_mb"], 64 * 120 * 26 * 3 * 8e-6, places=6)
        self.assertGreater(pool["memory_mb"], 0)
        self.assertEqual(pool["kernels"], 0)

    def test_one_query_again_and_again_takes_as_many_steps_each_time(self):
        repeated, varied = (self.ours()[f"countries, 512 {word}"] for word in ("repeated", "varied"))
        self.assertEqual(repeated["steps_each"], int(repeated["steps_each"]))
        self.assertIn(repeated["proved"], (0, 512))
        self.assertNotEqual(varied["steps_each"], int(varied["steps_each"]))
        self.assertEqual((repeated["compiles"], varied["compiles"]), (0, 0))

    def test_first_results_are_of_processes_that_compile_nothing_on_a_cpu(self):
        for name in ("first result, empty cache", "first result, disk cache"):
            row = self.ours()[name]
            self.assertEqual((row["compile_ms"], row["load_ms"], row["compiles"]), (0, 0, 0))
            self.assertAlmostEqual(row["first_ms"], row["first_call_ms"])
            self.assertAlmostEqual(row["first_ms"] * 1e3, row["wall_us"])
            self.assertGreater(row["create_ms"], 0)
            self.assertGreater(row["later_us"], 0)

    def test_the_peer_reads_what_we_proved(self):
        (row,) = (row for row in self.rows() if row["series"] == "torch eager step")
        ours = self.ours()["countries, pool 64"]
        self.assertEqual((row["name"], row["read"]), ("countries, pool 64", 64))
        self.assertEqual(row["depth"], 64 * ours["steps_each"])
        self.assertGreater(row["facts"], 900)
        self.assertGreater(row["known"], 1)
        self.assertIsNone(row["floor_us"])

    def test_a_run_with_peers_says_how_long_it_took(self):
        names = [row["name"] for row in self.rows() if row["suite"] == "run"]
        self.assertEqual(names, ["prove", "peers", "all of it"])


class Words(Prove):
    def test_a_process_of_its_own_prints_one_row(self):
        (row,) = self.succeed("bench", "prove", "child", "--quick", "--json").json()
        self.assertEqual((row["name"], row["pool"], row["wall_us"]), ("child", 64, None))

    def test_words_are_refused(self):
        for words in (("x.json",), ("child", "more")):
            outcome = self.run_command("bench", "prove", *words)
            self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
            self.assertIn(f"bench prove: it takes no word, found '{words[0]}'", outcome.err)
        said = self.refuse(WRONG, "bench", "prove", "x.json", "--peers")
        self.assertIn("not on 'x.json'", said)

    def test_a_folder_without_scripts_is_named_before_anything_is_measured(self):
        (self.folder / "empty").mkdir()
        said = self.refuse(FAILED, "bench", "prove", "--peers", "--peers-from", "empty")
        self.assertIn("no peer.py in 'empty'", said)


if __name__ == "__main__":
    tap.main()
