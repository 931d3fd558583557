#!/usr/bin/env python3
"""Install into an empty DESTDIR, then build and run a consumer through pkg-config, both ways."""
import argparse
import os
import pathlib
import subprocess
import tempfile


def run(command: list[str], **kwargs) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    )
    if done.returncode != 0:
        raise SystemExit(f"not ok - {' '.join(command)} exited {done.returncode}\n{done.stdout}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("meson", "build", "pkg-config", "prefix", "libdir", "consumer"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--cc", nargs="+", required=True)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="steergraph-install-") as root:
        run([args.meson, "install", "-C", args.build, "--no-rebuild", "--destdir", root])
        libdir = pathlib.Path(root + os.path.join(args.prefix, args.libdir))
        env = os.environ | {
            "PKG_CONFIG_SYSROOT_DIR": root,
            "PKG_CONFIG_PATH": str(libdir / "pkgconfig"),
        }
        # the sysroot moves include folders of other packages too; the compiler knows those itself
        for number, (how, static) in enumerate((("shared", False), ("static", True)), start=1):
            query = [args.pkg_config, "--cflags", "--libs", "steergraph"]
            flags = run(query + (["--static"] if static else []), env=env).split()
            if static:
                flags = ["-l:libsteergraph.a" if f == "-lsteergraph" else f for f in flags]
            program = os.path.join(root, "consumer-" + how)
            warnings = ["-std=c17", "-Wall", "-Wextra", "-Werror"]
            run(args.cc + warnings + [args.consumer, "-o", program] + flags)
            needed = run(["readelf", "-d", program])
            if ("libsteergraph.so" in needed) == static:
                raise SystemExit(f"not ok - the {how} consumer is linked the other way\n{needed}")
            version = run([program], env={"LD_LIBRARY_PATH": str(libdir)}).strip()
            print(f"ok {number} - a {how} consumer of {version} builds and runs")


main()
