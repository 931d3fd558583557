#!/usr/bin/env python3
"""`steergraph cache explain`: why two entries are two, and why a workload's kernels are not there."""
import tap
from built import Built
from cli import FAILED, WRONG, Case, small_workload
from forged import Forged


class Words(Case):
    def test_words_that_are_no_keys_are_refused(self):
        (self.folder / "kernels").mkdir()
        for words, named in (
            (("abcd",), "'abcd' is one key; give two, or a workload's file"),
            (("abcd", "xyz"), "'xyz' is no key: expected 4 to 32 digits 0-9a-f, and perhaps a compiler"),
            (("abc", "abcd"), "'abc' is no key"),
            (("a" * 33, "abcd"), "is no key"),
            (("abcd", "abcd", "abcd"), "one word too many"),
            (("abcd", "abcd", "--arch", "sm_90"), "--arch is of a workload, and two keys are given"),
            (("w.json", "--arch", "hopper"), "--arch 'hopper': expected a name such as sm_90"),
            (("w.json", "--arch", "sm_70"), "steergraph needs sm_80 or newer"),
        ):
            with self.subTest(words=words):
                self.assertIn(named, self.refuse(WRONG, "cache", "explain", *words, "--cache", "kernels"))

    def test_what_is_not_there_is_named(self):
        (self.folder / "kernels").mkdir()
        self.assertIn("'abcd'", self.refuse(FAILED, "cache", "explain", "abcd", "abce", "--cache", "kernels"))
        self.assertIn("w.json", self.refuse(FAILED, "cache", "explain", "w.json", "--cache", "kernels"))

    def test_an_empty_cache_has_nothing_to_compare_with(self):
        (self.folder / "kernels").mkdir()
        spec = self.write("w.json", small_workload())
        words = ("cache", "explain", spec, "--arch", "sm_90", "--cache", "kernels")
        for kernel in self.succeed(*words, "--json").json()["kernels"]:
            self.assertEqual((kernel["hit"], kernel["nearest"], kernel["nearest_key"]), (False, None, None))
            self.assertEqual(kernel["differences"], [])
        self.assertIn("not cached, and no entry to compare with\n", self.succeed(*words).out)


class Consequences(Forged):
    """What is said of two kernels, one of which may never be asked for where the other one is."""

    SIGNATURE = "steer v1 | ops=add chain<=16 | hidden={} dtype=f32 bank=f32 state=hidden | tile={} epilogue=none | {}"

    def entry_of(self, hidden=8, tile="decode", arch="sm_90", source="// source\n", **changes):
        return self.entry(self.SIGNATURE.format(hidden, tile, arch), arch, source=source, **changes)

    def consequence(self, here, there):
        for name, record in (("here", here), ("there", there)):
            self.forge(record, folder=self.folder / name)
        here, there = (next((self.folder / name).rglob("*.sgc")).name[:32] for name in ("here", "there"))
        report = self.succeed("cache", "explain", here, there, "--json", "--cache", "here:there").json()
        for name in ("here", "there"):
            for path in (self.folder / name).rglob("*.sgc"):
                path.unlink()
        return report["consequence"]

    def test_two_tiles_of_one_version_and_architecture_are_both_needed(self):
        said = self.consequence(self.entry_of(), self.entry_of(tile="prefill", source="// other\n"))
        self.assertIn("two kernels of one table", said)
        self.assertIn("both are needed", said)

    def test_kernels_for_other_gpus_are_not_said_to_be_needed_by_every_table(self):
        said = self.consequence(self.entry_of(), self.entry_of(hidden=16, arch="sm_80"))
        self.assertEqual(said, "two kernels: each is needed where there are GPUs of its architecture, as long as tables "
                               "of its kind are made")  # fmt: skip
        said = self.consequence(self.entry_of(), self.entry_of(tile="prefill", arch="sm_80"))
        self.assertEqual(said, "two kernels: each is needed where there are GPUs of its architecture")

    def test_kernels_of_two_versions_are_not_said_to_be_needed_both(self):
        said = "two kernels: the older one is of use to the version that made it, and to no other"
        for changes in (
            {"prelude": "// older\n"},
            {"prelude": "// older\n", "tile": "prefill"},
            {"prelude": "// older\n", "hidden": 16},
            {"prelude": "// older\n", "arch": "sm_80"},
            {"source": "// older\n"},
            {"source": "// older\n", "arch": "sm_80"},
        ):
            with self.subTest(changes=changes):
                self.assertEqual(self.consequence(self.entry_of(), self.entry_of(**changes)), said)


    def test_kernels_of_two_families_or_works_are_of_one_version(self):
        said = "two kernels: both are needed as long as steps of both kinds are taken"
        rope = self.entry("rope v1 | work=advance | sm_90", "sm_90", prelude="// of rope\n", source="// advance\n")
        turn = "rope v1 | work=transpose dim=8 dtype=f32 | sm_90"
        other = self.entry(turn, "sm_90", prelude="// of transposes\n", source="// transpose\n")
        self.assertEqual(self.consequence(self.entry_of(), rope), said)
        self.assertEqual(self.consequence(rope, other), said)
        older = self.entry("rope v1 | work=advance | sm_90", "sm_90", prelude="// older\n", source="// advance\n")
        self.assertIn("to no other", self.consequence(rope, older))


class Explains(Built):
    def keys(self):
        """{(arch, tile): key} of the four entries."""
        tile = lambda entry: "prefill" if "tile=prefill" in entry["signature"] else "decode"
        return {(entry["arch"], tile(entry)): entry["key"] for entry in self.entries()}

    def explain(self, *words):
        return self.succeed("cache", "explain", *words, "--json", "--cache", self.cache).json()

    def test_two_tiles_belong_to_one_table(self):
        keys = self.keys()
        report = self.explain(keys["sm_90", "decode"][:8], keys["sm_90", "prefill"])
        self.assertEqual((report["here"]["key"], report["there"]["key"]),
                         (keys["sm_90", "decode"], keys["sm_90", "prefill"]))  # fmt: skip
        self.assertFalse(report["same_kernel"])
        first, *others = report["differences"]
        self.assertEqual((first["factor"], first["here"], first["there"]), ("signature", "tile=decode", "tile=prefill"))
        self.assertEqual(first["words"], "for steps of short requests (decode) here, of long requests (prefill) there")
        for other in others:  # a row of eight elements is as one thread has it, in either tile
            self.assertEqual(other["factor"], "source")
            self.assertRegex(other["words"], r"^follows from the signature; differs from line \d+ on$")
        self.assertIn("two kernels of one table", report["consequence"])

    def test_two_architectures_are_needed_by_their_gpus(self):
        keys = self.keys()
        report = self.explain(keys["sm_90", "decode"], keys["sm_80", "decode"])
        (difference,) = report["differences"]
        self.assertEqual(difference, {"factor": "arch", "here": "sm_90", "there": "sm_80",
                                      "words": "compiled for sm_90 here, sm_80 there"})  # fmt: skip
        self.assertIn("each is needed where there are GPUs of its architecture", report["consequence"])
        words = ("cache", "explain", keys["sm_90", "decode"], keys["sm_80", "decode"], "--cache", self.cache)
        lines = self.succeed(*words).out.splitlines()
        self.assertRegex(lines[0], rf"^here   {keys['sm_90', 'decode']} nvrtc-\S+  /")
        self.assertRegex(lines[1], rf"^there  {keys['sm_80', 'decode']} nvrtc-\S+  /")
        self.assertRegex(lines[2], "^  factor +here +there +in words$")
        self.assertRegex(lines[3], "^  arch +sm_90 +sm_80 +compiled for sm_90 here, sm_80 there$")
        self.assertEqual(lines[4], report["consequence"])
        self.assertEqual(len(lines), 5)

    def test_an_entry_is_itself(self):
        entry = self.entries()[0]
        report = self.explain(entry["key"], f"{entry['key'][:8]}-{entry['compiler']}")
        self.assertEqual((report["same_kernel"], report["differences"], report["consequence"]),
                         (True, [], "the same entry"))  # fmt: skip

    def test_a_bad_entry_is_not_explained(self):
        first, second = self.entries()[:2]
        self.damage(first["path"], self.flip(0.5))
        words = ("cache", "explain", second["key"], first["key"], "--cache", self.cache)
        self.assertIn(first["path"], self.refuse(FAILED, *words))

    def test_a_bad_entry_of_a_workload_is_named(self):
        words = ("cache", "explain", self.spec, "--arch", "sm_90", "--cache", self.cache)
        path = self.explain(self.spec, "--arch", "sm_90")["kernels"][0]["nearest"]
        self.damage(path, self.flip(0.5))
        bad, good = self.explain(self.spec, "--arch", "sm_90")["kernels"]
        self.assertEqual((bad["hit"], bad["bad"], bad["problem"]), (False, path, "checksum does not match its bytes"))
        self.assertEqual((good["hit"], good["bad"], good["problem"]), (True, None, None))
        line = f"its entry serves nobody and is made again: {path}: checksum does not match its bytes\n"
        self.assertEqual(self.succeed(*words).out.count(line), 1)

    def test_options_of_the_environment_are_named(self):
        keys = self.keys()
        before, prefill, on_sm_80 = keys["sm_90", "decode"], keys["sm_90", "prefill"], keys["sm_80", "decode"]
        self.environment["NVRTC_APPEND_FLAGS"] = "--maxrregcount=64"
        self.succeed("build", "--arch", "sm_90", "--cache", self.cache, self.spec)
        after = [entry["key"] for entry in self.entries() if entry["arch"] == "sm_90" and "decode" in entry["signature"]]
        self.assertEqual(len(after), 2)
        here, there = after
        report = self.explain(here, there)
        (difference,) = report["differences"]
        self.assertEqual(difference["factor"], "option")
        self.assertRegex(difference["words"], r"^compiled with '--maxrregcount=64' of NVRTC_APPEND_FLAGS "
                                              r"(here, without it there|there, without it here)$")  # fmt: skip
        self.assertIn("with either set of options", report["consequence"])
        self.assertIn(before, after)
        other = next(key for key in after if key != before)
        said = self.explain(on_sm_80, other)["consequence"]
        self.assertEqual(said, "two kernels: each is needed where there are GPUs of its architecture, by processes that "
                               "compile with its options")  # fmt: skip
        said = self.explain(prefill, other)["consequence"]
        self.assertEqual(said, "two kernels: both are needed as long as processes compile with either set of options")

    def test_a_fresh_person_learns_why_a_changed_workload_compiles(self):
        """Nothing but what is printed is needed to see what to do."""
        words = ("cache", "explain", self.spec, "--arch", "sm_90", "--cache", self.cache)
        text = self.succeed(*words).out
        self.assertEqual(text.count(" on sm_90: cached, "), 2)
        self.assertTrue(text.endswith("w.json: compiles nothing\n"), text)
        other = self.write("other.json", small_workload(geometry={"hidden_size": 16, "dtype": "bf16"},
                                                        vectors={"v": {"values": [1] + 15 * [0]}}))  # fmt: skip
        words = ("cache", "explain", other, "--arch", "sm_90", "--cache", self.cache)
        text = self.succeed(*words).out
        self.assertEqual(text.count("not cached; there is "), 2)
        self.assertEqual(text.count("rows have 16 elements here, 8 there"), 2)
        self.assertEqual(text.count("rows are bf16 here, f32 there"), 2)
        self.assertTrue(text.endswith("other.json: 2 of 2 kernels would be compiled; 'steergraph build' makes them "
                                      "ahead\n"), text)  # fmt: skip
        kernels = self.explain(other, "--arch", "sm_90")["kernels"]
        self.assertEqual([kernel["variant"] for kernel in kernels], ["decode", "prefill"])
        for kernel in kernels:
            self.assertFalse(kernel["hit"])
            self.assertIn(f"tile={kernel['variant']}", kernel["signature"])
            self.assertIn(kernel["nearest_key"], kernel["nearest"])
        self.succeed("build", "--arch", "sm_90", "--cache", self.cache, other)
        made = self.explain(other, "--arch", "sm_90")["kernels"]
        self.assertTrue(all(kernel["hit"] for kernel in made))
        report = self.explain(kernels[0]["nearest_key"], made[1]["key"])
        pieces = [d["here"].split("=")[0] for d in report["differences"] if d["factor"] == "signature"]
        self.assertEqual(pieces, ["hidden", "dtype", "bank", "tile"])
        self.assertIn("as long as tables of both kinds are made", report["consequence"])

    def test_the_nearest_entry_is_found_in_a_pack(self):
        self.succeed("build", "--arch", "sm_80", "--cache", self.cache, "--pack", "k.sgp", self.spec)
        words = ("cache", "explain", self.spec, "--arch", "sm_100", "--json", "--cache", "k.sgp")
        for kernel in self.succeed(*words).json()["kernels"]:
            self.assertIn("/k.sgp/", kernel["nearest"])
            self.assertEqual([d["factor"] for d in kernel["differences"]], ["arch"])

    def test_neither_a_compiler_nor_a_device_is_needed(self):
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        keys = self.keys()
        self.explain(keys["sm_90", "decode"], keys["sm_80", "decode"])
        self.explain(self.spec, "--arch", "sm_90")


tap.main()
