"""What the cases share: run the command in a clean place, read what it prints and writes.

Usage of every test file: FILE.py COMMAND SOURCE_ROOT
STG_CLI_WRAPPER, when set, goes before the command ("valgrind -q --error-exitcode=99").
STG_TEST_STUBS, when set, is the folder of tests/stub in the build: a build without CUDA has none.
STG_TEST_QUICK=1 leaves out what only repeats the same code, for runs under a sanitizer.
"""
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

COMMAND = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(sys.argv[2]).resolve()
SPECS = ROOT / "specs"
WRAPPER = shlex.split(os.environ.get("STG_CLI_WRAPPER", ""))
EXAMPLES = sorted(SPECS.glob("steer_*.json"))  # those that the command works on
STUBS = pathlib.Path(os.environ["STG_TEST_STUBS"]) if "STG_TEST_STUBS" in os.environ else None
QUICK = os.environ.get("STG_TEST_QUICK") == "1"

DONE, FAILED, WRONG = 0, 1, 2


def strict_json(text):
    """Parse as a strict reader does: no NaN, no duplicate members, nothing after the value."""

    def members(pairs):
        names = [name for name, _ in pairs]
        if len(names) != len(set(names)):
            raise ValueError(f"duplicate member in {names}")
        return dict(pairs)

    def constant(name):
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, object_pairs_hook=members, parse_constant=constant)


class Outcome:
    """One finished command."""

    def __init__(self, words, code, out, err):
        self.words = words
        self.code = code
        self.out = (out or b"").decode()
        self.err = (err or b"").decode(errors="replace")

    def json(self):
        return strict_json(self.out)

    def __str__(self):
        return f"{self.words} -> {self.code}\nstdout: {self.out}\nstderr: {self.err}"


class Case(unittest.TestCase):
    """Every case has a folder of its own, a HOME in it, and no STEERGRAPH_* of the tester."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stg-cli-"))
        self.addCleanup(self.remove_folder)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("STEERGRAPH_", "STEERLLM_", "XDG_", "NVRTC_"))
        }
        self.environment["HOME"] = str(self.folder / "home")
        (self.folder / "home").mkdir()

    def remove_folder(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(self.folder)

    def start(self, *words, **popen):
        words = [str(word) for word in words]
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("env", self.environment)
        popen.setdefault("cwd", self.folder)
        return subprocess.Popen([*WRAPPER, str(COMMAND), *words], stdin=subprocess.DEVNULL, **popen)

    def run_command(self, *words, **popen):
        process = self.start(*words, **popen)
        out, err = process.communicate(timeout=600)
        outcome = Outcome(" ".join(str(word) for word in words), process.returncode, out, err)
        self.assertGreaterEqual(outcome.code, 0, f"killed by a signal: {outcome}")
        self.assertNotIn("Sanitizer", outcome.err, outcome)
        return outcome

    def succeed(self, *words, **popen):
        outcome = self.run_command(*words, **popen)
        self.assertEqual(outcome.code, DONE, outcome)
        return outcome

    def skip_without(self, *parts):
        """Skip the case where the doctor says that a part is not all right."""
        doctor = self.run_command("doctor", "--json").json()
        for part in parts:
            if not doctor[part]["ok"]:
                self.skipTest(f"no {part}")

    def refuse(self, code, *words, **popen):
        """The command fails with one line on stderr and nothing on stdout; returns the line."""
        outcome = self.run_command(*words, **popen)
        self.assertEqual(outcome.code, code, outcome)
        self.assertEqual(outcome.out, "", outcome)
        self.assertTrue(outcome.err.endswith("\n"), outcome)
        self.assertEqual(outcome.err.count("\n"), 1, outcome)
        self.assertTrue(outcome.err.startswith("steergraph"), outcome)
        return outcome.err.rstrip("\n")

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            path.write_text(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
        return path

    compilers = {}  # LD_LIBRARY_PATH: whether NVRTC is there

    def has_compiler(self):
        path = self.environment.get("LD_LIBRARY_PATH")
        if path not in self.compilers:
            self.compilers[path] = self.run_command("doctor", "--json").json()["compiler"]["ok"]
        return self.compilers[path]

    def use_own_libraries(self):
        """Those of the machine and its tester again, after use_stub_compiler."""
        self.environment["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")

    def use_stub_compiler(self):
        """Entries whose kernels are not under test come from the stub of NVRTC 13, at no cost."""
        if STUBS is not None:
            self.environment["LD_LIBRARY_PATH"] = str(STUBS / "nvrtc13")


def small_workload(**changes):
    """A workload of three requests on 8 elements: steered, not steered, steered."""
    workload = {
        "steergraph": 1,
        "family": "steer",
        "geometry": {"hidden_size": 8, "dtype": "f32"},
        "vectors": {"v": {"values": [1, 0, 0, 0, 0, 0, 0, 0]}},
        "slots": {"up": {"layers": {"0": [{"op": "add", "v": "v", "scale": 2.0}]}}},
        "batch": {"requests": [{"slot": "up", "rows": 2}, {"slot": None, "rows": 1}, {"slot": "up", "rows": 1}]},
        "input": {"hidden": {"random": {"seed": 1}}},
        "run": {"warmup": 1, "repeats": 3},
    }
    workload.update(changes)
    return workload


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, shape, data

    def floats(self):
        count = len(self.data) // {"F32": 4, "F16": 2, "BF16": 2}[self.dtype]
        if self.dtype == "BF16":
            words = struct.unpack(f"<{count}H", self.data)
            return list(struct.unpack(f"<{count}f", b"".join(struct.pack("<I", w << 16) for w in words)))
        return list(struct.unpack(f"<{count}{'f' if self.dtype == 'F32' else 'e'}", self.data))

    def row(self, index):
        width = len(self.data) // self.shape[0]
        return self.data[index * width : (index + 1) * width]


def read_safetensors(path):
    """({name: Tensor}, metadata) of a file, read by the format's definition and nothing of ours."""
    data = pathlib.Path(path).read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header = strict_json(data[8 : 8 + header_bytes].decode())
    metadata = header.pop("__metadata__", {})
    body = data[8 + header_bytes :]
    tensors = {}
    for name, info in header.items():
        first, last = info["data_offsets"]
        tensors[name] = Tensor(info["dtype"], info["shape"], body[first:last])
    return tensors, metadata


def safetensors_bytes(tensors, metadata=None):
    """The bytes of a file; `tensors` is {name: (dtype, shape, bytes)}."""
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body
