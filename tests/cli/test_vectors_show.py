#!/usr/bin/env python3
"""`steergraph vectors show`: norms, their bars, and cosines with the vectors of another file."""
import math
import sys

import tap
from cli import FAILED, ROOT, WRONG, Case
from terminal import lines_on_terminal

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402

NAN, INF = math.nan, math.inf


class Show(Case):
    def show(self, *words):
        return self.succeed("vectors", "show", "--json", *words).json()

    def bars(self, *words):
        """The lines behind the table, from the title on."""
        lines = self.succeed("vectors", "show", *words).out.splitlines()
        titles = [k for k, line in enumerate(lines) if line.startswith("norm by ")]
        return lines[titles[0] :] if titles else []

    def cosines(self, *words):
        """In the order of the rows, from JSON; the text has the same to 4 digits."""
        rows = [row for tensor in self.show(*words)["tensors"] for row in tensor["rows"]]
        found = [row["cosine"] for row in rows]
        lines = self.succeed("vectors", "show", *words).out.splitlines()
        self.assertEqual(lines[0].split()[-1], "cosine")
        said = [line.split()[-1] for line in lines[1 : 1 + len(rows)]]
        self.assertEqual(said, ["-" if c is None else f"{c:.4f}" for c in found])
        return found


class Rows(Show):
    def test_one_row_alone(self):
        self.write("v.npy", writers.npy("F32", [3, 2], writers.f32([3, 4, 0, 0, 0, -2])))
        rows = self.show("v.npy", "--row", "2")["tensors"][0]["rows"]
        self.assertEqual(rows, [{"row": 2, "norm": 2, "max_abs": 2, "non_finite": 0}])
        lines = self.succeed("vectors", "show", "v.npy", "--row", "0").out.splitlines()
        self.assertEqual([line.split() for line in lines[1:]], [["array", "0", "5", "4", "0"]])

    def test_a_row_that_is_not_there(self):
        self.write("v.npy", writers.npy("F32", [3, 2], writers.f32([0] * 6)))
        line = self.refuse(FAILED, "vectors", "show", "v.npy", "--row", "3")
        self.assertIn("'v.npy': --row 3, but tensor 'array' has 3 rows", line)
        for row in ("-1", "x", "1.0", "12345678901"):
            self.assertIn(f"--row '{row}'", self.refuse(WRONG, "vectors", "show", "v.npy", f"--row={row}"))

    def test_a_row_of_a_raw_file(self):
        self.write("v.f32", writers.f32([3, 4, 0, 1]))
        rows = self.show("v.f32", "--width", "2", "--row", "1")["tensors"][0]["rows"]
        self.assertEqual([row["norm"] for row in rows], [1])

    def test_tensors_that_are_not_read_have_no_rows(self):
        self.write("v.st", writers.safetensors([("q", "I64", [2], bytes(16)), ("v", "F16", [1], writers.f16([2]))], {}))
        report = self.show("v.st")
        self.assertNotIn("rows", report["tensors"][0])
        self.assertEqual(report["tensors"][1]["rows"][0]["norm"], 2)
        lines = self.succeed("vectors", "show", "v.st").out.splitlines()
        self.assertEqual([line.split()[0] for line in lines[:-1]], ["tensor", "v"])
        self.assertEqual(lines[-1], "1 tensor not shown, whose elements are not read: 'q' (I64)")
        self.assertIn("has dtype I64", self.refuse(FAILED, "vectors", "show", "v.st", "q"))


class Bars(Show):
    def test_layers_with_one_missing_and_one_not_finite(self):
        layers = {1: [1, 0], 2: [0, 2], 4: [4, 0], 5: [NAN, INF], 6: [0.04, 0]}
        self.write("v.gguf", writers.control_vector(layers))
        self.assertEqual(
            self.bars("v.gguf"),
            [
                "norm by layer, 0 to 4",
                "   1        1  " + "#" * 10,
                "   2        2  " + "#" * 20,
                "   3        -  missing",
                "   4        4  " + "#" * 40,
                "   5      nan  ? 2 non-finite",
                "   6     0.04",
            ],
        )
        norms = [(layer["layer"], layer["norm"]) for layer in self.show("v.gguf")["layers"]]
        self.assertEqual(norms[:5], [(1, 1), (2, 2), (3, None), (4, 4), (5, "nan")])

    def test_lengths_are_rounded_to_the_nearest(self):
        # of 40 columns: 0.49, 0.5, 1.49, 1.51
        layers = {0: [40, 0], 1: [0.49, 0], 2: [0.5, 0], 3: [1.49, 0], 4: [1.51, 0]}
        tensors = [(f"l.{n}", "F64", [2], writers.f64(v)) for n, v in layers.items()]
        self.write("v.st", writers.safetensors(tensors, {}))
        self.assertEqual([line.count("#") for line in self.bars("v.st")[1:]], [40, 0, 1, 1, 2])

    def test_equal_norms_and_zeros(self):
        self.write("v.gguf", writers.control_vector({n: [0, 3] for n in (1, 2, 3)}))
        self.assertEqual([line.count("#") for line in self.bars("v.gguf")[1:]], [40, 40, 40])
        self.write("v.gguf", writers.control_vector({n: [0, 0] for n in (1, 2)}))
        self.assertEqual(self.bars("v.gguf"), ["norm by layer, 0 to 0", "   1        0", "   2        0"])

    def test_rows_of_one_tensor_and_single_vectors(self):
        self.write("v.npy", writers.npy("F32", [2, 2], writers.f32([1, 0, 0, 2])))
        self.assertEqual(self.bars("v.npy")[0], "norm by row, 0 to 2")
        self.assertEqual(self.show("v.npy")["layers"], [{"layer": 0, "norm": 1}, {"layer": 1, "norm": 2}])
        self.assertEqual(self.bars("v.npy", "--row", "1"), [])
        tensors = [("a", "F32", [2, 2], writers.f32([3, 4, 0, 2])), ("b", "F32", [2], writers.f32([1, 1]))]
        self.write("v.st", writers.safetensors(tensors, {}))
        self.assertEqual(self.bars("v.st"), [])
        self.assertEqual(self.bars("v.st", "a")[1:], ["   0        5  " + "#" * 40, "   1        2  " + "#" * 16])
        self.assertEqual(self.bars("v.st", "b"), [])
        self.assertIsNone(self.show("v.st", "b")["layers"])

    def test_norms_beyond_float32_and_of_other_types(self):
        tensors = [("l.0", "F64", [2], writers.f64([1e300, 0])), ("l.1", "F64", [2], writers.f64([5e299, 0])),
                   ("l.2", "I64", [2], bytes(16))]  # fmt: skip
        self.write("v.st", writers.safetensors(tensors, {}))
        self.assertEqual(self.bars("v.st")[0], "norm by layer, 0 to 1e+300")
        self.assertEqual([line.count("#") for line in self.bars("v.st")[1:]], [40, 20, 0])
        self.assertEqual(self.bars("v.st")[3], "   2        -  I64 is not read")

    def test_bars_fit_the_terminal(self):
        self.write("v.gguf", writers.control_vector({n: [n, 0] for n in range(1, 33)}))
        for columns in (200, 80, 60, 40):
            with self.subTest(columns=columns):
                lines = lines_on_terminal(self, columns, "vectors", "show", "v.gguf", "--cosine", "v.gguf")
                self.assertLessEqual(max(len(line) for line in lines), columns)
                self.assertEqual(lines[-1].count("#"), columns - 20)
                self.assertEqual(lines[-16].count("#"), math.floor(17 / 32 * (columns - 20) + 0.5))
                self.assertRegex(lines[1], r"1\.0000$")


class Cosine(Show):
    def setUp(self):
        super().setUp()
        self.write("layers.gguf", writers.control_vector({1: [1, 0, 0], 2: [0, 2, 0], 3: [3, 3, 0], 5: [0, 0, 0]}))
        self.write("one.npy", writers.npy("F64", [3], writers.f64([2, 0, 0])))

    def test_one_vector_against_every_row(self):
        found = self.cosines("layers.gguf", "--cosine", "one.npy")
        self.assertEqual(found[:2], [1, 0])
        self.assertAlmostEqual(found[2], math.sqrt(0.5), delta=1e-15)
        self.assertIsNone(found[3], "the norm is 0")
        self.write("other.npy", writers.npy("F16", [3], writers.f16([-0.5, 0, 0])))
        self.assertEqual(self.cosines("layers.gguf", "--cosine", "other.npy")[:2], [-1, 0])

    def test_a_row_or_a_tensor_that_is_named(self):
        self.write("rows.npy", writers.npy("F32", [2, 3], writers.f32([1, 0, 0, 0, 1, 0])))
        self.assertEqual(self.cosines("layers.gguf", "--cosine", "rows.npy", "--cosine-row", "1")[:2], [0, 1])
        self.assertEqual(
            self.cosines("layers.gguf", "--cosine", "layers.gguf", "--cosine-tensor", "direction.2")[:2], [0, 1]
        )
        self.assertEqual(self.cosines("layers.gguf", "direction.2", "--cosine", "one.npy"), [0])

    def test_layer_by_layer_by_their_numbers(self):
        tensors = [(f"l.{n}", "F16", [3], writers.f16(v)) for n, v in ((3, [1, 1, 0]), (0, [9, 9, 9]), (2, [0, -1, 0]))]
        self.write("other.st", writers.safetensors(tensors, {}))
        found = self.cosines("layers.gguf", "--cosine", "other.st")
        self.assertEqual([found[0], found[1], found[3]], [None, -1, None])
        self.assertAlmostEqual(found[2], 1, delta=1e-15)
        self.write("other.json", writers.directions({2: [0, 5, 0], 1: [-1, 0, 0]}))
        self.assertEqual(self.cosines("layers.gguf", "--cosine", "other.json"), [-1, 1, None, None])
        # rows of an array have the numbers of layers
        self.write("rows.npy", writers.npy("F32", [3, 3], writers.f32([1, 0, 0, -1, 0, 0, 0, 1, 1])))
        found = self.cosines("layers.gguf", "--cosine", "rows.npy")
        self.assertEqual((found[0], found[2:]), (-1, [None, None]))
        self.assertAlmostEqual(found[1], math.sqrt(0.5), delta=1e-15)
        found = self.cosines("rows.npy", "--cosine", "layers.gguf")
        self.assertEqual(found[:2], [None, -1])
        self.assertEqual(self.cosines("rows.npy", "--cosine", "rows.npy")[:2], [1, 1])

    def test_where_there_is_none(self):
        self.write("wide.npy", writers.npy("F32", [4], writers.f32([1, 0, 0, 0])))
        self.assertEqual(self.cosines("layers.gguf", "--cosine", "wide.npy"), [None] * 4)
        for values in ([0, 0, 0], [NAN, 1, 1], [INF, 1, 1]):
            self.write("none.npy", writers.npy("F32", [3], writers.f32(values)))
            self.assertEqual(self.cosines("layers.gguf", "--cosine", "none.npy"), [None] * 4)
            self.assertEqual(self.cosines("none.npy", "--cosine", "one.npy"), [None])
        self.assertNotIn("cosine", self.show("layers.gguf")["tensors"][0]["rows"][0])

    def test_the_width_is_for_the_file_that_is_raw(self):
        self.write("raw.f32", writers.f32([5, 0, 0]))
        self.assertEqual(self.cosines("layers.gguf", "--cosine", "raw.f32", "--width", "3")[:2], [1, 0])
        self.assertEqual(self.cosines("raw.f32", "--cosine", "one.npy", "--width", "3"), [1])
        self.assertEqual(self.cosines("raw.f32", "--cosine", "raw.f32", "--width", "3"), [1])
        line = self.refuse(FAILED, "vectors", "show", "one.npy", "--cosine", "layers.gguf", "--width", "3",
                           "--cosine-tensor", "direction.1")  # fmt: skip
        self.assertIn("--width goes with a raw file", line)

    def test_what_is_not_there_or_not_clear(self):
        mixed = [("a", "F32", [1], writers.f32([1])), ("b", "F32", [1], writers.f32([1]))]
        self.write("mixed.st", writers.safetensors(mixed, {}))
        for words, said in (
            (("layers.gguf", "--cosine", "mixed.st"), "'mixed.st' has several vectors"),
            (("mixed.st", "--cosine", "layers.gguf"), "the names in 'mixed.st' tell no layers"),
            (("layers.gguf", "--cosine", "mixed.st", "--cosine-row", "0"), "of which of its 2 tensors"),
            (("layers.gguf", "--cosine", "one.npy", "--cosine-row", "1"), "tensor 'array' has 1 row"),
            (("layers.gguf", "--cosine", "mixed.st", "--cosine-tensor", "c"), "has no tensor 'c'"),
            (("layers.gguf", "--cosine", "nowhere.st"), "nowhere.st"),
        ):
            with self.subTest(words=words):
                self.assertIn(said, self.refuse(FAILED, "vectors", "show", *words))
        for words in (("--cosine-row", "1"), ("--cosine-tensor", "a")):
            line = self.refuse(WRONG, "vectors", "show", "layers.gguf", *words)
            self.assertIn(f"{words[0]} goes with --cosine FILE", line)


tap.main()
