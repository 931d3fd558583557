#!/usr/bin/env python3
"""`steergraph build`: compile without a GPU into a folder, and not again what is there."""
import re
import shutil

import tap
from built import Built
from cli import FAILED, QUICK, SPECS, WRONG, Case, small_workload


class Refused(Case):
    def test_build_without_a_folder_says_what_to_give(self):
        spec = self.write("w.json", small_workload())
        for name in ("HOME", "STEERGRAPH_CACHE_DIR", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        wanted = (
            "steergraph: no cache folder to build into; set STEERGRAPH_CACHE_DIR, give --cache DIR, "
            "or write a pack with --pack FILE\n"
        )
        for variables in ({}, {"STEERGRAPH_CACHE_DIR": ""}):
            with self.subTest(variables=variables):
                outcome = self.run_command("build", "--arch", "sm_80", spec, env=self.environment | variables)
                self.assertEqual((outcome.code, outcome.err), (FAILED, wanted))

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
                self.assertRegex(line, r"NVRTC \S+ \('/.*'\) does not know architecture 'sm_999'; "
                                       r"put the folder of a newer one on LD_LIBRARY_PATH .*; this one knows .*sm_80")
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


class Builds(Built):
    real = True

    def test_build_reports_every_kernel(self):
        report = self.report
        self.assertEqual([(k["arch"], k["variant"]) for k in report["kernels"]],
                         [("sm_80", "decode"), ("sm_80", "prefill"), ("sm_90", "decode"), ("sm_90", "prefill")])  # fmt: skip
        self.assertEqual((report["compiled"], report["already_there"]), (4, 0))
        for kernel in report["kernels"]:
            self.assertTrue(kernel["compiled"])
            self.assertGreater(kernel["compile_ms"], 0)
            self.assertTrue(kernel["signature"].endswith(kernel["arch"]), kernel)

    def test_a_second_build_compiles_nothing(self):
        words = ("build", "--json", "--arch", "sm_90,sm_80", "--cache", self.cache, self.spec)
        outcome = self.succeed(*words, env=self.environment | {"STEERGRAPH_LOG": "info"})
        report = outcome.json()
        self.assertEqual((report["compiled"], report["already_there"]), (0, 4))
        self.assertNotIn("nvrtc", outcome.err)  # which is not even loaded

    def test_an_architecture_is_tried_with_one_op_where_it_lacks_a_kernel(self):
        words = ("build", "--json", "--arch", "sm_80,sm_89,sm_90", "--cache", self.cache, self.spec)
        outcome = self.succeed(*words, env=self.environment | {"STEERGRAPH_LOG": "info"})
        self.assertEqual((outcome.json()["compiled"], outcome.json()["already_there"]), (2, 4))
        lines = re.findall(r"nvrtc: compile \w+ on .*: steer v1 \| ops=(\S+) .* \| (\S+)$", outcome.err, re.MULTILINE)
        self.assertEqual([arch for _, arch in lines], ["sm_89"] * 3, outcome)
        self.assertEqual(lines[0][0], "add")
        self.assertIn("add,", lines[1][0])
        self.assertEqual(outcome.err.count("cpu backend: asked for"), 1, outcome)

    def test_where_entries_are_not_taken_each_architecture_is_tried(self):
        words = ("build", "--json", "--arch", "sm_90", "--cache", self.cache, self.spec)
        outcome = self.succeed(*words, env=self.environment | {"STEERGRAPH_CACHE": "refresh", "STEERGRAPH_LOG": "info"})
        self.assertEqual(outcome.json()["compiled"], 2)
        self.assertEqual(outcome.err.count("nvrtc: compile"), 3, outcome)

    def test_a_workload_with_the_same_kernels_compiles_nothing(self):
        other = small_workload()
        other["batch"]["requests"] = [{"slot": "up", "rows": 700}]
        spec = self.write("other.json", other)
        words = ("build", "--json", "--arch", "sm_80", "--cache", self.cache, spec, self.spec)
        report = self.succeed(*words).json()
        self.assertEqual((report["compiled"], report["already_there"]), (0, 2))

    def test_a_copied_cache_is_as_good(self):
        shutil.copytree(self.cache, self.folder / "copy")
        words = ("build", "--json", "--arch", "sm_80", "--cache", self.folder / "copy", self.spec)
        self.assertEqual(self.succeed(*words).json()["compiled"], 0)

    def test_build_heals_a_bad_entry(self):
        path = self.entries()[0]["path"]
        self.damage(path, self.flip(0.5))
        given = self.environment | {"STEERGRAPH_LOG": "info"}
        outcome = self.succeed("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec, env=given)
        self.assertEqual(outcome.json()["compiled"], 1)
        self.assertEqual(outcome.err.count("nvrtc: compile"), 2, outcome)  # the trial, and the entry
        self.succeed("cache", "verify", "--cache", self.cache)

    def test_an_architecture_that_the_compiler_does_not_know_is_named(self):
        outcome = self.run_command("build", "--arch", "sm_999", "--cache", self.cache, self.spec)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("sm_999", outcome.err)


class Examples(Case):
    def test_the_readme_command_builds_what_it_says(self):
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        archs = "sm_90" if QUICK else "sm_80,sm_90"
        words = ("build", "--json", "--arch", archs, "--cache", "kernels", SPECS / "steer_mixed.json")
        self.assertEqual(self.succeed(*words).json()["compiled"], 2 if QUICK else 4)


tap.main()
