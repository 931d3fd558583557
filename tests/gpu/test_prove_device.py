#!/usr/bin/env python3
"""`steergraph prove` on a device: the examples, their ways against the CPU's, and the kernel that they share."""
import json

import tap
from cli import QUICK, SPECS, Case, read_safetensors

EXAMPLES = [SPECS / "prove_countries.json", SPECS / "prove_family.json"]


class Proves(Case):
    def setUp(self):
        super().setUp()
        doctor = self.run_command("doctor", "--json").json()
        for part in ("gpu", "compiler"):
            if not doctor[part]["ok"]:
                self.skipTest(f"no {part}")
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "c")

    def prove(self, *words, **environment):
        return self.succeed("prove", "--json", *words, env=self.environment | environment).json()

    def small(self, path, **changes):
        spec = json.loads(path.read_text())
        spec["policy"] |= {"embed": 34, "hidden": 40, "blocks": 2}
        spec["corruptions"]["count"] = 10
        return self.write(path.name, spec | changes)

    def test_the_examples_have_one_kernel_and_right_ways(self):
        sources = []
        for path in EXAMPLES:
            with self.subTest(spec=path.name):
                report = self.prove("--check", "20" if QUICK else "100", path)
                self.assertEqual((report["backend"], report["ok"], report["violations"]), ("cuda", True, 0))
                self.assertEqual((report["useful"], report["threads"]), (1, None))
                self.assertLess(report["max_logp_err"], 1e-4)
                self.assertTrue(0 < report["time_us"]["min"] <= report["time_us"]["median"])
                self.assertIn(" | batch<=1 seq<=1 rows<=16384", report["signature"])
                for part in ("base_bytes", "policy_bytes", "states_bytes", "pool_bytes", "slots"):
                    self.assertGreater(report["memory"][part], 0)
                sources.append(report["source"])
        self.assertEqual(sources, ["compiled", "disk"])
        entries = self.succeed("cache", "ls", "--json").json()["entries"]
        self.assertEqual([entry["family"] for entry in entries], ["prover"])

    def test_the_cpu_goes_the_same_ways(self):
        for path in EXAMPLES:
            spec = self.small(path, pick={"sample": {"seed": 3}}, capacity=256)
            files = {}
            for backend in ("cpu", "cuda"):
                name = f"{backend}.st"
                report = self.prove("--backend", backend, "--no-timing", "--limit", "20", "--output", name, spec)
                self.assertEqual((report["backend"], report["ok"]), (backend, True))
                files[backend] = read_safetensors(self.folder / name)[0]
            cpu, cuda = (files[backend] for backend in ("cpu", "cuda"))
            depths = list(zip(cpu["depth"].floats(), cuda["depth"].floats(), strict=True))
            self.assertLess(sum(a != b for a, b in depths), len(depths) / 50)  # close picks

    def test_each_arithmetic_is_within_its_bounds(self):
        spec = self.small(EXAMPLES[0])
        for arithmetic in ("tf32x3", "tf32"):
            report = self.prove("--arithmetic", arithmetic, "--no-timing", "--limit", "20", "--check", "all", spec)
            self.assertIn(f" arithmetic={arithmetic} | sm_", report["signature"])
            self.assertEqual((report["ok"], report["notes"]), (True, []))

    def test_a_built_kernel_serves_without_a_compiler(self):
        arch = self.succeed("doctor", "--json").json()["gpu"]["arch"]
        spec = self.small(EXAMPLES[1])
        self.succeed("build", "--arch", arch, "--cache", self.folder / "c", spec)
        report = self.prove("--no-timing", "--limit", "5", spec, STEERGRAPH_NO_JIT="1")
        self.assertEqual((report["source"], report["ok"]), ("disk", True))

    def test_a_manifest_warms_its_kernel(self):
        spec = self.small(EXAMPLES[0])
        self.prove("--no-timing", "--limit", "5", "--save-traffic", "m.json", spec)
        report = self.succeed("warm", "--json", "m.json").json()
        self.assertEqual((report["manifests"][0]["done"], report["manifests"][0]["failed"]), (1, 0))

    def test_a_trace_is_the_same(self):
        spec = self.small(EXAMPLES[1])
        ways = []
        for backend in ("cpu", "cuda"):
            report = self.prove("--backend", backend, "--limit", "1", "--trace", self.first_query(spec), spec)
            self.assertTrue(report["ok"])
            ways.append([[child["state"] for child in step["children"]] for step in report["steps"]])
        self.assertEqual(ways[0][0], ways[1][0])

    def first_query(self, spec):
        base = self.folder / "base"
        generate = json.loads(spec.read_text())["knowledge"]["generate"]
        words = ("--seed", generate["seed"]) + (("--size", generate["size"]) if "size" in generate else ())
        self.succeed("kb", "generate", generate["kind"], *words, "-o", base)
        return (base / "queries.txt").read_text().splitlines()[0].rstrip(".")


tap.main()
