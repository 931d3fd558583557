#!/usr/bin/env python3
"""`steergraph run` of a step whose attention is steered: numbers, refusals, and vectors of files."""
import struct
import sys

import tap
from attention_case import RUN, Run, steered, step
from cli import FAILED, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import vector_writers as writers  # noqa: E402


class Steered(Run):
    def test_what_attention_gives_is_steered(self):
        vector = [1.0] + [0.0] * 15
        _, plain, _ = self.output(step())
        report, tensors, _ = self.output(steered({"v": {"values": vector}}))
        expected = plain["out"].floats()
        expected[0] = struct.unpack("<f", struct.pack("<f", expected[0] + 2))[0]
        self.assertEqual(tensors["out"].floats(), expected)
        self.assertEqual(report["rows_steered"], 1)
        self.assertEqual([kernel["family"] for kernel in report["kernels"]], ["rope", "decode", "steer", "rope"])
        self.assertRegex(self.succeed("run", "--backend", "cpu", "--no-timing", self.folder / "w.json").out, r", 1 steered\n")

    def test_the_declared_ops_do_not_change_the_result(self):
        spec = steered({"v": {"random": {"seed": 4}}})
        every, used = self.report(spec), self.report(spec, "--declare", "used")
        self.assertEqual(every["checksum"], used["checksum"])
        self.assertNotEqual(every["signature"], used["signature"])

    def test_an_unknown_op_is_named_with_its_place(self):
        spec = steered({"v": {"random": {"seed": 4}}})
        spec["steer"]["slots"]["up"]["layers"]["0"][0]["op"] = "ad"
        line = self.refuse(FAILED, *RUN, self.write("w.json", spec))
        self.assertIn("w.json: steer.slots.up.layers.0[0].op: unknown op 'ad'; did you mean 'add'?", line)


class SteeredByFiles(Run):
    """A step whose vectors are of files: what these say of themselves, as in a workload of steering."""

    def steered(self, slot, vectors=None, **geometry):
        self.write("c.gguf", writers.control_vector({1: [k / 16 for k in range(16)]}, "mistral"))
        slots = {"up": slot}
        batch = {"requests": [{"slot": "up", "rows": 1, "repeat": 2}]}
        geometry = {"hidden_size": 16, "dtype": "f32", "layers": 3, **geometry}
        steer = {"geometry": geometry, "vectors": vectors or {}, "slots": slots, "batch": batch}
        return self.write("w.json", step(steer=steer, buckets={"rows": [2], "batch": [2]}))

    def by_name(self, **geometry):
        slot = {"layers": {"0": [{"op": "add", "v": "v"}]}}
        return self.steered(slot, {"v": {"file": "c.gguf", "tensor": "direction.1"}}, **geometry)

    def test_a_vector_of_another_model_is_refused(self):
        line = self.refuse(FAILED, *RUN, self.by_name(model="qwen2"))
        self.assertIn("w.json: steer.vectors.v: 'c.gguf' is for model 'mistral' (its model_hint), "
                      "geometry.model is 'qwen2'; use one made for it", line)  # fmt: skip

    def test_what_files_say_is_noted_behind_what_the_step_says(self):
        own = "buckets: this version pads steps of this family to the default series"
        hint = "c.gguf is for model 'mistral' by its own word; geometry.model is not given"
        spec = self.by_name()
        self.assertEqual(self.succeed(*RUN, spec).json()["notes"], [own, f"steer.vectors.v: {hint}"])
        text = self.succeed("run", "--backend", "cpu", "--no-timing", spec).out
        self.assertRegex(text, rf"(?m)^  note +steer\.vectors\.v: {hint}$")
        explain = ("explain", "--arch", "sm_90", "--json")
        self.assertEqual(self.succeed(*explain, spec).json()["notes"], [own])
        spec = self.steered({"control_vector": [{"file": "c.gguf"}]})
        notes = self.succeed(*RUN, spec).json()["notes"]
        self.assertEqual((notes[0], notes[1]), (own, f"steer.slots.up: {hint}"))
        self.assertRegex(notes[-1], "^steer.batch.layer is 0, where no slot of a request has ops: nothing is steered; ")
        self.assertEqual(self.succeed(*explain, spec).json()["notes"], notes)
        text = self.succeed("explain", "--arch", "sm_90", spec).out
        self.assertRegex(text, rf"(?m)^  note +steer\.slots\.up: {hint}$")


tap.main()
