#!/usr/bin/env python3
"""Names that command a terminal: of folders, entries, packs and specs. None reaches one from any report."""
import os
import pathlib
import re
import shutil

import tap
from built import Built
from cli import DONE, FAILED, small_workload

# A newline, an escape sequence, U+009b (which is one in UTF-8), marks that turn what follows, one that hides,
# one beyond U+FFFF, and the byte of U+009b, which is no UTF-8.
NAME = "a\nb\x1b[31mc\u009b31md\u202ee\u2066f\u200b\U000e0041" + os.fsdecode(b"\x9b31m\xff")
SHOWN = r"a\x0ab\x1b[31mc\u009b31md\u202ee\u2066f\u200b\udb40\udc41\x9b31m\xff"
# What the terminal sees of it in JSON, which has no bytes that are no UTF-8, and what a reader gets.
IN_JSON = r"a\nb\u001b[31mc\u009b31md\u202ee\u2066f\u200b\udb40\udc41" + "\ufffd31m\ufffd"
READ = NAME[:-5] + "\ufffd31m\ufffd"
COMMANDS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


class Terminal(Built):
    def setUp(self):
        super().setUp()
        self.home = self.folder / NAME
        self.home.mkdir()
        self.cache = pathlib.Path(shutil.move(self.cache, self.home / "k"))
        self.paths = sorted(self.cache.glob("v1/??/*.sgc"))
        self.keys = [path.name[:32] for path in self.paths]

    def is_shown(self, code, *words):
        """The command ends so, and what it says is text; returns both."""
        outcome = self.run_command(*words)
        self.assertEqual(outcome.code, code, outcome)
        said = outcome.out + outcome.err
        self.assertIsNone(COMMANDS.search(said), ascii(said))
        self.assertNotIn("\nb\\x1b", said, "a name begins no line")
        return said

    def test_the_name_of_a_folder(self):
        spec = self.write(f"{NAME}/w.json", small_workload())
        for words in (
            ("show", self.keys[0]), ("explain", *self.keys[:2]), ("explain", spec, "--arch", "sm_90"), ("stats",),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.assertIn(SHOWN, self.is_shown(DONE, "cache", *words, "--cache", self.cache))
        for words in (("ls",), ("ls", "--graphs"), ("verify",), ("gc", "--dry-run"), ("dot", self.keys[0])):
            with self.subTest(words=words):
                self.is_shown(DONE, "cache", *words, "--cache", self.cache)
        for arch in ("sm_90", "sm_100"):  # there, and not
            words = ("explain", spec, "--arch", arch, "--why-miss", "--cache", self.cache)
            self.assertRegex(self.is_shown(DONE, *words), rf"cached.*{re.escape(SHOWN)}")
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.assertIn(SHOWN, self.is_shown(DONE, "doctor"))

    def test_json_is_read_as_it_was_named(self):
        for words in (("ls",), ("show", self.keys[0]), ("stats",), ("gc", "--dry-run")):
            with self.subTest(words=words):
                said = self.is_shown(DONE, "cache", *words, "--json", "--cache", self.cache)
                self.assertIn(IN_JSON, said)
        listed = self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["entries"]
        self.assertEqual(len(listed), 4)
        for entry in listed:
            self.assertIn(READ, entry["path"])

    def test_the_name_of_a_bad_entry(self):
        bad = self.paths[0].with_name(self.keys[0] + "-" + NAME + ".sgc")
        shutil.copy(self.paths[0], bad)
        (self.cache / "v1" / "graphs").mkdir()
        recipe = self.cache / "v1" / "graphs" / f"{self.keys[0]}-{self.keys[1]}.sgr"
        recipe.write_bytes(b"no recipe")
        self.assertIn(SHOWN, self.is_shown(DONE, "cache", "ls", "--graphs", "--cache", self.cache))
        for code, words in (
            (DONE, ("ls",)), (FAILED, ("verify",)),
            (FAILED, ("explain", self.keys[0] + "-a", self.keys[1])), (FAILED, ("export", "all.sgp")),
            (FAILED, ("verify", "--repair", "--dry-run")), (DONE, ("verify", "--repair")),
        ):  # fmt: skip
            with self.subTest(words=words):
                said = self.is_shown(code, "cache", *words, "--cache", self.cache)
                self.assertIn(SHOWN.replace(r"\x0a", " ") if words[0] in ("export", "explain") else SHOWN, said)

    def test_the_name_of_a_page(self):
        page = self.home / "r.html"
        self.assertIn(SHOWN, self.is_shown(DONE, "cache", "report", "-o", page, "--cache", self.cache))

    def test_the_name_of_a_pack(self):
        pack = self.home / "k.sgp"
        self.assertIn(SHOWN, self.is_shown(DONE, "cache", "export", pack, "--cache", self.cache))
        self.is_shown(DONE, "cache", "ls", "--cache", pack)
        self.is_shown(DONE, "cache", "import", pack, "--cache", self.folder / "other")
        said = self.is_shown(DONE, "build", "--arch", "sm_90", "--cache", self.cache, "--pack", pack, self.spec)
        self.assertIn(SHOWN, said)
        os.truncate(pack, 100)
        self.assertIn("100 bytes", self.is_shown(FAILED, "cache", "import", pack, "--cache", self.folder / "other"))


tap.main()
