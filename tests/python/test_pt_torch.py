#!/usr/bin/env python3
"""tools/pt_to_safetensors.py on files that torch.save wrote. Ends with 77, "skipped", without torch.

Usage: test_pt_torch.py COMMAND SOURCE_ROOT
"""
import json
import pathlib
import subprocess
import sys
import unittest

try:
    import torch
except ImportError:
    print("torch is not installed")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(ROOT / "tests" / "cli"))

import tap  # noqa: E402
from cli import Case, read_safetensors  # noqa: E402

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class Trap:
    """What a pickle can do: run code when it is read."""

    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("sprung"),))


class Convert(Case):
    def script(self, *words):
        script = ROOT / "tools" / "pt_to_safetensors.py"
        return subprocess.run([sys.executable, str(script), *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, timeout=300)  # fmt: skip

    def convert(self, saved, *words, **how):
        torch.save(saved, self.folder / "in.pt", **how)
        outcome = self.script("in.pt", "out.st", *words)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""), outcome.stdout)
        self.said = outcome.stdout
        return read_safetensors(self.folder / "out.st")

    def refuse_script(self, *words):
        outcome = self.script(*words)
        self.assertEqual((outcome.returncode, outcome.stdout), (1, ""), outcome.stderr)
        self.assertEqual(outcome.stderr.count("\n"), 1, outcome.stderr)
        self.assertFalse((self.folder / "out.st").exists())
        return outcome.stderr

    def test_every_type_keeps_its_bits(self):
        values = torch.tensor([1 / 3, -2.5, 1e-5, 0])
        for zipped in (True, False):
            for dtype, name in DTYPES.items():
                with self.subTest(dtype=dtype, zipped=zipped):
                    tensor = values.to(dtype)
                    tensors, metadata = self.convert(tensor, _use_new_zipfile_serialization=zipped)
                    self.assertEqual((tensors["vector"].dtype, tensors["vector"].shape), (name, [4]))
                    self.assertEqual(tensors["vector"].floats(), tensor.float().tolist())
                    self.assertEqual((metadata["source"], metadata["source_format"]), ("in.pt", "PyTorch"))

    def test_views_parameters_and_rows(self):
        rows = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        tensors, _ = self.convert({"t": rows.T, "p": torch.nn.Parameter(rows[1]), 7: rows[:, 1]})
        self.assertEqual(tensors["t"].floats(), rows.T.flatten().tolist())
        self.assertEqual(tensors["p"].floats(), [4, 5, 6, 7])
        self.assertEqual(tensors["layer.7"].floats(), [1, 5, 9])
        tensors, _ = self.convert(rows.to(torch.bfloat16))
        self.assertEqual((tensors["rows"].shape, tensors["rows"].floats()), ([3, 4], rows.flatten().tolist()))

    def test_float64_is_said(self):
        values = torch.tensor([0.1, 1 + 2**-24 + 2**-50], dtype=torch.float64)
        tensors, _ = self.convert({"wide": values, "narrow": torch.ones(2)})
        self.assertEqual(tensors["wide"].floats(), values.float().tolist())
        self.assertIn("; float64 as float32: wide\n", self.said)

    def test_types_that_are_no_vectors(self):
        for tensor, said in ((torch.arange(3), "'v' is int64"), (torch.zeros(3, dtype=torch.complex64), "'v' is complex64"),
                             (torch.zeros(1, 2, 3), "'v' has shape [1, 2, 3]"),
                             (torch.ones(2, 2).to_sparse(), "save it as an ordinary tensor")):  # fmt: skip
            torch.save({"v": tensor}, self.folder / "in.pt")
            self.assertIn(said, self.refuse_script("in.pt", "out.st"))

    def test_code_in_a_file_is_never_run(self):
        torch.save({"v": torch.ones(2), "trap": Trap()}, self.folder / "in.pt")
        self.assertIn("it needs more than weights_only=True reads", self.refuse_script("in.pt", "out.st"))
        self.assertFalse((self.folder / "sprung").exists())

    def test_files_that_are_none(self):
        for data in (b"", b"hello", b"PK\x03\x04", b"\x80\x02}q\x00"):
            with self.subTest(data=data):
                self.write("in.pt", data)
                self.assertTrue(self.refuse_script("in.pt", "out.st").startswith("pt_to_safetensors: in.pt: "))
        for zipped in (True, False):
            torch.save({7: torch.ones(64)}, self.folder / "whole.pt", _use_new_zipfile_serialization=zipped)
            self.write("in.pt", (self.folder / "whole.pt").read_bytes()[:-100])
            said = self.refuse_script("in.pt", "out.st")
            self.assertRegex(said, r"^pt_to_safetensors: in.pt: torch.load: .+; is the file whole\?\n$")
        self.assertIn("nowhere.pt", self.refuse_script("nowhere.pt", "out.st"))

    def test_a_capping_configuration(self):
        names = [f"layer_{n}/contrast" for n in (1, 3)]
        torch.manual_seed(1)
        vectors = {name: {"vector": torch.randn(16).to(torch.bfloat16), "layer": n} for name, n in zip(names, (1, 3))}
        calls = [{"vector": names[0], "cap": -0.5}, {"vector": names[1], "cap": 0.25}]
        experiments = [{"id": "layers_1:3-p0.25", "interventions": calls}]
        saved = {"vectors": vectors, "experiments": experiments}
        tensors, metadata = self.convert(saved, "--experiment", "layers_1:3-p0.25", "--spec", "w.json")
        self.assertEqual([t.floats() for t in tensors.values()], [vectors[n]["vector"].tolist() for n in names])
        self.assertEqual(metadata[f"layer:{names[1]}"], "3")
        self.assertEqual(json.loads(metadata["experiments"]), experiments)
        report = self.succeed("explain", "--json", "w.json").json()
        self.assertIn("projection_cap", json.dumps(report))
        self.succeed("run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertTrue(self.said.endswith(" B, from in.pt\n"), self.said)
        calls += [{"vector": names[0], "coefficient": 1.5}, {"vector": names[1]}]
        saved.update(extra=torch.ones(2), threshold=torch.tensor(0.5), model="qwen")
        tensors, metadata = self.convert(saved, "--experiment", "layers_1:3-p0.25", "--spec", "w.json")
        self.assertTrue(self.said.endswith(", from in.pt; 2 interventions without a cap left out\n"), self.said)
        self.assertEqual(tensors["extra"].floats(), [1, 1])
        self.assertEqual((metadata["pt.threshold"], metadata["pt.model"]), ("0.5", "qwen"))


tap.main()
