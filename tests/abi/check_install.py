#!/usr/bin/env python3
"""Install into an empty DESTDIR, then build and run programs of others through pkg-config.

Both the consumer, which only looks at the version, and the example host (tools/examples/serve.c),
whose output must be the file --expect; each linked against the shared and the static library.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

SWITCH = "STEERLLM_COMPILE_STEERING"


def run(command: list[str], code: int = 0, **kwargs) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs
    )
    if done.returncode != code:
        said = f"{done.stdout}{done.stderr}"
        raise SystemExit(f"not ok - {' '.join(command)} exited {done.returncode}\n{said}")
    return done.stdout if code == 0 else done.stderr


class Installed:
    """What `meson install` put under `root`, and programs built against it."""

    def __init__(self, args: argparse.Namespace, root: str):
        self.args = args
        self.root = root
        self.libdir = pathlib.Path(root + os.path.join(args.prefix, args.libdir))
        run([args.meson, "install", "-C", args.build, "--no-rebuild", "--destdir", root])

    def build(self, source: str, static: bool) -> str:
        env = os.environ | {
            "PKG_CONFIG_SYSROOT_DIR": self.root,
            "PKG_CONFIG_PATH": str(self.libdir / "pkgconfig"),
        }
        # the sysroot moves include folders of other packages too; the compiler knows those itself
        query = [self.args.pkg_config, "--cflags", "--libs", "steergraph"]
        flags = run(query + (["--static"] if static else []), env=env).split()
        if static:
            flags = ["-l:libsteergraph.a" if f == "-lsteergraph" else f for f in flags]
        name = pathlib.Path(source).stem + ("-static" if static else "-shared")
        program = os.path.join(self.root, name)
        warnings = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        run(self.args.cc + warnings + [source, "-o", program] + flags)
        needed = run(["readelf", "-d", program])
        if ("libsteergraph.so" in needed) == static:
            raise SystemExit(f"not ok - {name} is linked the other way\n{needed}")
        return program

    def environment(self, **changes: str) -> dict[str, str]:
        folders = [str(self.libdir), os.environ.get("LD_LIBRARY_PATH", "")]
        kernels = {"STEERGRAPH_CACHE_DIR": os.path.join(self.root, "kernels")}
        return os.environ | kernels | {"LD_LIBRARY_PATH": ":".join(filter(None, folders))} | changes


def check_host(program: str, installed: Installed, expected: str) -> None:
    """The example steers where it is switched on, and only there."""
    *steps, stats = run([program], env=installed.environment(**{SWITCH: "1"})).splitlines(True)
    if "".join(steps) != expected:
        raise SystemExit(f"not ok - {program} prints\n{''.join(steps)}and not\n{expected}")
    counted = json.loads(stats.removeprefix("stats "))
    if (counted["steps"], counted["applies"]) != (6, 12):
        raise SystemExit(f"not ok - {program} counts {stats}")
    for off in ("0", ""):
        said = run([program], env=installed.environment(**{SWITCH: off}))
        if said != "steering is off: the host keeps its own path\n":
            raise SystemExit(f"not ok - {program} with {SWITCH}={off} prints\n{said}")
    said = run([program], code=1, env=installed.environment(**{SWITCH: "2"}))
    if f"{SWITCH}: '2' is neither 0 nor 1" not in said:
        raise SystemExit(f"not ok - {program} with {SWITCH}=2 says\n{said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("meson", "build", "pkg-config", "prefix", "libdir", "consumer", "host"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--expect", type=pathlib.Path, required=True)
    parser.add_argument("--cc", nargs="+", required=True)
    args = parser.parse_args()

    number = 0
    with tempfile.TemporaryDirectory(prefix="steergraph-install-") as root:
        installed = Installed(args, root)
        for how, static in (("shared", False), ("static", True)):
            program = installed.build(args.consumer, static)
            version = run([program], env=installed.environment()).strip()
            print(f"ok {(number := number + 1)} - a {how} consumer of {version} builds and runs")
            check_host(installed.build(args.host, static), installed, args.expect.read_text())
            print(f"ok {(number := number + 1)} - a {how} host builds and steers")


main()
