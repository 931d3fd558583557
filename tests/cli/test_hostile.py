#!/usr/bin/env python3
"""Files and streams as they should not be: every one ends in one line and exit status 1."""
import json
import os
import pathlib
import resource
import signal
import struct
import time

import tap
from cli import DONE, FAILED, QUICK, SPECS, WRAPPER, Case, safetensors_bytes, small_workload


PAGES_READ = 20000  # of maps of files, which the program's own do not reach


class LostFiles(Case):
    """A file that somebody cuts off while it is read."""

    def cut_while_read(self, *words):
        """The file is sparse and large: it is cut once some of it was looked at, and most was not."""
        path = self.folder / "v\x1b.f32"
        with open(path, "wb") as file:
            file.truncate((1 << 30) - (1 << 20))
        process = self.start(*words)
        while int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[2]) < PAGES_READ:
            self.assertIsNone(process.poll(), "it ended before it read the file")
        os.truncate(path, 4096)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    def test_a_file_that_becomes_shorter_ends_in_one_line(self):
        out = self.folder / "o.safetensors"
        for words in (("vectors", "show", "--width", "1024"), ("vectors", "convert", "--width", "1024", "-o", out)):
            with self.subTest(words=words[1]):
                code, stdout, line = self.cut_while_read(*words, "v\x1b.f32")
                self.assertEqual((code, stdout), (FAILED, ""), line)
                self.assertRegex(line, r"^steergraph: '/[^']*v\?\.f32' became shorter, or unreadable, while [^\n]*\n$")
                self.assertFalse(out.exists())


class Names(Case):
    def test_no_control_character_of_unicode_reaches_the_terminal(self):
        header = {"a\x9b31m": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        text = json.dumps(header, ensure_ascii=False).encode()
        self.write("v.st", struct.pack("<Q", len(text)) + text + bytes(4))
        self.assertIn("a\\u009b31m", self.succeed("vectors", "ls", "v.st").out)
        self.assertIn("a\\u009b31m", self.succeed("vectors", "show", "v.st").out)


class SpecFiles(Case):
    def run_spec(self, path):
        return self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", path)

    def test_a_misspelt_bound_is_told_from_a_vector(self):
        for text in ("Inf", "-INF", "+inf", "Infinity"):
            with self.subTest(text=text):
                call = {"op": "add", "v": "v", "scale": text}
                path = self.write("w.json", small_workload(slots={"up": {"layers": {"0": [call]}}}))
                line = self.run_spec(path)
                self.assertIn(f"'{text}': a parameter takes a number, \"inf\" or \"-inf\"", line)

    def test_a_missing_file_is_named_with_the_reason(self):
        line = self.run_spec("no_such.json")
        self.assertIn("no_such.json", line)
        self.assertIn("No such file", line)

    def test_a_folder_is_refused(self):
        self.assertIn(str(self.folder), self.run_spec(self.folder))

    def test_an_unreadable_file_is_refused(self):
        if os.geteuid() == 0:
            self.skipTest("root reads everything")
        path = self.write("w.json", small_workload())
        path.chmod(0)
        self.assertIn("Permission denied", self.run_spec(path))

    def test_a_fifo_is_refused_without_waiting(self):
        os.mkfifo(self.folder / "fifo.json")
        self.assertIn("fifo.json", self.run_spec("fifo.json"))

    def test_a_device_is_refused(self):
        self.assertIn("/dev/zero", self.run_spec("/dev/zero"))

    def test_an_empty_file_is_refused(self):
        self.write("w.json", "")
        self.assertIn("w.json", self.run_spec("w.json"))

    def test_a_file_over_the_bound_is_refused_before_it_is_read(self):
        path = self.folder / "huge.json"
        with open(path, "wb") as file:
            file.truncate(1 << 40)  # sparse: a terabyte that no one may read
        line = self.run_spec(path)
        self.assertIn("huge.json", line)
        self.assertRegex(line, r"1099511627776|67108864|64 MiB")

    def test_a_long_spec_costs_time_and_memory_like_its_size(self):
        workload = small_workload()
        workload["batch"]["requests"] = [{"slot": "up", "rows": 1}] * 200_000
        self.write("w.json", workload)
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
        outcome = self.run_command("run", "--backend", "cpu", "--no-timing", "w.json", preexec_fn=limit)
        self.assertIn(outcome.code, (DONE, FAILED), outcome)

    def test_every_truncation_of_a_spec_is_refused(self):
        text = json.dumps(small_workload()).encode()
        for length in range(0, len(text), 23):
            with self.subTest(length=length):
                self.write("w.json", text[:length])
                self.assertIn("w.json", self.run_spec("w.json"))

    def test_bytes_that_are_no_json_are_refused(self):
        for data in (b"\x00", b"\xff\xfe", b"{" * 100_000, b"[" * 100_000, b"\x80\x04\x95", b'"' + b"\xc3" * 999):
            with self.subTest(data=data[:8]):
                self.write("w.json", data)
                self.run_spec("w.json")

    def test_numbers_beyond_reason_are_refused(self):
        for hidden in (0, -1, 1 << 62, 1e300, 8.5, "8", None, True):
            with self.subTest(hidden_size=hidden):
                self.write("w.json", small_workload(geometry={"hidden_size": hidden, "dtype": "f32"}))
                self.assertIn("geometry.hidden_size", self.run_spec("w.json"))

    def test_more_rows_than_the_format_allows_are_refused(self):
        requests = [{"slot": "up", "rows": 1 << 30, "repeat": 1 << 10}]
        self.write("w.json", small_workload(batch={"requests": requests}))
        self.assertIn("w.json: batch.requests", self.run_spec("w.json"))

    def test_more_memory_than_the_machine_has_is_refused_not_tried(self):
        width = 1 << 20
        workload = small_workload(
            geometry={"hidden_size": width, "dtype": "f32"},
            vectors={"v": {"random": {"seed": 1}}},
            batch={"requests": [{"slot": "up", "rows": 1 << 22}]},
        )
        self.write("w.json", workload)
        line = self.run_spec("w.json")
        self.assertIn("4194304 rows of stride 1048576 need 49152.0 GiB of memory", line)

    def test_names_in_any_script_work_and_are_shown(self):
        workload = small_workload(vectors={"честность": {"values": [1, 0, 0, 0, 0, 0, 0, 0]}})
        workload["slots"] = {"静か 🙂": {"layers": {"0": [{"op": "add", "v": "честность"}]}}}
        for request in workload["batch"]["requests"]:
            request["slot"] = request["slot"] and "静か 🙂"
        self.write("naïve 名.json", workload)
        outcome = self.run_command("run", "--backend", "cpu", "--no-timing", "naïve 名.json")
        self.assertEqual(outcome.code, DONE, outcome)
        self.assertIn("naïve 名.json: 3 requests", outcome.out)

    def test_a_name_cannot_write_to_the_terminal(self):
        self.write("w.json", small_workload(slots={"\x1b[2J": {"layers": {"0": [{"op": "nope"}]}}}))
        line = self.run_spec("w.json")
        self.assertNotIn("\x1b", line)

    def test_paths_may_not_leave_the_folder_unless_allowed(self):
        data = struct.pack("<8f", 1, 0, 0, 0, 0, 0, 0, 0)
        self.write("v.safetensors", safetensors_bytes({"v": ("F32", [8], data)}))
        self.write("in/w.json", small_workload(vectors={"v": {"file": "../v.safetensors", "tensor": "v"}}))
        self.assertIn("--allow-outside", self.run_spec("in/w.json"))
        self.succeed("run", "--backend", "cpu", "--no-timing", "--allow-outside", "in/w.json")


class VectorFiles(Case):
    def run_with(self, data, tensor="v"):
        self.write("v.safetensors", data)
        self.write("w.json", small_workload(vectors={"v": {"file": "v.safetensors", "tensor": tensor}}))
        line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", "w.json")
        self.assertIn("v", line)
        return line

    def good(self, values=(1, 0, 0, 0, 0, 0, 0, 0)):
        return safetensors_bytes({"v": ("F32", [len(values)], struct.pack(f"<{len(values)}f", *values))})

    def test_every_truncation_is_refused(self):
        data = self.good()
        for length in range(0, len(data), 7):
            with self.subTest(length=length):
                self.run_with(data[:length])

    def test_a_huge_declared_header_is_refused(self):
        self.run_with(struct.pack("<Q", 1 << 62) + b"{}")

    def test_widths_are_named(self):
        for width in (7, 9):
            with self.subTest(width=width):
                line = self.run_with(self.good([1] + [0] * (width - 1)))
                self.assertIn(str(width), line)
                self.assertIn("8", line)

    def test_a_missing_tensor_is_named(self):
        self.assertIn("'w'", self.run_with(self.good(), tensor="w"))

    def test_values_that_are_not_finite_are_refused(self):
        for bad in (float("nan"), float("inf")):
            with self.subTest(value=bad):
                self.run_with(self.good([1, 0, 0, bad, 0, 0, 0, 0]))

    def test_a_zero_vector_is_refused(self):
        self.assertIn("norm", self.run_with(self.good([0] * 8)))


FREE_BYTES = 64 << 20  # of addresses, that the program takes for any file
N_VALUES = 1_000_000


def framed(header):
    return struct.pack("<Q", len(header)) + header


class VectorMemory(Case):
    """Files made to cost as much as they can, within the addresses that their size allows: cJSON's tree is in it."""

    def limit(self, most):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def within(self, times, data):
        path = self.write("v.bin", data)
        if WRAPPER or QUICK or self.start("--version", preexec_fn=self.limit(FREE_BYTES)).wait() != DONE:
            self.skipTest("a sanitizer and valgrind take addresses of their own")
        limit = self.limit(FREE_BYTES + times * len(data))
        return self.run_command("vectors", "ls", "--json", path, preexec_fn=limit)

    def test_a_header_that_no_tensors_have_is_refused_before_its_tree_is_built(self):
        outcome = self.within(6, framed(b'{"v":[' + b"1," * (8 * N_VALUES // 2) + b"1]}"))
        self.assertEqual((outcome.code, outcome.out), (FAILED, ""), outcome)
        self.assertIn("more than 2000066 values; those of tensors take more bytes of a header", outcome.err)

    def test_a_header_that_is_built_costs_less_than_30_times_its_size(self):
        names = [b'"%x":' % i for i in range(N_VALUES // 4)]
        empty = b'{"dtype":"","shape":[0,0,0,0,0,0,0,0],"data_offsets":[0,0]}'
        for data, told in (
            (b'{"v":[' + b'"",' * (N_VALUES - 1) + b'""]' + b" " * N_VALUES + b"}", "v: expected an object"),
            (b'{"v":{' + b",".join(name + b"1" for name in names) + b"}}", "v.0: unknown member"),
            (b'{"__metadata__":{' + b",".join(name + b'""' for name in names) + b"}}", None),
            (b"{" + b",".join(name + empty for name in names[: N_VALUES // 20]) + b"}", None),
        ):
            with self.subTest(told=told, begins=data[:12]):
                outcome = self.within(30, framed(data))
                self.assertEqual(outcome.code, DONE if told is None else FAILED, outcome.err)
                self.assertIn(told or "", outcome.err)

    def test_directions_cost_less_than_48_times_their_size(self):
        outcome = self.within(48, b'{"directions":{"1":[' + b"1," * N_VALUES + b"1]}}")
        self.assertEqual(outcome.code, DONE, outcome.err)
        self.assertEqual(outcome.json()["tensors"][0]["shape"], [N_VALUES + 1])


class Streams(Case):
    def setUp(self):
        super().setUp()
        self.spec = self.write("w.json", small_workload())

    def test_a_closed_stdout_fails_and_says_so(self):
        for words in (("--help",), ("ops",), ("run", "--backend", "cpu", "--no-timing", self.spec)):
            with self.subTest(words=words):
                outcome = self.run_command(*words, stdout=None, preexec_fn=lambda: os.close(1))
                self.assertEqual(outcome.code, FAILED, outcome)
                self.assertIn("cannot write to 'stdout'", outcome.err)

    def test_a_closed_stdout_is_not_the_next_file(self):
        out = self.folder / "out.st"
        words = ("run", "--backend", "cpu", "--no-timing", "--json", "--output", out, self.spec)
        outcome = self.run_command(*words, stdout=None, preexec_fn=lambda: os.close(1))
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertNotIn(b'"backend"', out.read_bytes() if out.exists() else b"")

    def test_a_full_disk_behind_stdout_fails_and_says_so(self):
        with open("/dev/full", "wb") as full:
            outcome = self.run_command("ops", "--json", stdout=full)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("No space left", outcome.err)

    def test_a_pipe_without_a_reader_fails_and_says_so(self):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            outcome = self.run_command("ops", "--json", stdout=pipe)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("Broken pipe", outcome.err)

    def test_closed_stdin_and_stderr_do_no_harm(self):
        outcome = self.run_command(
            "run", "--backend", "cpu", "--no-timing", self.spec, stderr=None,
            preexec_fn=lambda: (os.close(0), os.close(2)),
        )  # fmt: skip
        self.assertEqual(outcome.code, DONE, outcome)

    def test_ctrl_c_ends_it_and_leaves_no_file(self):
        slow = json.loads((SPECS / "steer_mixed.json").read_text())
        slow["run"] = {"warmup": 0, "repeats": 100_000}
        spec = self.write("slow.json", slow)
        process = self.start("run", "--backend", "cpu", "--output", "out.st", spec)
        time.sleep(1.0)
        self.assertIsNone(process.poll(), "the run should take longer than this")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        names = sorted(p.name for p in self.folder.iterdir())
        self.assertEqual(names, ["home", "slow.json", "w.json"])

    def test_ctrl_c_ends_it_while_it_compiles(self):
        """NVRTC has handlers of its own meanwhile; what they do depends on the moment."""
        if not self.has_compiler():
            self.skipTest("no compiler")
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            for delay_s in (0.0, 0.016) if QUICK else (0.0, 0.004, 0.008, 0.016, 0.032):
                with self.subTest(signal=signal_number, delay_s=delay_s):
                    process = self.start("build", "--arch", "sm_90", "--cache", "cache", self.spec)
                    self.wait_for_handler(process)
                    time.sleep(delay_s)
                    process.send_signal(signal_number)
                    out, _ = process.communicate(timeout=60)
                    self.assertEqual((process.returncode, out), (-signal_number, b""))

    def wait_for_handler(self, process):
        """Until the process catches SIGINT, which none of our own code does."""
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            if int(caught.split()[1], 16) & 1 << (signal.SIGINT - 1):
                return
        self.fail("it has ended, or this compiler has no handlers")


class Environment(Case):
    def test_a_wrong_value_is_named_with_what_is_allowed(self):
        spec = self.write("w.json", small_workload())
        for name in (
            "STEERGRAPH_CACHE",
            "STEERGRAPH_CACHE_MAX_ENTRIES",
            "STEERGRAPH_CACHE_MAX_SIZE",
            "STEERGRAPH_LOG",
            "STEERGRAPH_NO_JIT",
        ):
            with self.subTest(variable=name):
                self.environment[name] = "nonsense"
                line = self.refuse(FAILED, "run", "--backend", "cpu", "--no-timing", spec)
                self.assertIn(name, line)
                self.assertIn("nonsense", line)
                del self.environment[name]

    def test_without_home_everything_works(self):
        del self.environment["HOME"]
        spec = self.write("w.json", small_workload())
        self.assertEqual(self.run_command("run", "--backend", "cpu", "--no-timing", spec).code, DONE)

    def test_a_cpu_run_makes_no_folder(self):
        spec = self.write("w.json", small_workload())
        self.succeed("run", "--backend", "cpu", "--no-timing", spec)
        self.assertEqual(list((self.folder / "home").iterdir()), [])


tap.main()
