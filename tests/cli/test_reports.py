#!/usr/bin/env python3
"""`explain`, `ops`, `vectors` and `doctor`: what they say is right, and the JSON says the same."""
import json
import math
import struct

import tap
from cli import EXAMPLES, FAILED, ROOT, SPECS, Case, safetensors_bytes, small_workload

PACK = ROOT / "tests" / "data" / "packs" / "small.sgp"
OP = {
    "op": "lean",
    "note": "half a step",
    "vectors": ["v"],
    "params": {"amount": {"default": 0.5}, "limit": {}},
    "require": ["amount >= 0"],
    "body": ["h += min(amount, limit) * v"],
}


class Explain(Case):
    def explain(self, *words):
        return self.succeed("explain", "--json", *words).json()

    def test_the_signature_has_every_field(self):
        report = self.explain("--arch", "sm_90", SPECS / "steer_mixed.json")
        for piece in ("steer v1 | ", "hidden=4096", "dtype=bf16", "bank=bf16", "state=hidden", "tile=prefill",
                      "sm_90", "batch<=32", "seq<=64", "rows<=2048"):  # fmt: skip
            self.assertIn(piece, report["signature"])
        self.assertTrue(report["signature"].startswith(report["kernel_signature"]))
        self.assertEqual(report["variant"], "prefill")
        self.assertEqual(report["batch"], {"rows": 2048, "requests": 32, "longest": 64})
        self.assertGreater(report["launch"]["threads"], 0)
        self.assertEqual(report["launch"]["rows_per_block"], 1)

    def test_one_row_per_request_takes_the_decode_variant(self):
        report = self.explain("--arch", "sm_90", SPECS / "steer_decode.json")
        self.assertEqual(report["variant"], "decode")
        self.assertIn("seq<=1 ", report["signature"])
        self.assertEqual(report["launch"]["rows_per_block"], 1)

    def test_every_example_is_explained_for_every_architecture(self):
        for path in EXAMPLES:
            keys = set()
            for arch in ("sm_80", "sm_90", "sm_100", "cpu"):
                with self.subTest(spec=path.name, arch=arch):
                    report = self.explain("--arch", arch, path)
                    self.assertIn(arch, report["signature"])
                    keys.add(report["kernel_key"])
            self.assertEqual(len(keys), 4)

    def test_the_cpu_signature_is_the_one_that_run_reports(self):
        path = SPECS / "steer_ragged.json"
        report = self.explain("--arch", "cpu", path)
        ran = self.succeed("run", "--backend", "cpu", "--no-timing", "--json", path).json()
        for name in ("signature", "kernel_key", "graph_key"):
            self.assertEqual(report[name], ran[name])

    def test_keys_do_not_depend_on_place_or_time_or_names(self):
        first = self.write("a.json", small_workload())
        renamed = small_workload(vectors={"w": {"values": [1, 0, 0, 0, 0, 0, 0, 0]}})
        renamed["slots"] = {"x": {"layers": {"0": [{"op": "add", "v": "w"}]}}}
        for request in renamed["batch"]["requests"]:
            request["slot"] = request["slot"] and "x"
        second = self.write("b/b.json", renamed)
        one, two = self.explain("--arch", "sm_90", first), self.explain("--arch", "sm_90", second)
        for name in ("signature", "kernel_key", "graph_key"):
            self.assertEqual(one[name], two[name])

    def test_a_row_bucket_changes_the_graph_and_not_the_kernel(self):
        larger = small_workload()
        larger["batch"]["requests"] = [{"slot": "up", "rows": 2, "repeat": 300}]
        one = self.explain("--arch", "sm_90", self.write("a.json", small_workload()))
        two = self.explain("--arch", "sm_90", self.write("b.json", larger))
        self.assertEqual(one["kernel_key"], two["kernel_key"])
        self.assertNotEqual(one["graph_key"], two["graph_key"])

    def test_the_source_is_the_kernel(self):
        report = self.explain("--arch", "sm_90", "--source", SPECS / "steer_mixed.json")
        self.assertIn("__global__", report["source"])
        self.assertNotIn("source", self.explain("--arch", "sm_90", SPECS / "steer_mixed.json"))
        text = self.succeed("explain", "--arch", "sm_90", "--source", SPECS / "steer_mixed.json").out
        self.assertIn(report["source"], text)

    def test_no_name_of_the_spec_reaches_the_source(self):
        workload = small_workload(vectors={"zyxwv": {"values": [1, 0, 0, 0, 0, 0, 0, 0]}})
        workload["slots"] = {"qponm": {"layers": {"0": [{"op": "add", "v": "zyxwv"}]}}}
        for request in workload["batch"]["requests"]:
            request["slot"] = request["slot"] and "qponm"
        source = self.explain("--arch", "sm_90", "--source", self.write("w.json", workload))["source"]
        self.assertNotIn("zyxwv", source)
        self.assertNotIn("qponm", source)

    def test_the_cpu_has_no_source_and_says_so(self):
        self.assertIsNone(self.explain("--arch", "cpu", "--source", SPECS / "steer_decode.json")["source"])
        self.assertIn("no source", self.succeed("explain", "--arch", "cpu", "--source", SPECS / "steer_decode.json").out)

    def test_programs_are_printed_once_per_list_of_ops(self):
        programs = self.explain("--arch", "cpu", "--program", SPECS / "steer_mixed.json")["programs"]
        lists = [tuple(program["ops"]) for program in programs]
        self.assertEqual(len(lists), len(set(lists)))
        for program in programs:
            self.assertRegex(program["program"], r"(?m)^scale = ")
            self.assertIn("slots.", program["chains"])

    def test_without_arch_the_text_says_which_was_taken(self):
        text = self.succeed("explain", SPECS / "steer_decode.json").out
        self.assertRegex(text, r"(?m)^  arch +sm_\d+")

    def test_why_miss_without_entries_says_so(self):
        words = ("explain", "--why-miss", "--arch", "sm_90", "--cache", "nowhere", SPECS / "steer_decode.json")
        self.assertIn("holds no entry", self.succeed(*words).out)
        miss = self.succeed(*words, "--json").json()["why_miss"]
        expected = {"hit": False, "nearest": None, "nearest_key": None, "bad": None, "problem": None, "factors": []}
        self.assertEqual(miss, expected)

    def test_an_unknown_op_is_named_with_its_place(self):
        workload = small_workload(slots={"up": {"layers": {"0": [{"op": "adds", "v": "v"}]}}})
        line = self.refuse(FAILED, "explain", "--arch", "cpu", self.write("w.json", workload))
        self.assertIn("slots.up.layers.0[0]", line)
        self.assertIn("adds", line)


class Ops(Case):
    def test_every_built_in_op_is_listed_with_its_definition(self):
        ops = self.succeed("ops", "--json").json()["ops"]
        self.assertEqual({op["op"] for op in ops}, {path.stem for path in (SPECS / "ops").glob("*.json")})
        for op in ops:
            with self.subTest(op=op["op"]):
                source = json.loads((SPECS / "ops" / f"{op['op']}.json").read_text())
                self.assertEqual(op["body"], source.get("body", []))
                self.assertEqual(op["output"], source.get("output"))
                self.assertEqual(op["vectors"], source.get("vectors", []))
                self.assertEqual([p["name"] for p in op["params"]], list(source.get("params", {})))
                self.assertEqual(op["note"], source.get("note"))
                self.assertRegex(op["body_hash"], "^[0-9a-f]{32}$")
                self.assertIs(op["builtin"], True)

    def test_defaults_are_shown_as_they_are_written(self):
        ops = {op["op"]: op for op in self.succeed("ops", "--json").json()["ops"]}
        self.assertEqual([p["default"] for p in ops["projection_cap"]["params"]], ["-inf", "inf"])
        self.assertEqual([p["default"] for p in ops["add"]["params"]], [1])

    def test_the_text_has_names_defaults_and_bodies(self):
        text = self.succeed("ops").out
        self.assertIn("add(v; scale=1)\n", text)
        self.assertIn("projection_cap(v; min=-inf, max=inf)\n", text)

    def test_a_user_op_is_checked_and_shown(self):
        path = self.write("lean.json", OP)
        (op,) = self.succeed("ops", "--json", path).json()["ops"]
        self.assertEqual(op["op"], "lean")
        self.assertIs(op["builtin"], False)
        self.assertEqual(op["params"], [{"name": "amount", "default": 0.5}, {"name": "limit", "default": None}])
        self.assertIn("lean(v; amount=0.5, limit)\n", self.succeed("ops", path).out)

    def test_a_faulty_op_names_file_statement_and_column(self):
        for body, place in ((["h += q * v"], "body[0]"), (["p = dot(h, v)", "h += (p * v"], "body[1]")):
            with self.subTest(body=body):
                line = self.refuse(FAILED, "ops", self.write("bad.json", {**OP, "body": body}))
                self.assertIn("bad.json", line)
                self.assertIn(place, line)
                self.assertIn("column", line)

    def test_a_name_of_a_built_in_op_is_refused(self):
        line = self.refuse(FAILED, "ops", self.write("add.json", {**OP, "op": "add"}))
        self.assertIn("add", line)

    def test_names_of_ops_have_at_most_63_characters(self):
        self.succeed("ops", self.write("long.json", {**OP, "op": "o" * 63}))
        line = self.refuse(FAILED, "ops", self.write("longer.json", {**OP, "op": "o" * 64}))
        self.assertIn("at most 63 characters", line)

    def test_one_bad_file_of_several_is_named(self):
        good = self.write("good.json", OP)
        self.assertIn("missing.json", self.refuse(FAILED, "ops", good, "missing.json"))

    def test_a_user_op_needs_the_parameter_without_a_default(self):
        self.write("lean.json", OP)
        workload = small_workload(ops=["lean.json"])
        workload["slots"] = {"up": {"layers": {"0": [{"op": "lean", "v": "v"}]}}}
        line = self.refuse(FAILED, "run", "--backend", "cpu", self.write("w.json", workload))
        self.assertIn("needs the parameter 'limit'", line)
        self.assertIn("slots.up.layers.0[0]", line)
        workload["slots"]["up"]["layers"]["0"][0]["limit"] = 1
        self.succeed("run", "--backend", "cpu", "--no-timing", self.write("w.json", workload))


class Vectors(Case):
    def setUp(self):
        super().setUp()
        rows = struct.pack("<6f", 3, 4, 0, 1, 1, 1)
        half = struct.pack("<2e", 1.5, -2)
        brain = struct.pack("<2H", 0x3F80, 0x4000)  # 1, 2
        odd = struct.pack("<2f", float("nan"), 1)
        self.file = self.write("v.safetensors", safetensors_bytes({
            "rows": ("F32", [2, 3], rows), "half": ("F16", [2], half), "brain": ("BF16", [2], brain),
            "odd": ("F32", [2], odd), "имя": ("F32", [2], struct.pack("<2f", 0, 0)),
        }, {"made": "by hand"}))  # fmt: skip

    def test_ls_lists_names_types_and_shapes(self):
        report = self.succeed("vectors", "ls", "--json", self.file).json()
        self.assertEqual(report["metadata"], {"made": "by hand"})
        found = {t["name"]: (t["dtype"], t["shape"]) for t in report["tensors"]}
        self.assertEqual(found, {"rows": ("F32", [2, 3]), "half": ("F16", [2]), "brain": ("BF16", [2]),
                                 "odd": ("F32", [2]), "имя": ("F32", [2])})  # fmt: skip
        self.assertRegex(self.succeed("vectors", "ls", self.file).out, r"(?m)^rows +F32 +\[2, 3\]$")

    def test_show_prints_norms(self):
        tensors = {t["name"]: t for t in self.succeed("vectors", "show", "--json", self.file).json()["tensors"]}
        self.assertEqual(tensors["rows"]["rows"][0], {"row": 0, "norm": 5, "max_abs": 4, "non_finite": 0})
        self.assertAlmostEqual(tensors["rows"]["rows"][1]["norm"], math.sqrt(3))
        self.assertEqual(tensors["half"]["rows"][0]["norm"], 2.5)
        self.assertAlmostEqual(tensors["brain"]["rows"][0]["norm"], math.sqrt(5))
        self.assertEqual(tensors["odd"]["rows"][0], {"row": 0, "norm": "nan", "max_abs": 1, "non_finite": 1})
        self.assertEqual(tensors["имя"]["rows"][0]["norm"], 0)

    def test_show_takes_one_tensor(self):
        report = self.succeed("vectors", "show", "--json", self.file, "half").json()
        self.assertEqual([t["name"] for t in report["tensors"]], ["half"])
        self.assertRegex(self.succeed("vectors", "show", self.file, "half").out, r"(?m)^half +0 +2\.5 +2 +0$")

    def test_a_tensor_that_is_not_there_is_named(self):
        line = self.refuse(FAILED, "vectors", "show", self.file, "halff")
        self.assertIn("'halff'", line)

    def test_files_that_are_none_are_refused(self):
        for data in (b"", b"hello", b"\x80\x02}q\x00.", struct.pack("<Q", 8) + b"[1,2,3] "):
            with self.subTest(data=data[:8]):
                self.assertIn("x.st", self.refuse(FAILED, "vectors", "ls", self.write("x.st", data)))

    def test_the_output_of_run_can_be_listed(self):
        spec = self.write("w.json", small_workload())
        self.succeed("run", "--backend", "cpu", "--no-timing", "--output", "out.st", spec)
        report = self.succeed("vectors", "ls", "--json", "out.st").json()
        self.assertEqual([(t["name"], t["shape"]) for t in report["tensors"]], [("hidden", [4, 8])])


class Doctor(Case):
    def setUp(self):
        super().setUp()
        self.use_stub_compiler()

    def test_it_reports_every_part(self):
        self.use_own_libraries()
        outcome = self.succeed("doctor", "--json")
        report = outcome.json()
        self.assertEqual(list(report), ["version", "cpu", "gpu", "compiler", "cache", "pack", "environment"])
        self.assertIs(report["cpu"]["ok"], True)
        for part in ("gpu", "compiler", "cache"):
            self.assertEqual(report[part]["ok"], report[part]["problem"] is None)

    def test_what_is_missing_comes_with_a_remedy(self):
        outcome = self.succeed("doctor")
        self.assertEqual(outcome.out.count(" missing "), outcome.out.count(" remedy "))
        self.assertRegex(outcome.out, "workloads run on the (CPU|GPU)\n$")

    def test_it_leaves_nothing_behind(self):
        self.environment["TMPDIR"] = str(self.folder)
        self.succeed("doctor")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["home"])
        self.assertEqual(list((self.folder / "home").iterdir()), [])

    def test_a_wrong_variable_is_said_and_fails(self):
        self.environment["STEERGRAPH_LOG"] = "loud"
        outcome = self.run_command("doctor")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("STEERGRAPH_LOG", outcome.out)
        self.assertIn("loud", outcome.out)

    def test_a_wrong_variable_is_said_once_and_the_rest_is_looked_at(self):
        usual = self.succeed("doctor", "--json").json()
        self.environment["STEERGRAPH_NO_JIT"] = "yes"
        self.environment["STEERGRAPH_LOG"] = "loud"
        outcome = self.run_command("doctor")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertEqual(outcome.out.count("'yes' is neither 0 nor 1"), 1, outcome)
        self.assertEqual(outcome.out.count("'loud'"), 1, outcome)
        self.assertRegex(outcome.out, r"STEERGRAPH_NO_JIT +wrong .*\n +remedy +unset it")
        report = self.run_command("doctor", "--json").json()
        for part in ("cpu", "gpu", "compiler", "cache"):
            self.assertEqual(report[part]["ok"], usual[part]["ok"])
        self.assertEqual(report["environment"]["STEERGRAPH_NO_JIT"], "yes")
        self.assertIn("'yes'", report["environment"]["problem"])

    def test_the_variable_of_hosts_is_shown_and_keeps_nothing_from_running(self):
        self.environment["STEERLLM_COMPILE_STEERING"] = "1"
        outcome = self.succeed("doctor")
        self.assertRegex(outcome.out, r"STEERLLM_COMPILE_STEERING +set +1\n")
        self.environment["STEERLLM_COMPILE_STEERING"] = "2"
        outcome = self.succeed("doctor")
        self.assertRegex(outcome.out, r"STEERLLM_COMPILE_STEERING +wrong +'2' is neither 0 nor 1\n +remedy +unset it")
        environment = self.succeed("doctor", "--json").json()["environment"]
        self.assertEqual((environment["ok"], environment["STEERLLM_COMPILE_STEERING"]), (False, "2"))

    def test_a_cache_folder_that_cannot_be_made_is_said_and_fails(self):
        self.write("file", "no folder")
        (self.folder / "dangling").symlink_to("missing")
        for path in ("file/kernels/deep", "dangling"):
            with self.subTest(path=path):
                self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / path)
                outcome = self.run_command("doctor", "--json")
                self.assertEqual(outcome.code, FAILED, outcome)
                self.assertIs(outcome.json()["cache"]["ok"], False)
                self.assertIn(str(self.folder / path), outcome.json()["cache"]["problem"])

    def test_a_cache_folder_that_can_be_made_is_ok(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "not/yet")
        report = self.succeed("doctor", "--json").json()
        self.assertEqual((report["cache"]["ok"], report["cache"]["writable"]), (True, True))
        self.assertFalse((self.folder / "not").exists())

    def test_a_cache_folder_that_others_can_write_is_said_and_fails(self):
        shared = self.folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        self.environment["STEERGRAPH_CACHE_DIR"] = str(shared)
        outcome = self.run_command("doctor")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn(str(shared), outcome.out)

    def look_through(self, pack):
        self.environment["STEERGRAPH_CACHE_DIR"] = f"{pack}:{self.folder / 'rw'}"
        outcome = self.succeed("doctor")
        self.assertEqual(outcome.err, "")
        return outcome.out, self.succeed("doctor", "--json").json()["cache"]

    def test_a_pack_that_engines_use_has_its_entries_counted(self):
        pack = self.write("k.sgp", PACK.read_bytes())
        pack.chmod(0o644)
        out, cache = self.look_through(pack)
        self.assertRegex(out, r"\n +cache +ok .*, writable, 3 entries\n")
        self.assertEqual((cache["ok"], cache["entries"], cache["passed_over"]), (True, 3, []))

    def test_a_pack_that_engines_pass_over_is_said_and_fails_nothing(self):
        pack = self.write("k.sgp", PACK.read_bytes())
        pack.chmod(0o666)
        torn = self.write("torn.sgp", PACK.read_bytes()[:-1])
        torn.chmod(0o644)
        for path, problem, remedy in (
            (pack, "has mode 0666, so that others can write it", "chmod go-w it"),
            (torn, "its header says", "make it again with 'steergraph build --pack'"),
        ):
            with self.subTest(path=path):
                out, cache = self.look_through(path)
                self.assertRegex(out, rf"\n +cache pack +unused +cache pack '{path}'.*{problem}.*\n +remedy +{remedy}")
                self.assertRegex(out, r"\n +cache +ok .*, writable, 0 entries\n")
                self.assertEqual((cache["ok"], cache["entries"], cache["problem"]), (True, 0, None))
                self.assertEqual([bad["path"] for bad in cache["passed_over"]], [str(path)])
                self.assertIn(problem, cache["passed_over"][0]["problem"])

    def test_a_pack_in_the_place_that_is_written_to_is_said_and_fails(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = f"{self.folder}:{PACK}"
        outcome = self.run_command("doctor")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertRegex(outcome.out, r"cache +missing .*\n +remedy +put a folder after a pack")


tap.main()
