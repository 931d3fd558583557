#!/usr/bin/env python3
"""`steergraph cache verify`: damage of every kind is found, and with --repair moved away."""
import os
import pathlib
import shutil

import tap
from built import Built
from cli import FAILED, WRONG, Case, strict_json
from terminal import said_on_terminal


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
        self.assertEqual(report, {"entries": 4, "good": 4, "graphs": 0, "good_graphs": 0, "other_format": 0,
                                  "bad": [], "left_out": [], "dry_run": False, "moved": 0, "repaired": False})  # fmt: skip

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
        self.assertEqual(report, {"entries": 4, "good": 3, "graphs": 0, "good_graphs": 0, "other_format": 1,
                                  "bad": [], "left_out": [], "dry_run": False, "moved": 0, "repaired": True})  # fmt: skip
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

    def tree(self):
        return sorted(str(path) for path in self.cache.rglob("*"))

    def test_a_dry_run_says_what_a_repair_then_does(self):
        first, second = self.entries()[0]["path"], self.entries()[2]["path"]
        self.damage(first, self.flip(0.5))
        self.damage(second, lambda data: data[:100])
        before = self.tree()
        words = ("cache", "verify", "--repair", "--dry-run", "--cache", self.cache)
        outcome = self.run_command(*words, "--json")
        self.assertEqual(outcome.code, FAILED, "what is bad stays in its place")
        report = outcome.json()
        self.assertEqual((report["dry_run"], report["would_move"], report["repaired"]), (True, 2, False))
        self.assertEqual([bad["path"] for bad in report["bad"]], [first, second])
        text = self.run_command(*words).out
        self.assertTrue(text.endswith("4 entries: 2 good, 2 bad, would be moved to quarantine\n"), text)
        self.assertEqual(self.tree(), before)
        done = self.succeed("cache", "verify", "--repair", "--json", "--cache", self.cache).json()
        self.assertEqual((done["dry_run"], done["moved"], done["repaired"]), (False, 2, True))
        self.assertEqual(done["bad"], report["bad"])
        again = self.succeed(*words, "--json").json()
        self.assertEqual((again["entries"], again["would_move"]), (2, 0))

    def test_a_dry_run_leaves_out_what_a_repair_would_leave(self):
        self.succeed("build", "--arch", "sm_80,sm_90", "--cache", self.cache, "--pack", "k.sgp", self.spec)
        self.damage(self.folder / "k.sgp", self.flip(0.4))
        shard = self.cache / "v1" / "ab"
        shard.mkdir(exist_ok=True)
        (shard / f"ab{30 * '0'}-nvrtc-13.0.88.sgc").mkdir()
        words = ("cache", "verify", "--repair", "--json", "--cache", f"k.sgp:{self.cache}")
        dry = self.run_command(*words, "--dry-run").json()
        done = self.run_command(*words).json()
        self.assertGreater(len(dry["bad"]), 1)
        self.assertEqual((dry["would_move"], done["moved"], done["repaired"]), (0, 0, False))
        self.assertEqual(dry["bad"], done["bad"])

    def test_a_dry_run_of_nothing_is_refused(self):
        line = self.refuse(WRONG, "cache", "verify", "--dry-run", "--cache", self.cache)
        self.assertIn("--dry-run is of --repair", line)

    def most_memory(self, path_list):
        """KiB that verifying takes at most."""
        self.environment["ASAN_OPTIONS"] = "quarantine_size_mb=1"  # what is freed is free
        process = self.start("cache", "verify", "--json", "--cache", path_list)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss, strict_json(out.decode())["good"]

    def test_entries_are_in_memory_one_at_a_time(self):
        folders = []
        for number in range(200):
            folders.append(self.folder / f"k{number}")
            folders[-1].symlink_to(self.cache)
        few, n_few = self.most_memory(folders[0])
        many, n_many = self.most_memory(":".join(map(str, folders)))
        self.assertEqual((n_few, n_many), (4, 800))
        size = sum(entry["size_bytes"] for entry in self.entries()) / 1024
        self.assertGreater(200 * size, 60000)
        self.assertLess(many - few, 20000)

    def on_a_terminal(self, path_list, when_it_speaks=lambda: None):
        return said_on_terminal(self, "cache", "verify", "--cache", path_list, when_it_speaks=when_it_speaks)

    def test_long_work_says_on_a_terminal_how_far_it_is(self):
        folders = []
        seen = ""
        while seen == "" and len(folders) < 12800:  # machines differ in how much is long
            for number in range(len(folders), 2 * len(folders) + 200):
                folders.append(self.folder / f"{number}")
                folders[-1].symlink_to(self.cache)
            seen, out = self.on_a_terminal(":".join(path.name for path in folders))
        total = 4 * len(folders)
        self.assertRegex(seen, rf"^(\r\d+ of {total} entries verified *)+\r\n$")
        self.assertEqual(out, f"{total} entries: {total} good, 0 bad\n")
        self.assertEqual(self.on_a_terminal(self.cache)[0], "", "short work says nothing")
        self.assertEqual(self.run_command("cache", "verify", "--cache", ":".join(path.name for path in folders)).err, "")

    def test_what_is_removed_meanwhile_is_not_bad(self):
        folders = []
        for number in range(3000):
            folders.append(self.folder / f"{number}")
            folders[-1].symlink_to(self.cache)
        last = self.folder / "z"  # paths are walked in their order
        shutil.copytree(self.cache, last)
        names = ":".join(path.name for path in [*folders, last])
        seen, out = self.on_a_terminal(names, lambda: shutil.rmtree(last))
        self.assertIn("of 12004 entries verified", seen)
        self.assertEqual(out, "12000 entries: 12000 good, 0 bad\n")

    def test_the_checks_need_no_compiler(self):
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        self.succeed("cache", "verify", "--cache", self.cache)
        self.assertEqual(self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["count"], 4)


tap.main()
