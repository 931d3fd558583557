#!/usr/bin/env python3
"""What lies in a cache folder and is none of a cache's: folders that cannot be listed, and symbolic links.

The commands name it with a remedy, do their work on the rest, and fail; none follows a link.
"""
import os
import shutil
import time

import tap
from cli import FAILED
from forged import Forged, signature_of

NOBODY = 65534
READERS = (("ls",), ("ls", "--graphs"), ("verify",), ("stats",), ("gc", "--dry-run"), ("report", "-o", "out/page.html"))


class LeftOut(Forged):
    def setUp(self):
        super().setUp()
        signatures = [signature_of(number) for number in range(8)]
        self.forge(*(self.entry(signature) for signature in signatures), self.graph(signatures[0]))
        self.top = self.cache / "v1"
        self.entries = sorted(self.top.glob("??/*.sgc"))
        self.shard = self.entries[0].parent
        self.n_there = len([path for path in self.entries if path.parent != self.shard])
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        (self.folder / "out").mkdir(mode=0o777)
        (self.folder / "out").chmod(0o777)
        self.as_other = {}

    def cache_command(self, *words):
        outcome = self.run_command("cache", *words, "--cache", self.cache, **self.as_other)
        self.assertEqual(outcome.err, "", outcome)
        return outcome

    def expect_left_out(self, said, path, readers=READERS):
        """Every one of `readers` names it in either form, and fails."""
        for words in readers:
            with self.subTest(words=words):
                text = self.cache_command(*words)
                self.assertEqual(text.code, FAILED, text)
                self.assertIn(f"left out: {said}\n", text.out)
                report = self.cache_command(*words, "--json")
                self.assertEqual(report.code, FAILED, report)
                report = report.json()
                left_out = report["layers"][0]["left_out"] if words == ("stats",) else report["left_out"]
                self.assertEqual(left_out, [{"path": str(path), "problem": said}])

    def expect_the_rest(self):
        self.assertEqual(self.cache_command("ls", "--json").json()["count"], self.n_there)
        self.assertEqual(self.cache_command("verify", "--json").json()["good"], self.n_there)
        self.assertEqual(self.cache_command("stats", "--json").json()["layers"][0]["entries"], self.n_there)
        self.assertEqual(self.cache_command("gc", "--dry-run", "--json").json()["kept_entries"], self.n_there + 1)

    def make_old(self, *paths):
        for path in paths:
            path.write_bytes(b"somebody's")
            os.utime(path, (time.time() - 90 * 86400,) * 2)

    def test_a_folder_that_may_not_be_read_is_named_and_the_rest_is_listed(self):
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.rglob("*")):
                path.chmod(0o777 if path.is_dir() else 0o644)
            self.as_other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            self.run_command("--version", **self.as_other)
        except PermissionError:
            self.skipTest("the build folder is not open to other users")
        self.shard.chmod(0)
        self.expect_left_out(
            f"cannot list '{self.shard}': Permission denied; give it the mode 0700, or move it away", self.shard
        )
        self.expect_the_rest()
        self.shard.chmod(0o700)

    def test_a_file_in_place_of_a_folder_is_named_and_the_rest_is_listed(self):
        shutil.rmtree(self.shard)
        self.shard.write_bytes(b"")
        self.expect_left_out(f"'{self.shard}' is no folder; move it away", self.shard)
        self.expect_the_rest()

    def test_a_link_in_place_of_a_folder_of_entries_is_not_followed(self):
        shutil.move(self.shard, self.outside / "shard")
        self.shard.symlink_to(self.outside / "shard")
        inside = sorted((self.outside / "shard").iterdir())
        self.expect_left_out(
            f"'{self.shard}' is a symbolic link, which is not followed; put a folder in its place", self.shard
        )
        self.expect_the_rest()
        outcome = self.cache_command("gc", "--older-than", "0s", "--json")
        self.assertEqual((outcome.code, outcome.json()["removed_entries"]), (FAILED, self.n_there + 1))
        self.assertEqual(sorted((self.outside / "shard").iterdir()), inside)

    def test_gc_removes_nothing_behind_a_link(self):
        for name, file in (("quarantine", "thesis.pdf"), ("tmp", "draft.tmp"), ("graphs", "draft.tmp")):
            with self.subTest(name=name):
                shutil.rmtree(self.top / name, ignore_errors=True)
                (self.top / name).symlink_to(self.outside)
                self.make_old(self.outside / file)
                outcome = self.cache_command("gc", "--max-size", "1", "--json")
                self.assertEqual(outcome.code, FAILED, outcome)
                self.assertTrue((self.outside / file).exists())
                self.assertEqual([at["path"] for at in outcome.json()["left_out"]], [str(self.top / name)])
                (self.top / name).unlink()

    def test_a_bad_entry_is_not_moved_through_a_link(self):
        (self.top / "quarantine").symlink_to(self.outside)
        self.entries[0].write_bytes(b"")
        line = self.refuse(FAILED, "cache", "verify", "--repair", "--cache", self.cache)
        self.assertIn(f"cannot make folder '{self.top / 'quarantine'}': a symbolic link is not followed; "
                      "put a folder in its place", line)  # fmt: skip
        self.assertTrue(self.entries[0].exists())
        self.assertEqual(list(self.outside.iterdir()), [])

    def test_a_link_under_an_entrys_name_is_no_entry_to_any_command(self):
        entry, graph = self.entries[0], next(self.top.glob("graphs/*"))
        for path in (entry, graph):
            shutil.move(path, self.outside / path.name)
            path.symlink_to(self.outside / path.name)
        n = len(self.entries) - 1
        for words, count in ((("ls",), "count"), (("gc", "--dry-run"), "kept_entries"), (("report", "-o", "p.html"), "entries")):
            with self.subTest(words=words):
                outcome = self.succeed("cache", *words, "--json", "--cache", self.cache).json()
                self.assertEqual((outcome[count], outcome["left_out"]), (n, []))
        layer = self.succeed("cache", "stats", "--json", "--cache", self.cache).json()["layers"][0]
        self.assertEqual((layer["entries"], layer["graphs"]), (n, 0))
        outcome = self.cache_command("verify", "--json")
        self.assertEqual((outcome.code, outcome.json()["good"], outcome.json()["graphs"]), (FAILED, n, 0))
        said = "a symbolic link, which is not followed; put the file itself in its place"
        self.assertEqual(outcome.json()["left_out"], [{"path": str(path), "problem": said} for path in (entry, graph)])
        text = self.cache_command("verify").out
        self.assertIn(f"left out: {entry}: {said}\n", text)

    def test_a_key_that_may_be_in_a_folder_that_is_left_out_is_told_of_it(self):
        key = self.entries[0].name[:12]
        shutil.rmtree(self.shard)
        self.shard.write_bytes(b"")
        line = self.refuse(FAILED, "cache", "show", key, "--cache", self.cache)
        self.assertIn(f"has a key that begins '{key}'; left out: '{self.shard}' is no folder; move it away", line)
        self.assertNotIn("left out", self.refuse(FAILED, "cache", "show", "0000", "--cache", self.cache))

    def test_no_pack_is_made_of_what_could_be_listed(self):
        shutil.rmtree(self.shard)
        self.shard.write_bytes(b"")
        line = self.refuse(FAILED, "cache", "export", "k.sgp", "--cache", self.cache)
        self.assertIn(f"no pack is written: '{self.shard}' is no folder; move it away", line)
        self.assertFalse((self.folder / "k.sgp").exists())
        named = self.entries[-1].name[:32]
        self.succeed("cache", "export", "k.sgp", named, "--cache", self.cache)

    def test_doctor_names_a_folder_that_cannot_be_listed(self):
        shutil.rmtree(self.shard)
        self.shard.write_bytes(b"")
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.assertRegex(self.run_command("doctor").out, rf"cache +missing +'{self.shard}' is no folder\n +remedy +move it away\n")


if __name__ == "__main__":
    tap.main()
