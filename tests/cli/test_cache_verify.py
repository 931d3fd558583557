#!/usr/bin/env python3
"""`steergraph cache verify`: damage of every kind is found, and with --repair moved away."""
import os
import pathlib

import tap
from built import Built
from cli import FAILED, Case


class Empty(Case):
    def test_what_has_the_name_of_an_entry_and_is_no_file_is_bad_and_left(self):
        shard = self.folder / "kernels" / "v1" / "ab"
        shard.mkdir(parents=True)
        for name, make in (("ab" + 30 * "0", os.mkdir), ("ab" + 30 * "1", os.mkfifo)):
            make(shard / f"{name}-nvrtc-13.0.88.sgc")
        paths = sorted(str(path) for path in shard.iterdir())
        for words in ((), ("--repair",)):
            outcome = self.run_command("cache", "verify", *words, "--json", "--cache", "kernels")
            self.assertEqual(outcome.code, FAILED, outcome)
            report = outcome.json()
            self.assertEqual((report["entries"], report["good"], report["repaired"]), (2, 0, False))
            self.assertEqual([bad["path"] for bad in report["bad"]], paths)
            self.assertRegex(report["bad"][0]["problem"], "it is a .*, not a file")
        text = self.run_command("cache", "verify", "--repair", "--cache", "kernels").out
        self.assertIn("0 good, 2 bad, 0 moved to quarantine, 2 left that are no files: move those away", text)
        self.assertEqual(sorted(str(path) for path in shard.iterdir()), paths)
        self.assertFalse((self.folder / "kernels" / "v1" / "quarantine").exists())


class Verifies(Built):
    def test_verify_passes_a_good_cache(self):
        report = self.succeed("cache", "verify", "--json", "--cache", self.cache).json()
        self.assertEqual(report, {"entries": 4, "good": 4, "other_format": 0, "bad": [], "repaired": False})

    def test_a_flipped_bit_anywhere_is_found(self):
        path = self.entries()[1]["path"]
        good = pathlib.Path(path).read_bytes()
        for at in (0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1):
            with self.subTest(at=at):
                pathlib.Path(path).write_bytes(good)
                self.damage(path, self.flip(at))
                outcome = self.run_command("cache", "verify", "--json", "--cache", self.cache)
                self.assertEqual(outcome.code, FAILED, outcome)
                report = outcome.json()
                self.assertEqual((report["good"], [bad["path"] for bad in report["bad"]]), (3, [path]))
                self.assertNotEqual(report["bad"][0]["problem"], "")
                self.assertTrue(pathlib.Path(path).exists(), "a bad entry stays in place")

    def test_truncated_and_empty_entries_are_found(self):
        path = self.entries()[2]["path"]
        for size in (0, 1, 17, 1000):
            with self.subTest(size=size):
                self.damage(path, lambda data, size=size: data[:size])
                outcome = self.run_command("cache", "verify", "--cache", self.cache)
                self.assertEqual(outcome.code, FAILED, outcome)
                self.assertIn(f"bad: {path}: ", outcome.out)
                self.assertIn("4 entries: 3 good, 1 bad", outcome.out)

    def test_an_entry_of_another_format_is_left_and_not_bad(self):
        path = self.entries()[1]["path"]
        other = pathlib.Path(__file__).resolve().parent.parent / "data" / "entry_format_1.sgc"
        pathlib.Path(path).write_bytes(other.read_bytes())
        report = self.succeed("cache", "verify", "--repair", "--json", "--cache", self.cache).json()
        self.assertEqual(report, {"entries": 4, "good": 3, "other_format": 1, "bad": [], "repaired": True})
        outcome = self.succeed("cache", "verify", "--cache", self.cache)
        self.assertIn(f"other format: {path}: entry format 1, this version reads 2\n", outcome.out)
        self.assertIn("4 entries: 3 good, 0 bad, 1 of another format: left as they are\n", outcome.out)
        self.assertEqual(pathlib.Path(path).read_bytes(), other.read_bytes())
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        found = self.succeed("doctor", "--json").json()["cache"]
        self.assertEqual((found["entries"], found["bad"]), (4, 0))

    def test_repair_moves_a_bad_entry_away_and_the_next_build_heals(self):
        path = self.entries()[0]["path"]
        self.damage(path, self.flip(0.5))
        report = self.succeed("cache", "verify", "--repair", "--json", "--cache", self.cache).json()
        self.assertEqual((report["repaired"], len(report["bad"])), (True, 1))
        self.assertFalse(pathlib.Path(path).exists())
        self.assertEqual(len(list(self.cache.rglob("quarantine/*"))), 1)
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        self.assertEqual(self.succeed(*words).json()["compiled"], 1)

    def test_the_checks_need_no_compiler(self):
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        self.succeed("cache", "verify", "--cache", self.cache)
        self.assertEqual(self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["count"], 4)


tap.main()
