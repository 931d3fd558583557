"""`pip install ./tools/python` from the source tree, and what it leaves, in a process of its own.

Nothing is fetched: it takes a pip and a setuptools that are there."""
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
import tap

# Read what pyproject.toml says, and need no package `wheel` to make wheels.
SETUPTOOLS, SETUPTOOLS_ALONE = 61, 71

STEER = """
import numpy as np
import steergraph
with steergraph.Engine("cpu") as engine:
    table = steergraph.Steering(engine, hidden_size=2, dtype="f32")
    table.set(0, {0: [steergraph.op("add", np.float32([0, 1]), scale=3)]})
    frame = table.frame()
    frame.step([0])
    print(steergraph.__file__, frame.apply(0, np.ones((1, 2), np.float32)).tolist())
"""


def has_installer():
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        return False
    try:
        setuptools = int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    has_wheel = importlib.util.find_spec("wheel") is not None
    return setuptools >= (SETUPTOOLS if has_wheel else SETUPTOOLS_ALONE)


@unittest.skipUnless(has_installer(), "needs pip, and a setuptools that makes wheels")
class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="steergraph-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.source = pathlib.Path(folder.name, "source")  # setuptools writes beside what it reads
        cls.there = pathlib.Path(folder.name, "there")
        leave_out = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(support.ROOT / "tools" / "python", cls.source, ignore=leave_out)
        words = ["install", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words, cls.there, cls.source],
            capture_output=True, text=True,
        )
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def test_every_module_is_installed_and_nothing_else(self):
        modules = {path.name for path in (self.source / "steergraph").glob("*.py")}
        package = self.there / "steergraph"
        self.assertEqual({path.name for path in package.iterdir()} - {"__pycache__"}, modules)
        others = [path.name for path in self.there.iterdir() if path != package]
        self.assertEqual([name.rpartition(".")[2] for name in others], ["dist-info"])

    def test_what_is_installed_finds_the_library_and_steers(self):
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.there),
            "LD_LIBRARY_PATH": str(pathlib.Path(support.LIBRARY).resolve().parent),
        }
        done = subprocess.run(
            [sys.executable, "-c", STEER],
            env=environment, cwd=self.there, capture_output=True, text=True,
        )
        self.assertEqual(done.stderr, "")
        self.assertEqual(
            done.stdout, f"{self.there / 'steergraph' / '__init__.py'} [[1.0, 4.0]]\n"
        )


tap.main()
