#!/usr/bin/env python3
"""`steergraph vectors convert`: elements, names and metadata of the file that is written, read by the
format's definition (cli.py) and nothing of ours; and when none is written."""
import math
import os
import sys

import tap
from cli import FAILED, ROOT, WRONG, Case, read_safetensors, small_workload

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402

LAYERS = {n: [n / 4, -1.5, 2, 0] for n in (1, 2, 4)}
NAN, INF = math.nan, math.inf


class Convert(Case):
    def convert(self, *words):
        """({name: tensor}, metadata, report) of what these words write to out.st."""
        report = self.succeed("vectors", "convert", *words, "-o", "out.st", "--json").json()
        path = self.folder / "out.st"
        tensors, metadata = read_safetensors(path)
        self.assertEqual(report["output"], "out.st")
        self.assertEqual(report["output_bytes"], path.stat().st_size)
        names = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
        listed = [(t["name"], t["dtype"], t["shape"]) for t in report["tensors"]]
        self.assertEqual(listed, [(n, names[t.dtype], t.shape) for n, t in tensors.items()])
        self.assertEqual(report["conversion"], metadata["conversion"])
        return tensors, metadata, report

    def refuse_convert(self, *words, code=FAILED):
        before = sorted(os.listdir(self.folder))
        line = self.refuse(code, "vectors", "convert", *words)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return line


class Elements(Convert):
    def test_every_format_keeps_its_bits(self):
        flat = sum(LAYERS.values(), [])
        for name, data, words in (
            ("v.gguf", writers.control_vector(LAYERS, dtype="F16", version=2), ()),
            ("v.gguf", writers.control_vector(LAYERS, dtype="BF16"), ()),
            ("v.st", writers.safetensors([("a", "F32", [3, 4], writers.f32(flat))], {}), ()),
            ("v.npy", writers.npy("F16", [3, 4], writers.f16(flat), 2), ()),
            ("v.f32", writers.f32(flat), ("--width", "4")),
            ("v.json", writers.directions(LAYERS), ()),
        ):
            with self.subTest(name=name):
                self.write(name, data)
                tensors, metadata, report = self.convert(name, *words)
                self.assertEqual([v for t in tensors.values() for v in t.floats()], flat)
                self.assertEqual((metadata["conversion"], report["non_finite"]), ("none", 0))

    def test_float64_becomes_float32(self):
        values = [0.1, 1 + 2**-24, 1 + 2**-24 + 2**-50, -1e-40, 3.4e38]
        self.write("v.npy", writers.npy("F64", [5], writers.f64(values)))
        tensors, metadata, _ = self.convert("v.npy")
        self.assertEqual(tensors["array"].data, writers.f32(values))
        self.assertEqual(metadata["conversion"], "F64 to F32, rounded to nearest even")

    def test_a_type_for_all(self):
        values = [1 / 3, 1 + 2**-9, -2.7, 65504]
        tensors = [(f"l.{n}", dtype, [4], writers.ELEMS[dtype](values)) for n, dtype in enumerate(writers.ELEMS)]
        self.write("v.st", writers.safetensors(tensors, {}))
        self.assertEqual(list(writers.ELEMS), ["F64", "F32", "F16", "BF16"])
        written, metadata, _ = self.convert("v.st", "--dtype", "bf16")
        for n in range(3):  # of float16, 1/3 is another number already
            self.assertEqual(written[f"l.{n}"].data[2:], writers.bf16(values)[2:], n)
        self.assertEqual(written["l.3"].data, writers.bf16(values))
        self.assertEqual(
            metadata["conversion"],
            "F16 to BF16, rounded to nearest even; F32 to BF16, rounded to nearest even; "
            "F64 to F32 to BF16, each rounded to nearest even",
        )
        written, metadata, _ = self.convert("v.st", "l.2", "l.3", "--dtype", "f32")
        self.assertEqual(metadata["conversion"], "BF16 to F32, exact; F16 to F32, exact")
        self.assertEqual(written["l.2"].data, writers.f32(read_safetensors(self.folder / "v.st")[0]["l.2"].floats()))

    def test_an_element_that_does_not_fit_is_named(self):
        layers = {1: [0, 0], 3: [65504, 1e6]}
        self.write("v.gguf", writers.control_vector(layers))
        line = self.refuse_convert("v.gguf", "-o", "out.st", "--dtype", "f16")
        self.assertIn("'v.gguf': tensor 'direction.3': element 1 is 1e+06, beyond f16; use --dtype f32 or bf16", line)
        self.convert("v.gguf", "direction.1", "--dtype", "f16")
        self.write("v.npy", writers.npy("F64", [2], writers.f64([0, -1e39])))
        for dtype in ((), ("--dtype", "bf16")):
            self.assertIn("element 1 is -1e+39, beyond", self.refuse_convert("v.npy", "-o", "o.st", *dtype))
        self.assertIn("scale the vector first", self.refuse_convert("v.npy", "-o", "o.st"))
        self.write("v.npy", writers.npy("F32", [1], writers.f32([3.4e38])))
        self.assertIn("beyond bf16; use --dtype f32", self.refuse_convert("v.npy", "-o", "o.st", "--dtype", "bf16"))

    def test_what_is_not_finite_stays_so_and_is_said(self):
        self.write("v.npy", writers.npy("F32", [4], writers.f32([NAN, INF, -INF, 1])))
        tensors, _, report = self.convert("v.npy", "--dtype", "f16")
        found = tensors["array"].floats()
        self.assertEqual((math.isnan(found[0]), found[1:]), (True, [INF, -INF, 1]))
        self.assertEqual(report["non_finite"], 3)
        out = self.succeed("vectors", "convert", "v.npy", "-o", "out.st").out
        self.assertRegex(out, r"^out\.st: 1 tensor, \d+ B, from v\.npy \(\.npy 1\.0\), 3 non-finite\n$")

    def test_empty_tensors_and_empty_files(self):
        self.write("v.st", writers.safetensors([("e", "F64", [0, 4], b""), ("s", "F32", [], writers.f32([7]))], {}))
        tensors, _, _ = self.convert("v.st")
        self.assertEqual((tensors["e"].shape, tensors["e"].data), ([0, 4], b""))
        self.assertEqual((tensors["s"].shape, tensors["s"].floats()), ([], [7]))
        self.write("none.st", writers.safetensors([], {}))
        self.assertIn("'none.st' holds no tensors", self.refuse_convert("none.st", "-o", "o.st"))


class Provenance(Convert):
    def test_the_metadata_say_where_it_comes_from(self):
        data = writers.control_vector(LAYERS, "mistral")
        self.write("in/happy.gguf", data)
        _, metadata, report = self.convert("in/happy.gguf")
        version = self.succeed("--version").out.split()[-1]
        self.assertRegex(metadata["source_xxh3"], "^[0-9a-f]{32}$")
        expected = {
            "steergraph": version,
            "source": "happy.gguf",
            "source_format": "GGUF v3",
            "source_bytes": str(len(data)),
            "source_xxh3": metadata["source_xxh3"],
            "conversion": "none",
            "layers": "1 to 4 by 'direction.{}', 1 missing; N acts at block N",
            "gguf.general.architecture": "controlvector",
            "gguf.controlvector.model_hint": "mistral",
            "gguf.controlvector.layer_count": "3",
        }
        self.assertEqual(list(metadata.items()), list(expected.items()))
        self.assertEqual((report["file"], report["format"], report["size_bytes"]),
                         ("in/happy.gguf", "GGUF v3", len(data)))  # fmt: skip

    def test_the_hash_is_that_of_the_bytes(self):
        hashes = set()
        for values in ([1, 2], [1, 3], [1, 2]):
            self.write("v.npy", writers.npy("F32", [2], writers.f32(values)))
            hashes.add(self.convert("v.npy")[1]["source_xxh3"])
        self.assertEqual(len(hashes), 2)

    def test_the_same_file_gives_the_same_bytes(self):
        seen = set()
        for folder in ("a", "b/c"):
            self.write(f"{folder}/v.gguf", writers.control_vector(LAYERS, "mistral"))
            for _ in range(2):
                self.convert(f"{folder}/v.gguf")
                seen.add((self.folder / "out.st").read_bytes())
        self.assertEqual(len(seen), 1)

    def test_own_metadata_are_kept_and_a_control_vector_stays_one(self):
        self.write("v.st", writers.safetensors([("v", "F32", [1], writers.f32([1]))], {"made": "by\nhand", "é": "ü"}))
        metadata = self.convert("v.st")[1]
        self.assertEqual((metadata["source.made"], metadata["source.é"]), ("by\nhand", "ü"))
        self.assertNotIn("layers", metadata)
        self.write("h.gguf", writers.control_vector(LAYERS, "mistral"))
        self.convert("h.gguf", "--name", "layer.{}")
        (self.folder / "out.st").rename(self.folder / "once.st")
        _, metadata, _ = self.convert("once.st")
        self.assertEqual(metadata["gguf.controlvector.model_hint"], "mistral")
        self.assertEqual(metadata["source.source"], "h.gguf")
        report = self.succeed("vectors", "ls", "--json", "out.st").json()
        self.assertEqual((report["control_vector"], report["model_hint"], report["mode"]), (True, "mistral", "add"))
        self.assertEqual(report["layers"]["missing"], [3])
        self.write("d.json", writers.directions(LAYERS, model_hint="mistral"))
        for source in ("d.json", "once.st"):  # once more behind "source." each time
            self.assertEqual(self.succeed("vectors", "ls", "--json", source).json()["model_hint"], "mistral")
            self.convert(source)
            (self.folder / "out.st").rename(self.folder / "once.st")
        self.assertEqual(self.succeed("vectors", "ls", "--json", "once.st").json()["model_hint"], "mistral")


class Names(Convert):
    def test_layers_are_renamed_and_keep_their_numbers(self):
        self.write("h.gguf", writers.control_vector(LAYERS))
        tensors, metadata, _ = self.convert("h.gguf", "--name", "model.layers.{}.axis")
        self.assertEqual(list(tensors), [f"model.layers.{n}.axis" for n in LAYERS])
        self.assertEqual([t.floats() for t in tensors.values()], list(LAYERS.values()))
        self.assertEqual(metadata["layers"], "1 to 4 by 'model.layers.{}.axis', 1 missing; N acts at block N")
        self.write("d.json", writers.directions(LAYERS))
        tensors, metadata, _ = self.convert("d.json", "--name", "layer.{}")
        self.assertEqual(list(tensors), [f"layer.{n}" for n in LAYERS])
        self.assertEqual(metadata["layers"], "1 to 4 by 'layer.{}', 1 missing")
        tensors, metadata, _ = self.convert("h.gguf", "direction.4", "--name", "l.{}")
        self.assertEqual((list(tensors), metadata["layers"]), (["l.4"], "4 by 'l.{}'; N acts at block N"))

    def test_rows_of_an_array_become_layers(self):
        self.write("v.npy", writers.npy("F64", [3, 2], writers.f64([1, 2, 3, 4, 5, NAN])))
        tensors, metadata, report = self.convert("v.npy", "--name", "layer.{}")
        self.assertEqual([(n, t.shape) for n, t in tensors.items()], [(f"layer.{n}", [2]) for n in range(3)])
        self.assertEqual(tensors["layer.1"].floats(), [3, 4])
        self.assertEqual((metadata["layers"], report["non_finite"]), ("0 to 2 by 'layer.{}'", 1))

    def test_one_tensor_takes_a_name(self):
        self.write("v.npy", writers.npy("F32", [3], writers.f32([1, 2, 3])))
        self.assertEqual(list(self.convert("v.npy", "--name", "axis")[0]), ["axis"])

    def test_names_that_do_not_fit(self):
        self.write("h.gguf", writers.control_vector(LAYERS))
        self.write("m.st", writers.safetensors([(n, "F32", [1], writers.f32([1])) for n in ("a", "b")], {}))
        self.write("e.st", writers.safetensors([("", "F32", [1], writers.f32([1]))], {}))
        self.write("many.npy", writers.npy("F32", [1025, 1], bytes(4 * 1025)))
        for words, said in (
            (("many.npy", "--name", "l.{}"), "tensor 'array' has 1025 rows, at most 1024 are layers; leave {} out"),
            (("h.gguf", "--name", "axis"), "3 tensors cannot have one name; put {} where"),
            (("h.gguf", "--name", "l.{}.{}"), "a name takes one {}"),
            (("m.st", "--name", "l.{}"), "the name of tensor 'a' tells no layer"),
            (("h.gguf", "--name", "x" * 600 + "{}"), "at most 511 bytes"),
            (("h.gguf", "--name", "l\udcff.{}"), "not a name; it is UTF-8"),
            (("h.gguf", "--name", "l\n.{}"), "not a name; it is UTF-8"),
            (("m.st", "a", "--name", "__metadata__"), "'out.st': a tensor cannot be named '__metadata__' in safetensors"),
            (("e.st",), "'out.st': a tensor cannot be named '' in safetensors; give it another name"),
            (("m.st", "a", "a"), "'out.st': tensor 'a' is given twice; keep one"),
            (("m.st", "c"), "has no tensor 'c'"),
        ):
            with self.subTest(words=words):
                self.assertIn(said, self.refuse_convert(*words, "-o", "out.st"))

    def test_tensors_that_are_not_read_are_left_out_by_naming_others(self):
        self.write("v.st", writers.safetensors([("v", "F32", [1], writers.f32([1])), ("q", "I64", [1], bytes(8))], {}))
        line = self.refuse_convert("v.st", "-o", "out.st")
        self.assertIn("'v.st': tensor 'q' has dtype I64, which is not read; name the tensors that are wanted", line)
        self.assertEqual(list(self.convert("v.st", "v")[0]), ["v"])


class Files(Convert):
    def test_the_input_is_never_replaced(self):
        data = writers.control_vector(LAYERS)
        self.write("h.gguf", data)
        (self.folder / "link").symlink_to("h.gguf")
        os.link(self.folder / "h.gguf", self.folder / "hard")
        for name in ("h.gguf", "./h.gguf", "link", "hard"):
            with self.subTest(name=name):
                line = self.refuse_convert("h.gguf", "-o", name)
                self.assertIn(f"-o '{name}' would replace a file that is read", line)
        self.assertEqual((self.folder / "h.gguf").read_bytes(), data)

    def test_a_failure_leaves_what_was_there(self):
        self.write("v.npy", writers.npy("F32", [1], writers.f32([1e30])))
        self.write("out.st", b"as it was")
        self.refuse_convert("v.npy", "-o", "out.st", "--dtype", "f16")
        self.assertEqual((self.folder / "out.st").read_bytes(), b"as it was")
        self.convert("v.npy")
        self.assertEqual(sorted(os.listdir(self.folder)), ["home", "out.st", "v.npy"])
        self.assertIn("nowhere", self.refuse_convert("v.npy", "-o", "nowhere/out.st"))
        self.assertIn("home", self.refuse_convert("v.npy", "-o", "home"))

    def test_more_than_a_gibibyte_is_refused_before_it_is_read(self):
        shape = [1 << 14, (1 << 15) + 1]
        data = writers.npy("F16", shape, b"")
        path = self.write("big.npy", data)
        os.truncate(path, len(data) + 2 * shape[0] * shape[1])  # zeros that take no room
        line = self.refuse_convert("big.npy", "-o", "out.st")
        self.assertIn("1.00 GiB of tensors, at most 1 GiB is converted; name those that are wanted", line)

    def test_words_that_are_wrong(self):
        self.write("v.npy", writers.npy("F32", [1], writers.f32([1])))
        self.assertIn("-o is missing", self.refuse_convert("v.npy", code=WRONG))
        self.assertIn("FILE [TENSOR...] is missing", self.refuse_convert("-o", "o.st", code=WRONG))
        self.assertIn("must be one of f32|f16|bf16", self.refuse_convert("v.npy", "-o", "o.st", "--dtype", "f64", code=WRONG))
        self.assertIn("standard output", self.refuse_convert("v.npy", "-o", "-"))
        self.assertIn("--width goes with a raw file", self.refuse_convert("v.npy", "-o", "o.st", "--width", "1"))

    def test_a_workload_takes_what_was_written(self):
        self.write("h.gguf", writers.control_vector({1: [1.5] * 8, 2: [2.5] * 8}))
        self.convert("h.gguf", "--dtype", "bf16", "--name", "layer.{}")
        workload = small_workload(vectors={"v": {"file": "out.st", "tensor": "layer.2"}})
        workload["input"] = {"hidden": {"values": [0] * 32}}
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "rows.st", self.write("w.json", workload))
        self.assertEqual(read_safetensors(self.folder / "rows.st")[0]["hidden"].floats()[:8], [5.0] * 8)


tap.main()
