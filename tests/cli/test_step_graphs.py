#!/usr/bin/env python3
"""Runs of rope, decode and step on the stub GPU, which computes none of them: the kernels they ask for, where these
come from, and their graphs. That results are right is not to be seen here, so each run ends as a wrong one does."""
import json

import tap
from cli import FAILED, SPECS
from stubs import StubCase

NAMES = ("rope_llama3", "kv_decode", "kv_decode_paged", "toto_timewise", "step_llama_block", "token_window")
STEP = SPECS / "step_llama_block.json"
TOTO = SPECS / "toto_timewise.json"


class Steps(StubCase):
    def setUp(self):
        super().setUp()
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "c")

    def run_step(self, path, *words, **environment):
        outcome = self.run_command("run", "--json", "--no-timing", *words, path, env=self.environment | environment)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("the result is not what the oracle allows", outcome.err)
        return outcome.json()

    def graphs(self):
        return {graph["key"]: graph for graph in self.succeed("cache", "ls", "--graphs", "--json").json()["graphs"]}

    def test_a_run_takes_the_kernels_that_explain_names(self):
        for name in NAMES:
            with self.subTest(spec=name):
                path = SPECS / f"{name}.json"
                explained = self.succeed("explain", "--json", path).json()
                report = self.run_step(path)
                self.assertEqual((report["backend"], explained["arch"]), ("cuda", "sm_90"))
                for key in ("signature", "graph_key"):
                    self.assertEqual(report[key], explained[key])
                self.assertEqual(
                    [kernel["kernel_key"] for kernel in report["kernels"]],
                    [kernel["kernel_key"] for kernel in explained["kernels"]],
                )
                hits = self.succeed("explain", "--json", "--why-miss", path).json()["kernels"]
                self.assertTrue(all(kernel["why_miss"]["hit"] for kernel in hits))

    def test_a_second_run_compiles_nothing(self):
        first = self.run_step(STEP)
        self.assertEqual({kernel["source"] for kernel in first["kernels"]}, {"compiled"})
        compiles = len(self.compiles())
        second = self.run_step(STEP)
        self.assertEqual({kernel["source"] for kernel in second["kernels"]}, {"disk"})
        self.assertEqual(second["source"], "disk")
        self.assertEqual(len(self.compiles()), compiles)

    def test_a_step_leaves_the_recipe_of_its_graph(self):
        report = self.run_step(TOTO)
        (graph,) = self.graphs().values()
        self.assertEqual((graph["key"], graph["signature"]), (report["graph_key"], report["signature"]))
        keys = [kernel["kernel_key"] for kernel in report["kernels"]]
        self.assertEqual([node["key"] for node in graph["nodes"]], keys)
        shown = self.succeed("cache", "show", "--json", graph["key"]).json()
        self.assertEqual(len(shown["edges"]), 2)
        self.assertLessEqual({"qkv", "q", "out", "len", "capacity"}, {slot["name"] for slot in shown["slots"]})

    def test_lengths_and_rows_of_a_bucket_need_no_other_graph(self):
        first = self.run_step(TOTO)
        spec = json.loads(TOTO.read_text())
        spec["cache"]["lengths"] = 77
        spec["rows"]["requests"] = [{"repeat": 7}]
        compiles = len(self.compiles())
        second = self.run_step(self.write("w.json", spec))
        self.assertEqual((first["graph_key"], first["signature"]), (second["graph_key"], second["signature"]))
        self.assertEqual((len(self.graphs()), len(self.compiles())), (1, compiles))

    def test_tensors_without_a_cache_have_no_graph(self):
        self.run_step(SPECS / "token_window.json")
        self.run_step(SPECS / "rope_llama3.json")
        self.assertEqual(self.graphs(), {})

    def test_plain_launches_have_no_graph_and_the_same_kernels(self):
        plain = self.run_step(TOTO, "--launch", "plain")
        self.assertEqual(self.graphs(), {})
        graph = self.run_step(TOTO)
        self.assertEqual(
            [kernel["kernel_key"] for kernel in plain["kernels"]], [kernel["kernel_key"] for kernel in graph["kernels"]]
        )
        self.assertEqual(list(self.graphs()), [graph["graph_key"]])

    def test_what_build_made_is_enough(self):
        for name in NAMES:
            with self.subTest(spec=name):
                path = SPECS / f"{name}.json"
                self.succeed("build", "--arch", "sm_90", path)
                report = self.run_step(path, STEERGRAPH_NO_JIT="1")
                self.assertEqual({kernel["source"] for kernel in report["kernels"]}, {"disk"})

    def test_bench_times_steering_alone(self):
        outcome = self.run_command("bench", "steer", TOTO)
        self.assertEqual(outcome.code, FAILED)
        self.assertIn(
            f"steergraph: {TOTO}: family: a workload of 'step' is not one that is timed here; 'steergraph run' times it\n",
            outcome.err,
        )

    def test_a_manifest_of_the_cpu_warms_the_gpu(self):
        self.succeed("run", "--backend", "cpu", "--no-timing", "--save-traffic", "m.json", TOTO)
        warmed = self.succeed("warm", "--json", "m.json").json()["manifests"][0]
        self.assertEqual(
            (warmed["total"], warmed["done"], warmed["kernels_compiled"], warmed["graphs"]), (1, 1, 3, 1)
        )
        report = self.run_step(TOTO)
        self.assertEqual({kernel["source"] for kernel in report["kernels"]}, {"disk"})
        self.assertEqual(list(self.graphs()), [report["graph_key"]])


tap.main()
