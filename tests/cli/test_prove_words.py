#!/usr/bin/env python3
"""`steergraph prove`: its words, what it refuses, and what it says while it works."""
import os
import signal

import tap
from cli import DONE, FAILED, QUICK, SPECS, WRONG, Outcome
from prove_case import EXAMPLES, ProveCase, weights
from terminal import said_on_terminal

PROGRESS = r"prove: \d+ of \d+ candidates, \d+\.\d+ (us|ms|s) each, \d+\.\d s left"


class Words(ProveCase):
    def test_numbers_are_numbers(self):
        spec = self.spec()
        for words, said in (
            (("--limit", "0"), "--limit '0': expected a number from 1 to 999999999"),
            (("--check", "some"), "--check 'some': expected a number from 0 to 999999999, or 'all'"),
            (("--threads", "1025"), "--threads '1025': expected a number from 1 to 1024"),
            (("--threads=-1",), "--threads '-1': expected a number from 1 to 1024"),
            (("--trace", "a(b,c)", "--output", "x"), "--trace shows one query, and --output writes what all did; give one"),
            (("--trace", "a(b,c)", "--save-traffic", "x"),
             "--trace shows one query, and --save-traffic writes what all did; give one"),
        ):
            with self.subTest(words=words):
                line = self.refuse(WRONG, "prove", *words, spec)
                self.assertEqual(line, f"steergraph prove: {said} (see 'steergraph prove --help')")

    def test_what_it_does_not_serve(self):
        steer = SPECS / "steer_decode.json"
        line = self.refuse(FAILED, "prove", steer)
        self.assertEqual(line, f"steergraph: {steer}: family: 'prove' serves workloads of 'prover', found 'steer'; use 'steergraph run'")
        spec = self.spec()
        self.assertRegex(self.refuse(FAILED, "prove", "--backend", "cuda", spec), "no CUDA|built without CUDA headers")
        for backend in ("auto", "cpu"):
            self.assertEqual(self.prove("--backend", backend, spec)["backend"], "cpu")

    def test_the_arithmetic_is_the_words_or_the_specs(self):
        spec = self.spec(arithmetic="tf32")
        note = ["arithmetic: the CPU computes in float32"]
        for words, name, notes in (((), "tf32", note), (("--arithmetic", "tf32x3"), "tf32x3", note),
                                   (("--arithmetic", "f32"), "f32", [])):  # fmt: skip
            report = self.prove("--no-timing", *words, spec)
            self.assertIn(f" arithmetic={name} | ", report["signature"])
            self.assertEqual(report["notes"], notes)
        line = self.refuse(WRONG, "prove", "--arithmetic", "bf16", spec)
        self.assertIn("--arithmetic 'bf16'", line)

    def test_a_bad_workload_is_refused_as_the_reader_does(self):
        spec = self.spec(limits={"depth": 0})
        line = self.refuse(FAILED, "prove", spec)
        self.assertEqual(line, f"steergraph: {spec}: limits.depth: expected an integer from 1 to 64, found 0")
        self.assertIn("none.json", self.refuse(FAILED, "prove", "none.json"))
        bad = [path for path in sorted((SPECS / "bad").glob("*.json")) if '"family": "prover"' in path.read_text()]
        self.assertGreater(len(bad), 30)
        for path in bad[::8] if QUICK else bad:
            expected = path.with_suffix(".expect").read_text().splitlines()[0]
            self.assertEqual(self.refuse(FAILED, "prove", path.name, cwd=path.parent), f"steergraph: {expected}")

    def test_no_file_that_is_read_is_written(self):
        self.write("p.safetensors", weights(3, 5))
        policy = {"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "p.safetensors"}}
        spec = self.spec(policy=policy)
        for name in ("w.json", "facts.txt", "rules.txt", "queries.txt", "p.safetensors"):
            before = (self.folder / name).read_bytes()
            line = self.refuse(FAILED, "prove", "--output", name, spec)
            self.assertIn(f"--output '{name}' would replace a file that is read", line)
            self.assertEqual((self.folder / name).read_bytes(), before)
        line = self.refuse(FAILED, "prove", "--output", "-", spec)
        self.assertEqual(line, "steergraph: --output '-': files are not written to standard output; './-' names a file")

    def test_two_outputs_are_two_files_by_whatever_name(self):
        spec = self.spec()
        (self.folder / "real").mkdir()
        (self.folder / "link").symlink_to("real")
        self.write("old", "old")
        (self.folder / "soft").symlink_to("old")
        (self.folder / "hard").hardlink_to(self.folder / "old")
        for output, traffic in (
            ("o.st", "./o.st"), ("o.st", str(self.folder / "o.st")), ("real/../o.st", "o.st"),
            ("real/o.st", "link/o.st"), ("old", "soft"), ("hard", "old"),
        ):  # fmt: skip
            with self.subTest(output=output, traffic=traffic):
                line = self.refuse(FAILED, "prove", "--output", output, "--save-traffic", traffic, spec)
                said = f"--output '{output}' and --save-traffic '{traffic}' are the same file; name two files"
                self.assertEqual(line, f"steergraph: {spec}: {said}")
        self.assertEqual((self.folder / "old").read_text(), "old")
        self.assertFalse((self.folder / "o.st").exists() or (self.folder / "real" / "o.st").exists())
        self.succeed("prove", "--no-timing", "--output", "o.st", "--save-traffic", "real/o.st", spec)

    def test_a_file_that_cannot_be_written(self):
        line = self.refuse(FAILED, "prove", "--output", "none/out.st", self.spec())
        self.assertEqual(line, "steergraph: cannot create a file in 'none': No such file or directory")

    def test_paths_stay_in_the_folder_of_the_spec(self):
        spec = self.spec("sub/w.json", knowledge={"facts": "../facts.txt", "rules": "../rules.txt"},
                         queries={"list": ["sister(dan,eve)."]})  # fmt: skip
        self.assertIn("'../facts.txt'", self.refuse(FAILED, "prove", spec))
        self.prove("--allow-outside", spec)


class Progress(ProveCase):
    """Of the whole example, which takes minutes."""

    def test_lines_say_how_long_it_will_take_and_an_interrupted_run_leaves_nothing(self):
        process = self.start("prove", "--output", "out.st", EXAMPLES[1])
        line = process.stderr.readline().decode()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertRegex(line, rf"^{PROGRESS}\n$")
        self.assertEqual((process.returncode, out), (-signal.SIGINT, b""))
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("out")], [])

    def test_a_terminal_has_one_line_that_is_ended_also_where_it_is_interrupted(self):
        ours, theirs = os.openpty()
        process = self.start("prove", EXAMPLES[1], stderr=theirs)
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 65536):
                if seen == b"":
                    process.send_signal(signal.SIGTERM)
                seen += piece
        except OSError:  # EIO: nobody holds the other end
            pass
        os.close(ours)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (-signal.SIGTERM, b""))
        self.assertRegex(seen.decode(), rf"^(\r{PROGRESS} *)+\r\n$")

    def test_a_terminal_sees_the_end(self):
        spec = self.example(EXAMPLES[1], 1, 10 if QUICK else 60)
        seen, out = said_on_terminal(self, "prove", "--json", "--no-timing", "--check", "0", "--threads", "1", spec)
        self.assertRegex(seen, rf"^(\r{PROGRESS} *)+\r\n$")
        n = Outcome("", DONE, out.encode(), b"").json()["candidates"]
        self.assertIn(f"prove: {n} of {n} candidates, ", seen)

    def test_short_work_says_nothing(self):
        self.assertEqual(self.succeed("prove", self.spec()).err, "")


tap.main()
