#!/usr/bin/env python3
"""The bench suite cache on the stubs of the driver and of NVRTC: who compiles, and what a GPU adds."""
import errno
import json

import tap
from cli import FAILED
from stubs import FAULT, StubCase

PROCESSES, KERNELS = 3, 4  # of --quick


class Crowd(StubCase):
    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment["TMPDIR"] = str(self.temporary)

    def bench(self, **environment):
        outcome = self.run_command(
            "bench", "cache", "--quick", "--json", env=self.environment | environment)
        self.assertEqual(list(self.temporary.iterdir()), [])
        return outcome

    def check_unfinished(self, outcome):
        """What was measured before the failure is there, and after it that something is missing."""
        self.assertEqual(outcome.code, FAILED, outcome)
        *rows, last = json.loads(outcome.out)
        self.assertIn("cache ls", {row["name"] for row in rows})
        self.assertEqual({row["suite"] for row in rows}, {"cache"})
        self.assertEqual((last["suite"], last["name"]), ("run", "ended by a failure"))
        self.assertLess(len([row for row in rows if "compiles" in row]), 3)

    def test_the_compiler_runs_as_often_as_the_rows_say(self):
        outcome = self.bench(STG_STUB_NVRTC_MS="20")
        rows = [row for row in outcome.json() if "compiles" in row]
        self.assertEqual([row["compiles"] for row in rows], [KERNELS] * 3)
        # and a kernel of the row of a loaded one
        self.assertEqual(len(self.compiles()), 3 * KERNELS + 1)

    def test_a_kernel_is_loaded_where_there_is_a_gpu_and_its_card_is_that_of_all_rows(self):
        rows = self.bench().json()
        loaded = [row for row in rows if row["name"] == "memory hit"]
        self.assertEqual(
            [(row["series"], row["target_us"], row["loaded"]) for row in loaded], [("steergraph", 0.2, 1)])
        self.assertGreater(loaded[0]["wall_us"], 0)
        self.assertEqual(len({row["card"] for row in rows}), 1)
        self.assertGreater(rows[0]["driver"], 0)

    def test_processes_that_compile_what_others_did_are_a_failure(self):
        outcome = self.bench(
            LD_PRELOAD=str(FAULT), STG_FAULT=f"flock:1+:{errno.ENOLCK}",
            STG_FAULT_UNDER=str(self.temporary), STG_STUB_NVRTC_MS="100")
        self.check_unfinished(outcome)
        self.assertRegex(
            outcome.err.splitlines()[-1],
            rf"bench cache: {PROCESSES} processes compiled \d+ times and found \d+ times what should be "
            rf"compiled {KERNELS} times; is the folder's file system without locks\?")

    def test_without_nvrtc_there_are_no_rows_of_compiles_and_it_is_said_why(self):
        self.use(None)
        outcome = self.bench(LD_PRELOAD=str(FAULT), STG_FAULT_NO_NVRTC="1")
        self.assertEqual({row["series"] for row in outcome.json()}, {"steergraph"})
        for what in ("row of a loaded kernel", "rows of many processes"):
            self.assertIn(f"bench: cache: no {what}: no NVRTC: libnvrtc.so.13", outcome.err)

    def test_a_compile_that_fails_fails_it(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        outcome = self.bench(STG_STUB_NVRTC_FAIL="compile")
        self.check_unfinished(outcome)


if __name__ == "__main__":
    tap.main()
