#!/usr/bin/env python3
"""Write the workloads whose kernels the tier-0 pack holds: tier0_specs.py FILE...

What a file is about is in its name, tier0_SIZE_DTYPE_STATE.json. `steergraph build` compiles the
kernels of all built-in ops for it, whatever the workload does with them.
"""
import json
import pathlib
import sys


def workload(size: int, dtype: str, state: str) -> dict:
    geometry = {"hidden_size": size, "dtype": dtype}
    tensors = {"hidden": {"random": {"seed": 1}}}
    if state == "residual":
        geometry["state"] = "hidden+residual"
        tensors["residual"] = {"random": {"seed": 2}}
    return {
        "steergraph": 1,
        "family": "steer",
        "geometry": geometry,
        "vectors": {"v": {"random": {"seed": 3}}},
        "slots": {"s": {"layers": {"0": [{"op": "add", "v": "v"}]}}},
        "batch": {"requests": [{"slot": "s", "rows": 1}]},
        "input": tensors,
    }


def main() -> None:
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        _, size, dtype, state = path.stem.split("_")
        path.write_text(json.dumps(workload(int(size), dtype, state), indent=2) + "\n")


main()
