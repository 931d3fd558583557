#!/usr/bin/env python3
"""Control vectors in `run`, `explain`, `build` and `warm`: the right direction at the right block, to the byte.

Rows of zeros to which a direction is added with scale 1 are the direction, bit for bit.
"""
import struct
import sys

import tap
from cli import FAILED, ROOT, Case, read_safetensors, small_workload

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402

WIDTH = 8
LAYERS = 6
# Exact in float16, so that every dtype gives the same float32; no direction is another's multiple.
VALUES = {n: [((n * 37 + k * 11) % 23 - 11.5) / 16 for k in range(WIDTH)] for n in range(LAYERS)}
GGUF = {n: VALUES[n] for n in range(1, LAYERS)}
ZERO = bytes(4 * WIDTH)


def f32(x):
    """x rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def summed(*terms):
    """The float32 loop of llama.cpp over (scale, values), each operation rounded."""
    total = [0.0] * WIDTH
    for scale, values in terms:
        total = [f32(t + f32(f32(scale) * v)) for t, v in zip(total, values)]
    return writers.f32(total)


class Control(Case):
    def workload(self, entries, layer=0, **slot):
        workload = small_workload()
        del workload["vectors"]
        workload["geometry"]["layers"] = LAYERS
        workload["slots"]["up"] = {"control_vector": entries, **slot}
        requests = [{"slot": name, "rows": 1} for name in ("up", None, "up")]
        workload["batch"] = {"layer": layer, "requests": requests}
        workload["input"] = {"hidden": {"values": [0] * (3 * WIDTH)}}
        return workload

    def rows(self, workload, *words):
        """The bytes of each row, and the report."""
        out = self.folder / "out.st"
        spec = self.write("w.json", workload)
        report = self.succeed("run", "--backend", "cpu", "--no-timing", "--json", "--output", out, *words, spec).json()
        hidden = read_safetensors(out)[0]["hidden"]
        self.assertEqual((hidden.dtype, hidden.shape), ("F32", [3, WIDTH]))
        return [hidden.row(row) for row in range(3)], report

    def assert_acts(self, entries, layer, expected, **slot):
        """`expected` is the bytes that a steered row gets at `layer`, None where it is left alone."""
        rows, report = self.rows(self.workload(entries, layer, **slot))
        self.assertEqual(rows, [expected or ZERO, ZERO, expected or ZERO])
        self.assertEqual(report["rows_steered"], 2 if expected else 0)
        return report

    def test_direction_n_acts_at_block_n_in_every_version_and_type(self):
        for version in (2, 3):
            for dtype in ("F16", "BF16", "F32", "F64"):
                self.write("c.gguf", writers.control_vector(GGUF, "", dtype, version))
                for layer in range(LAYERS):
                    with self.subTest(version=version, dtype=dtype, layer=layer):
                        expected = writers.f32(VALUES[layer]) if layer > 0 else None
                        if dtype == "BF16" and layer > 0:
                            words = writers.bf16(VALUES[layer])
                            expected = b"".join(b"\0\0" + words[i : i + 2] for i in range(0, len(words), 2))
                        self.assert_acts([{"file": "c.gguf"}], layer, expected)

    def test_every_other_format_by_a_pattern_or_rows(self):
        flat = [x for n in range(LAYERS) for x in VALUES[n]]
        named = [(f"model.layers.{n}.axis", "F16", [WIDTH], writers.f16(VALUES[n])) for n in range(LAYERS)]
        self.write("c.safetensors", writers.safetensors(named, {}))
        matrix = [("m", "F64", [LAYERS, WIDTH], writers.f64(flat)), ("other", "I8", [1], b"x")]
        self.write("m.safetensors", writers.safetensors(matrix, {}))
        self.write("c.npy", writers.npy("F64", [LAYERS, WIDTH], writers.f64(flat)))
        self.write("c.f32", writers.f32([9.0] + flat))
        self.write("c.json", writers.directions({n: VALUES[n] for n in (0, 5, 3)}))
        self.write("c.gguf", writers.control_vector(GGUF))
        entries = [
            {"file": "c.safetensors", "tensor": "model.layers.{}.axis"},
            {"file": "m.safetensors", "tensor": "m", "row": "{}"},
            {"file": "c.npy", "row": "{}"},
            {"file": "c.f32", "offset": 1, "count": WIDTH, "row": "{}"},
            {"file": "c.json", "tensor": "{}"},
            {"file": "c.gguf", "tensor": "direction.{}"},
        ]
        for entry in entries:
            for layer in (0, 3, 5):
                if layer == 0 and entry["file"] == "c.gguf":
                    continue
                with self.subTest(entry=entry, layer=layer):
                    self.assert_acts([entry], layer, writers.f32(VALUES[layer]))
        with self.subTest("shifted"):
            self.assert_acts([{"file": "c.npy", "row": "{}", "layer_shift": -1}], 2, writers.f32(VALUES[3]))
            self.assert_acts([{"file": "c.json", "tensor": "{}", "layer_shift": 1, "first_layer": 4,
                               "last_layer": 4}], 4, writers.f32(VALUES[3]))  # fmt: skip
            self.assert_acts([{"file": "c.json", "tensor": "{}"}], 4, None)
            self.write("w.json", self.workload([{"file": "c.json", "tensor": "{}", "last_layer": 4}]))
            line = self.refuse(FAILED, "run", "--backend", "cpu", "w.json")
            self.assertIn("'c.json' has no layer 1, and blocks 0 to 4 were asked for", line)

    def test_sums_are_those_of_a_float32_loop_in_list_order(self):
        odd = {n: [f32(x / 3) for x in VALUES[LAYERS - n]] for n in range(1, LAYERS)}
        self.write("a.gguf", writers.control_vector(GGUF))
        self.write("b.gguf", writers.control_vector(odd))
        entries = [{"file": "a.gguf", "scale": 1.1}, {"file": "b.gguf", "scale": -0.7}, {"file": "a.gguf", "scale": 0.3}]
        for layer in range(1, LAYERS):
            with self.subTest(layer=layer):
                terms = (1.1, GGUF[layer]), (-0.7, odd[layer]), (0.3, GGUF[layer])
                self.assert_acts(entries, layer, summed(*terms))

    def test_blocks_outside_the_range_are_left_alone(self):
        self.write("c.gguf", writers.control_vector(GGUF))
        entry = {"file": "c.gguf", "first_layer": 2, "last_layer": 3}
        for layer in range(LAYERS):
            with self.subTest(layer=layer):
                self.assert_acts([entry], layer, writers.f32(VALUES[layer]) if layer in (2, 3) else None)

    def test_an_op_takes_each_direction_as_its_vector(self):
        """Of rows that are twice the unit axis: capped, taken out, and scaled down."""
        axis = {n: [0.0] * WIDTH for n in range(1, LAYERS)}
        for n in axis:
            axis[n][n] = 4.0  # the op normalises it
        self.write("c.gguf", writers.gguf(
            [(f"direction.{n}", "F32", [WIDTH], writers.f32(v)) for n, v in axis.items()],
            [("general.architecture", "string", "controlvector"), ("glp.mode", "string", "project")]))  # fmt: skip
        two = [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0]
        for entry, third in (
            ({"op": "projection_cap", "max": 0.5}, 0.5),
            ({"op": "ablation"}, 0.0),
            ({"op": "ablation", "scale": 0.25}, 0.5),
            ({"op": "add"}, 6.0),
        ):
            with self.subTest(entry=entry):
                workload = self.workload([{"file": "c.gguf", **entry}], layer=3)
                workload["input"] = {"hidden": {"values": two * 3}}
                rows, _ = self.rows(workload)
                expected = writers.f32(two[:3] + [third] + two[4:])
                self.assertEqual(rows, [expected, writers.f32(two), expected])
        self.write("w.json", self.workload([{"file": "c.gguf"}]))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "w.json")
        self.assertIn("says glp.mode 'project', which is no addition", line)

    def test_layers_come_first_and_windows_hold(self):
        self.write("c.gguf", writers.control_vector(GGUF))
        layers = {"3": [{"op": "add", "v": "v"}, {"op": "scale_norm", "scale": 0}]}
        workload = self.workload([{"file": "c.gguf"}], 3, layers=layers)
        workload["vectors"] = {"v": {"values": [1] * WIDTH}}
        rows, _ = self.rows(workload)
        self.assertEqual(rows[0], writers.f32(VALUES[3]))  # added behind the 0
        workload = self.workload([{"file": "c.gguf"}], 3, window=[1, None])
        workload["batch"]["requests"] = [{"slot": "up", "rows": 3, "prompt_len": 3}]
        rows, _ = self.rows(workload)
        self.assertEqual(rows, [ZERO, writers.f32(VALUES[3]), writers.f32(VALUES[3])])

    def test_a_user_op_gets_its_parameters(self):
        op = {"op": "nudge", "vectors": ["v"], "params": {"by": {}}, "body": ["h += by * v"]}
        self.write("nudge.json", op)
        self.write("c.gguf", writers.control_vector(GGUF))
        workload = self.workload([{"file": "c.gguf", "op": "nudge", "by": 2}], 4)
        workload["ops"] = ["nudge.json"]
        rows, _ = self.rows(workload)
        self.assertEqual(rows[0], writers.f32([2 * x for x in VALUES[4]]))

    def test_what_rounding_to_the_type_of_the_bank_does_is_said_as_such(self):
        place = "slots.up.control_vector block 1: "
        for value, fault in (
            (1e5, "element 0 is 100000, beyond the range of f16; scale it down"),
            (1e-30, "all elements are 0 in f16; scale it up"),
        ):
            self.write("c.gguf", writers.control_vector({1: [value] * WIDTH}))
            workload = self.workload([{"file": "c.gguf"}])
            workload["geometry"]["dtype"] = "f16"
            spec = self.write("w.json", workload)
            line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", spec)
            self.assertIn(place + fault + ", or give geometry.bank_dtype f32", line)
            workload["geometry"]["bank_dtype"] = "f32"
            self.succeed("run", "--backend", "cpu", "--no-timing", self.write("w.json", workload))

    def test_notes_are_in_both_reports_of_run_and_explain(self):
        layers = {1: [0.0] * WIDTH, 2: VALUES[2], 3: VALUES[3]}
        self.write("c.gguf", writers.control_vector(layers, "mistral"))
        spec = self.write("w.json", self.workload([{"file": "c.gguf"}], layer=2))
        notes = [
            "slots.up: c.gguf is for model 'mistral' by its own word; geometry.model is not given",
            "slots.up: c.gguf has 1 to 3: blocks 4 to 5 are not steered",
            "slots.up: c.gguf: the direction at block 1 is zero: that block is not steered",
        ]
        for command in (["run", "--backend", "cpu", "--no-timing"], ["explain", "--arch", "sm_90"]):
            with self.subTest(command=command):
                self.assertEqual(self.succeed(*command, "--json", spec).json()["notes"], notes)
                text = self.succeed(*command, spec).out
                for note in notes:
                    self.assertRegex(text, rf"(?m)^  note +{note}$")
        workload = self.workload([{"file": "c.gguf", "first_layer": 2, "last_layer": 3}], layer=2)
        workload["geometry"]["model"] = "Mistral"
        spec = self.write("w.json", workload)
        report = self.succeed("explain", "--arch", "sm_90", "--json", spec).json()
        self.assertEqual(report["notes"], ["slots.up: c.gguf: direction 1 is outside first_layer 2 to last_layer 3"])
        self.assertNotIn("  note ", self.succeed("explain", "--arch", "sm_90", self.write("n.json", small_workload())).out)

    def test_a_layer_where_nothing_is_steered_is_noted(self):
        self.write("c.gguf", writers.control_vector({2: VALUES[2], 3: VALUES[3]}))
        workload = self.workload([{"file": "c.gguf", "first_layer": 2, "last_layer": 3}])
        del workload["batch"]["layer"]  # 0, where no control vector of GGUF acts
        spec = self.write("w.json", workload)
        note = "batch.layer is 0, where no slot of a request has ops: nothing is steered; the nearest layer where one has is 2"
        report = self.succeed("run", "--backend", "cpu", "--no-timing", "--json", spec).json()
        self.assertEqual((report["notes"], report["rows_steered"]), ([note], 0))
        text = self.succeed("explain", "--arch", "sm_90", spec).out
        self.assertIn(note, text)
        self.assertIn(" threads a block, 1 row at a time\n", text)

    def test_a_control_vector_is_not_replaced(self):
        self.write("c.gguf", writers.control_vector(GGUF))
        (self.folder / "link.gguf").symlink_to("c.gguf")
        spec = self.write("w.json", self.workload([{"file": "c.gguf"}]))
        before = (self.folder / "c.gguf").read_bytes()
        for option in ("--output", "--save-traffic"):
            for name in ("c.gguf", "link.gguf"):
                with self.subTest(option=option, name=name):
                    line = self.refuse(FAILED, "run", "--backend", "cpu", option, name, spec)
                    self.assertIn("would replace a file that is read (slots.up.control_vector[0])", line)
        line = self.refuse(FAILED, "build", "--arch", "sm_90", "--pack", "c.gguf", spec)
        self.assertIn("would replace a file that is read (slots.up.control_vector[0])", line)
        self.assertEqual((self.folder / "c.gguf").read_bytes(), before)

    def test_the_manifest_of_a_run_needs_no_file(self):
        path = self.write("c.gguf", writers.control_vector(GGUF))
        self.rows(self.workload([{"file": "c.gguf"}], 2), "--save-traffic", "traffic.json")
        path.unlink()
        self.succeed("warm", "--backend", "cpu", "traffic.json")
        line = self.refuse(FAILED, "explain", "--arch", "sm_90", "w.json")
        self.assertIn("slots.up.control_vector[0].file: cannot open 'c.gguf'", line)

    def test_a_link_out_of_the_folder_needs_consent(self):
        inner = self.folder / "inner"
        inner.mkdir()
        self.write("c.gguf", writers.control_vector(GGUF))
        (inner / "c.gguf").symlink_to("../c.gguf")
        self.write("inner/w.json", self.workload([{"file": "c.gguf"}]))
        line = self.refuse(FAILED, "explain", "--arch", "sm_90", "inner/w.json")
        self.assertIn("links out of the spec's folder; --allow-outside allows it", line)
        self.succeed("explain", "--arch", "sm_90", "--allow-outside", "inner/w.json")


tap.main()
