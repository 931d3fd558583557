#!/usr/bin/env python3
"""`steergraph run`: the report of every example, the output file, and that `ok` can be false."""
import json
import math
import re

import tap
from cli import EXAMPLES, FAILED, QUICK, SPECS, Case, read_safetensors, safetensors_bytes, small_workload

# The members that ARCHITECTURE.md promises, in this order.
MEMBERS = [
    "backend", "device", "signature", "kernel_key", "graph_key", "source", "tier", "compile_ms",
    "rows", "rows_steered", "rows_untouched", "max_abs_err", "worst_ratio", "violations",
    "projection_err_rms", "ok", "time_us", "checksum",
]  # fmt: skip


def expand(spec):
    """(rows, rows of requests with a slot) of a workload file."""
    rows = steered = 0
    for request in spec["batch"]["requests"]:
        count = request["rows"] * request.get("repeat", 1)
        rows += count
        steered += count if request["slot"] is not None else 0
    return rows, steered


class Examples(Case):
    def check_report(self, report, spec):
        self.assertEqual([name for name in report if name in MEMBERS], MEMBERS)
        rows, steered = expand(spec)
        self.assertEqual(report["rows"], rows)
        self.assertEqual(report["rows_steered"] + report["rows_untouched"], rows)
        self.assertLessEqual(report["rows_steered"], steered)
        self.assertGreater(report["rows_steered"], 0)
        self.assertIs(report["ok"], True)
        self.assertEqual(report["violations"], 0)
        self.assertTrue(0 <= report["worst_ratio"] <= 1)
        self.assertTrue(math.isfinite(report["max_abs_err"]))
        for name in ("kernel_key", "graph_key", "checksum"):
            self.assertRegex(report[name], "^[0-9a-f]{32}$")
        self.assertRegex(report["signature"], r"^steer v1 \| ")

    def check_cpu(self, report):
        self.assertEqual(report["backend"], "cpu")
        self.assertRegex(report["signature"], r"\bcpu\b")
        self.assertEqual(report["source"], "cpu")
        self.assertIsNone(report["tier"])
        self.assertEqual(report["compile_ms"], 0)
        self.assertNotEqual(report["device"], "")

    def test_there_are_the_examples_that_the_readme_names(self):
        names = {path.stem for path in EXAMPLES}
        for name in ("mixed", "uniform", "decode", "step", "ragged", "pair", "norm", "chain8", "window", "probe"):
            self.assertIn(f"steer_{name}", names)

    def test_every_example_is_ok_on_the_cpu(self):
        for path in EXAMPLES:
            with self.subTest(spec=path.name):
                outcome = self.succeed("run", "--backend", "cpu", "--json", "--no-timing", path)
                report = outcome.json()
                self.check_report(report, json.loads(path.read_text()))
                self.check_cpu(report)
                self.assertIsNone(report["time_us"])
                self.assertEqual(outcome.err, "")

    def test_times_are_measured(self):
        path = SPECS / "steer_decode.json"
        times = self.succeed("run", "--backend", "cpu", "--json", path).json()["time_us"]
        self.assertEqual(list(times), ["median", "min", "max"])
        self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])

    def test_auto_says_in_one_line_which_backend_and_why(self):
        path = self.write("w.json", small_workload())
        report = self.succeed("run", "--json", path).json()
        self.assertNotIn("\n", report["reason"])
        self.assertTrue(report["reason"].startswith(report["backend"]), report["reason"])
        text = self.succeed("run", path).out
        self.assertRegex(text, rf"(?m)^  backend +{re.escape(report['reason'])}$")

    def test_the_text_report_ends_in_ok(self):
        path = self.write("w.json", small_workload())
        text = self.succeed("run", "--backend", "cpu", path).out
        self.assertTrue(text.endswith("\nok\n"), text)
        self.assertIn("3 requests, 4 rows x 8, f32", text)
        self.assertRegex(text, r"(?m)^  rows +3 steered, 1 untouched$")

    def test_two_runs_give_the_same_bytes(self):
        for name in ("steer_decode",) if QUICK else ("steer_ragged", "steer_pair"):
            with self.subTest(spec=name):
                words = ("run", "--backend", "cpu", "--json", "--no-timing", SPECS / f"{name}.json")
                first, second = self.succeed(*words).json(), self.succeed(*words).json()
                self.assertEqual(first, second)

    def test_the_declared_set_does_not_change_the_result(self):
        words = ("run", "--backend", "cpu", "--json", "--no-timing", SPECS / ("steer_decode.json" if QUICK else "steer_ragged.json"))
        every = self.succeed(*words).json()
        used = self.succeed(*words, "--declare", "used").json()
        self.assertEqual(every["checksum"], used["checksum"])
        self.assertNotEqual(every["signature"], used["signature"])

    def test_the_place_of_the_spec_does_not_enter(self):
        first = self.write("a.json", small_workload())
        second = self.write("deep/er/b.json", small_workload())
        reports = [self.succeed("run", "--backend", "cpu", "--json", "--no-timing", p).json() for p in (first, second)]
        for name in ("signature", "kernel_key", "graph_key", "checksum"):
            self.assertEqual(reports[0][name], reports[1][name])


class Output(Case):
    def run_with_output(self, workload):
        spec = self.write("w.json", workload)
        out = self.folder / "out.safetensors"
        report = self.succeed("run", "--backend", "cpu", "--json", "--no-timing", "--output", out, spec).json()
        self.assertEqual(report["output"], str(out))
        return report, *read_safetensors(out)

    def input_file(self, rows, width, name="h.safetensors"):
        import struct

        values = [((row * 31 + k * 7) % 17 - 8) / 4 for row in range(rows) for k in range(width)]
        data = struct.pack(f"<{len(values)}f", *values)
        self.write(name, safetensors_bytes({"hidden": ("F32", [rows, width], data)}))
        return values

    def test_a_hand_computed_add_comes_out_and_other_rows_keep_their_bytes(self):
        values = self.input_file(4, 8)
        workload = small_workload(input={"hidden": {"file": "h.safetensors", "tensor": "hidden"}})
        _, tensors, _ = self.run_with_output(workload)
        expected = list(values)
        for row in (0, 1, 3):
            expected[row * 8] += 2.0  # scale 2 along the first axis
        self.assertEqual(tensors["hidden"].floats(), expected)

    def test_probes_come_out_beside_the_rows(self):
        values = self.input_file(4, 8)
        chain = [
            {"op": "probe", "v": "v", "column": 2},
            {"op": "add", "v": "v", "scale": 2.0},
            {"op": "probe", "v": "v", "column": 0},
        ]
        workload = small_workload(
            slots={"up": {"layers": {"0": chain}}}, input={"hidden": {"file": "h.safetensors", "tensor": "hidden"}}
        )
        report, tensors, _ = self.run_with_output(workload)
        self.assertIn(" probes=1 ", report["signature"])
        self.assertEqual(list(tensors), ["hidden", "probes"])
        self.assertEqual((tensors["probes"].dtype, tensors["probes"].shape), ("F32", [4, 3]))
        cells = tensors["probes"].floats()
        for row in range(4):
            before, unused, after = cells[row * 3 + 2], cells[row * 3 + 1], cells[row * 3]
            self.assertTrue(math.isnan(unused))
            if row == 2:
                self.assertTrue(math.isnan(before) and math.isnan(after))
            else:
                self.assertEqual((before, after), (values[row * 8], values[row * 8] + 2.0))

    def test_a_window_leaves_rows_by_their_position(self):
        self.input_file(4, 8)
        slot = {"phase": "prompt", "window": [-2, None], "layers": {"0": [{"op": "add", "v": "v", "scale": 2.0}]}}
        requests = [{"slot": "up", "rows": 4, "position": 3, "prompt_len": 6}]
        workload = small_workload(
            slots={"up": slot}, batch={"requests": requests}, input={"hidden": {"file": "h.safetensors", "tensor": "hidden"}}
        )
        report, _, _ = self.run_with_output(workload)
        self.assertIn(" windows=1 ", report["signature"])
        self.assertEqual((report["rows_steered"], report["rows_untouched"]), (2, 2))

    def test_shape_dtype_and_metadata(self):
        for dtype, name in (("bf16", "BF16"), ("f16", "F16"), ("f32", "F32")):
            with self.subTest(dtype=dtype):
                workload = small_workload(geometry={"hidden_size": 8, "dtype": dtype})
                report, tensors, metadata = self.run_with_output(workload)
                self.assertEqual(list(tensors), ["hidden"])
                self.assertEqual(tensors["hidden"].shape, [4, 8])
                self.assertEqual(tensors["hidden"].dtype, name)
                self.assertEqual(metadata, {"signature": report["signature"]})

    def test_a_row_stride_is_packed_away(self):
        values = self.input_file(4, 8)
        workload = small_workload(input={"hidden": {"file": "h.safetensors", "tensor": "hidden"}})
        dense, dense_tensors, _ = self.run_with_output(workload)
        workload["batch"]["row_stride"] = 13
        strided, strided_tensors, _ = self.run_with_output(workload)
        self.assertEqual(strided_tensors["hidden"].shape, [4, 8])
        self.assertEqual(strided_tensors["hidden"].data, dense_tensors["hidden"].data)
        self.assertEqual(strided["checksum"], dense["checksum"])
        self.assertEqual(strided_tensors["hidden"].floats()[16:24], values[16:24])

    def test_the_residual_comes_out_as_it_went_in(self):
        self.input_file(4, 8)
        residual = self.input_file(4, 8, "r.safetensors")
        workload = small_workload(
            geometry={"hidden_size": 8, "dtype": "f32", "state": "hidden+residual"},
            input={
                "hidden": {"file": "h.safetensors", "tensor": "hidden"},
                "residual": {"file": "r.safetensors", "tensor": "hidden"},
            },
        )
        _, tensors, _ = self.run_with_output(workload)
        self.assertEqual(list(tensors), ["hidden", "residual"])
        self.assertEqual(tensors["residual"].floats(), residual)

    def test_an_epilogue_writes_both_tensors(self):
        hidden = self.input_file(4, 8)
        residual = self.input_file(4, 8, "r.safetensors")
        weight = [0.5, 1, 1.5, 2, -1, 0, 1, 3]
        workload = small_workload(
            geometry={"hidden_size": 8, "dtype": "f32", "state": "hidden+residual"},
            epilogue={"kind": "add_rmsnorm", "eps": 0.25, "weight": {"values": weight}},
            input={
                "hidden": {"file": "h.safetensors", "tensor": "hidden"},
                "residual": {"file": "r.safetensors", "tensor": "hidden"},
            },
        )
        report, tensors, _ = self.run_with_output(workload)
        self.assertIn("epilogue=add_rmsnorm", report["signature"])
        steered = expand(workload)[1]
        self.assertEqual((report["rows_steered"], report["rows_untouched"]), (steered, 4 - steered))
        self.assertEqual(list(tensors), ["hidden", "residual"])
        sums, normed = tensors["residual"].floats(), tensors["hidden"].floats()
        unsteered = [request["slot"] is None for request in workload["batch"]["requests"]
                     for _ in range(request["rows"])]  # fmt: skip
        self.assertIn(True, unsteered)
        for row in range(4):
            at = slice(8 * row, 8 * row + 8)
            if unsteered[row]:
                self.assertEqual(sums[at], [h + r for h, r in zip(hidden[at], residual[at])])
            root = math.sqrt(sum(x * x for x in sums[at]) / 8 + 0.25)
            for y, x, w in zip(normed[at], sums[at], weight):
                self.assertAlmostEqual(y, x / root * w, delta=1e-5 * (1 + abs(y)))
        workload["epilogue"]["eps"] = 0.5
        other, after, _ = self.run_with_output(workload)
        self.assertEqual(after["residual"].data, tensors["residual"].data)
        self.assertNotEqual(other["checksum"], report["checksum"])

    def test_an_empty_batch_is_fine(self):
        workload = small_workload(batch={"requests": []})
        report, tensors, _ = self.run_with_output(workload)
        self.assertEqual((report["rows"], report["rows_steered"], report["ok"]), (0, 0, True))
        self.assertEqual(tensors["hidden"].shape, [0, 8])

    def test_a_folder_that_is_not_there_is_named(self):
        spec = self.write("w.json", small_workload())
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "--output", "no/such/out.st", spec)
        self.assertIn("no/such", line)
        self.assertFalse((self.folder / "no").exists())

    def test_a_folder_as_output_is_refused_and_left_alone(self):
        spec = self.write("w.json", small_workload())
        (self.folder / "out").mkdir()
        self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "--output", "out", spec)
        self.assertEqual(list((self.folder / "out").iterdir()), [])

    def test_an_output_that_the_run_reads_is_refused_by_whatever_name(self):
        self.input_file(4, 8)
        self.input_file(4, 8, "r.safetensors")
        self.input_file(1, 8, "v.safetensors")
        self.input_file(1, 8, "n.safetensors")
        op = {"op": "nudge", "vectors": ["v"], "params": {}, "body": ["h += 0.5 * v"]}
        self.write("nudge.json", op)
        spec = self.write("w.json", small_workload(
            geometry={"hidden_size": 8, "dtype": "f32", "state": "hidden+residual"},
            ops=["nudge.json"],
            vectors={"v": {"file": "v.safetensors", "tensor": "hidden", "row": 0}},
            slots={"up": {"layers": {"0": [{"op": "nudge", "v": "v"}]}}},
            epilogue={
                "kind": "add_rmsnorm",
                "eps": 1e-6,
                "weight": {"file": "n.safetensors", "tensor": "hidden", "row": 0},
            },
            input={
                "hidden": {"file": "h.safetensors", "tensor": "hidden"},
                "residual": {"file": "r.safetensors", "tensor": "hidden"},
            },
        ))  # fmt: skip
        (self.folder / "soft").symlink_to("h.safetensors")
        (self.folder / "hard").hardlink_to(self.folder / "v.safetensors")
        places = {
            "w.json": "the workload itself", "./home/../w.json": "the workload itself", "nudge.json": "ops",
            "v.safetensors": "vectors.v", "h.safetensors": "input.hidden", "r.safetensors": "input.residual",
            "soft": "input.hidden", "hard": "vectors.v", "n.safetensors": "epilogue.weight",
        }  # fmt: skip
        before = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        for name, place in places.items():
            with self.subTest(output=name):
                line = self.refuse(FAILED, "run", "--backend", "cpu", "--output", name, spec)
                self.assertIn(f"--output '{name}' would replace a file that is read ({place})", line)
                after = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
                self.assertEqual(after, before)
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "new.st", spec)

    def test_two_outputs_are_two_files_by_whatever_name(self):
        spec = self.write("w.json", small_workload())
        (self.folder / "real").mkdir()
        (self.folder / "link").symlink_to("real")
        self.write("old", "old")
        (self.folder / "soft").symlink_to("old")
        (self.folder / "hard").hardlink_to(self.folder / "old")
        for output, traffic in (
            ("o.st", "./o.st"), ("o.st", str(self.folder / "o.st")), ("real/../o.st", "o.st"),
            ("real/o.st", "link/o.st"), ("old", "soft"), ("hard", "old"),
        ):  # fmt: skip
            with self.subTest(output=output, traffic=traffic):
                line = self.refuse(FAILED, "run", "--backend", "cpu", "--output", output, "--save-traffic", traffic, spec)
                said = f"--output '{output}' and --save-traffic '{traffic}' are the same file; name two files"
                self.assertEqual(line, f"steergraph: {spec}: {said}")
        self.assertEqual((self.folder / "old").read_text(), "old")
        self.assertFalse((self.folder / "o.st").exists() or (self.folder / "real" / "o.st").exists())
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "o.st", "--save-traffic", "real/o.st", spec)

    def test_a_failed_run_writes_nothing_and_keeps_an_old_file(self):
        spec = self.write("w.json", small_workload(vectors={"v": {"values": [1, 0]}}))
        self.write("out.st", "old")
        self.refuse(FAILED, "run", "--backend", "cpu", "--output", "out.st", spec)
        self.assertEqual((self.folder / "out.st").read_text(), "old")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["home", "out.st", "w.json"])


class Meaning(Case):
    def hidden_of(self, ops, vectors=None, **changes):
        workload = small_workload(vectors=vectors or small_workload()["vectors"], **changes)
        workload["slots"] = {"up": {"layers": {"0": ops}}}
        spec = self.write("w.json", workload)
        out = self.folder / "out.st"
        report = self.succeed("run", "--backend", "cpu", "--json", "--no-timing", "--output", out, spec).json()
        return read_safetensors(out)[0]["hidden"], report

    def test_two_equal_adds_act_twice(self):
        op = {"op": "add", "v": "v", "scale": 2.0}
        none, _ = self.hidden_of([{"op": "add", "v": "v", "scale": 0.0}])
        twice, _ = self.hidden_of([op, op])
        self.assertAlmostEqual(twice.floats()[0] - none.floats()[0], 4.0, places=5)

    def test_an_op_that_changes_nothing_touches_no_row(self):
        _, report = self.hidden_of([{"op": "ablation", "v": "v", "scale": 1.0}])
        self.assertEqual((report["rows_steered"], report["rows_untouched"]), (0, 4))

    def test_order_matters(self):
        add, cap = {"op": "add", "v": "v", "scale": 10}, {"op": "projection_cap", "v": "v", "max": 2}
        vectors = {"v": {"values": [1, 0, 0, 0, 0, 0, 0, 0], "normalize": False}}
        first, _ = self.hidden_of([add, cap], vectors)
        second, _ = self.hidden_of([cap, add], vectors)
        self.assertLessEqual(first.floats()[0], 2.0)
        self.assertGreater(second.floats()[0], 2.0)

    def test_projection_errors_are_reported_per_op(self):
        _, report = self.hidden_of([{"op": "add", "v": "v"}, {"op": "add_norm_matched", "v": "v"}])
        self.assertEqual(sorted(report["projection_err_rms"]), ["add", "add_norm_matched"])
        for value in report["projection_err_rms"].values():
            self.assertTrue(0 <= value < 1e-5, value)

    def test_a_slot_without_a_chain_at_the_layer_leaves_its_rows(self):
        workload = small_workload(geometry={"hidden_size": 8, "dtype": "f32", "layers": 2})
        workload["batch"]["layer"] = 1
        spec = self.write("w.json", workload)
        report = self.succeed("run", "--backend", "cpu", "--json", "--no-timing", spec).json()
        self.assertEqual(report["rows_steered"], 0)

    def test_unit_length_is_the_rule_for_ops_that_remove_and_not_for_those_that_add(self):
        vectors = {"v": {"values": [3, 0, 0, 0, 0, 0, 0, 0]}}
        none, _ = self.hidden_of([{"op": "add", "v": "v", "scale": 0}], vectors)
        added, _ = self.hidden_of([{"op": "add", "v": "v"}], vectors)
        removed, _ = self.hidden_of([{"op": "ablation", "v": "v"}], vectors)
        self.assertAlmostEqual(added.floats()[0] - none.floats()[0], 3.0, places=5)
        self.assertAlmostEqual(removed.floats()[0], 0.0, places=5)


tap.main()
