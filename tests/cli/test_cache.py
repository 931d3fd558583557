#!/usr/bin/env python3
"""`steergraph build` and `steergraph cache`: compile without a GPU, then look at what was stored."""
import os
import shutil
import tempfile
import pathlib

import tap
from cli import FAILED, SPECS, WRONG, Case, small_workload


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

    def test_a_key_that_is_not_there_is_named(self):
        self.assertIn("abcd", self.refuse(FAILED, "cache", "show", "abcd", "--cache", self.folder))

    def test_without_a_folder_the_variable_is_named(self):
        for name in ("HOME", "STEERGRAPH_CACHE_DIR", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        outcome = self.run_command("cache", "ls")
        if outcome.code != 0:  # a passwd entry may still give a home
            self.assertIn("STEERGRAPH_CACHE_DIR", outcome.err)

    def test_build_without_a_folder_says_what_to_give(self):
        spec = self.write("w.json", small_workload())
        for name in ("HOME", "STEERGRAPH_CACHE_DIR", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        self.environment["STEERGRAPH_CACHE_DIR"] = ""
        outcome = self.run_command("build", "--arch", "sm_80", spec)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertRegex(outcome.err, "cache|NVRTC|CUDA headers")

    def test_build_refuses_gpus_that_are_too_old_before_it_compiles(self):
        spec = self.write("w.json", small_workload())
        for arch in ("sm_70", "sm_75", "sm_80,sm_75", "sm_90,sm_52"):
            with self.subTest(arch=arch):
                line = self.refuse(WRONG, "build", "--arch", arch, "--cache", "kernels", spec)
                self.assertIn("steergraph needs sm_80 or newer", line)
                self.assertFalse((self.folder / "kernels").exists())

    def test_build_refuses_architectures_that_nvrtc_does_not_know_before_it_compiles(self):
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        spec = self.write("w.json", small_workload())
        for arch in ("sm_999", "sm_80,sm_999"):
            with self.subTest(arch=arch):
                line = self.refuse(FAILED, "build", "--arch", arch, "--cache", "kernels", spec)
                self.assertRegex(line, "NVRTC .* does not know architecture 'sm_999'; it knows .*sm_80")
                self.assertFalse((self.folder / "kernels").exists())

    def test_build_is_refused_where_compiling_is_forbidden(self):
        spec = self.write("w.json", small_workload())
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        line = self.refuse(FAILED, "build", "--arch", "sm_80", "--cache", "kernels", spec)
        self.assertIn("STEERGRAPH_NO_JIT=1", line)
        self.assertIn("unset it", line)
        self.assertFalse((self.folder / "kernels").exists())

    def test_build_checks_every_spec_before_it_compiles_one(self):
        good = self.write("good.json", small_workload())
        bad = self.write("bad.json", small_workload(family="nope"))
        line = self.refuse(FAILED, "build", "--arch", "sm_80", "--cache", "kernels", good, bad)
        self.assertIn("bad.json", line)
        self.assertFalse((self.folder / "kernels").exists())

    def test_build_tries_its_folder_before_it_compiles(self):
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        spec = self.write("w.json", small_workload())
        (self.folder / "dangling").symlink_to("/nowhere/at/all")
        (self.folder / "file").write_text("")
        for name in ("dangling", "file"):
            line = self.refuse(FAILED, "build", "--arch", "sm_80", "--cache", self.folder / name, spec)
            self.assertIn(name, line)


class Built(Case):
    """On a cache folder that `build` made once for all cases; each works on a copy."""

    made = None
    report = None

    @classmethod
    def tearDownClass(cls):
        if cls.made is not None:
            shutil.rmtree(cls.made)

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "kernels"
        self.spec = self.write("w.json", small_workload())
        if Built.made is None:
            if not self.has_compiler():
                self.skipTest("no NVRTC here")
            Built.made = pathlib.Path(tempfile.mkdtemp(prefix="stg-cli-cache-"))
            outcome = self.succeed("build", "--json", "--arch", "sm_80,sm_90", "--cache", Built.made, self.spec)
            Built.report = outcome.json()
            self.assertIn("[4/4] sm_90", outcome.err)
        shutil.copytree(Built.made, self.cache)

    def entries(self):
        return self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["entries"]

    def test_build_reports_every_kernel(self):
        report = Built.report
        self.assertEqual([(k["arch"], k["variant"]) for k in report["kernels"]],
                         [("sm_80", "decode"), ("sm_80", "prefill"), ("sm_90", "decode"), ("sm_90", "prefill")])  # fmt: skip
        self.assertEqual((report["compiled"], report["already_there"]), (4, 0))
        for kernel in report["kernels"]:
            self.assertTrue(kernel["compiled"])
            self.assertGreater(kernel["compile_ms"], 0)
            self.assertTrue(kernel["signature"].endswith(kernel["arch"]), kernel)

    def test_a_second_build_compiles_nothing(self):
        words = ("build", "--json", "--arch", "sm_90,sm_80", "--cache", self.cache, self.spec)
        report = self.succeed(*words).json()
        self.assertEqual((report["compiled"], report["already_there"]), (0, 4))

    def test_a_workload_with_the_same_kernels_compiles_nothing(self):
        other = small_workload()
        other["batch"]["requests"] = [{"slot": "up", "rows": 700}]
        spec = self.write("other.json", other)
        words = ("build", "--json", "--arch", "sm_80", "--cache", self.cache, spec, self.spec)
        report = self.succeed(*words).json()
        self.assertEqual((report["compiled"], report["already_there"]), (0, 2))

    def test_ls_lists_what_build_built(self):
        entries = self.entries()
        built = {kernel["kernel_key"]: kernel for kernel in Built.report["kernels"]}
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

    def test_verify_passes_a_good_cache(self):
        report = self.succeed("cache", "verify", "--json", "--cache", self.cache).json()
        self.assertEqual(report, {"entries": 4, "good": 4, "bad": [], "repaired": False})

    def test_a_copied_cache_is_as_good(self):
        shutil.copytree(self.cache, self.folder / "copy")
        words = ("build", "--json", "--arch", "sm_80", "--cache", self.folder / "copy", self.spec)
        self.assertEqual(self.succeed(*words).json()["compiled"], 0)

    def damage(self, path, change):
        path = pathlib.Path(path)
        data = bytearray(path.read_bytes())
        path.write_bytes(bytes(change(data)))

    @staticmethod
    def flip(at):
        def change(data):
            data[int(at * (len(data) - 1))] ^= 1
            return data

        return change

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

    def test_repair_moves_a_bad_entry_away_and_the_next_build_heals(self):
        path = self.entries()[0]["path"]
        self.damage(path, self.flip(0.5))
        report = self.succeed("cache", "verify", "--repair", "--json", "--cache", self.cache).json()
        self.assertEqual((report["repaired"], len(report["bad"])), (True, 1))
        self.assertFalse(pathlib.Path(path).exists())
        self.assertEqual(len(list(self.cache.rglob("quarantine/*"))), 1)
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        self.assertEqual(self.succeed(*words).json()["compiled"], 1)

    def test_build_heals_a_bad_entry(self):
        path = self.entries()[0]["path"]
        self.damage(path, self.flip(0.5))
        outcome = self.succeed("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        self.assertEqual(outcome.json()["compiled"], 1)
        self.succeed("cache", "verify", "--cache", self.cache)

    def test_a_bad_entry_shows_in_the_list_and_is_not_shown(self):
        entry = self.entries()[0]
        self.damage(entry["path"], self.flip(0.5))
        bad = [e for e in self.entries() if not e["ok"]]
        self.assertEqual([e["path"] for e in bad], [entry["path"]])
        self.assertEqual(list(bad[0]), ["path", "ok", "size_bytes", "problem"])
        self.refuse(FAILED, "cache", "show", entry["key"], "--cache", self.cache)

    def test_why_miss_says_hit_when_the_kernel_is_there(self):
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache", self.cache, self.spec)
        miss = self.succeed(*words).json()["why_miss"]
        self.assertEqual((miss["hit"], miss["factors"]), (True, []))

    def test_why_miss_names_the_architecture(self):
        words = ("explain", "--json", "--why-miss", "--arch", "sm_100", "--cache", self.cache, self.spec)
        miss = self.succeed(*words).json()["why_miss"]
        self.assertFalse(miss["hit"])
        factors = {factor["factor"]: factor for factor in miss["factors"]}
        self.assertEqual(factors["arch"]["here"], "sm_100")
        self.assertIn(factors["arch"]["there"], ("sm_80", "sm_90"))

    def test_why_miss_names_the_piece_of_the_signature(self):
        other = self.write("other.json", small_workload(geometry={"hidden_size": 8, "dtype": "bf16"}))
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache", self.cache, other)
        factors = self.succeed(*words).json()["why_miss"]["factors"]
        pairs = [(f["here"], f["there"]) for f in factors if f["factor"] == "signature"]
        self.assertIn(("dtype=bf16", "dtype=f32"), pairs)

    def test_the_checks_need_no_compiler(self):
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        self.succeed("cache", "verify", "--cache", self.cache)
        self.assertEqual(self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["count"], 4)

    def test_an_architecture_that_the_compiler_does_not_know_is_named(self):
        outcome = self.run_command("build", "--arch", "sm_999", "--cache", self.cache, self.spec)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("sm_999", outcome.err)


class Examples(Case):
    def test_the_readme_command_builds_what_it_says(self):
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", "kernels", SPECS / "steer_mixed.json")
        self.assertEqual(self.succeed(*words).json()["compiled"], 4)


tap.main()
