#!/usr/bin/env python3
"""`steergraph cache show`: one entry by the first digits of its key, its source, its machine code and its cubin."""
import pathlib
import sys

import tap
from built import Built
from cli import FAILED, Case


class Empty(Case):
    def test_a_key_that_is_not_there_is_named(self):
        self.assertIn("abcd", self.refuse(FAILED, "cache", "show", "abcd", "--cache", self.folder))


class Shows(Built):
    real = True

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

    def test_what_is_read_is_not_written_over(self):
        """Neither by `show` nor by `run`: a pack that is gone is not made again by the next miss."""
        self.succeed("cache", "export", "k.sgp", "--cache", self.cache)
        paths = [entry["path"] for entry in self.entries()]
        (self.folder / "link").symlink_to(paths[1])
        key = self.entries()[0]["key"]
        before = {path: pathlib.Path(path).read_bytes() for path in (*paths, self.folder / "k.sgp")}
        for words in (("cache", "show", key, "--cubin"), ("run", "--backend", "cpu", self.spec, "--output"),
                      ("run", "--backend", "cpu", self.spec, "--save-traffic")):  # fmt: skip
            for path in (paths[0], paths[1], "link", "k.sgp"):
                with self.subTest(words=words, path=path):
                    line = self.refuse(FAILED, *words, path, "--cache", f"k.sgp:{self.cache}")
                    self.assertIn(f"{words[-1]} '{path}' would replace a file ", line)
        self.assertEqual(before, {path: pathlib.Path(path).read_bytes() for path in before})
        self.succeed("cache", "show", key, "--cubin", "a.cubin", "--cache", f"k.sgp:{self.cache}")
        self.succeed("cache", "show", key, "--cubin", "a.cubin", "--cache", f"k.sgp:{self.cache}")

    def test_show_takes_the_compiler_behind_a_key(self):
        entry = self.entries()[0]
        key, compiler = entry["key"], entry["compiler"]
        for word in (f"{key}-{compiler}", f"{key[:9]}-{compiler}", f"{key[:9]}-nvrtc"):
            with self.subTest(word=word):
                shown = self.succeed("cache", "show", word, "--json", "--cache", self.cache).json()
                self.assertEqual((shown["key"], shown["compiler"]), (key, compiler))
                self.assertIn(key, self.succeed("cache", "dot", word, "--cache", self.cache).out)
        line = self.refuse(FAILED, "cache", "show", f"{key[:9]}-nvrtc-99", "--cache", self.cache)
        self.assertIn(f"'{key[:9]}-nvrtc-99'", line)

    def test_show_says_how_a_kernel_is_launched(self):
        for entry in self.entries():
            shown = self.succeed("cache", "show", entry["key"], "--json", "--cache", self.cache).json()
            self.assertEqual(shown["family"], "steer")
            self.assertEqual(shown["max_threads"], shown["threads"])  # its launch bounds
            # whole vectors of 8 f32, at least as many where few blocks share a multiprocessor
            self.assertEqual(shown["stage_bytes"] % 32, 0)
            self.assertGreater(shown["wide_stage_bytes"], 0)
            self.assertGreaterEqual(shown["wide_stage_bytes"], shown["stage_bytes"])

    def show(self, entry, *words):
        return self.succeed("cache", "show", entry["key"], *words, "--cache", self.cache)

    def test_show_says_how_many_blocks_a_multiprocessor_holds(self):
        for entry in self.entries():
            shown = self.show(entry, "--json").json()
            found = shown["occupancy"]
            warps = (entry["threads"] + 31) // 32
            self.assertEqual(found["dynamic_bytes"], shown["stage_bytes"])
            self.assertEqual((found["max_warps"], found["warps"]), (64, found["blocks"] * warps))
            self.assertEqual(found["percent"], 100 * found["warps"] / 64)
            self.assertGreater(found["blocks"], 0)
            per_warp = (entry["registers"] * 32 + 255) // 256 * 256  # of 16384 in each of four partitions
            by_registers = 16384 // per_warp * 4 // warps
            self.assertLessEqual(found["blocks"], by_registers)
            self.assertEqual("registers" in found["limited_by"], found["blocks"] == by_registers)
            self.assertLessEqual(set(found["limited_by"]), {"registers", "shared memory", "threads", "blocks"})
            self.assertNotEqual(found["limited_by"], [])
            text = self.show(entry).out
            self.assertRegex(text, rf"occupancy +{found['blocks']} blocks? of {entry['threads']} threads on a "
                                   rf"multiprocessor of {entry['arch']}, {found['warps']} of 64 warps \(\d+ %\), "
                                   rf"limited by {' and '.join(found['limited_by'])}; with ")  # fmt: skip
            self.assertIn(f"compiled for at most {entry['max_threads']} threads a block", text)
            rows = entry["rows_per_block"]
            self.assertIn(f"{entry['threads']} threads a block, {rows} row{'' if rows == 1 else 's'} at a time, ", text)

    def test_show_lists_the_parameters_of_the_cubin(self):
        entry = self.entries()[0]
        params = self.show(entry, "--json").json()["parameters"]
        self.assertEqual([param["ordinal"] for param in params], list(range(len(params))))
        self.assertEqual(params[-1]["offset_bytes"] + params[-1]["size_bytes"], entry["param_bytes"])
        self.assertRegex(self.show(entry).out, rf"parameters\n +ordinal +offset +bytes\n +0 +0 +{params[0]['size_bytes']}\n")

    def disassembler(self, text):
        """Put a program `nvdisasm` on PATH."""
        path = self.write("bin/nvdisasm", f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        self.environment["PATH"] = f"{path.parent}:{self.environment['PATH']}"
        (self.folder / "tmp").mkdir(exist_ok=True)
        self.environment["TMPDIR"] = str(self.folder / "tmp")

    def test_show_prints_what_nvdisasm_says_of_the_cubin(self):
        entry = self.entries()[0]
        self.disassembler("import sys; data = open(sys.argv[2], 'rb').read(); print(sys.argv[1], data[1:4], len(data))")
        line = f"-c b'ELF' {entry['cubin_bytes']}\n"
        self.assertEqual(self.show(entry, "--sass", "--json").json()["sass"], line)
        self.assertTrue(self.show(entry, "--sass").out.endswith("\n\n" + line))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_a_disassembler_that_fails_or_is_missing_is_named(self):
        entry = self.entries()[0]
        words = ("cache", "show", entry["key"], "--sass", "--cubin", "k.cubin", "--cache", self.cache)
        self.disassembler("import sys; print('half'); sys.exit(3)")
        line = self.refuse(FAILED, *words)
        self.assertIn("nvdisasm failed with exit status 3", line)
        self.disassembler("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        self.assertIn("nvdisasm was ended by signal 9", self.refuse(FAILED, *words))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.assertFalse((self.folder / "k.cubin").exists())
        self.environment["TMPDIR"] = str(self.folder / "nowhere")
        self.assertIn("nowhere/steergraph-cubin-", self.refuse(FAILED, *words))
        del self.environment["TMPDIR"]
        self.environment["PATH"] = "/nowhere"
        outcome = self.run_command(*words)
        if outcome.code != 0:  # the toolkit that this was built with may have one
            self.assertRegex(outcome.err, r"no nvdisasm on PATH nor in .*/bin; it comes with the CUDA toolkit "
                                          r"\(package cuda-nvdisasm\)\n$")  # fmt: skip

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
