#!/usr/bin/env python3
"""What a machine without a compiler, or with one that cannot do it, says; and that it still runs
what is in its cache."""
import shutil

import tap
from cli import FAILED
from stubs import FAULT, STUBS, StubCase


class Missing(StubCase):
    def setUp(self):
        super().setUp()
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "cold")

    def expect_refused(self, *parts, **environment):
        """`run` and `build` fail on a cold folder and say all of `parts`; a warm one is enough."""
        given = self.environment | environment
        for words in (("run", self.spec), ("build", "--arch", "sm_90", self.spec)):
            outcome = self.run_command(*words, env=given)
            self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
            last = outcome.err.splitlines()[-1]
            for part in parts:
                self.assertIn(part, last)
        self.expect_warm_folder_runs(given)

    def expect_warm_folder_runs(self, given):
        warm = {"STEERGRAPH_CACHE_DIR": str(self.folder / "warm")}
        self.use("nvrtc13")
        self.succeed("run", self.spec, env=self.environment | warm)
        compiles = self.compiles()
        report = self.succeed("run", self.spec, "--json", env=given | warm).json()
        self.assertEqual((report["source"], report["ok"]), ("disk", True))
        self.assertEqual(self.compiles(), compiles)

    def test_no_nvrtc(self):
        self.use(None)
        self.expect_refused(
            "no NVRTC: libnvrtc.so.13 and libnvrtc.so.12 are in none of the loader's path",
            "install NVRTC 12 or 13 (package cuda-nvrtc) or put its folder on LD_LIBRARY_PATH",
            LD_PRELOAD=str(FAULT),
            STG_FAULT_NO_NVRTC="1",
        )

    def test_nvrtc_without_its_builtins(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(STUBS / "nvrtc12" / "libnvrtc.so.13", alone)
        self.environment["LD_LIBRARY_PATH"] = f"{STUBS / 'cuda'}:{alone}"
        self.expect_refused(
            f"NVRTC 12.4 ('{alone / 'libnvrtc.so.13'}') cannot use its libnvrtc-builtins.so.12.4",
            "put that file beside it, or its folder on LD_LIBRARY_PATH (package cuda-nvrtc)",
        )

    def test_an_architecture_that_the_compiler_does_not_know(self):
        for known, which in (("75,80", "a newer"), ("100,120", "another")):
            with self.subTest(known=known):
                self.expect_refused(
                    f"NVRTC 13.0 ('{STUBS / 'nvrtc13' / 'libnvrtc.so.13'}') does not know architecture 'sm_90'; "
                    f"put the folder of {which} one on LD_LIBRARY_PATH (package cuda-nvrtc); "
                    f"this one knows {' '.join('sm_' + number for number in known.split(','))}",
                    STG_STUB_NVRTC_ARCHS=known,
                )

    def test_a_kernel_that_the_compiler_refuses(self):
        self.expect_refused(
            "NVRTC 13.0 refuses kernel 'stg_steer' for sm_90: steergraph.cu(1): error: the stub was told to",
            STG_STUB_NVRTC_FAIL="compile",
        )

    def test_a_compiler_that_runs_out_of_memory(self):
        self.expect_refused("NVRTC 13.0", "NVRTC_ERROR_OUT_OF_MEMORY", STG_STUB_NVRTC_FAIL="memory")

    def test_compile_never(self):
        message = self.refuse(FAILED, "run", self.spec, env=self.environment | {"STEERGRAPH_NO_JIT": "1"})
        self.assertIn("is in no cache, and compiling is not allowed here: warm or build it first", message)
        self.assertEqual(self.compiles(), [])
        self.expect_warm_folder_runs(self.environment | {"STEERGRAPH_NO_JIT": "1"})


if __name__ == "__main__":
    tap.main()
