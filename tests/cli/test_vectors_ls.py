#!/usr/bin/env python3
"""`steergraph vectors ls`: what is in a file of each format, its layers, and what it says of itself."""
import sys

import tap
from cli import FAILED, ROOT, WRONG, Case
from terminal import lines_on_terminal

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402

LAYERS = {n: [n / 4, -1, 2, 0] for n in (1, 2, 4)}


def named(names, dtype="F32", shape=(4,)):
    count = 1
    for extent in shape:
        count *= extent
    return [(name, dtype, list(shape), writers.ELEMS[dtype]([1.0] * count)) for name in names]


class Ls(Case):
    def ls(self, data, *words, name="v.bin"):
        return self.succeed("vectors", "ls", "--json", self.write(name, data), *words).json()

    def lines(self, data, *words, name="v.bin"):
        self.write(name, data)
        return self.succeed("vectors", "ls", name, *words).out.splitlines()

    def test_a_control_vector_in_text(self):
        data = writers.control_vector(LAYERS, "mistral")
        lines = self.lines(data, name="happy.gguf")
        self.assertEqual(
            lines,
            [
                f"happy.gguf: GGUF v3 control vector, 3 tensors, {len(data)} B",
                "  model   mistral (controlvector.model_hint)",
                "  mode    add (no key says otherwise)",
                "  layers  1 to 4 by 'direction.{}', missing 3; N acts at block N",
                "tensor       dtype  shape  layer",
                "direction.1  F32    [4]        1",
                "direction.2  F32    [4]        2",
                "direction.4  F32    [4]        4",
            ],
        )

    def test_a_control_vector_in_json(self):
        data = writers.control_vector(LAYERS, "mistral", "F16", 2)
        report = self.ls(data)
        tensors = report.pop("tensors")
        self.assertEqual(
            report,
            {
                "file": str(self.folder / "v.bin"),
                "format": "GGUF v2",
                "size_bytes": len(data),
                "control_vector": True,
                "model_hint": "mistral",
                "mode": "add",
                "layers": {"pattern": "direction.{}", "first": 1, "last": 4, "missing": [3]},
                "metadata": {
                    "general.architecture": "controlvector",
                    "controlvector.model_hint": "mistral",
                    "controlvector.layer_count": "3",
                },
                "notes": [],
            },
        )
        self.assertEqual(tensors[2], {"name": "direction.4", "dtype": "F16", "shape": [4], "layer": 4})

    def test_what_a_file_says_that_is_no_addition(self):
        metadata = [
            ("general.architecture", "string", "controlvector"),
            ("glp.mode", "string", "project"),
            ("glp.hook_point", "string", "ffn_out_pre_residual"),
            ("glp.structure", "string", "per-execution-step"),
            ("glp.alpha_default", "f32", 1.5),
        ]
        data = writers.gguf(named(["direction.1"]), metadata)
        lines = self.lines(data)
        for line in (
            "  mode       project (glp.mode)",
            "  place      ffn_out_pre_residual (glp.hook_point)",
            "  structure  per-execution-step (glp.structure)",
            "  alpha      1.5 (glp.alpha_default)",
        ):
            self.assertIn(line, lines)
        self.assertNotIn("(no key says otherwise)", "\n".join(lines))
        self.assertEqual(self.ls(data)["mode"], "project")

    def test_long_values_are_cut_in_text_and_whole_in_json(self):
        hint, key = "a" + "h" * 5000 + "z", "k" * 300 + ".mode"
        metadata = [("general.architecture", "string", "controlvector"), ("controlvector.model_hint", "string", hint),
                    (key, "string", "project")]  # fmt: skip
        data = writers.gguf(named(["direction.1"]), metadata)
        lines = self.lines(data)
        self.assertEqual(lines[1], f"  model   a{'h' * 31}\N{HORIZONTAL ELLIPSIS}{'h' * 30}z (controlvector.model_hint)")
        self.assertLess(max(map(len, lines)), 160)
        self.assertEqual(self.ls(data)["model_hint"], hint)
        data = writers.gguf(named(["a"]), [("general.architecture", "string", hint)])
        self.assertLess(len(self.lines(data)[0]), 160)

    def test_block_0_is_not_said_to_be_steered(self):
        data = writers.control_vector({0: [1, 2], 1: [3, 4]})
        line = "  layers  0 to 1 by 'direction.{}', none missing; N acts at block N, but block 0 is never steered by a control vector"
        self.assertIn(line, self.lines(data))

    def test_a_model_is_called_one(self):
        data = writers.gguf(named(["token_embd.weight", "output.weight"], shape=(2, 4)),
                            [("general.architecture", "string", "llama")])  # fmt: skip
        self.assertIn("GGUF v3 of a model (llama), 2 tensors, ", self.lines(data)[0])
        report = self.ls(data)
        self.assertEqual((report["control_vector"], report["mode"], report["layers"]), (False, None, None))

    def test_layers_are_told_by_names_of_any_format(self):
        for names, pattern, first, last, missing in (
            (["layer.0", "layer.1"], "layer.{}", 0, 1, []),
            (["model.layers.7.axis", "model.layers.5.axis"], "model.layers.{}.axis", 5, 7, [6]),
            (["12"], "{}", 12, 12, []),
        ):
            with self.subTest(names=names):
                report = self.ls(writers.safetensors(named(names), {}))
                self.assertEqual(
                    report["layers"], {"pattern": pattern, "first": first, "last": last, "missing": missing}
                )
                self.assertEqual([t["name"] for t in report["tensors"]], names)
                self.assertNotIn("acts at block", "\n".join(self.lines(writers.safetensors(named(names), {}))))

    def test_json_directions_are_named_by_their_layers(self):
        report = self.ls(writers.directions({12: [1, 2], 14: [3, 4]}))
        self.assertEqual(report["format"], "JSON directions")
        self.assertEqual(report["layers"], {"pattern": "{}", "first": 12, "last": 14, "missing": [13]})
        self.assertEqual([(t["name"], t["shape"], t["layer"]) for t in report["tensors"]], [("12", [2], 12), ("14", [2], 14)])

    def test_names_that_tell_no_layers(self):
        for names in (["a", "b"], ["layer.1", "other"], ["layer.01", "layer.2"]):
            with self.subTest(names=names):
                data = writers.safetensors(named(names), {})
                report = self.ls(data)
                self.assertIsNone(report["layers"])
                self.assertNotIn("layer", report["tensors"][0])
                self.assertEqual(self.lines(data)[1].split(), ["tensor", "dtype", "shape"])

    def test_rows_of_one_array_are_layers(self):
        data = writers.npy("F32", [3, 2], writers.f32([1.0] * 6))
        self.assertEqual(self.ls(data)["layers"], {"pattern": None, "first": 0, "last": 2, "missing": []})
        self.assertEqual(self.lines(data)[1], "  layers  0 to 2 by row")
        data = writers.f32([1.0] * 6)
        self.assertEqual(self.ls(data, "--width", "2")["layers"]["last"], 2)
        self.assertIn("raw float32, 1 tensor, 24 B", self.lines(data, "--width", "3")[0])

    def test_a_long_list_of_missing_layers_is_cut_in_text(self):
        data = writers.safetensors(named(["layer.0", "layer.20"]), {})
        self.assertEqual(self.lines(data)[1], "  layers  0 to 20 by 'layer.{}', missing 1 2 3 4 5 6 7 8 and 11 more")
        self.assertEqual(self.ls(data)["layers"]["missing"], list(range(1, 20)))

    def test_values_that_are_none_are_said_and_the_list_is_there(self):
        metadata = [("general.architecture", "string", "controlvector"),
                    ("controlvector.model_hint", "string", "mis\ntral")]  # fmt: skip
        data = writers.gguf(named(["direction.1"]), metadata)
        lines = self.lines(data)
        self.assertIn("  note    v.bin: its model_hint holds control characters", lines)
        self.assertEqual(lines[-1], "direction.1  F32    [4]        1")
        report = self.ls(data)
        self.assertEqual(len(report["notes"]), 1)
        self.assertIsNone(report["model_hint"])

    def test_tensors_that_are_not_read_are_listed(self):
        data = writers.safetensors([("q", "I64", [2], bytes(16)), ("v", "F32", [2], writers.f32([1, 2]))], {})
        self.assertEqual([t["dtype"] for t in self.ls(data)["tensors"]], ["I64", "F32"])

    def test_it_fits_the_terminal(self):
        names = [f"model.layers.{n}.a_rather_long_name_of_a_direction_in_the_residual_stream" for n in range(12)]
        path = "a" * 30 + "/" + "b" * 40 + ".safetensors"
        self.write(path, writers.safetensors(named(names, shape=(1, 1, 4)), {}))
        whole = self.succeed("vectors", "ls", path).out.splitlines()
        self.assertIn(names[3], whole[6])
        for columns in (200, 100, 80, 60, 40):
            with self.subTest(columns=columns):
                lines = lines_on_terminal(self, columns, "vectors", "ls", path)
                self.assertEqual(len(lines), 3 + 12)
                self.assertLessEqual(max(len(line) for line in lines), columns)
                self.assertIn("12 tensors", lines[0])
                self.assertIn("[1, 1, 4]", lines[-1])
        self.assertEqual(lines_on_terminal(self, 200, "vectors", "ls", path), whole)
        self.assertIn("\N{HORIZONTAL ELLIPSIS}", lines_on_terminal(self, 60, "vectors", "ls", path)[-1])

    def test_control_characters_do_not_reach_the_terminal(self):
        self.write("e\x1b[31m.safetensors", writers.safetensors(named(["v"]), {"k": "\x1b]0;x\x07"}))
        out = self.succeed("vectors", "ls", "e\x1b[31m.safetensors").out
        self.assertNotIn("\x1b", out)

    def test_words_that_are_wrong(self):
        path = self.write("v.f32", writers.f32([1, 2]))
        self.assertIn("FILE is missing", self.refuse(WRONG, "vectors", "ls"))
        self.assertIn("--width 'two'", self.refuse(WRONG, "vectors", "ls", "--width", "two", path))
        self.assertIn("--width", self.refuse(FAILED, "vectors", "ls", path))


tap.main()
