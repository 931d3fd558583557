#!/usr/bin/env python3
"""run of rope, decode, step and components on a device: every example is what the references allow, by graph and plainly with the
same bits, and what the CPU gives is near."""
import json
import math
import struct

import tap
from cli import FAILED, SPECS, Case, read_safetensors, safetensors_bytes

NAMES = ("rope_llama3", "kv_decode", "kv_decode_paged", "toto_timewise", "step_llama_block", "token_window")
COMPONENTS = ("components_spd", "components_odd", "components_check")


class Families(Case):
    def setUp(self):
        super().setUp()
        doctor = self.run_command("doctor", "--json").json()
        for part in ("gpu", "compiler"):
            if not doctor[part]["ok"]:
                self.skipTest(f"no {part}")
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "c")

    def run_example(self, path, *words, **environment):
        return self.succeed("run", "--json", *words, path, env=self.environment | environment).json()

    def test_every_example_is_ok_by_graph_and_plainly(self):
        for name in NAMES:
            with self.subTest(spec=name):
                path = SPECS / f"{name}.json"
                report = self.run_example(path, "--backend", "cuda")
                self.assertEqual((report["backend"], report["ok"], report["violations"]), ("cuda", True, 0))
                self.assertTrue(0 < report["time_us"]["min"] <= report["time_us"]["median"])
                plain = self.run_example(path, "--backend", "cuda", "--no-timing", "--launch", "plain", STEERGRAPH_NO_JIT="1")
                self.assertEqual((plain["checksum"], plain["lengths_after"]), (report["checksum"], report["lengths_after"]))
                self.assertEqual({kernel["source"] for kernel in plain["kernels"]}, {"disk"})

    def test_components_are_ok_both_ways(self):
        for name in COMPONENTS:
            with self.subTest(spec=name):
                path = SPECS / f"{name}.json"
                report = self.run_example(path, "--backend", "cuda")
                self.assertEqual((report["backend"], report["ok"], report["violations"]), ("cuda", True, 0))
                self.assertTrue(0 < report["time_us"]["min"] <= report["time_us"]["median"])
                again = self.run_example(path, "--backend", "cuda", "--no-timing", STEERGRAPH_NO_JIT="1")
                self.assertEqual(again["checksum"], report["checksum"])
                kernels = again["kernels"] + again["back"]["kernels"]
                self.assertEqual([kernel["source"] for kernel in kernels], ["disk"] * 4)

    def test_the_cpu_is_near(self):
        for name in ("toto_timewise", "token_window"):
            with self.subTest(spec=name):
                path = SPECS / f"{name}.json"
                outs = []
                for backend in ("cpu", "cuda"):
                    self.run_example(path, "--backend", backend, "--no-timing", "--output", "out.st")
                    outs.append(read_safetensors(self.folder / "out.st")[0]["out"].floats())
                for cpu, cuda in zip(*outs, strict=True):
                    self.assertTrue(math.isclose(cpu, cuda, rel_tol=1e-4, abs_tol=1e-4), (cpu, cuda))

    def test_full_rows_are_reported(self):
        spec = json.loads((SPECS / "toto_timewise.json").read_text())
        spec["cache"]["lengths"] = [0, 1024, 63, 64, 127, 1024, 300, 511]
        report = self.run_example(self.write("w.json", spec), "--backend", "cuda", "--no-timing")
        self.assertEqual((report["ok"], report["rows_refused"]), (True, 2))
        self.assertEqual(report["lengths_after"], [1, 1024, 64, 65, 128, 1024, 301, 512])

    def test_what_leaves_float32_on_the_way_is_counted_and_no_failure(self):
        spec = json.loads((SPECS / "toto_timewise.json").read_text())
        spec["rope"]["xpos"]["base"] = 0.02  # scales that float32 does not hold
        report = self.run_example(self.write("w.json", spec), "--backend", "cuda", "--no-timing")
        self.assertEqual((report["ok"], report["violations"]), (True, 0))
        self.assertGreater(report["overflows"], 0)

    def test_a_result_beyond_its_bound_fails(self):
        """An op that drops a row multiplies it by 0, which leaves the NaN that it had."""
        self.write("drop.json", {"op": "drop", "vectors": ["v"], "params": {}, "body": ["h = v"]})
        nans = struct.pack(f"<{8 * 48 * 128}f", *[math.nan] * (8 * 48 * 128))
        self.write("nan.st", safetensors_bytes({"t": ("F32", [8, 48 * 128], nans)}))
        spec = json.loads((SPECS / "step_llama_block.json").read_text())
        spec["steer"]["ops"] = ["drop.json"]
        spec["steer"]["slots"]["calm"]["layers"]["0"] = [{"op": "drop", "v": "calm"}]
        spec["input"]["qkv"] = {"file": "nan.st", "tensor": "t"}
        path = self.write("w.json", spec)
        outcome = self.run_command("run", "--json", "--backend", "cuda", "--no-timing", path)
        self.assertEqual((outcome.code, outcome.json()["ok"]), (FAILED, False))
        self.assertGreater(outcome.json()["violations"], 0)


tap.main()
