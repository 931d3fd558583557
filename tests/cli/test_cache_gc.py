#!/usr/bin/env python3
"""`steergraph cache gc`: what goes and why, by limits of words and of the environment."""
import os
import time

import tap
from built import Built
from cli import FAILED, WRONG, Case

HOUR, DAY = 3600, 86400


class Files(Case):
    """Files with names of entries; gc does not read them."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "kernels"

    def make(self, name, size=1000, age=0):
        path = self.cache / "v1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        stamp = time.time() - age
        os.utime(path, (stamp, stamp))
        return path

    def entry(self, number, size=1000, age=0):
        return self.make(f"{number:02x}/{number:02x}{'0' * 30}-nvrtc-13.0.88.sgc", size, age)

    def gc(self, *words):
        return self.succeed("cache", "gc", "--json", "--cache", self.cache, *words).json()

    def keys(self, report):
        return [int(victim["key"][:2], 16) for victim in report["removed"]]

    def test_within_the_limits_nothing_goes(self):
        self.entry(1)
        report = self.gc()
        self.assertEqual(
            report,
            {
                "folder": str(self.cache),
                "dry_run": False,
                "removed": [],
                "failed": [],
                "removed_entries": 0,
                "removed_files": 0,
                "removed_bytes": 0,
                "kept_entries": 1,
                "kept_files": 0,
                "kept_bytes": 1000,
                "left_out": [],
            },
        )
        text = self.succeed("cache", "gc", "--cache", self.cache).out
        self.assertEqual(text, "removed 0 entries, 0 B; 1 entry, 1000 B stay\n")

    def test_a_dry_run_says_what_is_then_done(self):
        paths = [self.entry(number, age=number * 100) for number in range(1, 9)]
        for words in (("--max-size", "6000"), ("--max-entries", "4"), ("--older-than", "200s")):
            with self.subTest(words=words):
                said = self.gc("--dry-run", *words)
                self.assertGreater(len(said["removed"]), 0)
                self.assertTrue(all(os.path.exists(victim["path"]) for victim in said["removed"]))
                done = self.gc(*words)
                self.assertEqual({**said, "dry_run": False}, done)
                self.assertFalse(any(os.path.exists(victim["path"]) for victim in done["removed"]))
        self.assertEqual([path for path in paths if path.exists()], paths[:1])

    def test_what_was_unused_longest_goes_and_why_is_said(self):
        for number, age in ((1, 500), (2, 40 * DAY), (3, 10), (4, 100)):
            self.entry(number, age=age)
        report = self.gc("--older-than", "30d", "--max-entries", "2", "--dry-run")
        self.assertEqual(self.keys(report), [2, 1])
        self.assertEqual([victim["why"] for victim in report["removed"]], ["age", "count"])
        report = self.gc("--max-size", "1K", "--dry-run")
        self.assertEqual(self.keys(report), [2, 1, 4])
        self.assertEqual({victim["why"] for victim in report["removed"]}, {"size"})
        self.assertEqual((report["removed_bytes"], report["kept_bytes"]), (3000, 1000))
        self.assertEqual(self.keys(self.gc("--older-than", "0s")), [2, 1, 4, 3])

    def test_every_unit_of_time(self):
        self.entry(1, age=2 * DAY)
        for words in ("3d", "49h", "2941m", "172900s"):
            self.assertEqual(self.keys(self.gc("--dry-run", "--older-than", words)), [], words)
        for words in ("2d", "48h", "2880m", "172800s", "0s", "0d"):
            self.assertEqual(self.keys(self.gc("--dry-run", "--older-than", words)), [1], words)

    def test_the_text_says_what_went(self):
        self.entry(0xAB, size=2048, age=50)
        self.entry(0xCD, size=3000, age=10)
        self.make("tmp/x.tmp", 10, 2 * HOUR)
        text = self.succeed("cache", "gc", "--max-entries", "1", "--dry-run", "--cache", self.cache).out
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^key +kind +used +size +why$")
        self.assertRegex(lines[1], r"^x\.tmp +temporary +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +10 B +temporary$")
        self.assertRegex(lines[2], r"^ab0000000000 +entry +\S+Z +2\.0 KiB +count$")
        self.assertEqual(lines[3], "would remove 1 entry and 1 other file, 2.0 KiB; 1 entry, 2.9 KiB stay")
        text = self.succeed("cache", "gc", "--max-entries", "1", "--cache", self.cache).out
        self.assertIn("\nremoved 1 entry and 1 other file, 2.0 KiB; 1 entry, 2.9 KiB stay\n", text)

    def test_locks_and_files_of_others_stay(self):
        others = [self.make(name, age=100 * DAY) for name in ("lock/ab", "lock/gc", "stats", "ab/notes")]
        self.make("quarantine/bad", 10, 31 * DAY)
        report = self.gc("--older-than", "0s", "--max-size", "1", "--max-entries", "1")
        self.assertEqual([victim["kind"] for victim in report["removed"]], ["quarantine"])
        self.assertIsNone(report["removed"][0]["key"])
        self.assertTrue(all(path.exists() for path in others))

    def test_limits_come_from_the_environment(self):
        for number in range(4):
            self.entry(number, age=10 * number)
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "3K"
        self.assertEqual(self.succeed("cache", "gc", "--dry-run", "--json").json()["removed_entries"], 1)
        self.environment["STEERGRAPH_CACHE_MAX_ENTRIES"] = "2"
        self.assertEqual(self.succeed("cache", "gc", "--dry-run", "--json").json()["removed_entries"], 2)
        words = ("--max-size", "none", "--max-entries", "none")
        self.assertEqual(self.succeed("cache", "gc", "--json", *words).json()["removed_entries"], 0)
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "2T"
        line = self.refuse(FAILED, "cache", "gc")
        self.assertIn("STEERGRAPH_CACHE_MAX_SIZE: '2T' is no size", line)

    def test_of_a_list_the_last_folder_is_meant(self):
        kept = self.entry(1, age=DAY)
        first, self.cache = self.cache, self.folder / "rw"
        self.entry(2, age=DAY)
        words = ("cache", "gc", "--older-than", "1h", "--cache", f"{first}:{self.cache}")
        text = self.succeed(*words).out
        self.assertTrue(text.startswith(f"of the list {self.cache} alone is written to\n"), text)
        self.assertIn("removed 1 entry", text)
        self.assertTrue(kept.exists())

    def test_wrong_words_are_refused(self):
        self.cache.mkdir()
        for words, message in (
            (("--max-size", "2T"), "--max-size 2T is no size"),
            (("--max-size", "0"), "--older-than 0s"),
            (("--max-entries", "1K"), "--max-entries 1K is no number above 0"),
            (("--older-than", "30"), "--older-than 30 is no time"),
            (("--older-than", "d"), "--older-than d is no time"),
            (("--older-than", "-1d"), "--older-than -1d is no time"),
            (("--older-than", "9999999999999d"), "is no time"),
        ):
            with self.subTest(words=words):
                self.assertIn(message, self.refuse(WRONG, "cache", "gc", "--cache", self.cache, *words))

    def test_a_folder_that_is_not_there_is_refused_when_it_is_named(self):
        self.assertIn("nowhere", self.refuse(FAILED, "cache", "gc", "--cache", "nowhere"))
        self.environment["STEERGRAPH_CACHE_DIR"] = "nowhere"
        self.assertIn("removed 0 entries", self.succeed("cache", "gc").out)

    def test_a_pack_is_refused(self):
        pack = self.write("k.sgp", b"x")
        line = self.refuse(FAILED, "cache", "gc", "--cache", pack)
        self.assertIn(f"'{pack}' is a pack, which is never written to", line)

    def test_what_cannot_be_removed_fails(self):
        if os.geteuid() == 0:
            self.skipTest("nothing keeps root from removing")
        path = self.entry(1)
        path.parent.chmod(0o500)
        outcome = self.run_command("cache", "gc", "--older-than", "0s", "--json", "--cache", self.cache)
        text = self.run_command("cache", "gc", "--older-than", "0s", "--cache", self.cache)
        path.parent.chmod(0o700)
        self.assertEqual((outcome.code, text.code), (FAILED, FAILED))
        failed = outcome.json()["failed"]
        self.assertEqual([victim["path"] for victim in failed], [str(path)])
        self.assertIn(str(path), failed[0]["problem"])
        self.assertIn(f"left: cannot remove '{path}'", text.out)


class Builds(Built):
    def build(self):
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        return self.succeed(*words).json()["compiled"]

    def test_what_went_is_compiled_again_and_the_rest_is_not(self):
        report = self.succeed("cache", "gc", "--max-entries", "3", "--json", "--cache", self.cache).json()
        self.assertEqual((report["removed_entries"], report["kept_entries"]), (1, 3))
        self.succeed("cache", "verify", "--cache", self.cache)
        self.assertEqual(self.build(), 1)

    def test_a_build_keeps_a_folder_under_its_limit(self):
        self.environment["STEERGRAPH_CACHE_MAX_ENTRIES"] = "3"
        self.environment["STEERGRAPH_LOG"] = "info"
        self.environment["STEERGRAPH_CACHE"] = "refresh"
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        outcome = self.succeed(*words)
        self.assertEqual(outcome.json()["compiled"], 4)
        self.assertRegex(outcome.err, r"evicted 1 entries, .* KiB, of '.*'; 3 entries, .* KiB stay")
        self.assertEqual(len(self.entries()), 3)

    def test_a_build_says_which_switch_keeps_it_from_storing(self):
        for word in ("off", "memory", "read-only"):
            with self.subTest(word=word):
                self.environment["STEERGRAPH_CACHE"] = word
                line = self.refuse(FAILED, "build", "--arch", "sm_80", "--cache", self.cache, self.spec)
                self.assertIn(f"STEERGRAPH_CACHE={word} forbids to store", line)
                self.succeed("build", "--arch", "sm_80", "--pack", f"{word}.sgp", self.spec)

    def test_the_doctor_compiles_whatever_the_switch_says(self):
        self.environment["STEERGRAPH_CACHE"] = "off"
        report = self.succeed("doctor", "--json").json()
        self.assertTrue(report["compiler"]["ok"])
        self.assertEqual(report["environment"]["STEERGRAPH_CACHE"], "off")


tap.main()
