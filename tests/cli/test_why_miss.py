#!/usr/bin/env python3
"""`steergraph explain --why-miss`: which factor of the key keeps a kernel from hitting."""
import tap
from built import Built
from cli import FAILED, small_workload


class WhyMiss(Built):
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
        self.assertEqual(factors["arch"]["words"], f"compiled for sm_100 here, {factors['arch']['there']} there")

    def test_why_miss_names_the_piece_of_the_signature(self):
        other = self.write("other.json", small_workload(geometry={"hidden_size": 8, "dtype": "bf16"}))
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache", self.cache, other)
        factors = self.succeed(*words).json()["why_miss"]["factors"]
        pairs = [(f["here"], f["there"]) for f in factors if f["factor"] == "signature"]
        self.assertIn(("dtype=bf16", "dtype=f32"), pairs)

    def test_a_switch_that_keeps_runs_from_the_cache_is_the_reason(self):
        whys = (("explain", "--why-miss", "--arch", "sm_90"), ("cache", "explain", "--arch", "sm_90"))
        for word, ok in (("off", False), ("refresh", False), ("memory", False), ("read-only", True), ("on", True)):
            self.environment["STEERGRAPH_CACHE"] = word
            for why in whys:
                with self.subTest(word=word, why=why):
                    if ok:
                        self.assertIn("cached", self.succeed(*why, self.spec, "--cache", self.cache).out)
                    else:
                        line = self.refuse(FAILED, *why, self.spec, "--cache", self.cache)
                        self.assertIn(f"STEERGRAPH_CACHE={word}: a run takes no kernel from a cache folder", line)

    def test_a_bad_entry_of_the_kernel_is_the_reason(self):
        """An entry of another architecture is near, and has nothing to do with it."""
        words = ("explain", "--why-miss", "--arch", "sm_90", "--cache", self.cache, self.spec)
        path = self.succeed(*words, "--json").json()["why_miss"]["nearest"]
        for change, problem in (
            (self.flip(0.5), "checksum does not match its bytes"), (lambda data: b"", "0 bytes, an entry has at least 80"),
        ):  # fmt: skip
            with self.subTest(problem=problem):
                self.damage(path, change)
                miss = self.succeed(*words, "--json").json()["why_miss"]
                self.assertEqual((miss["hit"], miss["bad"], miss["problem"]), (False, path, problem))
                self.assertIn(f"its entry serves nobody and is made again: {path}: {problem}\n", self.succeed(*words).out)
        self.succeed("cache", "verify", "--repair", "--cache", self.cache)
        miss = self.succeed(*words, "--json").json()["why_miss"]
        self.assertEqual((miss["hit"], miss["bad"], miss["problem"]), (False, None, None))
        self.assertNotIn("serves nobody", self.succeed(*words).out)


tap.main()
