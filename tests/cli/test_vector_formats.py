#!/usr/bin/env python3
"""Vector files of every format in `run` and `vectors`: the numbers that come out are those of the file.

Rows of zeros to which a direction is added with scale 1 are the direction, bit for bit.
"""
import math
import struct
import sys

import tap
from cli import FAILED, ROOT, WRONG, Case, read_safetensors, small_workload

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402

WIDTH = 8
# Exact in float16, so that every dtype gives the same float32.
VALUES = [[(row + 1) * (k - 3.5) / 16 for k in range(WIDTH)] for row in range(3)]
FLAT = sum(VALUES, [])


class Run(Case):
    def steer(self, source, v="v", **changes):
        """The three rows, of which the middle one is not steered, as float32 bytes."""
        workload = small_workload(vectors={"v": source}, **changes)
        workload["slots"]["up"]["layers"]["0"] = [{"op": "add", "v": v}]
        workload["batch"]["requests"] = [{"slot": name, "rows": 1} for name in ("up", None, "up")]
        if "input" not in changes:
            workload["input"] = {"hidden": {"values": [0] * (3 * WIDTH)}}
        out = self.folder / "out.st"
        spec = self.write("w.json", workload)
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", out, spec)
        hidden = read_safetensors(out)[0]["hidden"]
        self.assertEqual((hidden.dtype, hidden.shape), ("F32", [3, WIDTH]))
        return [hidden.row(row) for row in range(3)]

    def assert_steered(self, source, values, v="v"):
        expected = writers.f32(values)
        self.assertEqual(self.steer(source, v), [expected, bytes(4 * WIDTH), expected])

    def test_a_vector_of_numpy_in_every_version_and_type(self):
        for version in (1, 2, 3):
            for dtype in ("F16", "F32", "F64"):
                with self.subTest(version=version, dtype=dtype):
                    data = writers.npy(dtype, [WIDTH], writers.ELEMS[dtype](VALUES[0]), version)
                    self.write("v.npy", data)
                    self.assert_steered({"file": "v.npy"}, VALUES[0])

    def test_a_row_of_an_array_of_numpy(self):
        self.write("v.npy", writers.npy("F32", [3, WIDTH], writers.f32(FLAT)))
        for row in range(3):
            with self.subTest(row=row):
                self.assert_steered({"file": "v.npy", "row": row}, VALUES[row])

    def test_float64_is_rounded_to_float32_once(self):
        values = [0.1, 1 + 2**-24, 1 + 2**-24 + 2**-50, 1 / 3, -1e-40, 1e38, 2**-150, -0.0]
        self.write("v.npy", writers.npy("F64", [WIDTH], writers.f64(values)))
        # + 0.0: a row of zeros plus -0.0 is 0
        self.assert_steered({"file": "v.npy"}, [value + 0.0 for value in values])

    def test_a_range_of_a_raw_file(self):
        self.write("v.f32", writers.f32([9.0] + FLAT))
        self.assert_steered({"file": "v.f32", "offset": 1, "count": WIDTH}, VALUES[0])
        self.assert_steered({"file": "v.f32", "offset": 1 + WIDTH, "count": WIDTH}, VALUES[1])
        self.assert_steered({"file": "v.f32", "offset": 1, "count": WIDTH, "row": 2}, VALUES[2])
        self.assert_steered({"file": "v.f32", "count": WIDTH}, [9.0] + VALUES[0][:-1])

    def test_the_content_tells_the_format_and_not_the_name(self):
        content = writers.f32(FLAT)
        self.write("numpy", writers.npy("F32", [3, WIDTH], content))
        self.assert_steered({"file": "numpy", "row": 1}, VALUES[1])
        self.write("named.bin", writers.safetensors([("v", "F32", [3, WIDTH], content)], {}))
        self.assert_steered({"file": "named.bin", "tensor": "v", "row": 1}, VALUES[1])
        self.write("raw.bin", content)
        self.assert_steered({"file": "raw.bin", "count": WIDTH, "row": 1}, VALUES[1])
        self.write("w.json", small_workload(vectors={"v": {"file": "raw.bin"}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("'raw.bin' is none of safetensors, GGUF, .npy and JSON directions", line)
        self.write("w.json", small_workload(vectors={"v": {"file": "named.bin"}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("name one of its 1, see 'steergraph vectors ls'", line)

    def test_float64_in_safetensors(self):
        content = writers.f64(VALUES[2])
        self.write("v.safetensors", writers.safetensors([("v", "F64", [WIDTH], content)], {}))
        self.assert_steered({"file": "v.safetensors", "tensor": "v"}, VALUES[2])

    def test_rows_of_a_batch_from_numpy_and_raw(self):
        self.write("h.npy", writers.npy("F64", [3, WIDTH], writers.f64(FLAT)))
        self.write("h.f32", writers.f32([7.0, 8.0] + FLAT))
        ones = {"values": [1] * WIDTH}
        expected = [writers.f32([x + 1 for x in VALUES[0]]), writers.f32(VALUES[1]),
                    writers.f32([x + 1 for x in VALUES[2]])]  # fmt: skip
        for source in ({"file": "h.npy"}, {"file": "h.f32", "offset": 2, "count": 3 * WIDTH}):
            with self.subTest(source=source):
                self.assertEqual(self.steer(ones, input={"hidden": source}), expected)

    def test_a_file_that_is_read_is_not_replaced(self):
        self.write("v.npy", writers.npy("F32", [WIDTH], writers.f32(VALUES[0])))
        spec = self.write("w.json", small_workload(vectors={"v": {"file": "v.npy"}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--output", "v.npy", spec)
        self.assertIn("would replace a file that is read (vectors.v)", line)

    def test_a_tensor_of_gguf_in_both_versions_and_every_type(self):
        for version in (2, 3):
            for dtype in ("F16", "BF16", "F32", "F64"):
                with self.subTest(version=version, dtype=dtype):
                    layers = {n + 1: VALUES[n] for n in range(3)}
                    self.write("v.gguf", writers.control_vector(layers, "m", dtype, version))
                    self.assert_steered({"file": "v.gguf", "tensor": "direction.3"}, VALUES[2])

    def test_a_layer_of_json_directions(self):
        self.write("v.json", writers.directions({2: VALUES[0], 12: VALUES[1]}, note="by hand"))
        self.assert_steered({"file": "v.json", "tensor": "12"}, VALUES[1])
        self.write("v.txt", writers.directions({2: VALUES[0], 12: VALUES[1]}))
        self.assert_steered({"file": "v.txt", "tensor": "2"}, VALUES[0])
        self.write("v.json", writers.directions({1: VALUES[0][:3]}))
        self.write("w.json", small_workload(vectors={"v": {"file": "v.json", "tensor": "1"}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("vectors.v: tensor '1' has shape [3]; needed: [8], by geometry.hidden_size", line)

    def test_a_row_of_a_matrix_of_gguf(self):
        tensors = [("odd", "F16", [3], bytes(6)), ("m", "F32", [3, WIDTH], writers.f32(FLAT))]
        self.write("v.gguf", writers.gguf(tensors, [("general.alignment", "u32", 8)]))
        for row in range(3):
            with self.subTest(row=row):
                self.assert_steered({"file": "v.gguf", "tensor": "m", "row": row}, VALUES[row])

    def test_a_vector_for_each_layer(self):
        named = [(f"layer.{n}.axis", "F32", [WIDTH], writers.f32(VALUES[n])) for n in range(3)]
        self.write("v.safetensors", writers.safetensors(named, {}))
        self.write("v.gguf", writers.control_vector({n + 1: VALUES[n] for n in range(3)}))
        self.write("v.json", writers.directions(dict(enumerate(VALUES))))
        self.write("v.npy", writers.npy("F32", [3, WIDTH], writers.f32(FLAT)))
        self.write("v.f32", writers.f32([9.0] + FLAT))
        self.write("m.safetensors", writers.safetensors([("m", "F32", [3, WIDTH], writers.f32(FLAT))], {}))
        sources = [
            ({"file": "v.safetensors", "tensor": "layer.{}.axis"}, 0),
            ({"file": "v.gguf", "tensor": "direction.{}"}, 1),
            ({"file": "v.json", "tensor": "{}"}, 0),
            ({"file": "v.npy", "row": "{}"}, 0),
            ({"file": "v.f32", "offset": 1, "count": WIDTH, "row": "{}"}, 0),
            ({"file": "m.safetensors", "tensor": "m", "row": "{}"}, 0),
        ]
        for source, first in sources:
            for n in range(3):
                with self.subTest(source=source, n=n):
                    self.assert_steered(source, VALUES[n], v=f"v[{first + n}]")

    def test_a_damaged_gguf_file_and_a_missing_tensor(self):
        data = writers.control_vector({1: VALUES[0]})
        self.write("v.gguf", data)
        self.write("w.json", small_workload(vectors={"v": {"file": "v.gguf", "tensor": "direction.2"}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("has no tensor 'direction.2'; nearest of 1: 'direction.1'", line)
        self.write("v.gguf", data[:-8])
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("tensor 'direction.1' ends at byte 32 of the data, the file has 24", line)


class Words(Case):
    """What a file says of itself, where a tensor of it is named in `vectors`."""

    def spec(self, source, v="v", **geometry):
        workload = small_workload(vectors={"v": source})
        workload["geometry"].update(geometry)
        workload["slots"]["up"]["layers"]["0"] = [{"op": "add", "v": v}]
        return self.write("w.json", workload)

    def write_hinted(self):
        """A source of each format that has a hint, and of what `convert` makes of it."""
        self.write("c.gguf", writers.control_vector({1: VALUES[0]}, "mistral"))
        self.write("c.json", writers.directions({1: VALUES[0]}, model_hint="mistral"))
        self.succeed("vectors", "convert", "c.gguf", "-o", "c.safetensors")
        return [
            ({"file": "c.gguf", "tensor": "direction.1"}, "v"),
            ({"file": "c.gguf", "tensor": "direction.{}"}, "v[1]"),
            ({"file": "c.json", "tensor": "1"}, "v"),
            ({"file": "c.safetensors", "tensor": "direction.1"}, "v"),
        ]

    def test_a_vector_of_another_model_is_refused(self):
        for source, v in self.write_hinted():
            with self.subTest(source=source):
                spec = self.spec(source, v, model="qwen2")
                line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", spec)
                place = "vectors.v" if v == "v" else "vectors.v: 'v[1]'"
                self.assertIn(f"w.json: {place}: '{source['file']}' is for model 'mistral' (its model_hint), "
                              "geometry.model is 'qwen2'; use one made for it", line)  # fmt: skip

    def notes(self, spec):
        report = self.succeed("run", "--backend", "cpu", "--no-timing", "--json", spec).json()
        self.assertTrue(report["ok"])
        text = self.succeed("run", "--backend", "cpu", "--no-timing", spec).out
        for note in report["notes"]:
            self.assertIn(note, text)
        return report["notes"]

    def test_a_hint_without_a_model_and_what_a_file_asks_for_are_noted(self):
        for source, v in self.write_hinted():
            with self.subTest(source=source):
                self.assertEqual(self.notes(self.spec(source, v, model="Mistral")), [])
                note = f"vectors.v: {source['file']} is for model 'mistral' by its own word; geometry.model is not given"
                self.assertEqual(self.notes(self.spec(source, v)), [note])
        tensors = [("direction.1", "F32", [WIDTH], writers.f32(VALUES[0]))]
        keys = [("glp.mode", "string", "project"), ("glp.hook_point", "string", "attn_out")]
        self.write("c.gguf", writers.gguf(tensors, keys))
        self.assertEqual(self.notes(self.spec({"file": "c.gguf", "tensor": "direction.1"})), [
            "vectors.v: c.gguf says glp.mode 'project', which is no addition; slots.up.layers.0[0] does what its op says",
            "vectors.v: c.gguf says glp.hook_point 'attn_out', not the end of a block; it acts where the slot's layers say",
        ])  # fmt: skip


class Vectors(Case):
    def test_ls_and_show_gguf(self):
        path = self.write("v.gguf", writers.control_vector({1: [3, 4], 2: [0, -2]}, "mistral"))
        report = self.succeed("vectors", "ls", "--json", path).json()
        shapes = [(t["name"], t["dtype"], t["shape"]) for t in report["tensors"]]
        self.assertEqual(shapes, [("direction.1", "F32", [2]), ("direction.2", "F32", [2])])
        self.assertEqual(report["metadata"]["controlvector.model_hint"], "mistral")
        self.assertRegex(self.succeed("vectors", "ls", path).out, r"(?m)^direction.2 +F32 +\[2\] +2$")
        report = self.succeed("vectors", "show", "--json", path, "direction.1").json()
        self.assertEqual([row["norm"] for row in report["tensors"][0]["rows"]], [5])

    def test_ls_and_show_json_directions(self):
        path = self.write("v.json", writers.directions({7: [3, 4], 0: [0, -2]}, model_hint="m"))
        report = self.succeed("vectors", "ls", "--json", path).json()
        shapes = [(t["name"], t["dtype"], t["shape"]) for t in report["tensors"]]
        self.assertEqual(shapes, [("7", "F32", [2]), ("0", "F32", [2])])
        self.assertEqual(report["metadata"], {"controlvector.model_hint": "m"})
        self.assertIn("  model   m (model_hint)\n", self.succeed("vectors", "ls", path).out)
        report = self.succeed("vectors", "show", "--json", path, "7").json()
        self.assertEqual([row["norm"] for row in report["tensors"][0]["rows"]], [5])

    def test_ls_and_show_an_array_of_numpy(self):
        path = self.write("v.npy", writers.npy("F64", [2, 3], writers.f64([3, 4, 0, 0, 0, -2])))
        report = self.succeed("vectors", "ls", "--json", path).json()
        self.assertEqual(report["tensors"], [{"name": "array", "dtype": "<f8", "shape": [2, 3]}])
        self.assertRegex(self.succeed("vectors", "ls", path).out, r"(?m)^array +<f8 +\[2, 3\]$")
        rows = self.succeed("vectors", "show", "--json", path, "array").json()["tensors"][0]["rows"]
        self.assertEqual([row["norm"] for row in rows], [5, 2])
        self.assertEqual([row["max_abs"] for row in rows], [4, 2])

    def test_norms_of_float64_beyond_float32(self):
        path = self.write("v.npy", writers.npy("F64", [2], writers.f64([3e200, 4e200])))
        row = self.succeed("vectors", "show", "--json", path).json()["tensors"][0]["rows"][0]
        self.assertTrue(math.isclose(row["norm"], 5e200, rel_tol=1e-15))
        self.assertEqual((row["max_abs"], row["non_finite"]), (4e200, 0))

    def test_ls_and_show_a_raw_file_of_a_given_width(self):
        path = self.write("v.f32", writers.f32([3, 4, float("inf"), 1, 0, 2]))
        report = self.succeed("vectors", "ls", "--json", "--width", "2", path).json()
        self.assertEqual(report["tensors"], [{"name": "raw", "dtype": "F32", "shape": [3, 2]}])
        rows = self.succeed("vectors", "show", "--json", "--width=2", path).json()["tensors"][0]["rows"]
        self.assertEqual([row["norm"] for row in rows], [5, "nan", 2])
        self.assertEqual([row["non_finite"] for row in rows], [0, 1, 0])
        line = self.refuse(FAILED, "vectors", "ls", path)
        self.assertIn("say how wide it is", line)
        self.assertIn("--width", line)
        line = self.refuse(FAILED, "vectors", "ls", "--width", "4", path)
        self.assertIn("6 float32 elements are no whole number of rows of 4; it is cut short, or of another width", line)

    def test_a_width_that_is_none_is_a_wrong_word(self):
        path = self.write("v.f32", writers.f32([1, 2]))
        for width in ("0", "-1", "2x", "1e3", "1000000000", "99999999999999999999"):
            with self.subTest(width=width):
                line = self.refuse(WRONG, "vectors", "ls", f"--width={width}", path)
                self.assertIn(f"--width '{width}'", line)

    def test_a_file_that_says_what_it_is_takes_no_width(self):
        path = self.write("v.npy", writers.npy("F32", [2], struct.pack("<2f", 1, 2)))
        line = self.refuse(FAILED, "vectors", "show", "--width", "2", path)
        self.assertIn("is .npy 1.0, and --width goes with a raw file; leave it out", line)


tap.main()
