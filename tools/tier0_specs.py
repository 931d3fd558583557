#!/usr/bin/env python3
"""Write the workloads whose kernels the tier-0 pack holds: tier0_specs.py FILE...

What a file is about is in its name, tier0_SIZE_DTYPE_STATE.json, where the state is `hidden`,
`residual` (what ops see is hidden + residual) or `norm` (that, and the epilogue add_rmsnorm behind
the chain). `steergraph build` compiles the kernels of all built-in ops for it, whatever the workload
does with them; numbers such as epsilon are arguments of a kernel and no part of it.
"""
import json
import pathlib
import re
import sys


STATES = ("hidden", "residual", "norm")
NAME = re.compile(r"tier0_([1-9][0-9]*)_(bf16|f16)_(%s)\.json" % "|".join(STATES))


def workload(size: int, dtype: str, state: str) -> dict:
    geometry = {"hidden_size": size, "dtype": dtype}
    tensors = {"hidden": {"random": {"seed": 1}}}
    made = {
        "steergraph": 1,
        "family": "steer",
        "geometry": geometry,
        "vectors": {"v": {"random": {"seed": 3}}},
        "slots": {"s": {"layers": {"0": [{"op": "add", "v": "v"}]}}},
        "batch": {"requests": [{"slot": "s", "rows": 1}]},
        "input": tensors,
    }
    if state != "hidden":
        geometry["state"] = "hidden+residual"
        tensors["residual"] = {"random": {"seed": 2}}
    if state == "norm":
        weight = {"random": {"seed": 4}}
        made["epilogue"] = {"kind": "add_rmsnorm", "eps": 1e-6, "weight": weight}
    return made


def main() -> None:
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        parts = NAME.fullmatch(path.name)
        if parts is None:
            sys.exit(f"tier0_specs.py: '{name}': the name must be tier0_SIZE_DTYPE_STATE.json, with "
                     f"bf16 or f16 and one of {', '.join(STATES)}")
        size, dtype, state = parts.groups()
        path.write_text(json.dumps(workload(int(size), dtype, state), indent=2) + "\n")


main()
