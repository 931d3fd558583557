#!/usr/bin/env python3
"""Manifests: `run --save-traffic`, `warm`, and `build` of a manifest."""
import json
import os
import pathlib
import pty
import re
import signal

import tap
from cli import FAILED, ROOT, SPECS, WRONG, Case, small_workload
from terminal import said_on_terminal

GOLDEN = ROOT / "tests" / "data" / "traffic_user_op.json"
GOLDEN_OUTPUT = ROOT / "tests" / "data" / "traffic_output_op.json"
WATCH = {"op": "watch", "vectors": ["v"], "params": {"column": {}}, "output": "2 * dot(h, v)"}
TYPES = " chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | tile="
REST = " epilogue=none windows=0 counters=0 probes=0 | batch<=8 "


def signature(ops="add", rows=4, seq=1):
    tile = "decode" if seq == 1 else "prefill"
    return f"steer v1 | ops={ops}{TYPES}{tile}{REST}seq<={seq} rows<={rows}"


def manifest(*signatures, **members):
    entries = [{"signature": text, "count": len(signatures) - i} for i, text in enumerate(signatures)]
    return {"steergraph": 1, "manifest": entries, **members}


def joined():
    """Three services, two of which name different ops alike, and one as a built-in is named."""
    ops = {
        "7c97964c016a520917269ca412d286c0": {"op": "nudge", "vectors": ["v"], "body": ["h += v"]},
        "0d088f00378a530aca1e9e6ac445d42c": {"op": "nudge", "vectors": ["v"], "body": ["h += 0.25 * v"]},
        "2b2dc7358d79c184cb2847f1198166a8": {**WATCH, "op": "probe"},
    }
    texts = [signature(f"user:{key}") for key in ops]
    texts[2] = texts[2].replace("probes=0", "probes=1")
    return manifest(*texts, user_ops=ops)


class Saved(Case):
    def test_a_run_on_the_cpu_gives_the_golden(self):
        words = ("run", "--backend", "cpu", "--declare", "used", "--no-timing", "--save-traffic", "t.json", SPECS / "steer_user_op.json")
        self.succeed(*words)
        self.assertEqual((self.folder / "t.json").read_text(), GOLDEN.read_text())
        self.succeed(*words)  # replaced
        self.assertEqual((self.folder / "t.json").read_text(), GOLDEN.read_text())

    def test_its_signature_is_that_of_the_report_without_the_architecture(self):
        spec = self.write("w.json", small_workload())
        report = self.succeed("run", "--backend", "cpu", "--json", "--save-traffic", "t.json", spec).json()
        (entry,) = json.loads((self.folder / "t.json").read_text())["manifest"]
        self.assertEqual(entry["signature"], report["signature"].replace(" | cpu | ", " | "))
        self.assertGreaterEqual(entry["count"], 1)

    def test_it_replaces_nothing_that_the_run_reads_or_writes(self):
        spec = self.write("w.json", small_workload())
        before = spec.read_bytes()
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--save-traffic", spec, spec)
        self.assertIn(f"--save-traffic '{spec}' would replace a file that is read", line)
        self.assertEqual(spec.read_bytes(), before)
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--output", "o", "--save-traffic", "o", spec)
        self.assertIn("--output and --save-traffic are both 'o'; name two files", line)
        self.assertFalse((self.folder / "o").exists())
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--save-traffic", "no/t.json", spec)
        self.assertIn("no", line)

    def test_a_dash_is_no_file_for_any_option(self):
        spec = self.write("w.json", small_workload())
        pack = self.folder / "small.sgp"
        pack.write_bytes((ROOT / "tests" / "data" / "packs" / "small.sgp").read_bytes())
        name = pathlib.Path(self.succeed("cache", "ls", "--json", "--cache", pack).json()["entries"][0]["path"]).name
        for words in (
            ("run", "--backend", "cpu", "--save-traffic", "-", spec),
            ("run", "--backend", "cpu", "--output", "-", spec),
            ("build", "--arch", "sm_90", "--pack", "-", spec),
            ("bench", "show", "--plot", "-", ROOT / "tools" / "bench" / "results" / "h200.json"),
            ("cache", "show", name[:8], "--cache", pack, "--cubin", "-"),
        ):
            with self.subTest(words=words):
                line = self.refuse(FAILED, *words)
                option = words[words.index("-") - 1]
                self.assertIn(f"{option} '-': files are not written to standard output; './-' names a file", line)
                self.assertFalse((self.folder / "-").exists())
        self.succeed("run", "--backend", "cpu", "--save-traffic", "./-", spec)
        self.assertTrue((self.folder / "-").is_file())


class Warm(Case):
    def warm(self, *words):
        return self.succeed("warm", "--backend", "cpu", "--json", *words)

    def test_the_cpu_has_nothing_to_compile_and_the_report_says_so(self):
        path = self.write("m.json", manifest(signature(), signature(rows=8), signature(seq=4)))
        outcome = self.warm(path)
        report = outcome.json()
        (one,) = report["manifests"]
        self.assertEqual(list(one), ["file", "total", "done", "failed", "left", "kernels_memory", "kernels_disk",
                                     "kernels_compiled", "kernels_failed", "graphs", "regions", "ms"])  # fmt: skip
        self.assertEqual((one["file"], one["total"], one["done"], one["failed"], one["left"]), (str(path), 3, 3, 0, 0))
        self.assertEqual([one[name] for name in one if name.startswith("kernels") or name == "graphs"], [0] * 5)
        self.assertEqual((report["backend"], report["ok"]), ("cpu", True))
        text = self.succeed("warm", "--backend", "cpu", path).out
        self.assertIn("m.json: 3 signatures: 3 ready, 0 failed, 0 left\n", text)
        self.assertIn("none: the CPU has nothing to compile; for GPUs that are elsewhere use 'steergraph build --arch'\n", text)

    def test_progress_is_plain_lines_where_no_terminal_is(self):
        path = self.write("m.json", manifest(signature(), signature(rows=8)))
        lines = self.warm(path).err.splitlines()
        self.assertEqual(lines[0], f"[1/2] {path}: {signature()}")
        self.assertRegex(lines[1], rf"^\[2/2\] \d+\.\d s left, {re.escape(str(path))}: {re.escape(signature(rows=8))}$")
        self.assertEqual(len(lines), 2)

    def test_progress_of_many_signatures_is_a_hundred_lines(self):
        count = 1050
        path = self.write("m.json", manifest(*(signature(rows=k) for k in range(1, count + 1))))
        numbers = [int(re.match(rf"\[(\d+)/{count}\] ", line)[1]) for line in self.warm(path).err.splitlines()]
        self.assertEqual(numbers[0], 1)
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(len(numbers), 100)
        self.assertLessEqual(max(b - a for a, b in zip(numbers, numbers[1:])), 11)

    def test_the_manual_says_how_many_lines_of_progress_there_are(self):
        manual = " ".join((ROOT / "tools" / "steergraph.1").read_text().split())
        limit, over = re.search(r"a line per signature, or (\d+) lines for a manifest of more than (\d+) signatures", manual).groups()
        for count, lines in ((int(over), int(over)), (int(over) + 1, int(limit))):
            with self.subTest(count=count):
                path = self.write("m.json", manifest(*(signature(rows=k) for k in range(1, count + 1))))
                self.assertEqual(len(self.warm(path).err.splitlines()), lines)

    def test_progress_is_one_line_on_a_terminal(self):
        path = self.write("m.json", manifest(*(signature(rows=8 * k) for k in range(1, 6))))
        seen, _ = said_on_terminal(self, "warm", "--backend", "cpu", path)
        pieces = seen.replace("\r\n", "\n").split("\r")
        self.assertEqual(pieces[0], "")
        self.assertTrue(pieces[-1].endswith("\n"))
        self.assertEqual("".join(pieces).count("\n"), 1)
        shown = [piece.rstrip("\n") for piece in pieces[1:]]
        self.assertEqual([text[:6] for text in shown], [f"[{k}/5] " for k in range(1, 6)])
        self.assertEqual({len(text) for text in shown}, {79})
        self.assertTrue(shown[0].startswith(f"[1/5] {path}: "))  # there is nothing to guess from yet
        for text in shown[1:]:
            self.assertRegex(text, rf"^\[\d/5\] \d+\.\d s left, {re.escape(str(path))}: ")

    def test_a_signal_ends_the_line_on_a_terminal_and_then_the_process(self):
        path = self.write("m.json", manifest(*(signature(rows=k) for k in range(1, 5001))))
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                ours, theirs = pty.openpty()
                process = self.start("warm", "--backend", "cpu", path, stderr=theirs)
                os.close(theirs)
                seen = os.read(ours, 10)  # it is at work, and soon waits for room on the terminal
                process.send_signal(number)
                try:
                    while piece := os.read(ours, 4096):
                        seen += piece
                except OSError:  # the other side has closed
                    pass
                os.close(ours)
                process.communicate()
                self.assertEqual(process.returncode, -number)
                self.assertTrue(seen.endswith(b"\n"), seen[-100:])
                self.assertEqual(seen.count(b"\n"), 1)
                self.assertIn(b"/5000] ", seen)

    def test_several_manifests_are_warmed_one_after_the_other(self):
        paths = [self.write(f"{name}.json", manifest(signature(ops))) for name, ops in (("a", "add"), ("b", "swap"))]
        report = self.warm(*paths).json()
        self.assertEqual([one["file"] for one in report["manifests"]], [str(path) for path in paths])
        self.assertEqual([one["done"] for one in report["manifests"]], [1, 1])

    def test_what_a_run_saved_is_warmed(self):
        self.assertEqual(self.warm(GOLDEN).json()["manifests"][0]["done"], 1)
        self.succeed("run", "--backend", "cpu", "--no-timing", "--save-traffic", "t.json", SPECS / "steer_norm.json")
        self.assertEqual(self.warm("t.json").json()["manifests"][0]["done"], 1)

    def test_a_user_op_with_an_output_is_saved_and_warmed(self):
        self.write("watch.json", WATCH)
        calls = [{"op": "watch", "v": "d", "column": 1}]
        spec = self.write("w.json", {
            "steergraph": 1,
            "family": "steer",
            "geometry": {"hidden_size": 8, "dtype": "f32"},
            "ops": ["watch.json"],
            "vectors": {"d": {"random": {"seed": 1}}},
            "slots": {"s": {"layers": {"0": calls}}},
            "batch": {"requests": [{"slot": "s", "rows": 1}]},
            "input": {"hidden": {"random": {"seed": 2}}},
        })  # fmt: skip
        self.succeed("run", "--backend", "cpu", "--declare", "used", "--save-traffic", "t.json", spec)
        self.assertEqual((self.folder / "t.json").read_text(), GOLDEN_OUTPUT.read_text())
        self.assertEqual(self.warm(GOLDEN_OUTPUT).json()["manifests"][0]["done"], 1)

    def test_ops_of_joined_manifests_may_have_one_name_or_that_of_a_built_in(self):
        path = self.write("m.json", joined())
        self.assertEqual(self.warm(path).json()["manifests"][0]["done"], 3)

    def test_declarations_beyond_the_bound_are_left(self):
        many = [signature().replace("hidden=8", f"hidden={k}") for k in range(1, 1031)]
        (one,) = self.warm(self.write("m.json", manifest(*many))).json()["manifests"]
        self.assertEqual((one["total"], one["done"], one["left"]), (1030, 1024, 6))

    def test_bad_manifests_are_refused_with_file_and_place(self):
        good = self.write("good.json", manifest(signature()))
        text = GOLDEN.read_text()
        (key,) = json.loads(text)["user_ops"]
        cases = {
            '{"steergraph": 1,\n "manifest": [,]}': "bad.json:2:15: expected a value",
            json.dumps(manifest("steer v2")): "bad.json: manifest[0].signature: column 1: expected 'steer v1 | ops=', found 'steer v2'",
            json.dumps(manifest(signature(), signature("quantize"))): "bad.json: manifest[1].signature: column 16: 'quantize' is no built-in op",
            json.dumps(manifest(signature("add,swap").replace("hidden=8", "hidden=0"))): "bad.json: manifest[0].signature: hidden_size: 0 is not in 1..",
            text.replace(key, "0" * 32): f"bad.json: user_ops.{'0' * 32}: the hash of its body is {key}",
            text.replace("dot(h, v)", "dot(h, q)"): f"bad.json: user_ops.{key}: body[0]: column ",
            json.dumps(small_workload()): "bad.json: family: unknown member; allowed: 'steergraph', 'user_ops', 'manifest'",
        }  # fmt: skip
        for bad, message in cases.items():
            with self.subTest(message=message):
                path = self.write("bad.json", bad)
                outcome = self.run_command("warm", "--backend", "cpu", good, path)
                self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
                (line,) = outcome.err.splitlines()  # nothing was warmed before
                self.assertIn(message, line)
        self.assertIn("none.json", self.refuse(FAILED, "warm", "none.json"))

    def test_a_deadline_leaves_what_it_does_not_reach(self):
        many = manifest(*(signature(rows=rows) for rows in range(1, 5001)))
        report = self.warm("--deadline", "0.001", self.write("m.json", many), self.write("n.json", many)).json()
        self.assertGreater(report["manifests"][0]["left"], 0)
        for one in report["manifests"]:
            self.assertEqual(one["total"], one["done"] + one["left"])
        self.assertIs(report["ok"], True)

    def test_wrong_words(self):
        path = self.write("m.json", manifest(signature()))
        for value in ("0", "-1", "1e3", "soon", "1.2.3", "9999999999"):
            line = self.refuse(WRONG, "warm", f"--deadline={value}", path)
            self.assertIn(f"--deadline '{value}': must be seconds above 0 and up to 4000000, such as 30 or 0.5", line)
        for value in ("0", "65", "2.5", "many"):
            line = self.refuse(WRONG, "warm", "--threads", value, path)
            self.assertIn(f"--threads '{value}': must be a number from 1 to 64", line)
        self.assertIn("MANIFEST... is missing", self.refuse(WRONG, "warm"))


class Packed(Case):
    """What `build` refuses before it compiles anything, with or without NVRTC."""

    def test_a_pack_replaces_nothing_that_build_reads(self):
        spec = self.write("w.json", small_workload())
        path = self.write("m.json", manifest(signature()))
        for files, pack, what in (
            ((path,), path, "this file itself"),
            ((spec, path), path, "this file itself"),
            ((path, spec), spec, "the workload itself"),
        ):
            before = pack.read_bytes()
            line = self.refuse(FAILED, "build", "--arch", "sm_90", "--pack", pack, *files)
            self.assertIn(f"{pack}: --pack '{pack}' would replace a file that is read ({what}); name another file", line)
            self.assertEqual(pack.read_bytes(), before)


    def test_manifests_without_signatures_are_refused(self):
        empty, other = self.write("e.json", manifest()), self.write("o.json", manifest())
        for words in (("--pack", "k.sgp", empty), ("--cache", "k", empty), ("--pack", "k.sgp", empty, other)):
            line = self.refuse(FAILED, "build", "--arch", "sm_90", *words)
            self.assertIn(f"{empty}: the manifest lists no signatures that have kernels of ours (regions have none), so there is nothing to build", line)
            self.assertFalse((self.folder / "k.sgp").exists() or (self.folder / "k").exists())


class Built(Case):
    """What needs NVRTC."""

    def setUp(self):
        super().setUp()
        self.use_stub_compiler()
        if not self.has_compiler():
            self.skipTest("no NVRTC here")

    def test_build_takes_a_manifest_and_its_kernels_are_then_found(self):
        spec = self.write("w.json", small_workload())
        self.succeed("run", "--backend", "cpu", "--save-traffic", "t.json", spec)
        path = self.write("m.json", manifest(signature("add,swap", seq=4), signature("add,swap"), signature("add,swap", rows=64)))
        report = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "k", "t.json", path, GOLDEN).json()
        self.assertEqual((report["compiled"], report["already_there"]), (6, 0))
        self.assertEqual([kernel["spec"] for kernel in report["kernels"]], [name for name in ("t.json", str(path), str(GOLDEN)) for _ in range(2)])
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache", "k")
        self.assertIs(self.succeed(*words, spec).json()["why_miss"]["hit"], True)
        user = self.succeed(*words, "--declare", "used", SPECS / "steer_user_op.json").json()
        self.assertIs(user["why_miss"]["hit"], True)
        again = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "k", spec, "t.json").json()
        self.assertEqual((again["compiled"], again["already_there"]), (0, 2))

    def test_ops_of_joined_manifests_are_told_by_their_hashes(self):
        path = self.write("m.json", joined())
        report = self.succeed("build", "--json", "--arch", "sm_90", "--cache", "k", path).json()
        self.assertEqual((report["compiled"], len({kernel["kernel_key"] for kernel in report["kernels"]})), (6, 6))

    def test_a_bad_manifest_is_refused_before_anything_is_compiled(self):
        good, bad = self.write("good.json", manifest(signature())), self.write("bad.json", manifest("x"))
        line = self.refuse(FAILED, "build", "--arch", "sm_90", "--cache", "k", good, bad)
        self.assertIn("bad.json: manifest[0].signature: column 1: ", line)
        self.assertFalse((self.folder / "k").exists())
        many = [signature().replace("hidden=8 ", f"hidden={size} ") for size in range(1, 1026)]
        line = self.refuse(FAILED, "build", "--arch", "sm_90", "--cache", "k", self.write("many.json", manifest(*many)))
        self.assertIn("many.json: more than 1024 different declarations; cut it in parts", line)
        self.assertFalse((self.folder / "k").exists())


if __name__ == "__main__":
    tap.main()
