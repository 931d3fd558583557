#!/usr/bin/env python3
"""`steergraph cache ls`: what is listed, in which order, and of which folder."""
import tap
from built import Built
from cli import FAILED, Case


class Empty(Case):
    def test_a_folder_that_is_not_there_has_no_entries(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = "nowhere"
        report = self.succeed("cache", "ls", "--json").json()
        self.assertEqual(report, {"entries": [], "count": 0, "size_bytes": 0})
        self.assertEqual(self.succeed("cache", "verify", "--json").json()["entries"], 0)
        self.assertFalse((self.folder / "nowhere").exists())

    def test_a_named_folder_that_is_not_there_is_refused(self):
        for words in (("ls",), ("show", "abcd"), ("verify",)):
            for folders in ("nowhere", f"{self.folder}:nowhere", f"nowhere:{self.folder}"):
                with self.subTest(words=words, folders=folders):
                    self.assertIn("'nowhere'", self.refuse(FAILED, "cache", *words, "--cache", folders))
        self.assertFalse((self.folder / "nowhere").exists())

    def test_without_a_folder_the_variable_is_named(self):
        for name in ("HOME", "STEERGRAPH_CACHE_DIR", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        outcome = self.run_command("cache", "ls")
        if outcome.code != 0:  # a passwd entry may still give a home
            self.assertIn("STEERGRAPH_CACHE_DIR", outcome.err)


class Lists(Built):
    def test_ls_lists_what_build_built(self):
        entries = self.entries()
        built = {kernel["kernel_key"]: kernel for kernel in self.report["kernels"]}
        self.assertEqual({entry["key"] for entry in entries}, set(built))
        for entry in entries:
            self.assertTrue(entry["ok"])
            self.assertEqual(entry["signature"], built[entry["key"]]["signature"])
            self.assertEqual(entry["arch"], built[entry["key"]]["arch"])
            self.assertGreater(entry["registers"], 0)
            self.assertRegex(entry["compiler"], r"^nvrtc-\d+\.\d+")
            self.assertRegex(entry["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_ls_sorts(self):
        for order, member, down in (("size", "size_bytes", True), ("arch", "arch", False), ("path", "path", False),
                                    ("compile", "compile_ms", True), ("age", "created", True)):  # fmt: skip
            with self.subTest(order=order):
                words = ("cache", "ls", "--json", "--sort", order, "--cache", self.cache)
                values = [entry[member] for entry in self.succeed(*words).json()["entries"]]
                self.assertEqual(values, sorted(values, reverse=down))

    def test_the_environment_names_the_folder(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.assertEqual(self.succeed("cache", "ls", "--json").json()["count"], 4)

    def test_the_text_list_has_one_row_per_entry(self):
        text = self.succeed("cache", "ls", "--cache", self.cache).out
        self.assertEqual(text.count("nvrtc-"), 4)
        self.assertRegex(text, r"(?m)^4 entries, ")

    def test_a_bad_entry_shows_in_the_list_and_is_not_shown(self):
        entry = self.entries()[0]
        self.damage(entry["path"], self.flip(0.5))
        bad = [e for e in self.entries() if not e["ok"]]
        self.assertEqual([e["path"] for e in bad], [entry["path"]])
        self.assertEqual(list(bad[0]), ["path", "ok", "size_bytes", "other_format", "problem"])
        self.refuse(FAILED, "cache", "show", entry["key"], "--cache", self.cache)


tap.main()
