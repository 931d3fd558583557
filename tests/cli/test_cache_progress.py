#!/usr/bin/env python3
"""Long work on cache folders says on a terminal how far it is; short work, and where none looks on, says nothing.
`cache verify` has its own cases."""
import tap
from forged import Forged, signature_of
from terminal import said_on_terminal

MOST = 20000  # entries that a machine may handle in a tenth of a second


class Progress(Forged):
    def fill(self, count):
        self.forge(*(self.entry(signature_of(i)) for i in range(count)))

    def expect_line(self, seen, words):
        """One line, written over again and again, that counts up."""
        self.assertRegex(seen, rf"^(\r{words} *)+\r\n$")

    def until_it_speaks(self, count, *words):
        """(what is seen, stdout, the cache path, its entries) of a command on the folder and more and more names of it,
        as machines differ in how much is long."""
        folders = []
        seen = ""
        while seen == "" and count * len(folders) < MOST:
            for number in range(len(folders), 2 * len(folders) + 400):
                folders.append(self.folder / f"{number}")
                folders[-1].symlink_to(self.cache)
            path_list = ":".join(path.name for path in folders)
            seen, out = said_on_terminal(self, *words, "--cache", path_list)
        return seen, out, path_list, count * len(folders)

    def test_export_says_how_many_entries_it_has_read(self):
        self.fill(4)
        words = ("cache", "export", "a.sgp")
        seen, out, path_list, count = self.until_it_speaks(4, *words)
        self.expect_line(seen, rf"\d+ of {count} entries read")
        self.assertRegex(out, r"^a\.sgp: 4 entries, ")
        self.assertEqual(said_on_terminal(self, *words, "--cache", self.cache)[0], "")
        self.assertEqual(self.succeed(*words, "--cache", path_list).err, "")

    def test_import_says_how_many_entries_it_has_read(self):
        self.fill(3)
        self.succeed("cache", "export", "a.sgp", "--cache", self.cache)
        words = ("cache", "import", "--cache", "new", "a.sgp")
        self.assertEqual(said_on_terminal(self, *words), ("", "imported 3, 0 already there, 0 bad\n"))
        packs, seen = [], ""
        while seen == "" and len(packs) < 1600:
            packs = ["a.sgp"] * (2 * len(packs) + 400)
            seen, out = said_on_terminal(self, *words, *packs[1:])
        self.expect_line(seen, rf"\d of 3 entries of pack \d+ of {len(packs)} read")
        self.assertEqual(out, f"imported 0, {3 * len(packs)} already there, 0 bad\n")
        self.assertEqual(self.succeed(*words, *packs[1:]).err, "")

    def test_report_says_how_many_entries_it_has_read(self):
        self.fill(3)
        words = ("cache", "report", "-o", "r.html")
        seen, _, path_list, count = self.until_it_speaks(3, *words)
        self.expect_line(seen, rf"\d+ of {count} entries read")
        self.assertEqual(said_on_terminal(self, *words, "--cache", self.cache)[0], "")
        self.assertEqual(self.succeed(*words, "--cache", path_list).err, "")

    def test_gc_says_how_many_files_it_has_removed(self):
        for number in range(1100):  # with names of entries; gc does not read them
            path = self.cache / "v1" / f"{number % 256:02x}" / f"{number % 256:02x}{number:030x}-nvrtc-13.0.88.sgc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"entry")
        words = ("cache", "gc", "--cache", self.cache)
        self.assertEqual(said_on_terminal(self, *words, "--max-entries", "1000")[0], "", "short work")
        words += ("--older-than", "0s")
        self.assertEqual(said_on_terminal(self, *words, "--dry-run")[0], "", "nothing is removed")
        seen, out = said_on_terminal(self, *words)
        self.expect_line(seen, r"\d+ of 1000 files removed")
        self.assertRegex(seen, r"\r1000 of 1000 files removed *\r\n$")
        self.assertIn("1000 entries", out)


tap.main()
