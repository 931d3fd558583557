#!/usr/bin/env python3
"""bench steer and bench decode where there is no GPU: one line that says so, and nothing measured."""
import tap
from cli import FAILED, SPECS, WRONG, Case


class WithoutDevice(Case):
    def setUp(self):
        super().setUp()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""

    def test_suites_that_time_a_device_say_that_they_need_one(self):
        for words in (("steer",), ("decode",), ("rope",), ("attend",), ("components",), ("steer", "--quick", "--json"),
                      ("decode", "--quick"), ("attend", "--quick", "--json")):
            with self.subTest(words=words):
                line = self.refuse(FAILED, "bench", *words)
                self.assertIn(f"bench {words[0]} needs a GPU: ", line)

    def test_all_suites_say_it_before_any_is_run(self):
        self.assertIn("bench steer needs a GPU: ", self.refuse(FAILED, "bench", "all"))

    def test_timing_a_workload_says_it_too(self):
        line = self.refuse(FAILED, "bench", "steer", SPECS / "steer_uniform.json")
        self.assertIn("bench steer needs a GPU: ", line)


class Words(Case):
    def test_suites_of_one_list_take_no_workload(self):
        for suite in ("decode", "rope", "attend", "components"):
            line = self.refuse(WRONG, "bench", suite, "x.json")
            self.assertIn(f"'x.json' is one word too many for {suite}", line)

    def test_the_help_lists_the_suites(self):
        text = self.succeed("bench", "--help").out
        for name in ("steer", "decode", "rope", "attend", "prove", "components", "all"):
            self.assertRegex(text, rf"(?m)^  {name} +\S")
        self.assertIn("--quick", text)


if __name__ == "__main__":
    tap.main()
