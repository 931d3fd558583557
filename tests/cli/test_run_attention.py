#!/usr/bin/env python3
"""`steergraph run` of rope, decode and step: reports, files, what a cache refuses, and numbers worked out here again."""
import json
import math
import struct

import tap
from attention_case import RUN, Run, example, steered, step
from cli import FAILED, QUICK, SPECS, safetensors_bytes

NAMES = ("rope_llama3", "kv_decode", "kv_decode_paged", "toto_timewise", "step_llama_block", "token_window")
# The members that ARCHITECTURE.md promises, in this order.
MEMBERS = [
    "spec", "family", "backend", "reason", "device", "signature", "kernel_key", "kernels", "graph_key", "source", "tier",
    "compile_ms", "rows", "rows_padding", "rows_refused", "rows_steered", "max_abs_err", "mae", "worst_ratio",
    "violations", "overflows", "parts", "ok", "time_us", "bytes", "checksum", "lengths_after", "output", "notes",
]  # fmt: skip
PARTS = {
    "rope_llama3": ["rope"],
    "kv_decode": ["decode"],
    "kv_decode_paged": ["decode"],
    "toto_timewise": ["rope", "decode", "advance"],
    "step_llama_block": ["rope", "decode", "steer", "advance"],
    "token_window": ["decode"],
}


class Examples(Run):
    def test_every_example_is_ok_on_the_cpu(self):
        for name in NAMES:
            with self.subTest(spec=name):
                spec = example(name)
                outcome = self.succeed(*RUN, SPECS / f"{name}.json")
                report = outcome.json()
                self.assertEqual(outcome.err, "")
                self.assertEqual(list(report), MEMBERS)
                self.assertEqual((report["ok"], report["violations"]), (True, 0))
                self.assertEqual((report["family"], report["backend"]), (spec["family"], "cpu"))
                self.assertEqual([part["part"] for part in report["parts"]], PARTS[name])
                self.assertTrue(all(part["first"] is None for part in report["parts"]))
                self.assertTrue(0 < report["worst_ratio"] <= 1)
                self.assertTrue(0 < report["mae"] <= report["max_abs_err"] < math.inf)
                self.assertGreater(report["bytes"], 0)
                self.assertIsNone(report["tier"])
                self.check_kernels(report)

    def check_kernels(self, report):
        for kernel in report["kernels"]:
            self.assertRegex(kernel["signature"], rf"^{kernel['family']} v1 \| .* \| cpu$")
            self.assertRegex(kernel["kernel_key"], "^[0-9a-f]{32}$")
            self.assertEqual((kernel["source"], kernel["compile_ms"]), ("cpu", 0))
        texts = [kernel["signature"].removesuffix(" | cpu") for kernel in report["kernels"]]
        self.assertTrue(report["signature"].startswith(" + ".join(texts) + " | cpu | batch<="), report["signature"])
        self.assertEqual(report["kernel_key"], report["kernels"][0]["kernel_key"])
        for key in ("graph_key", "checksum"):
            self.assertRegex(report[key], "^[0-9a-f]{32}$")

    def test_rows_and_lengths_are_those_of_the_workload(self):
        rows = {name: self.succeed(*RUN, SPECS / f"{name}.json").json() for name in NAMES[2:]}
        self.assertEqual((rows["kv_decode_paged"]["rows"], rows["kv_decode_paged"]["rows_padding"]), (7, 1))
        self.assertEqual(rows["kv_decode_paged"]["lengths_after"], example("kv_decode_paged")["cache"]["lengths"])
        lengths = example("toto_timewise")["cache"]["lengths"]
        self.assertEqual(rows["toto_timewise"]["lengths_after"], [length + 1 for length in lengths])
        self.assertIsNone(rows["token_window"]["lengths_after"])
        self.assertEqual(rows["token_window"]["rows"], 48)
        self.assertTrue(0 < rows["step_llama_block"]["rows_steered"] <= 6)
        self.assertIsNone(rows["toto_timewise"]["rows_steered"])
        self.assertEqual(
            rows["step_llama_block"]["notes"],
            ["buckets: this version pads steps of this family to the default series"],
        )

    def test_times_are_measured_and_lengths_do_not_run_away(self):
        report = self.succeed("run", "--backend", "cpu", "--json", self.write("w.json", step())).json()
        times = report["time_us"]
        self.assertEqual(list(times), ["median", "min", "max"])
        self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])
        self.assertEqual((report["lengths_after"], report["rows_refused"]), ([4, 2], 0))

    def test_the_text_report_ends_in_ok(self):
        text = self.succeed("run", "--backend", "cpu", self.write("w.json", step())).out
        self.assertTrue(text.endswith("\nok\n"), text)
        self.assertIn("w.json: step, 2 rows of 2 sequences, 2/1 heads x 8, f32; a cache of 2 x 4\n", text)
        self.assertRegex(text, r"(?m)^  rows +2, 0 of padding, 0 refused$")
        self.assertRegex(text, r"(?m)^  kernels +none: the CPU does their work itself$")
        self.assertRegex(text, r"(?m)^  lengths +2 to 4, after the step$")
        self.assertRegex(text, r"(?m)^  time +.* median \(.* to .*, 100 launches\)$")
        self.assertRegex(text, r"(?m)^  moves +\d+ bytes at least, .* GB/s$")

    def test_two_runs_give_the_same_report(self):
        path = self.write("w.json", step())
        self.assertEqual(self.succeed(*RUN, path).json(), self.succeed(*RUN, path).json())

    def test_neither_blocks_nor_the_width_of_positions_change_a_bit(self):
        dense = self.report(step())
        paged = self.report(step(cache={"batch": 2, "capacity": 4, "lengths": [3, 1], "block": 8, "blocks": 2}))
        self.assertEqual(dense["checksum"], paged["checksum"])
        self.assertNotEqual(dense["signature"], paged["signature"])
        for width in ("i32", "i64"):
            requests = [{"seq": seq, "positions": [length]} for seq, length in enumerate((3, 1))]
            given = self.report(step(rows={"positions": width, "requests": requests}))
            self.assertEqual(given["checksum"], dense["checksum"])

    def test_what_lies_behind_a_length_is_never_read(self):
        cache = {"batch": 2, "capacity": 4, "lengths": [2, 1]}
        checksums = {self.report(step(cache=cache | {"tail": tail}))["checksum"] for tail in ("nan", "zeros")}
        self.assertEqual(len(checksums), 1)

    def test_heads_come_first_where_they_are_asked_to(self):
        _, rows, _ = self.output(step())
        _, heads, _ = self.output(step(attend={"order": "heads"}))
        for name in ("q", "out"):
            self.assertEqual((rows[name].shape, heads[name].shape), ([2, 2, 8], [2, 2, 8]))
            given = rows[name].floats()
            turned = [given[(row * 2 + head) * 8 :][:8] for head in range(2) for row in range(2)]
            self.assertEqual(heads[name].floats(), [x for one in turned for x in one])

    def test_an_empty_step_is_fine(self):
        report, tensors, _ = self.output(step(rows={"positions": "len", "requests": []}))
        self.assertEqual((report["rows"], report["ok"], report["lengths_after"]), (0, True, [3, 1]))
        self.assertEqual(tensors["out"].shape, [0, 2, 8])

    def test_what_leaves_float32_on_the_way_is_counted_and_no_failure(self):
        """As eager's would be: scales of xPos beyond its range, then scores, whose elements are not."""
        xpos = step(rope={"xpos": {"order": "halves", "base": 0.02}})
        self.write("far.st", safetensors_bytes({"t": ("F32", [2, 32], struct.pack("<64f", *[1e25] * 64))}))
        far = step()
        far["input"]["qkv"] = {"file": "far.st", "tensor": "t"}
        for spec in (xpos, far):
            report = self.report(spec)
            self.assertEqual((report["ok"], report["violations"]), (True, 0))
            self.assertGreater(report["overflows"], 0)
            text = self.succeed("run", "--backend", "cpu", "--no-timing", self.folder / "w.json").out
            self.assertRegex(
                text,
                rf"(?m)^ +{report['overflows']} elements are not finite, since what leads to them leaves the range of its type$",
            )
        self.assertEqual(self.report(step())["overflows"], 0)
        self.assertNotIn("not finite", self.succeed("run", "--backend", "cpu", "--no-timing", self.folder / "w.json").out)

    def test_a_result_beyond_its_bound_fails_and_writes_nothing(self):
        """An op that drops a row multiplies it by 0, which leaves the NaN that it had."""
        self.write("drop.json", {"op": "drop", "vectors": ["v"], "params": {}, "body": ["h = v"]})
        self.write("nan.st", safetensors_bytes({"t": ("F32", [2, 32], struct.pack("<64f", *[math.nan] * 64))}))
        spec = steered({"v": {"random": {"seed": 4}}})
        spec["steer"]["ops"] = ["drop.json"]
        spec["steer"]["slots"]["up"]["layers"]["0"] = [{"op": "drop", "v": "v"}]
        spec["input"]["qkv"] = {"file": "nan.st", "tensor": "t"}
        path = self.write("w.json", spec)
        outcome = self.run_command(*RUN, "--output", "out.st", path)
        report = outcome.json()
        self.assertEqual((outcome.code, report["ok"], report["output"]), (FAILED, False, None))
        self.assertGreater(report["violations"], 0)
        first = next(part["first"] for part in report["parts"] if part["violations"] > 0)
        self.assertEqual(first, {"in": "out", "row": 0, "head": 0, "element": 0})
        self.assertEqual(outcome.err, f"steergraph: {path}: the result is not what the oracle allows; see the report\n")
        self.assertFalse((self.folder / "out.st").exists())
        text = self.run_command("run", "--backend", "cpu", "--no-timing", path).out
        self.assertRegex(text, r"\nFAILED: steer: first in out, row 0, head 0, element 0\n$")


class Refused(Run):
    def test_a_row_past_the_capacity_is_reported_and_no_failure(self):
        spec = step(cache={"batch": 2, "capacity": 4, "lengths": [4, 1]})
        report, tensors, _ = self.output(spec)
        self.assertEqual((report["ok"], report["rows_refused"], report["lengths_after"]), (True, 1, [4, 2]))
        self.assertEqual(tensors["out"].floats()[:16], [0.0] * 16)
        text = self.succeed("run", "--backend", "cpu", "--no-timing", self.folder / "w.json").out
        self.assertRegex(text, r"(?m)^  rows +2, 0 of padding, 1 refused\n +no room first for row 0, of sequence 0$")

    def test_a_row_without_a_block_is_reported(self):
        cache = {"batch": 2, "capacity": 16, "lengths": [8, 1], "block": 8, "blocks": 2}
        report = self.report(step(cache=cache))
        self.assertEqual((report["ok"], report["rows_refused"], report["lengths_after"]), (True, 1, [8, 2]))

    def test_attention_alone_gives_a_full_row_zeros(self):
        spec = step(family="decode", cache={"batch": 2, "capacity": 4, "lengths": [4, 1]})
        del spec["rope"]
        spec["input"]["q"] = spec["input"].pop("qkv")
        report, tensors, _ = self.output(spec)
        self.assertEqual((report["rows_refused"], report["lengths_after"]), (1, [4, 1]))
        self.assertEqual(tensors["out"].floats()[:16], [0.0] * 16)

    def test_padding_is_left_alone(self):
        rows = {"positions": "len", "requests": [{"seq": 1}, {"seq": None}]}
        report, tensors, _ = self.output(step(rows=rows))
        self.assertEqual((report["rows"], report["rows_padding"], report["lengths_after"]), (2, 1, [3, 2]))
        self.assertEqual(tensors["out"].row(1), b"\xff" * 64)
        self.assertNotEqual(tensors["out"].row(0), b"\xff" * 64)

    def test_a_machine_with_too_little_memory_says_so(self):
        spec = step(cache={"batch": 60000, "capacity": 1 << 20})
        spec["rows"]["requests"] = []
        spec["input"] = {"qkv": {"random": {"seed": 1}}}
        line = self.refuse(FAILED, *RUN, self.write("w.json", spec))
        self.assertIn("w.json: cache: 0 rows and 60000 x 1048576 positions of 1 layers need 11250.0 GiB of memory", line)


class Output(Run):
    def test_a_step_gives_rows_and_its_layers_cache(self):
        report, tensors, metadata = self.output(step())
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        cache = [2, 1, 4, 8]
        self.assertEqual(shapes, {"q": [2, 2, 8], "out": [2, 2, 8], "cache_k": cache, "cache_v": cache})
        self.assertEqual(metadata, {"signature": report["signature"]})
        self.assertEqual(tensors["q"].dtype, "F32")

    def test_blocks_come_out_as_they_stand(self):
        cache = {"batch": 2, "capacity": 16, "lengths": [9, 1], "block": 8, "blocks": 5}
        _, tensors, _ = self.output(step(cache=cache))
        self.assertEqual(tensors["cache_k"].shape, [5, 1, 8, 8])

    def test_rope_alone_gives_q_k_and_v_in_its_order(self):
        spec = {
            "steergraph": 1,
            "family": "rope",
            "geometry": {"heads": 2, "kv_heads": 1, "dim": 8, "dtype": "bf16"},
            "rope": {"order": "heads"},
            "rows": {"requests": [{"rows": 3}]},
            "input": {"qkv": {"random": {"seed": 1}}},
        }
        _, tensors, _ = self.output(spec)
        self.assertEqual({name: tensor.shape for name, tensor in tensors.items()}, {"q": [2, 3, 8], "k": [1, 3, 8], "v": [1, 3, 8]})
        self.assertEqual(tensors["v"].dtype, "BF16")

    def test_backward_undoes_forward(self):
        spec = {
            "steergraph": 1,
            "family": "rope",
            "geometry": {"heads": 2, "kv_heads": 1, "dim": 8, "dtype": "f32"},
            "rope": {},
            "rows": {"requests": [{"rows": 3, "position": 7}]},
        }
        values, source = self.numbers("qkv", (3, 32), 1)
        report, tensors, _ = self.output({**spec, "input": {"qkv": source}})
        (self.folder / "turned.st").write_bytes((self.folder / "out.st").read_bytes())
        turned = {name: {"file": "turned.st", "tensor": name} for name in "qkv"}
        back, tensors, _ = self.output({**spec, "rope": {"direction": "backward"}, "input": turned})
        self.assertEqual(list(tensors), ["qkv"])
        self.assertIn(" dir=backward | ", back["signature"])
        self.assertNotEqual(report["checksum"], back["checksum"])
        for was, is_now in zip(values, tensors["qkv"].floats(), strict=True):
            self.assertAlmostEqual(was, is_now, delta=1e-6)

    def test_an_output_that_the_run_reads_is_refused(self):
        _, source = self.numbers("qkv", (2, 32), 1)
        self.numbers("table", (4, 2, 4), 2)
        spec = step(rope={"table": {"positions": 4, "file": "table.st", "tensor": "t"}})
        spec["input"]["qkv"] = source
        path = self.write("w.json", spec)
        before = {p.name: p.read_bytes() for p in self.folder.iterdir() if p.is_file()}
        for name, place in (("w.json", "this file itself"), ("qkv.st", "input.qkv"), ("table.st", "rope.table")):
            with self.subTest(output=name):
                line = self.refuse(FAILED, *RUN, "--output", name, path)
                self.assertEqual(
                    line,
                    f"steergraph: {path}: --output '{name}' would replace a file that is read ({place}); name another file",
                )
        line = self.refuse(FAILED, *RUN, "--output", "x.st", "--save-traffic", "x.st", path)
        self.assertIn(f"{path}: --output and --save-traffic are both 'x.st'; name two files", line)
        after = {p.name: p.read_bytes() for p in self.folder.iterdir() if p.is_file()}
        self.assertEqual(after, before)

    def test_an_output_that_a_steered_step_reads_is_refused(self):
        self.numbers("v", (1, 16), 1)
        path = self.write("w.json", steered({"v": {"file": "v.st", "tensor": "t", "row": 0}}))
        line = self.refuse(FAILED, *RUN, "--output", "v.st", path)
        self.assertIn("--output 'v.st' would replace a file that is read (steer.vectors.v)", line)

    def test_places_that_cannot_be_written_are_named(self):
        path = self.write("w.json", step())
        self.assertIn("no/such", self.refuse(FAILED, *RUN, "--output", "no/such/out.st", path))
        self.assertIn("'-'", self.refuse(FAILED, *RUN, "--output", "-", path))
        self.assertFalse((self.folder / "no").exists())

    def test_inputs_that_do_not_fit_are_named(self):
        self.numbers("k", (2, 1, 4, 4), 1)
        spec = step()
        spec["input"]["k"] = {"file": "k.st", "tensor": "t"}
        line = self.refuse(FAILED, *RUN, self.write("w.json", spec))
        self.assertIn("w.json: input.k", line)
        spec = step(rope={"table": {"positions": 4, "file": "k.st", "tensor": "t"}})
        self.assertIn("rope.table", self.refuse(FAILED, *RUN, self.write("w.json", spec)))


def llama3_frequencies(rope, rot):
    """As Llama 3 has them, in float64."""
    scaling = rope["scaling"]
    for i in range(rot // 2):
        frequency = rope["base"] ** (-2 * i / rot)
        wave = 2 * math.pi / frequency
        ramp = (scaling["original"] / wave - scaling["low"]) / (scaling["high"] - scaling["low"])
        ramp = min(1.0, max(0.0, ramp))
        yield frequency * (ramp + (1 - ramp) / scaling["factor"])


class Numbers(Run):
    """Against formulas that are written out here."""

    def test_llama3_turns_as_written(self):
        spec = example("rope_llama3")
        spec["geometry"].update(heads=2, kv_heads=1)
        spec["rows"] = {"requests": [{"seq": 0, "rows": 2, "position": 5}, {"positions": [255, 8191, 131071]}]}
        positions = [5, 6, 255, 8191, 131071]
        values, spec["input"]["qkv"] = self.numbers("qkv", (5, 4 * 64), 1)
        _, tensors, _ = self.output(spec)
        frequencies = list(llama3_frequencies(spec["rope"], 64))
        q, k, v = (tensors[name].floats() for name in "qkv")
        for row, position in enumerate(positions):
            packed = [values[(row * 4 + head) * 64 :][:64] for head in range(4)]
            given = [q[(row * 2 + head) * 64 :][:64] for head in range(2)] + [k[row * 64 :][:64]]
            for head, now in zip(packed, given):
                for i, frequency in enumerate(frequencies):
                    a, b = head[i], head[i + 32]
                    c, s = math.cos(position * frequency), math.sin(position * frequency)
                    slack = 2**-23 * (position * frequency + 4) * math.hypot(a, b)
                    for element, ref in ((i, a * c - b * s), (i + 32, b * c + a * s)):
                        self.assertAlmostEqual(now[element], ref, delta=abs(ref) * 2**-8 + slack)
            self.assertEqual(v[row * 64 :][:64], packed[3])

    def attend(self, q, keys, values, scale):
        scores = [scale * sum(x * y for x, y in zip(q, key)) for key in keys]
        weights = [math.exp(score - max(scores)) for score in scores]
        total = sum(weights)
        return [sum(w * value[d] for w, value in zip(weights, values)) / total for d in range(len(q))]

    def check_decode(self, dtype, window, tolerance):
        heads, kv_heads, dim, capacity, lengths = 4, 2, 128, 64, [5, 33, 63]
        spec = example("kv_decode")
        spec["geometry"].update(heads=heads, kv_heads=kv_heads, dtype=dtype)
        spec["attend"] = {"window": window} if window else {}
        spec["cache"] = {"batch": 3, "capacity": capacity, "lengths": lengths}
        spec["rows"]["requests"] = [{"repeat": 3}]
        q, spec["input"]["q"] = self.numbers("q", (3, heads, dim), 1)
        k, spec["input"]["k"] = self.numbers("k", (3, kv_heads, capacity, dim), 2)
        v, spec["input"]["v"] = self.numbers("v", (3, kv_heads, capacity, dim), 3)
        _, tensors, _ = self.output(spec)
        out = tensors["out"].floats()
        for seq, length in enumerate(lengths):
            for head in range(heads):
                at = (seq * heads + head) * dim
                of_kv = (seq * kv_heads + head // (heads // kv_heads)) * capacity
                first = max(0, length - window + 1) if window else 0
                places = [(of_kv + position) * dim for position in range(first, length + 1)]
                ref = self.attend(q[at:][:dim], [k[p:][:dim] for p in places], [v[p:][:dim] for p in places], dim**-0.5)
                for now, element in zip(out[at:][:dim], ref):
                    self.assertAlmostEqual(now, element, delta=abs(element) * tolerance + 1e-5)

    def test_attention_is_a_softmax_over_the_cache(self):
        self.check_decode("bf16", 0, 2**-8)

    def test_a_window_is_the_last_positions(self):
        self.check_decode("f32", 16, 1e-5)

    def test_what_a_step_appends_is_read_by_it(self):
        """A first position reads itself alone: what comes out is its V."""
        values, source = self.numbers("qkv", (2, 32), 1)
        spec = step(cache={"batch": 2, "capacity": 4}, input={"qkv": source})
        report, tensors, _ = self.output(spec)
        for row in range(2):
            v = values[row * 32 + 24 :][:8]
            self.assertEqual(tensors["out"].floats()[row * 16 :][:16], v * 2)
            self.assertEqual(tensors["cache_v"].floats()[row * 32 :][:8], v)
        self.assertEqual(report["lengths_after"], [1, 1])

    def test_a_table_has_the_angles(self):
        quarter = [0.0] * 4 + [1.0] * 4  # cosine 0, sine 1
        table = {"positions": 4, "values": quarter * 4}
        values, source = self.numbers("qkv", (2, 32), 1)
        spec = step(rope={"table": table}, cache={"batch": 2, "capacity": 4}, input={"qkv": source})
        _, tensors, _ = self.output(spec)
        for row in range(2):
            for head in range(2):
                was = values[row * 32 + head * 8 :][:8]
                now = tensors["q"].floats()[(row * 2 + head) * 8 :][:8]
                self.assertEqual(now, [-x for x in was[4:]] + was[:4])


class Traffic(Run):
    def test_a_manifest_has_what_was_launched(self):
        for name in ("rope_llama3", "kv_decode") if QUICK else NAMES:
            with self.subTest(spec=name):
                report = self.succeed(*RUN, "--save-traffic", "m.json", SPECS / f"{name}.json").json()
                entries = {entry["signature"]: entry["count"] for entry in json.loads((self.folder / "m.json").read_text())["manifest"]}
                self.assertEqual(entries[report["signature"].replace(" | cpu", "")], 1)

    def test_a_manifest_of_a_step_is_warmed_and_built(self):
        self.use_stub_compiler()
        self.succeed(*RUN, "--save-traffic", "m.json", SPECS / "toto_timewise.json")
        report = self.succeed("warm", "--backend", "cpu", "--json", "m.json").json()
        self.assertEqual((report["manifests"][0]["done"], report["manifests"][0]["failed"]), (1, 0))
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        built = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "kernels", "m.json").json()
        self.assertEqual([kernel["variant"] for kernel in built["kernels"]], ["rope", "decode", "rope"])
        again = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "kernels", SPECS / "toto_timewise.json").json()
        self.assertEqual((again["compiled"], again["already_there"]), (0, 3))


tap.main()
