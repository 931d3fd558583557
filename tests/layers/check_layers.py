#!/usr/bin/env python3
"""Fail on any #include that is not an arrow of the architecture: check_layers.py [ROOT]

    tools -> public headers, specs, engine/oracle, the two doors of engine; bench also runtime;
             examples public headers alone; no folder of tools is included by the files above it
    engine -> specs, codegen, runtime
    everything -> runtime/base and the ground headers of the public API
"""
import pathlib
import re
import sys

import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')

# What a layer may include besides itself, runtime/base and the ground headers.
ARROWS = {
    "runtime/base": (),
    "runtime": (),
    "codegen": (),
    "specs": (),
    "engine/oracle": ("specs", "codegen"),
    "engine/cpu": ("codegen",),
    "engine": ("engine/oracle", "engine/cpu", "specs", "codegen", "runtime"),
    "tools": ("specs", "engine/oracle"),
    "tools/attention": ("tools", "specs", "engine/oracle"),
    "tools/components": ("tools", "specs", "engine/oracle"),
    "tools/cache": ("tools",),
    "tools/doctor": ("tools", "tools/cache"),
    "tools/kb": ("tools", "specs"),
    "tools/prove": ("tools", "specs", "engine/oracle"),
    "tools/vectors": ("tools", "specs"),
    "tools/examples": (),
    "tools/bench": ("tools", "tools/prove", "specs", "engine/oracle", "runtime"),
}
ARROWS["tests"] = tuple(layer for layer in ARROWS if layer != "tools/examples")
ALL_PUBLIC = {layer for layer in ARROWS if layer.split("/")[0] in {"engine", "tools", "tests"}}
GROUND_HEADERS = {"status.h", "dtype.h", "log.h", "version.h"}
# Single internal headers that a layer may use although it may not use their layer.
DOORS = {"tools": {"engine/hostmem.h", "engine/offline.h"}}
DOORS["tools/attention"] = DOORS["tools/bench"] = DOORS["tools/components"] = DOORS["tools"]
DOORS["tools/cache"] = DOORS["tools/doctor"] = {"engine/offline.h"}
# Who may include headers of other projects.
VENDORS = {
    "cuda.h": {"runtime"},
    "cudaTypedefs.h": {"runtime"},
    "nvrtc.h": {"runtime"},
    "nvtx3": {"runtime", "tests"},
    "dlfcn.h": {"runtime", "tools/bench", "tools/examples", "tests"},
    "xxhash.h": {"runtime/base"},
    "cjson/cJSON.h": {"runtime", "specs", "engine", "tools", "tests"},
    "cmocka.h": {"tests"},
}


def layer_of(path: str) -> str:
    """The longest key of ARROWS that `path` is under; "" for none."""
    parts = path.split("/")
    for length in (2, 1):
        name = "/".join(parts[:length])
        if len(parts) > length and name in ARROWS:
            return name
    return ""


def vendor_fault(layer: str, header: str) -> str:
    name = "cuda.h" if header.startswith("cuda") and header not in VENDORS else header
    name = "cjson/cJSON.h" if header == "cJSON.h" else name
    name = "nvtx3" if header.startswith(("nvtx3/", "nvToolsExt")) else name
    if name in VENDORS and layer not in VENDORS[name]:
        return f"{layer} may not include <{header}>, only {', '.join(sorted(VENDORS[name]))} may"
    return ""


def fault(layer: str, bracket: str, header: str) -> str:
    """What is wrong with `layer` including `header`; "" for nothing."""
    if header.startswith("steergraph/"):
        if bracket == '"':
            return f"write <{header}>: public headers come in angle brackets"
        if layer in ALL_PUBLIC or header.split("/", 1)[1] in GROUND_HEADERS:
            return ""
        return f"{layer} may not include <{header}>, only {', '.join(sorted(GROUND_HEADERS))}"
    target = layer_of(header)
    if target == "":
        if bracket == '"':
            return f'write "layer/file.h" from the root, not "{header}"'
        return vendor_fault(layer, header)
    if bracket == "<":
        return f'write "{header}": internal headers come in quotes'
    allowed = {layer, "runtime/base", *ARROWS[layer]}
    if target in allowed or header in DOORS.get(layer, ()):
        return ""
    return f'{layer} may not include "{header}": no arrow leads from {layer} to {target}'


def check_file(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    layer = layer_of(path.as_posix())
    own = path.with_suffix(".h").as_posix()
    private = own.removesuffix(".h") + "_private.h"  # includes the other first
    faults = []
    first = True
    for number, line in enumerate((root / path).read_text().splitlines(), start=1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        bracket, header = match.groups()
        said = fault(layer, bracket, header)
        if said == "" and first and path.suffix == ".c" and (root / own).is_file():
            if header not in (own, private):
                said = f'include "{own}" first: a header must stand alone'
        first = False
        if said:
            faults.append(f"{path}:{number}: {said}")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folders = ", ".join(sources.FOLDERS)
    faults = [f"{path}: no folder of the project, code lies in {folders}" for path in sources.strangers(root)]
    paths = sources.files(root)
    for path in paths:
        faults += check_file(root, path)
    print("\n".join(faults) if faults else f"ok 1 - {len(paths)} files keep to the arrows")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    raise SystemExit(main())
