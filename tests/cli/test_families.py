#!/usr/bin/env python3
"""Workloads of families beside steering in the commands that compile and look: explain, build, and the cache's."""
import json

import tap
from cli import EXAMPLES, FAILED, QUICK, SPECS, Case

PROVERS = sorted(SPECS.glob("prove_*.json"))  # of test_prove.py
FAMILIES = sorted(set(SPECS.glob("*.json")) - set(EXAMPLES) - set(PROVERS))
STEP = SPECS / "step_llama_block.json"
TOTO = SPECS / "toto_timewise.json"
# What serving an example asks for, in the words of `build`.
KERNELS = {
    "rope_llama3": ["rope"],
    "kv_decode": ["decode", "rope"],
    "kv_decode_paged": ["decode", "rope"],
    "toto_timewise": ["rope", "decode", "rope"],
    "step_llama_block": ["rope", "decode", "steer decode", "steer prefill", "rope"],
    "token_window": ["decode"],
    "components_odd": ["components"] * 4,
    "components_spd": ["components"] * 4,
    "components_check": ["components"] * 4,
}


class Explain(Case):
    def explain(self, *words):
        return self.succeed("explain", "--json", *words).json()

    def test_there_is_an_example_of_each_family(self):
        families = {json.loads(path.read_text())["family"] for path in FAMILIES}
        self.assertEqual(families, {"rope", "decode", "step", "components"})
        self.assertEqual({path.stem for path in FAMILIES}, set(KERNELS))

    def test_every_example_is_explained_for_every_architecture(self):
        for path in [SPECS / "components_odd.json", STEP] if QUICK else FAMILIES:
            keys = set()
            for arch in ("sm_80", "sm_90", "cpu"):
                with self.subTest(spec=path.name, arch=arch):
                    report = self.explain("--arch", arch, path)
                    texts = [kernel["kernel_signature"] for kernel in report["kernels"]]
                    for text in texts:
                        self.assertTrue(text.endswith(f" | {arch}"), text)
                    joined = " + ".join(text.removesuffix(f" | {arch}") for text in texts)
                    self.assertTrue(report["signature"].startswith(f"{joined} | {arch} | batch<="), report["signature"])
                    keys.add(report["graph_key"])
            self.assertEqual(len(keys), 3)

    def test_the_cpu_signature_is_the_one_that_run_reports(self):
        for path in (STEP, TOTO):
            run = self.succeed("run", "--backend", "cpu", "--json", "--no-timing", path).json()
            report = self.explain("--arch", "cpu", path)
            self.assertEqual(report["signature"], run["signature"])
            self.assertEqual(report["graph_key"], run["graph_key"])
            self.assertEqual(
                [kernel["kernel_key"] for kernel in report["kernels"]], [kernel["kernel_key"] for kernel in run["kernels"]]
            )

    def test_lengths_capacity_and_base_are_no_part_of_a_kernel(self):
        spec = json.loads(TOTO.read_text())
        first = self.explain("--arch", "sm_90", TOTO)
        spec["cache"] = {"batch": 8, "capacity": 1000, "lengths": 7}
        spec["rope"]["base"] = 500
        second = self.explain("--arch", "sm_90", self.write("w.json", spec))
        self.assertEqual(first["kernels"], second["kernels"])
        self.assertEqual(first["graph_key"], second["graph_key"])

    def test_the_text_has_a_block_for_each_kernel(self):
        text = self.succeed("explain", "--arch", "sm_90", STEP).out
        self.assertIn("step_llama_block.json: step, 8 rows of 8 sequences, 32/8 heads x 128, bf16; a cache of 8 x 512\n", text)
        for family in ("rope", "decode", "steer"):
            self.assertIn(f"\n\n{family}\n  kernel      {family} v1 | ", text)
        self.assertRegex(text, r"(?m)^  launch +stg_decode, \d+ threads a block, 1 row at a time$")
        self.assertRegex(text, r"(?m)^  batch +the longest of 8 sequences has 1 rows$")
        self.assertRegex(text, r"(?m)^  note +buckets: this version pads steps of this family to the default series$")

    def test_source_and_programs_are_printed_where_they_are_asked_for(self):
        report = self.explain("--arch", "sm_90", "--source", "--program", STEP)
        for kernel in report["kernels"]:
            self.assertIn("__global__", kernel["source"] + kernel["prelude"])
        self.assertEqual([program["ops"] for program in report["programs"]], [["add"], ["projection_cap"]])
        self.assertNotIn("programs", self.explain("--arch", "sm_90", "--program", TOTO))
        text = self.succeed("explain", "--arch", "sm_90", "--source", "--program", STEP).out
        self.assertEqual(text.count('extern "C" __global__'), 4)
        self.assertIn("\nprogram of slots.honest.layers.0\n", text)
        cpu = self.succeed("explain", "--arch", "cpu", "--source", TOTO).out
        self.assertEqual(cpu.count("\nno source: the CPU does this work itself\n"), 3)

    def test_what_a_gpu_has_no_kernel_of_is_said(self):
        spec = json.loads((SPECS / "components_odd.json").read_text())
        spec["components"]["d_out"] = 600
        path = self.write("w.json", spec)
        for words in (("explain",), ("build", "--cache", "k")):
            line = self.refuse(FAILED, *words, "--arch", "sm_90", path)
            message = "there is no kernel of d_out=600, above 512 for sm_90; STG_BACKEND_CPU has it"
            self.assertEqual(line, f"steergraph: {path}: components: {message}")

    def test_of_components_the_way_back_is_explained_where_it_is_asked_for(self):
        path = SPECS / "components_odd.json"
        both = self.explain("--arch", "sm_90", path)
        self.assertEqual([kernel["kernel_signature"].split()[3] for kernel in both["kernels"]], ["work=apply", "work=weights", "work=sum"])
        self.assertEqual(both["notes"], ["this is the way back; with 'direction' left out the launch before it is explained"])
        self.assertEqual(both["batch"], {"rows": 144, "requests": 1, "longest": 144})
        spec = json.loads(path.read_text())
        del spec["direction"], spec["input"]["dy"]
        alone = self.write("w.json", spec)
        forward = self.explain("--arch", "sm_90", alone)
        self.assertEqual((len(forward["kernels"]), forward["notes"]), (1, []))
        self.assertIn(" weights=plain ", forward["signature"])
        text = self.succeed("explain", "--arch", "sm_90", alone).out
        self.assertIn("w.json: components, 144 rows, 128 to 341 by 1200 components, bf16, mask of bytes, bias, delta; forward\n", text)
        self.assertRegex(text, r"(?m)^  batch +144 rows$")

    def test_the_way_back_is_explained_and_both_ways_are_built(self):
        self.use_stub_compiler()
        spec = json.loads((SPECS / "rope_llama3.json").read_text())
        spec["rope"]["direction"] = "backward"
        spec["input"] = {name: {"random": {"seed": 1}} for name in "qkv"}
        path = self.write("w.json", spec)
        report = self.explain("--arch", "sm_90", path)
        self.assertEqual(len(report["kernels"]), 1)
        self.assertIn(" dir=backward | ", report["signature"])
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        built = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "kernels", path).json()
        self.assertEqual([" dir=backward | " in kernel["signature"] for kernel in built["kernels"]], [False, True])

    def test_what_is_wrong_with_it_is_said_first(self):
        spec = json.loads((SPECS / "kv_decode.json").read_text())
        spec["attend"]["window"] = 0
        path = self.write("w.json", spec)
        for words in (("run",), ("explain",), ("build", "--arch", "sm_90", "--cache", "k"), ("cache", "explain", "--cache", "k")):
            line = self.refuse(FAILED, *words, path)
            self.assertEqual(line, f"steergraph: {path}: attend.window: expected an integer from 1 to 1073741824, found 0")

    def test_provers_are_explained_by_one_kernel(self):
        for arch in ("sm_90", "cpu"):
            reports = [self.explain("--arch", arch, path) for path in PROVERS]
            self.assertEqual(reports[0]["kernels"], reports[1]["kernels"])  # whatever the base
            self.assertEqual(reports[0]["graph_key"], reports[1]["graph_key"])
            for report in reports:
                text = f"prover v1 | atoms=6 children=120 | embed=250 width=256 blocks=8 arithmetic=f32 | {arch}"
                self.assertEqual((report["family"], report["arch"]), ("prover", arch))
                self.assertEqual([kernel["kernel_signature"] for kernel in report["kernels"]], [text])
                self.assertEqual(report["signature"], f"{text} | batch<=1 seq<=1 rows<=16384")
                self.assertEqual((report["pick"], report["capacity"], report["notes"]), ("argmax", 16384, []))
                self.assertEqual(report["limits"], {"atoms": 6, "children": 120, "depth": 20})
                self.assertEqual((report["policy"]["embed"], report["policy"]["seed"], report["queries"]), (250, 1, 100))
                self.assertEqual(report["corruptions"], {"count": 100, "sides": ["head", "tail"], "domain": "all", "filter": True})
        text = self.succeed("explain", "--source", "--program", "--why-miss", "--arch", "sm_90", PROVERS[0]).out
        self.assertRegex(text, r"^\S+: prover, 100 queries; \d+ facts, 2 rules, 4 predicates, 330 constants\n")
        self.assertIn("\n  corruptions  100 a query, head and tail; of all constants, none a fact or a query\n", text)
        self.assertIn("\n  capacity     16384 queries a launch; larger pools are several\n", text)
        self.assertIn("\n\nprover\n  kernel      prover v1 | ", text)
        self.assertIn("\n  launch      stg_prover, 256 threads a block, 8 rows at a time\n", text)
        self.assertIn('extern "C" __global__ void __launch_bounds__(256, 2)', text)
        spec = json.loads(PROVERS[0].read_text())
        spec["corruptions"] |= {"sides": ["tail"], "domain": "argument", "filter": False}
        spec |= {"arithmetic": "tf32", "pick": {"sample": {"seed": 9}}}
        text = self.succeed("explain", "--arch", "cpu", self.write("w.json", spec)).out
        self.assertIn("\n  launch      none on the CPU\n", text)
        self.assertIn("\n  limits       6 atoms, 120 children, 20 steps; picks are sampled with seed 9\n", text)
        self.assertIn("\n  corruptions  100 a query, tail; of the constants that facts have there\n", text)
        self.assertIn("\n  note         arithmetic: the CPU computes in float32\n", text)
        self.assertNotIn("note ", self.succeed("explain", "--arch", "sm_90", "w.json").out)

    def test_run_does_not_serve_provers_and_says_what_does(self):
        for path in PROVERS:
            line = self.refuse(FAILED, "run", "--backend", "cpu", path)
            self.assertEqual(line, f"steergraph: {path}: family: 'run' does not search for proofs; use 'steergraph prove'")


class Build(Case):
    def setUp(self):
        super().setUp()
        self.use_stub_compiler()
        if not self.has_compiler():
            self.skipTest("no NVRTC here")

    def build(self, *words):
        return self.succeed("build", "--json", "--cache", self.folder / "kernels", *words).json()

    def test_build_makes_what_serving_asks_for(self):
        for path in FAMILIES:
            with self.subTest(spec=path.name):
                report = self.succeed("build", "--json", "--arch", "sm_90", "--cache", path.stem, path).json()
                self.assertEqual([kernel["variant"] for kernel in report["kernels"]], KERNELS[path.stem])
                self.assertEqual(report["compiled"], len(KERNELS[path.stem]))
                keys = {kernel["kernel_key"] for kernel in report["kernels"]}
                explained = self.succeed("explain", "--json", "--arch", "sm_90", path).json()["kernels"]
                self.assertLessEqual({kernel["kernel_key"] for kernel in explained}, keys)

    def test_each_kernel_is_made_once(self):
        report = self.build("--arch", "sm_80,sm_90", STEP, TOTO, STEP)
        keys = [kernel["kernel_key"] for kernel in report["kernels"]]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(len(keys), 2 * (5 + 2))  # both advance by one kernel
        again = self.build("--arch", "sm_90", TOTO)
        self.assertEqual((again["compiled"], again["already_there"]), (0, 3))
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.folder / "kernels", STEP)
        outcome = self.succeed(*words, env=self.environment | {"STEERGRAPH_LOG": "info"})
        self.assertEqual((outcome.json()["compiled"], outcome.json()["already_there"]), (0, 10))
        self.assertNotIn("nvrtc", outcome.err)  # which is not even loaded

    def test_a_pack_has_them_too(self):
        report = self.succeed("build", "--json", "--arch", "sm_90", "--pack", "p.sgp", STEP, SPECS / "steer_mixed.json").json()
        entries = self.succeed("cache", "ls", "--json", "--cache", "p.sgp").json()["entries"]
        self.assertEqual({entry["key"] for entry in entries}, {kernel["kernel_key"] for kernel in report["kernels"]})
        self.assertEqual(sorted({entry["family"] for entry in entries}), ["decode", "rope", "steer"])

    def test_a_pack_replaces_nothing_that_is_read(self):
        spec = self.write("w.json", TOTO.read_bytes())
        line = self.refuse(FAILED, "build", "--arch", "sm_90", "--pack", "w.json", spec)
        self.assertIn("--pack 'w.json' would replace a file that is read (this file itself)", line)

    def test_misses_are_explained_kernel_by_kernel(self):
        self.build("--arch", "sm_90", SPECS / "kv_decode.json")
        words = ("--json", "--arch", "sm_90", "--cache", self.folder / "kernels")
        kernels = self.succeed("cache", "explain", *words, TOTO).json()["kernels"]
        self.assertEqual([(kernel["variant"], kernel["hit"]) for kernel in kernels], [("rope", False), ("decode", False), ("rope", True)])
        said = {difference["words"] for difference in kernels[1]["differences"]}
        self.assertLessEqual({"there are 12 query heads here, 32 there", "heads have 64 elements here, 128 there"}, said)
        explained = self.succeed("explain", *words, "--why-miss", TOTO).json()["kernels"]
        self.assertEqual([kernel["why_miss"]["hit"] for kernel in explained], [False, False, True])
        text = self.succeed("explain", "--arch", "sm_90", "--cache", self.folder / "kernels", "--why-miss", TOTO).out
        self.assertEqual((text.count("\nnot cached; the nearest entry is "), text.count("\ncached: ")), (2, 1))

    def test_the_cache_tells_families_apart(self):
        self.build("--arch", "sm_90", STEP, SPECS / "kv_decode_paged.json")
        words = ("--cache", self.folder / "kernels")
        entries = self.succeed("cache", "ls", "--json", "--family", "decode", *words).json()["entries"]
        self.assertEqual(len(entries), 2)
        signatures = [entry["signature"] for entry in entries]
        self.assertTrue(all(text.startswith("decode v1 | ") for text in signatures))
        shown = self.succeed("cache", "show", "--json", *words, entries[0]["key"]).json()
        self.assertEqual(shown["family"], "decode")
        pair = self.succeed("cache", "explain", "--json", *words, entries[0]["key"], entries[1]["key"]).json()
        said = {difference["words"] for difference in pair["differences"]}
        self.assertTrue(any(text.startswith("K and V are read from a ") for text in said), said)
        self.assertEqual(pair["consequence"], "two kernels: both are needed as long as steps of both kinds are taken")

    def test_all_provers_of_a_policys_sizes_have_one_kernel(self):
        spec = json.loads(PROVERS[0].read_text())
        spec |= {"arithmetic": "tf32x3", "limits": {"atoms": 8, "children": 100, "depth": 5}}
        other = self.write("w.json", spec)
        report = self.build("--arch", "sm_90", *PROVERS, other)
        self.assertEqual([kernel["variant"] for kernel in report["kernels"]], ["prover", "prover"])
        self.assertEqual(report["compiled"], 2)
        words = ("--cache", self.folder / "kernels")
        entries = self.succeed("cache", "ls", "--json", "--family", "prover", *words).json()["entries"]
        self.assertEqual([entry["family"] for entry in entries], ["prover", "prover"])
        keys = [kernel["kernel_key"] for kernel in report["kernels"]]
        pair = self.succeed("cache", "explain", "--json", *words, *reversed(keys)).json()
        said = {difference["words"] for difference in pair["differences"]}
        self.assertLessEqual({"states have up to 8 atoms here, 6 there", "of a state 100 children are kept here, 120 there",
                              "products are made in three of TF32 each here, in f32 there"}, said)  # fmt: skip
        spec["policy"] |= {"embed": 100, "hidden": 128, "blocks": 3}
        explained = self.succeed("cache", "explain", "--json", "--arch", "sm_90", *words, self.write("v.json", spec)).json()
        said = {difference["words"] for difference in explained["kernels"][0]["differences"]}
        self.assertLessEqual({"atoms are 100 numbers here, 250 there", "layers are 128 wide here, 256 there",
                              "the policy has 3 blocks here, 8 there"}, said)  # fmt: skip
        self.succeed("cache", "report", *words, "-o", "page.html")
        page = (self.folder / "page.html").read_text()
        for label in (" 250 f32", " 250 tf32x3"):
            self.assertIn(label, page)

    def test_the_report_groups_kernels_by_what_tells_them_apart(self):
        odd = SPECS / "components_odd.json"
        self.build("--arch", "sm_90", STEP, SPECS / "kv_decode_paged.json", SPECS / "rope_llama3.json", odd)
        self.succeed("cache", "report", "--cache", self.folder / "kernels", "-o", "page.html")
        page = (self.folder / "page.html").read_text()
        for label in (" rotate 32 128 bf16 dense forward", " 16 128 f16 paged", " rotate 32 64 bf16 out forward", " advance", " apply 32 bf16 128 341 1200 turned"):
            self.assertIn(label, page)


tap.main()
