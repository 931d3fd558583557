#!/usr/bin/env python3
"""tools/pt_to_safetensors.py: what is made of tensors, with arrays of numpy in their place; and the
workload of a capping configuration, which the command takes. The files themselves: test_pt_torch.py.

Usage: test_pt.py COMMAND SOURCE_ROOT
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP numpy is not installed")
    sys.exit(0)

ROOT = pathlib.Path(sys.argv[2]).resolve()
for folder in ("tools", "tests/cli"):
    sys.path.insert(0, str(ROOT / folder))

import pt_to_safetensors as pt  # noqa: E402
import tap  # noqa: E402
from cli import Case, read_safetensors, strict_json  # noqa: E402

V = np.array([3, 4, 0, 0], np.float32)


def capping():
    """As such files are: names with slashes, a layer each, experiments that share them."""
    names = [f"layer_{n}/contrast_role_pos3_default1" for n in (46, 47)]
    return {
        "vectors": {names[0]: {"vector": V, "layer": 46}, names[1]: {"vector": 2 * V[::-1].copy(), "layer": 47}},
        "experiments": [
            {"id": "baseline", "interventions": []},
            {
                "id": "layers_46:47-p0.25",
                "interventions": [
                    {"vector": names[1], "cap": -16.9},
                    {"vector": names[0], "cap": 2},
                    {"vector": names[0], "coefficient": 1.5},
                ],
            },
            {"id": "both", "interventions": [{"vector": names[0], "cap": np.float64(-1)}, {"vector": names[0], "cap": 0}]},
            {"id": "wrong", "interventions": [{"vector": "nobody", "cap": 1}]},
            {"id": "endless", "interventions": [{"vector": names[0], "cap": float("inf")}]},
            {"id": "flat", "interventions": [names[0]]},
            {"id": "lone", "interventions": names[0]},
        ],
    }


class Base(Case):
    def refused(self, loaded):
        with self.assertRaises(pt.Refusal) as caught:
            pt.plan_of(loaded)
        return str(caught.exception)

    def written(self, loaded):
        """(tensors, metadata, what was float64, non-finite) of the file."""
        data, wide, non_finite = pt.bytes_of(pt.plan_of(loaded), {"source": "in.pt"})
        path = self.write("out.safetensors", data)
        return *read_safetensors(path), wide, non_finite


class Shapes(Base):
    def test_a_tensor_alone(self):
        tensors, metadata, wide, _ = self.written(V)
        self.assertEqual([(n, t.dtype, t.shape, t.floats()) for n, t in tensors.items()],
                         [("vector", "F32", [4], [3, 4, 0, 0])])  # fmt: skip
        self.assertEqual((metadata, wide), ({"source": "in.pt", "conversion": "none"}, []))
        tensors, *_ = self.written(np.arange(6, dtype=np.float16).reshape(2, 3))
        self.assertEqual([(n, t.dtype, t.shape) for n, t in tensors.items()], [("rows", "F16", [2, 3])])
        self.assertEqual(tensors["rows"].floats(), [0, 1, 2, 3, 4, 5])

    def test_tensors_by_name_and_by_layer(self):
        tensors, *_ = self.written({"a": V, 12: V, "12": V})
        self.assertEqual(list(tensors), ["a", "layer.12", "12"])
        for key in ("vectors", "directions"):
            tensors, metadata, *_ = self.written({key: {3: V, 0: V}, "model": "m", "scale": 1.5})
            self.assertEqual(list(tensors), ["layer.3", "layer.0"])
            self.assertEqual((metadata["pt.model"], metadata["pt.scale"]), ("m", "1.5"))

    def test_an_array_that_does_not_lie_in_a_row(self):
        tensors, *_ = self.written({"t": np.arange(6, dtype=np.float32).reshape(2, 3).T})
        self.assertEqual((tensors["t"].shape, tensors["t"].floats()), ([3, 2], [0, 3, 1, 4, 2, 5]))

    def test_float64_is_rounded_once_and_said(self):
        values = np.array([0.1, 1 + 2**-24, 1 + 2**-24 + 2**-50, -np.inf])
        tensors, metadata, wide, non_finite = self.written({"a": V, "b": values})
        self.assertEqual(tensors["b"].data, values.astype(np.float32).tobytes())
        self.assertEqual((wide, non_finite), (["b"], 1))
        self.assertEqual(metadata["conversion"], "F64 to F32, rounded to nearest even")
        with self.assertRaisesRegex(pt.Refusal, "'b': element 1 is 1e[+]39, beyond float32"):
            pt.bytes_of(pt.plan_of({"b": np.array([np.inf, 1e39])}), {})
        # half way between the largest float32 and the next power of two, and below it
        end = 2.0**128 - 2.0**103
        with self.assertRaisesRegex(pt.Refusal, "'b': element 1 is -3.40282e[+]38, beyond float32"):
            pt.bytes_of(pt.plan_of({"b": np.array([1, -end])}), {})
        self.assertEqual(self.written(np.array([np.nextafter(end, 0)]))[3], 0)

    def test_elements_that_are_not_finite_are_counted(self):
        for dtype in (np.float32, np.float16, np.float64):
            values = np.array([np.nan, np.inf, -np.inf, 65504, 0], dtype)
            self.assertEqual(self.written(values)[3], 3)
        bits = struct.pack("<4H", 0x7FC0, 0xFF80, 0x7F7F, 0x8000)
        self.assertEqual(pt.count_non_finite(pt.Array("BF16", [4], bits)), 2)

    def test_what_is_refused_by_name(self):
        for loaded, said in (
            ({"n": np.arange(3)}, "'n' is int64"),
            ({"c": V.astype(np.complex64)}, "'c' is complex64"),
            ({"b": V > 0}, "'b' is bool"),
            ({"d": np.zeros((1, 2, 3), np.float32)}, "'d' has shape [1, 2, 3]"),
            ({"s": np.float32(1).reshape(())}, "'s' has shape []"),
            ({"l": [V]}, "'l' is a list"),
            ({"deep": {"er": V}}, "'deep' is a dict"),
            ([V], "it holds a list"),
            ({"note": "nothing"}, "it holds no tensors"),
            ({}, "it holds no tensors"),
            ({1024: V}, "layer 1024"),
            ({True: V}, "True is no name"),
            ({"": V}, "'' is no name"),
            ({"__metadata__": V}, "is no name of a tensor"),
            ({1: V, "layer.1": V}, "two tensors would be named 'layer.1'"),
            ({1: 2.5, "1": 1.5, "v": V}, "two values would be named 'pt.1' in the metadata"),
        ):
            with self.subTest(said=said):
                self.assertIn(said, self.refused(loaded))


class Capping(Base):
    def spec(self, wanted):
        plan = pt.plan_of(capping())
        (self.folder / "c.safetensors").write_bytes(pt.bytes_of(plan, {})[0])
        return pt.workload_of(plan, wanted, "c.safetensors")

    def test_tensors_layers_and_experiments(self):
        tensors, metadata, *_ = self.written(capping())
        names = list(capping()["vectors"])
        self.assertEqual(list(tensors), names)
        self.assertEqual([metadata[f"layer:{name}"] for name in names], ["46", "47"])
        experiments = strict_json(metadata["experiments"])
        self.assertEqual(experiments[1]["interventions"][0], {"vector": names[1], "cap": -16.9})
        self.assertEqual(experiments[-3]["interventions"][0]["cap"], "inf")
        self.assertIn("experiments: int, where a list is needed", self.refused({**capping(), "experiments": 5}))
        self.assertIn("experiments hold a set", self.refused({**capping(), "experiments": [{1}]}))

    def test_what_stands_beside_is_kept_or_refused(self):
        loaded = {**capping(), "model": "qwen", "seed": 7, "extra": 3 * V, "about": {"by": ["hand", float("nan")]},
                  "threshold": np.float32(0.5).reshape(())}  # fmt: skip
        name = list(loaded["vectors"])[0]
        loaded["vectors"][name].update({"norm": 5.0, "mean": -V, "layers": [1, 2]})
        tensors, metadata, *_ = self.written(loaded)
        self.assertEqual(list(tensors), [*loaded["vectors"], f"{name}.mean", "extra"])
        self.assertEqual(tensors["extra"].floats(), [9, 12, 0, 0])
        self.assertEqual(tensors[f"{name}.mean"].floats(), [-3, -4, 0, 0])
        self.assertEqual({key: value for key, value in metadata.items() if key.startswith("pt.")}, {
            f"pt.{name}.norm": "5.0", f"pt.{name}.layers": "[1, 2]", "pt.model": "qwen", "pt.seed": "7",
            "pt.about": '{"by": ["hand", "nan"]}', "pt.threshold": "0.5",
        })  # fmt: skip
        for change, said in (
            ({"odd": {1}}, "'odd' holds a set; needed: plain values"),
            ({"list": [V]}, "'list' holds a ndarray; needed: plain values"),
            ({1: "a", "1": "b"}, "two values would be named 'pt.1' in the metadata"),
            ({name: V}, f"two tensors would be named '{name}'"),
            ({"": V}, "'' is no name of a tensor"),
            ({"ids": np.arange(3)}, "'ids' is int64"),
        ):
            with self.subTest(said=said):
                self.assertIn(said, self.refused({**capping(), **change}))

    def test_interventions_without_a_cap_are_counted(self):
        plan = pt.plan_of(capping())
        counts = [pt.count_uncapped(plan, wanted) for wanted in ("layers_46:47-p0.25", "both")]
        self.assertEqual(counts, [1, 0])
        source = self.write("in.pt", b"what torch would read")
        out, spec = self.folder / "o.st", self.folder / "w.json"
        for wanted, end in (("layers_46:47-p0.25", "; 1 intervention without a cap left out"), ("both", "")):
            words = argparse.Namespace(input=source, output=out, experiment=wanted, spec=spec)
            with self.subTest(wanted=wanted), mock.patch.object(pt, "load", return_value=capping()):
                said = pt.convert(words)
                self.assertEqual(said, f"{out}: 2 tensors, {out.stat().st_size} B, from {source}{end}")

    def test_an_experiment_is_a_workload_that_the_command_explains(self):
        for wanted in ("layers_46:47-p0.25", "both"):
            with self.subTest(wanted=wanted):
                path = self.write("w.json", self.spec(wanted))
                report = self.succeed("explain", "--json", path).json()
                self.assertIn("projection_cap", json.dumps(report))
                self.succeed("run", "--backend", "cpu", "--no-timing", path)

    def test_layers_caps_and_order(self):
        names = list(capping()["vectors"])
        spec = self.spec("layers_46:47-p0.25")
        call = {"op": "projection_cap", "v": names[0], "max": 2}
        self.assertEqual(
            spec["slots"], {"layers_46:47-p0.25": {"layers": {"46": [call], "47": [{**call, "v": names[1], "max": -16.9}]}}}
        )
        self.assertEqual(spec["vectors"][names[0]], {"file": "c.safetensors", "tensor": names[0], "normalize": True})
        self.assertEqual([c["max"] for c in self.spec("both")["slots"]["both"]["layers"]["46"]], [-1, 0])

    def test_the_rows_are_those_of_the_definition(self):
        """h - max(dot(h, v / norm v) - cap, 0) * v / norm v, of two rows that are and are not capped."""
        spec = self.spec("layers_46:47-p0.25")
        spec["geometry"]["dtype"] = "f32"
        spec["batch"]["requests"][0]["rows"] = 2
        spec["input"] = {"hidden": {"values": [10, 5, 1, 1, 1, 0, 7, 7]}}
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "o.st", self.write("w.json", spec))
        found = np.array(read_safetensors(self.folder / "o.st")[0]["hidden"].floats()).reshape(2, 4)
        h = np.array([[10, 5, 1, 1], [1, 0, 7, 7]], float)
        unit = V.astype(float) / 5
        wanted = h - np.maximum(h @ unit - 2, 0)[:, None] * unit
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        self.assertFalse(np.array_equal(found[0], h[0]))
        self.assertTrue(np.array_equal(found[1], h[1]))

    def test_experiments_that_cannot_be(self):
        for wanted, said in (
            ("other", "no experiment 'other'; there are: baseline, layers_46:47-p0.25, both, wrong, endless, flat, lone"),
            ("baseline", "experiment 'baseline' caps nothing"),
            ("wrong", "experiment 'wrong', intervention 0: no vector 'nobody'"),
            ("endless", "cap inf is no finite number"),
            ("flat", "experiment 'flat', intervention 0 is a str; needed: a vector's name and its cap"),
            ("lone", "interventions of experiment 'lone': str, where a list is needed"),
        ):
            with self.subTest(wanted=wanted), self.assertRaises(pt.Refusal) as caught:
                pt.workload_of(pt.plan_of({**capping()}), wanted, "c.safetensors")
            self.assertIn(said, str(caught.exception))

    def test_vectors_that_cannot_be(self):
        for change, said in (
            ({"layer": -1}, "layer -1"),
            ({"layer": "46"}, "layer '46'"),
            ({"layer": True}, "layer True"),
            ({"vector": [1, 2]}, "has no tensor 'vector'"),
        ):
            loaded = capping()
            loaded["vectors"]["x"] = {"vector": V, "layer": 1, **change}
            with self.subTest(change=change):
                self.assertIn(said, self.refused(loaded))
        for name, said in (("", "'' is no name"), ("__metadata__", "'__metadata__' is no name")):
            loaded = capping()
            loaded["vectors"][name] = {"vector": V, "layer": 1}
            self.assertIn(said, self.refused(loaded))
        loaded["vectors"] = {1: {"vector": V, "layer": 1}, "1": {"vector": V, "layer": 1}}
        self.assertIn("two tensors would be named '1'", self.refused(loaded))
        loaded = capping()
        name = list(loaded["vectors"])[0]
        loaded["vectors"][name]["vector"] = V[:3]
        with self.assertRaisesRegex(pt.Refusal, r"not all of one width: \[3, 4\]"):
            pt.workload_of(pt.plan_of(loaded), "layers_46:47-p0.25", "c")


class Files(Base):
    def script(self, *words):
        script = ROOT / "tools" / "pt_to_safetensors.py"
        return subprocess.run([sys.executable, str(script), *map(str, words)], cwd=self.folder, capture_output=True,
                              text=True, timeout=120)  # fmt: skip

    def test_a_workload_names_files_of_its_own_folder(self):
        folder = self.folder
        self.assertEqual(pt.file_for_spec(folder / "a" / "v.st", folder / "w.json"), "a/v.st")
        with self.assertRaisesRegex(pt.Refusal, "names files of its own folder"):
            pt.file_for_spec(folder / "v.st", folder / "a" / "w.json")

    def test_no_file_replaces_another(self):
        source = self.write("in.pt", b"bytes")
        (self.folder / "link").symlink_to("in.pt")
        for words in (("in.pt",), ("link",), ("o.st", "--experiment", "e", "--spec", "o.st"),
                      ("o.st", "--experiment", "e", "--spec", "./in.pt")):  # fmt: skip
            with self.subTest(words=words):
                outcome = self.script("in.pt", *words)
                self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
                self.assertIn("would replace", outcome.stderr)
        self.assertEqual(source.read_bytes(), b"bytes")

    def test_a_file_that_is_none_of_pytorch(self):
        said = ("it is no file of PyTorch, a zip archive or a pickle; safetensors, GGUF, .npy and JSON are read by "
                "steergraph itself")  # fmt: skip
        for data in (b"", b"GGUF\3", b"\x93NUMPY\1", b"\x80\1}q", b"{}"):
            with self.subTest(data=data):
                self.write("in.pt", data)
                outcome = self.script("in.pt", "o.st")
                self.assertEqual((outcome.returncode, outcome.stderr), (1, f"pt_to_safetensors: in.pt: {said}\n"))
        for begin in (b"PK\3\4", b"\x80\2}q", b"\x80\5"):
            pt.check_begin(begin)
        self.assertIn("No such file or directory: 'none.pt'", self.script("none.pt", "o.st").stderr)

    def test_a_write_is_whole_or_not_at_all(self):
        path = self.write("o.st", b"before")
        pt.write_atomic(path, b"after")
        self.assertEqual((path.read_bytes(), path.stat().st_mode & 0o777), (b"after", 0o644))
        (self.folder / "d").mkdir()
        with self.assertRaises(OSError):
            pt.write_atomic(self.folder / "d", b"a folder is in the way")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["d", "home", "o.st"])

    def test_words_that_are_wrong(self):
        for words in ((), ("in.pt",), ("in.pt", "o.st", "--spec", "w.json"), ("in.pt", "o.st", "--experiment", "e")):
            with self.subTest(words=words):
                self.assertEqual(self.script(*words).returncode, 2)
        self.assertIn("there is no switch", " ".join(self.script("--help").stdout.split()))


tap.main()
