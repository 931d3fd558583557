#!/usr/bin/env python3
"""Vector files that public packages wrote (gguf, safetensors, numpy): the command reads out of them what
was put in. Those in tests/data/vectors always; and, where an interpreter with these packages is named,
files made anew with its versions, and our own files read by the packages.

Usage: test_vector_files.py COMMAND SOURCE_ROOT [INTERPRETER]
"""
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv[2]).resolve()
INTERPRETER = sys.argv[3] if len(sys.argv) > 3 else ""
for folder in ("tools", "tests/cli"):
    sys.path.insert(0, str(ROOT / folder))

import tap  # noqa: E402
import vector_writers as writers  # noqa: E402
from cli import Case, read_safetensors  # noqa: E402

FOLDER = ROOT / "tests" / "data" / "vectors"
# As make_vector_files.py has them.
ROWS = [[(4 * row + k) / 8 - 0.5 for k in range(4)] for row in range(3)]
FLAT = sum(ROWS, [])
TYPES = {
    "double": ("F64", [3, 4]), "empty": ("F32", [0, 4]), "half": ("F16", [3, 4]), "number": ("I64", [3]),
    "scalar": ("F32", []), "single": ("F32", [3, 4]),
}  # fmt: skip


class Reads(Case):
    """What is in the files of `folder_of_files`."""

    def ls(self, folder, name, *words):
        return self.succeed("vectors", "ls", "--json", folder / name, *words).json()

    def elements(self, folder, name, *words):
        """{tensor: float32 elements}, by way of `convert`."""
        self.succeed("vectors", "convert", folder / name, *words, "--dtype", "f32", "-o", "out.st")
        return {tensor: found.floats() for tensor, found in read_safetensors(self.folder / "out.st")[0].items()}

    def check_control_vector(self, folder):
        report = self.ls(folder, "control.gguf")
        self.assertEqual((report["format"], report["control_vector"], report["model_hint"], report["mode"]),
                         ("GGUF v3", True, "mistral", "add"))  # fmt: skip
        self.assertEqual(report["layers"], {"pattern": "direction.{}", "first": 1, "last": 3, "missing": []})
        wanted = {f"direction.{n}": [n * k - 0.5 for k in range(8)] for n in (1, 2, 3)}
        self.assertEqual(self.elements(folder, "control.gguf"), wanted)

    def check_gguf_types(self, folder):
        report = self.ls(folder, "types.gguf")
        said = report["metadata"]
        self.assertEqual((said["t.u64"], said["t.i64"], said["t.bool"]), (str(2**64 - 1), str(-(2**63)), "true"))
        self.assertEqual(said["t.string"], "zwei\nZeilen, ä")
        shapes = {t["name"]: (t["dtype"], t["shape"]) for t in report["tensors"]}
        self.assertEqual((shapes["matrix"], shapes["bf16"]), (("F32", [3, 4]), ("BF16", [2])))
        found = self.elements(folder, "types.gguf", "matrix", "f16", "bf16", "f64")
        self.assertEqual(found["matrix"], list(range(12)))
        self.assertEqual((found["f16"], found["bf16"]), ([1.5, -2], [1.5, -2]))
        self.assertEqual([round(x, 6) for x in found["f64"]], [0.1, -3, 4])

    def check_safetensors(self, folder):
        report = self.ls(folder, "types.safetensors")
        self.assertEqual({t["name"]: (t["dtype"], t["shape"]) for t in report["tensors"]}, TYPES)
        found = self.elements(folder, "types.safetensors", *(name for name in TYPES if name != "number"))
        self.assertEqual(found, {"double": FLAT, "half": FLAT, "single": FLAT, "empty": [], "scalar": [7]})
        report = self.ls(folder, "layers.safetensors")
        self.assertEqual(report["layers"]["pattern"], "model.layers.{}.axis")
        self.assertEqual(report["metadata"], {"made": 'by ä "test"'})
        found = self.elements(folder, "layers.safetensors")
        self.assertEqual([found[f"model.layers.{n}.axis"] for n in range(3)], ROWS)

    def check_numpy(self, folder):
        for version, descr in ((1, "<f8"), (2, "<f4"), (3, "<f2")):
            report = self.ls(folder, f"version_{version}.npy")
            self.assertEqual(report["format"], f".npy {version}.0")
            self.assertEqual(report["tensors"], [{"name": "array", "dtype": descr, "shape": [3, 4]}])
            self.assertEqual(self.elements(folder, f"version_{version}.npy"), {"array": FLAT})
        self.assertEqual(self.elements(folder, "vector.npy"), {"array": ROWS[1]})
        self.assertEqual(self.elements(folder, "rows.f32", "--width", "4"), {"raw": FLAT})

    def check_all(self, folder):
        for check in (self.check_control_vector, self.check_gguf_types, self.check_safetensors, self.check_numpy):
            with self.subTest(check=check.__name__):
                check(folder)


class Committed(Reads):
    def test_a_control_vector_of_gguf_0_19(self):
        self.check_control_vector(FOLDER)

    def test_values_and_types_of_gguf_0_19(self):
        self.check_gguf_types(FOLDER)

    def test_files_of_safetensors_0_8(self):
        self.check_safetensors(FOLDER)

    def test_arrays_of_numpy_2_4(self):
        self.check_numpy(FOLDER)

    def test_a_workload_takes_each_of_them(self):
        for source, wanted in (
            ({"file": "control.gguf", "tensor": "direction.2"}, [2 * k - 0.5 for k in range(8)]),
            ({"file": "layers.safetensors", "tensor": "model.layers.2.axis"}, ROWS[2]),
            ({"file": "types.safetensors", "tensor": "half", "row": 1}, ROWS[1]),
            ({"file": "version_1.npy", "row": 2}, ROWS[2]),
            ({"file": "vector.npy"}, ROWS[1]),
            ({"file": "rows.f32", "count": 4, "row": 2}, ROWS[2]),
        ):
            with self.subTest(source=source):
                source["file"] = str(self.write(source["file"], (FOLDER / source["file"]).read_bytes()).name)
                workload = {
                    "steergraph": 1,
                    "family": "steer",
                    "geometry": {"hidden_size": len(wanted), "dtype": "f32"},
                    "vectors": {"v": source},
                    "slots": {"s": {"layers": {"0": [{"op": "add", "v": "v"}]}}},
                    "batch": {"requests": [{"slot": "s", "rows": 1}]},
                    "input": {"hidden": {"values": [0] * len(wanted)}},
                }
                spec = self.write("w.json", workload)
                self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "rows.st", spec)
                found = read_safetensors(self.folder / "rows.st")[0]["hidden"].floats()
                self.assertEqual(found, [x + 0.0 for x in wanted])


class Readme(Case):
    def test_what_the_readme_shows_is_printed(self):
        text = (ROOT / "README.md").read_text()
        section = text.split("\n## Vector files\n")[1].split("\n## ")[0]
        block = section.split("```text\n")[1].split("```")[0]
        self.write("control.gguf", (FOLDER / "control.gguf").read_bytes())
        shown = block.removeprefix("$ ").split("\n$ ")
        self.assertEqual(len(shown), 3)
        for piece in shown:
            words, printed = piece.split("\n", 1)
            with self.subTest(words=words):
                self.assertEqual(self.succeed(*words.split()[1:]).out.rstrip("\n"), printed.rstrip("\n"))


@unittest.skipUnless(INTERPRETER, "no interpreter is named (-Dvector_python)")
class MadeAnew(Reads):
    def python(self, code, *words):
        """What a program prints, which runs where the packages are, as JSON."""
        outcome = subprocess.run([INTERPRETER, "-c", code, *map(str, words)], cwd=self.folder, capture_output=True,
                                 text=True, timeout=120)  # fmt: skip
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return json.loads(outcome.stdout)

    def test_files_of_its_versions_are_read(self):
        subprocess.run([INTERPRETER, str(FOLDER / "make_vector_files.py"), str(self.folder)], check=True, timeout=120)
        self.check_all(self.folder)

    def test_what_convert_writes_is_read_by_safetensors(self):
        layers = {1: [1 / 3, -2, 0, 1e30], 2: [5, 6, 7, 8]}
        self.write("h.gguf", writers.control_vector(layers, "mistral"))
        self.succeed("vectors", "convert", "h.gguf", "-o", "out.st")
        code = """
import json, safetensors, sys
with safetensors.safe_open(sys.argv[1], "numpy") as file:
    print(json.dumps([file.metadata(), {k: (str(file.get_tensor(k).dtype), file.get_tensor(k).tolist()) for k in file.keys()}]))
"""
        metadata, tensors = self.python(code, "out.st")
        ours, theirs = read_safetensors(self.folder / "out.st")
        self.assertEqual(metadata, theirs)
        self.assertEqual(tensors, {name: ["float32", tensor.floats()] for name, tensor in ours.items()})

    def test_what_our_tests_write_is_read_by_gguf(self):
        layers = {3: [1.5, -2, 0], 1: [4, 5, 6]}
        self.write("h.gguf", writers.control_vector(layers, "mistral", "F16"))
        code = """
import gguf, json, sys
reader = gguf.GGUFReader(sys.argv[1])
hint = reader.get_field("controlvector.model_hint").contents()
print(json.dumps([hint, {t.name: t.data.tolist() for t in reader.tensors}]))
"""
        wanted = {f"direction.{n}": values for n, values in layers.items()}
        self.assertEqual(self.python(code, "h.gguf"), ["mistral", wanted])


tap.main()
