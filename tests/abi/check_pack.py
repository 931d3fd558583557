#!/usr/bin/env python3
"""Build with a pack of one hidden size, install it, and start on it where nothing may be compiled.

The kernels are those of the stub of NVRTC, and the GPU is the stub of the driver (tests/stub): what is
tested is the way of the pack from meson to an engine, and not what a kernel computes.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SIZE = 256
KERNELS = 12  # two tiles of two types in three states
QUIET = ("STEERGRAPH_", "STEERLLM_", "XDG_", "NVRTC_", "DESTDIR")

# What a service does at its start: a table for each kind of kernel that the pack has.
START = """
import json, sys
sys.path.insert(0, sys.argv[1])
import steergraph
steergraph.load(sys.argv[2])
engine = steergraph.Engine(compile="never", environment=False)
norm = {"state": "hidden+residual", "epilogue": "add_rmsnorm", "epsilon": 1e-6}
for dtype in ("bf16", "f16"):
    for state in ({}, {"state": "hidden+residual"}, norm):
        steergraph.Steering(engine, int(sys.argv[3]), dtype=dtype, **state)
refused = []
for size, pack in ((2 * int(sys.argv[3]), None), (int(sys.argv[3]), "")):
    try:
        steergraph.Steering(steergraph.Engine(compile="never", environment=False, pack=pack), size)
    except steergraph.NotWarmError:
        refused.append(size)
print(json.dumps({"backend": engine.backend, "refused": refused, **engine.stats()}))
"""


def fail(text: str) -> None:
    raise SystemExit(f"not ok - {text}")


def expect(wanted, found, what: str) -> None:
    if wanted != found:
        fail(f"{what}: {found!r}, not {wanted!r}")


class Tree:
    """A build of its own, installed below `root`, and an environment in which the stubs are found."""

    def __init__(self, args: argparse.Namespace, root: pathlib.Path):
        self.args = args
        self.build = root / "build"
        self.prefix = root / "prefix"
        self.compiles = root / "compiles"
        (root / "home").mkdir()
        own = {k: v for k, v in os.environ.items() if not k.startswith(QUIET)}
        folders = [f"{args.stubs}/cuda", f"{args.stubs}/nvrtc13", own.get("LD_LIBRARY_PATH", "")]
        self.environment = own | {
            "CC": args.cc,
            "HOME": own.get("HOME", str(root / "home")),
            "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
            "STG_STUB_NVRTC_LOG": str(self.compiles),
        }

    def run(self, *command, **changes: str) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            env=self.environment | changes,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            said = "\n".join(f"{done.stdout}{done.stderr}".splitlines()[-40:])
            fail(f"{' '.join(map(str, command))} exited {done.returncode}\n{said}")
        return done.stdout

    def install(self) -> None:
        meson = self.args.meson
        options = ["-Dtests=false", "-Dtier0_pack=true", f"-Dtier0_sizes={SIZE}", "-Dtier0_archs=sm_90"]
        if self.args.toolkit_root:
            options.append(f"-Dtoolkit_root={self.args.toolkit_root}")
        # quick to compile, and without paths of the folder, which would keep a cache of objects from it
        self.run(meson, "setup", self.build, self.args.source, "-Ddebug=false", "-Doptimization=0",
                 f"--prefix={self.prefix}", "--libdir=lib", *options)  # fmt: skip
        self.run(meson, "compile", "-C", self.build)
        self.run(meson, "install", "-C", self.build, "--no-rebuild")

    def count_compiles(self) -> int:
        return len(self.compiles.read_text().splitlines())

    def doctor(self, prefix: pathlib.Path) -> dict:
        """What the installed command says of the pack, as JSON and in its row."""
        command = prefix / "bin" / "steergraph"
        pack = json.loads(self.run(command, "doctor", "--json"))["pack"]
        (row,) = [line for line in self.run(command, "doctor").splitlines() if line.startswith("  pack ")]
        return pack | {"row": " ".join(row.split())}

    def start(self, prefix: pathlib.Path) -> dict:
        library = prefix / "lib" / "libsteergraph.so"
        package = pathlib.Path(self.args.source) / "tools" / "python"
        return json.loads(self.run(sys.executable, "-B", "-c", START, package, library, SIZE))


def check_start(tree: Tree) -> None:
    """Nothing is compiled, and nothing else is found than the pack has."""
    before = tree.count_compiles()
    seen = tree.start(tree.prefix)
    expect("cuda", seen["backend"], "the backend")
    expect((0, KERNELS), (seen["kernel_compiles"], seen["kernel_disk_hits"]), "compiled, and found on disk")
    expect([2 * SIZE, SIZE], seen["refused"], "sizes that are refused, and the pack switched off")
    expect(before, tree.count_compiles(), "compiles by NVRTC")


def check_doctor(tree: Tree, moved: pathlib.Path) -> None:
    path = str(tree.prefix / "share" / "steergraph" / "tier0.sgp")
    found = tree.doctor(tree.prefix)
    expect((True, path, path, KERNELS), tuple(found[k] for k in ("ok", "path", "looked_for", "entries")), "the pack")
    expect(f"pack ok {path}, {KERNELS} entries", found["row"], "the row")
    tree.prefix.rename(moved)
    found = tree.doctor(moved)
    expect((True, None, path, 0), tuple(found[k] for k in ("ok", "path", "looked_for", "entries")), "the moved pack")
    expect(
        f"pack none there is no '{path}', which -Dtier0_pack=true installs: a pack that was moved is used "
        "where a cache path names it",
        found["row"],
        "the row of the moved pack",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("meson", "source", "stubs", "cc"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--toolkit-root", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="steergraph-pack-") as root:
        tree = Tree(args, pathlib.Path(root))
        tree.install()
        check_start(tree)
        print(f"ok 1 - an installed pack of {KERNELS} kernels is found, and nothing is compiled")
        check_doctor(tree, pathlib.Path(root) / "moved")
        print("ok 2 - doctor names the pack, and where it looked when the prefix was moved")


main()
