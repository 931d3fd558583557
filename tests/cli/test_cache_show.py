#!/usr/bin/env python3
"""`steergraph cache show`: one entry by the first digits of its key, its source and its cubin."""
import tap
from built import Built
from cli import FAILED, Case


class Empty(Case):
    def test_a_key_that_is_not_there_is_named(self):
        self.assertIn("abcd", self.refuse(FAILED, "cache", "show", "abcd", "--cache", self.folder))


class Shows(Built):
    def test_show_takes_the_first_digits_of_a_key(self):
        entry = self.entries()[0]
        for digits in (8, 16, 32):
            with self.subTest(digits=digits):
                shown = self.succeed("cache", "show", entry["key"][:digits], "--json", "--cache", self.cache).json()
                self.assertEqual(shown["key"], entry["key"])
                names = [factor["factor"] for factor in shown["factors"]]
                for name in ("signature", "source", "prelude", "arch"):
                    self.assertIn(name, names)
                self.assertNotIn("source", shown)

    def test_show_says_how_a_kernel_is_launched(self):
        for entry in self.entries():
            shown = self.succeed("cache", "show", entry["key"], "--json", "--cache", self.cache).json()
            self.assertEqual(shown["family"], "steer")
            self.assertEqual(shown["max_threads"], shown["threads"])  # its launch bounds
            # whole vectors of 8 f32, at least as many where few blocks share a multiprocessor
            self.assertEqual(shown["stage_bytes"] % 32, 0)
            self.assertGreater(shown["wide_stage_bytes"], 0)
            self.assertGreaterEqual(shown["wide_stage_bytes"], shown["stage_bytes"])

    def test_show_prints_the_source(self):
        key = self.entries()[0]["key"]
        text = self.succeed("cache", "show", key, "--source", "--cache", self.cache).out
        self.assertIn("__global__", text)
        shown = self.succeed("cache", "show", key, "--source", "--json", "--cache", self.cache).json()
        self.assertIn("__global__", shown["source"])

    def test_show_writes_the_cubin(self):
        entry = self.entries()[0]
        self.succeed("cache", "show", entry["key"], "--cubin", "k.cubin", "--cache", self.cache)
        data = (self.folder / "k.cubin").read_bytes()
        self.assertTrue(data.startswith(b"\x7fELF"))
        self.assertEqual(len(data), entry["cubin_bytes"])


tap.main()
