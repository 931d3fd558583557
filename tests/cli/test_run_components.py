#!/usr/bin/env python3
"""`steergraph run` of components: reports, files, padding, and numbers worked out here again."""
import json
import math
import struct

import tap
from attention_case import RUN, Run, example
from cli import FAILED, SPECS, safetensors_bytes

NAMES = ("components_spd", "components_odd", "components_check")
# The members that ARCHITECTURE.md promises, in this order.
MEMBERS = [
    "spec", "family", "backend", "reason", "device", "signature", "kernel_key", "kernels", "graph_key", "back", "source",
    "tier", "compile_ms", "rows", "rows_padding", "max_abs_err", "mae", "worst_ratio", "violations", "overflows",
    "unbounded", "first", "gradients", "ok", "time_us", "bytes", "flop", "checksum", "output", "notes",
]  # fmt: skip
GRADIENTS = {
    "components_spd": ["dx", "dv", "du", "dm"],
    "components_odd": ["dx", "dv", "du", "dbias", "dd", "ddelta"],
    "components_check": ["dx", "dv", "du", "dm", "dd", "ddelta"],
}
KNOWN_SUM = 9.67026883588834  # of the y of components_check, in float64


def small(components=None, rows=None, **members):
    """A small workload of 6 rows, both ways, of what is not said otherwise."""
    spec = {
        "steergraph": 1,
        "family": "components",
        "components": {"d_in": 4, "d_out": 3, "components": 5, "dtype": "f32", **(components or {})},
        "rows": {"rows": 6, **(rows or {})},
        "direction": "both",
        "input": {name: {"random": {"seed": seed}} for seed, name in enumerate(("x", "v", "u", "mask", "dy"), 1)},
    }
    spec.update(members)
    return spec


class Examples(Run):
    def test_every_example_is_ok_on_the_cpu(self):
        for name in NAMES:
            with self.subTest(spec=name):
                outcome = self.succeed(*RUN, SPECS / f"{name}.json")
                report = outcome.json()
                self.assertEqual(outcome.err, "")
                self.assertEqual(list(report), MEMBERS)
                self.assertEqual((report["ok"], report["violations"], report["first"]), (True, 0, None))
                self.assertEqual((report["family"], report["backend"], report["tier"]), ("components", "cpu", None))
                self.assertEqual(list(report["gradients"]), GRADIENTS[name])
                for errors in (report, *report["gradients"].values()):
                    self.assertTrue(0 < errors["worst_ratio"] <= 1)
                    self.assertTrue(0 < errors["mae"] <= errors["max_abs_err"] < math.inf)
                    self.assertEqual((errors["violations"], errors["overflows"], errors["unbounded"]), (0, 0, 0))
                self.check_ways(report)

    def check_ways(self, report):
        for way, count in ((report, 1), (report["back"], 3)):
            self.assertEqual(len(way["kernels"]), count)
            for kernel in way["kernels"]:
                self.assertRegex(kernel["signature"], r"^components v1 \| work=.* \| cpu$")
                self.assertRegex(kernel["kernel_key"], "^[0-9a-f]{32}$")
                self.assertEqual((kernel["source"], kernel["compile_ms"]), ("cpu", 0))
            texts = [kernel["signature"].removesuffix(" | cpu") for kernel in way["kernels"]]
            self.assertTrue(way["signature"].startswith(" + ".join(texts) + " | cpu | batch<="), way["signature"])
            self.assertEqual(way["kernel_key"], way["kernels"][0]["kernel_key"])
            self.assertRegex(way["graph_key"], "^[0-9a-f]{32}$")
        self.assertRegex(report["checksum"], "^[0-9a-f]{32}$")

    def test_the_known_sum_comes_out(self):
        _, tensors, _ = self.output(example("components_check"))
        self.assertAlmostEqual(sum(tensors["y"].floats()), KNOWN_SUM, delta=2e-6)

    def test_rows_of_padding_are_zeros_and_counted(self):
        report, tensors, _ = self.output(example("components_odd"))
        self.assertEqual((report["rows"], report["rows_padding"]), (144, 17 + 41))
        y = tensors["y"]
        self.assertEqual(y.row(48 + 31), bytes(2 * 341))
        self.assertNotEqual(y.row(48 + 30), bytes(2 * 341))
        self.assertEqual(tensors["dx"].row(143), bytes(2 * 128))
        self.assertIn("rows<=256", report["signature"])

    def test_forward_alone_has_no_way_back(self):
        spec = small()
        both = self.report(spec)
        del spec["direction"], spec["input"]["dy"]
        report, tensors, _ = self.output(spec)
        self.assertEqual((report["back"], report["gradients"], list(tensors)), (None, None, ["y"]))
        self.assertEqual((report["signature"], report["max_abs_err"]), (both["signature"], both["max_abs_err"]))
        self.assertEqual(report["flop"], 2 * 6 * 5 * (4 + 3))
        self.assertEqual(both["flop"], 2 * 6 * 5 * (4 + 3 + 3 * 4 + 2 * 3))
        inputs, y = 4 * (6 * 4 + 4 * 5 + 5 * 3 + 6 * 5), 4 * 6 * 3
        self.assertEqual(report["bytes"], inputs + y)
        self.assertEqual(both["bytes"], 3 * inputs + 2 * y)  # read twice; each has a gradient; y and dy

    def test_times_are_measured(self):
        report = self.succeed("run", "--backend", "cpu", "--json", self.write("w.json", small())).json()
        times = report["time_us"]
        self.assertEqual(list(times), ["median", "min", "max"])
        self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])

    def test_the_text_report_ends_in_ok(self):
        path = self.write("w.json", small({"mask": "bool", "bias": True}, input={**small()["input"], "bias": {"random": {"seed": 9}}}))
        text = self.succeed("run", "--backend", "cpu", path).out
        self.assertTrue(text.endswith("\nok\n"), text)
        self.assertIn("w.json: components, 6 rows, 4 to 3 by 5 components, f32, mask of bytes, bias; forward and back\n", text)
        self.assertRegex(text, r"(?m)^  rows +6, 0 of padding$")
        self.assertRegex(text, r"(?m)^  kernels +none: the CPU does their work itself$")
        self.assertRegex(text, r"(?m)^  back +components v1 \| .* rows<=8$")
        self.assertRegex(text, r"(?m)^  dbias +0 violations, worst error .* of its bound, largest .*, mean .*$")
        self.assertNotRegex(text, r"(?m)^  dm ")
        self.assertRegex(text, r"(?m)^  time +.* median \(.* to .*, 100 calls of both directions\)$")
        self.assertRegex(text, r"(?m)^  computes +.* GFLOP at least, .* GFLOP/s\n  moves +\d+ bytes at least, .* GB/s$")

    def test_two_runs_give_the_same_report(self):
        path = self.write("w.json", small())
        self.assertEqual(self.succeed(*RUN, path).json(), self.succeed(*RUN, path).json())


class Masks(Run):
    def test_a_shared_mask_is_the_expanded_one(self):
        _, source = self.numbers("mask", (2, 5), 1)
        values = self.numbers("mask", (2, 5), 1)[0]
        wide = [x for row in range(6) for x in values[row // 3 * 5 :][:5]]
        _, shared, _ = self.output(small({"share": 3}, input={**small()["input"], "mask": source}))
        _, given, _ = self.output(small(input={**small()["input"], "mask": {"values": wide}}))
        for name in ("y", "dx"):
            self.assertEqual(shared[name].data, given[name].data)
        self.assertEqual((shared["dm"].shape, given["dm"].shape), ([2, 5], [6, 5]))

    def test_ones_are_no_mask(self):
        ones = {"values": [1] * 5}
        _, masked, _ = self.output(small({"share": "all"}, input={**small()["input"], "mask": ones}))
        _, as_bytes, _ = self.output(small({"share": "all", "mask": "bool"}, input={**small()["input"], "mask": ones}))
        inputs = small()["input"]
        del inputs["mask"]
        _, absent, _ = self.output(small({"mask": "none"}, input=inputs))
        for name in ("y", "dx", "dv", "du"):
            self.assertEqual(masked[name].data, absent[name].data)
            self.assertEqual(as_bytes[name].data, absent[name].data)
        self.assertNotIn("dm", absent)

    def test_tf32_rounds_and_is_near(self):
        exact = self.output(small())[1]["y"].floats()
        rounded = self.output(small({"math": "tf32"}))[1]["y"].floats()
        self.assertNotEqual(exact, rounded)
        for a, b in zip(exact, rounded, strict=True):
            self.assertAlmostEqual(a, b, delta=0.1)


class Numbers(Run):
    def test_both_ways_are_as_written(self):
        """In float64, from numbers that float32 holds."""
        rows, d_in, c, d_out = 6, 4, 5, 3
        shapes = {"x": (rows, d_in), "v": (d_in, c), "u": (c, d_out), "mask": (rows, c), "dy": (rows, d_out)}
        given, sources = {}, {}
        for seed, (name, shape) in enumerate(shapes.items()):
            values, sources[name] = self.numbers(name, shape, seed)
            given[name] = [values[i * shape[1] :][: shape[1]] for i in range(shape[0])]
        _, tensors, _ = self.output(small(input=sources))
        x, v, u, m, dy = given.values()
        t = [[sum(x[n][i] * v[i][k] for i in range(d_in)) for k in range(c)] for n in range(rows)]
        g = [[sum(dy[n][o] * u[k][o] for o in range(d_out)) for k in range(c)] for n in range(rows)]
        s = [[t[n][k] * m[n][k] for k in range(c)] for n in range(rows)]
        h = [[g[n][k] * m[n][k] for k in range(c)] for n in range(rows)]
        expected = {
            "y": [sum(s[n][k] * u[k][o] for k in range(c)) for n in range(rows) for o in range(d_out)],
            "dx": [sum(h[n][k] * v[i][k] for k in range(c)) for n in range(rows) for i in range(d_in)],
            "dv": [sum(x[n][i] * h[n][k] for n in range(rows)) for i in range(d_in) for k in range(c)],
            "du": [sum(s[n][k] * dy[n][o] for n in range(rows)) for k in range(c) for o in range(d_out)],
            "dm": [g[n][k] * t[n][k] for n in range(rows) for k in range(c)],
        }
        for name, values in expected.items():
            for now, ref in zip(tensors[name].floats(), values, strict=True):
                self.assertAlmostEqual(now, ref, delta=1e-4, msg=name)

    def test_what_leaves_its_range_is_counted_and_no_failure(self):
        self.write("far.st", safetensors_bytes({"t": ("F32", [6, 4], struct.pack("<24f", *[1e30] * 24))}))
        spec = small()
        spec["input"]["x"] = {"file": "far.st", "tensor": "t"}
        spec["input"]["v"] = {"values": [1e30] * 20}
        report = self.report(spec)
        self.assertEqual((report["ok"], report["violations"]), (True, 0))
        self.assertGreater(report["overflows"] + report["unbounded"], 0)
        text = self.succeed("run", "--backend", "cpu", "--no-timing", self.folder / "w.json").out
        self.assertRegex(text, r"(?m)^ +\d+ elements are not finite, .*; of \d+ nothing can be said$")


class Refused(Run):
    def test_an_output_that_the_run_reads_is_refused(self):
        spec = small()
        _, spec["input"]["v"] = self.numbers("v", (4, 5), 1)
        path = self.write("w.json", spec)
        for name, place in (("w.json", "this file itself"), ("v.st", "input.v")):
            line = self.refuse(FAILED, *RUN, "--output", name, path)
            self.assertEqual(
                line, f"steergraph: {path}: --output '{name}' would replace a file that is read ({place}); name another file"
            )

    def test_inputs_that_do_not_fit_are_named(self):
        spec = small()
        _, spec["input"]["v"] = self.numbers("v", (5, 4), 1)
        self.assertIn("w.json: input.v", self.refuse(FAILED, *RUN, self.write("w.json", spec)))
        spec = small({"delta": True})
        _, weight = self.numbers("w", (2, 2), 1)
        spec["input"] |= {"d": {"random": {"seed": 8}}, "delta": {"weight": weight}}
        self.assertIn("w.json: input.delta.weight", self.refuse(FAILED, *RUN, self.write("w.json", spec)))

    def test_a_machine_with_too_little_memory_says_so(self):
        spec = small({"d_in": 1 << 20, "d_out": 1 << 20, "components": 1 << 20}, {"rows": 1 << 22})
        line = self.refuse(FAILED, *RUN, self.write("w.json", spec))
        self.assertIn("w.json: rows: 4194304 rows of 1048576 to 1048576 by 1048576 components need ", line)
        self.assertIn(" GiB of memory, this machine has ", line)

    def test_traffic_has_both_ways(self):
        path = self.write("w.json", small())
        self.succeed(*RUN, "--save-traffic", "m.json", path)
        entries = json.loads((self.folder / "m.json").read_text())["manifest"]
        self.assertEqual(sorted(entry["count"] for entry in entries), [1, 1])
        works = {entry["signature"].count("components v1 | work=") for entry in entries}
        self.assertEqual(works, {1, 3})
        warmed = self.succeed("warm", "--backend", "cpu", "--json", "m.json").json()["manifests"][0]
        self.assertEqual((warmed["total"], warmed["done"], warmed["failed"]), (2, 2, 0))


tap.main()
