#!/usr/bin/env python3
"""Steering vectors saved by PyTorch (.pt) as safetensors, and a capping configuration as a workload.

    python3 tools/pt_to_safetensors.py IN.pt OUT.safetensors [--experiment ID --spec OUT.json]

A .pt file is a pickle, which runs what it says when it is read; the C code never reads one. Here PyTorch
reads it with weights_only=True, which takes tensors and plain values alone, and there is no switch for
more. What may be in it:

    a tensor                    [hidden] -> "vector", [layers, hidden] -> "rows"
    {name: tensor}              names as they are, a number N -> "layer.N"
    {"vectors": {...}}          the same, one level down; "directions" likewise
    {"vectors": {name: {"vector": tensor, "layer": 46}},
     "experiments": [{"id": ID, "interventions": [{"vector": name, "cap": -16.9}]}]}
                                a capping configuration: tensors by name, layers and experiments as metadata

What stands beside these is not lost: plain values become metadata behind "pt.", of a capping configuration
also lists of them, tensors are written under their key ("NAME.KEY" of a vector's entry).

--experiment writes one experiment as a workload of one row, for `steergraph explain` and `run`, from
which its vectors and slot can be taken. float64 becomes float32; no element is changed otherwise.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import struct
import sys
import tempfile
import warnings
from dataclasses import dataclass

import vector_writers

MAX_LAYER = 1023
FLOAT32_END = 2.0**128 - 2.0**103  # from here on a number is rounded to infinity
NESTED = ("vectors", "directions")
# How numpy and torch spell a type: what safetensors calls it, the bytes of an element.
DTYPES = {"float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2)}


class Refusal(Exception):
    """What is wrong, in one line."""


@dataclass
class Array:
    dtype: str  # "F32", "F16", "BF16", and before the conversion "F64"
    shape: list[int]
    content: bytes


@dataclass
class Plan:
    """What is to be written."""

    arrays: dict[str, Array]
    metadata: dict[str, str]
    layers: dict[str, int]  # of a capping configuration
    experiments: list[dict]


def is_tensor(value) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def bytes_of_torch(name: str, tensor) -> bytes:
    import torch

    try:
        tensor = tensor.detach().cpu().contiguous()
        # numpy has no bfloat16: its bits, as integers
        bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
        return bits.numpy().tobytes()
    except (TypeError, RuntimeError) as error:  # sparse and other layouts
        raise Refusal(f"'{name}': {str(error).splitlines()[0]}; save it as an ordinary tensor") from None


def array_of(name: str, tensor) -> Array:
    """A tensor of torch or an array of numpy, as bytes."""
    spelled = str(tensor.dtype).removeprefix("torch.")
    shape = [int(extent) for extent in tensor.shape]
    if spelled not in DTYPES:
        raise Refusal(f"'{name}' is {spelled}; a vector is float32, float16, bfloat16 or float64")
    if not 1 <= len(shape) <= 2:
        raise Refusal(f"'{name}' has shape {shape}; a vector has 1 dimension, rows of layers have 2")
    if hasattr(tensor, "detach"):
        return Array(DTYPES[spelled][0], shape, bytes_of_torch(name, tensor))
    return Array(DTYPES[spelled][0], shape, tensor.tobytes())


def narrowed(name: str, array: Array) -> Array:
    """float64 as float32, rounded to nearest even."""
    if array.dtype != "F64":
        return array
    values = struct.unpack(f"<{len(array.content) // 8}d", array.content)
    try:
        content = vector_writers.f32(list(values))
    except OverflowError:
        first = next(i for i, x in enumerate(values) if math.isfinite(x) and abs(x) >= FLOAT32_END)
        raise Refusal(f"'{name}': element {first} is {values[first]:g}, beyond float32; scale it first") from None
    return Array("F32", array.shape, content)


def count_non_finite(array: Array) -> int:
    """Elements whose exponent is all ones."""
    layout, mask = {"F32": ("I", 0x7F800000), "F16": ("H", 0x7C00), "BF16": ("H", 0x7F80)}[array.dtype]
    count = len(array.content) // struct.calcsize(layout)
    return sum(word & mask == mask for word in struct.unpack(f"<{count}{layout}", array.content))


def is_capping(loaded) -> bool:
    vectors = loaded.get("vectors")
    return isinstance(vectors, dict) and any(isinstance(v, dict) and "vector" in v for v in vectors.values())


def plain(value, holds: str):
    """A value as JSON has it: what is not finite as text, a tensor of one element as its number. `holds` begins the
    message about what is none."""
    if isinstance(value, dict):
        return {str(key): plain(member, holds) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member, holds) for member in value]
    if is_tensor(value) and not tuple(value.shape):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise Refusal(f"{holds} a {type(value).__name__}; needed: plain values")


def text_of(value, holds: str) -> str:
    return json.dumps(plain(value, holds), ensure_ascii=False, allow_nan=False)


def tensor_name(text: str) -> str:
    """What safetensors takes for one."""
    if text in ("", "__metadata__"):
        raise Refusal(f"{text!r} is no name of a tensor")
    return text


def list_of(value, where: str) -> list:
    """A member that is a list, or is left out."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise Refusal(f"{where}: {type(value).__name__}, where a list is needed")
    return list(value or [])


def put_tensor(plan: Plan, name: str, tensor) -> None:
    if name in plan.arrays:
        raise Refusal(f"two tensors would be named '{name}'")
    plan.arrays[name] = array_of(name, tensor)


def put_text(plan: Plan, key: str, text: str) -> None:
    if key in plan.metadata:
        raise Refusal(f"two values would be named '{key}' in the metadata")
    plan.metadata[key] = text


def is_plain(value) -> bool:
    return value is None or isinstance(value, (str, int, float))


def put_beside(plan: Plan, name: str, value) -> None:
    """What a capping configuration holds beside what is known of it."""
    if is_tensor(value) and tuple(value.shape):
        put_tensor(plan, tensor_name(name), value)
    else:
        put_text(plan, f"pt.{name}", str(value) if is_plain(value) else text_of(value, f"'{name}' holds"))


def plan_capping(loaded: dict) -> Plan:
    plan = Plan({}, {}, {}, [])
    for name, entry in loaded["vectors"].items():
        if not isinstance(entry, dict) or not is_tensor(entry.get("vector")):
            raise Refusal(f"vectors['{name}'] has no tensor 'vector', as the others have")
        layer = entry.get("layer")
        if not isinstance(layer, int) or isinstance(layer, bool) or not 0 <= layer <= MAX_LAYER:
            raise Refusal(f"vectors['{name}'] has layer {layer!r}; needed: a number, 0 to {MAX_LAYER}")
        text = tensor_name(str(name))
        put_tensor(plan, text, entry["vector"])
        plan.layers[text] = layer
        plan.metadata[f"layer:{text}"] = str(layer)
    plan.experiments = list_of(loaded.get("experiments"), "experiments")
    plan.metadata["experiments"] = text_of(plan.experiments, "experiments hold")
    for name, entry in loaded["vectors"].items():
        for key, value in entry.items():
            if key not in ("vector", "layer"):
                put_beside(plan, f"{name}.{key}", value)
    for key, value in loaded.items():
        if key not in ("vectors", "experiments"):
            put_beside(plan, str(key), value)
    return plan


def name_of(key) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        if not 0 <= key <= MAX_LAYER:
            raise Refusal(f"layer {key}: needed: 0 to {MAX_LAYER}")
        return f"layer.{key}"
    if isinstance(key, str):
        return tensor_name(key)
    raise Refusal(f"{key!r} is no name of a tensor")


def plan_named(loaded: dict) -> Plan:
    """Tensors by name. Plain values beside them become metadata, so that nothing is lost unseen."""
    plan = Plan({}, {}, {}, [])
    nested = [key for key in NESTED if isinstance(loaded.get(key), dict)]
    tensors = loaded[nested[0]] if nested else loaded
    beside = {key: value for key, value in loaded.items() if key not in nested[:1]} if nested else {}
    for key, value in [*tensors.items(), *beside.items()]:
        if is_tensor(value):
            put_tensor(plan, name_of(key), value)
        elif is_plain(value):
            put_text(plan, f"pt.{key}", str(value))
        else:
            raise Refusal(f"'{key}' is a {type(value).__name__}; needed: a tensor, or {{layer: tensor}}")
    return plan


def plan_of(loaded) -> Plan:
    """What is to be written of what torch.load gave."""
    if is_tensor(loaded):
        name = "rows" if len(loaded.shape) == 2 else "vector"
        plan = Plan({name: array_of(name, loaded)}, {}, {}, [])
    elif not isinstance(loaded, dict):
        raise Refusal(f"it holds a {type(loaded).__name__}; needed: a tensor, or {{name: tensor}}")
    else:
        plan = plan_capping(loaded) if is_capping(loaded) else plan_named(loaded)
    if not plan.arrays:
        raise Refusal("it holds no tensors")
    return plan


def find_experiment(plan: Plan, wanted: str) -> dict:
    names = [str(e.get("id")) for e in plan.experiments if isinstance(e, dict)]
    for experiment in plan.experiments:
        if isinstance(experiment, dict) and str(experiment.get("id")) == wanted:
            return experiment
    few = ", ".join(names[:8]) + (f", ... ({len(names)})" if len(names) > 8 else "")
    raise Refusal(f"no experiment '{wanted}'; there are: {few or 'none'}")


def number_of(value, where: str) -> float:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refusal(f"{where}: cap {value!r} is no finite number")
    return value


def interventions_of(plan: Plan, wanted: str) -> list:
    experiment = find_experiment(plan, wanted)
    return list_of(experiment.get("interventions"), f"interventions of experiment '{wanted}'")


def count_uncapped(plan: Plan, wanted: str) -> int:
    """Those that workload_of leaves out."""
    return sum(intervention.get("cap") is None for intervention in interventions_of(plan, wanted))


def workload_of(plan: Plan, wanted: str, file: str) -> dict:
    """One experiment as a workload: h -= max(dot(h, v) - cap, 0) * v with v of length 1 is the op
    projection_cap with max. Interventions without a cap are none of capping and are left out."""
    vectors: dict[str, dict] = {}
    layers: dict[int, list] = {}
    for number, intervention in enumerate(interventions_of(plan, wanted)):
        where = f"experiment '{wanted}', intervention {number}"
        if not isinstance(intervention, dict):
            raise Refusal(f"{where} is a {type(intervention).__name__}; needed: a vector's name and its cap")
        name = str(intervention.get("vector"))
        if intervention.get("cap") is None:
            continue
        if name not in plan.layers:
            raise Refusal(f"{where}: no vector '{name}'")
        vectors[name] = {"file": file, "tensor": name, "normalize": True}
        call = {"op": "projection_cap", "v": name, "max": number_of(intervention["cap"], where)}
        layers.setdefault(plan.layers[name], []).append(call)
    if not layers:
        raise Refusal(f"experiment '{wanted}' caps nothing")
    widths = {plan.arrays[name].shape[-1] for name in vectors}
    if len(widths) > 1 or any(len(plan.arrays[name].shape) != 1 for name in vectors):
        raise Refusal(f"experiment '{wanted}': its vectors are not all of one width: {sorted(widths)}")
    return {
        "steergraph": 1,
        "family": "steer",
        "geometry": {"hidden_size": widths.pop(), "layers": max(layers) + 1, "dtype": "bf16", "bank_dtype": "f32"},
        "vectors": vectors,
        "slots": {wanted: {"layers": {str(layer): layers[layer] for layer in sorted(layers)}}},
        "batch": {"layer": min(layers), "requests": [{"slot": wanted, "rows": 1}]},
        "input": {"hidden": {"random": {"seed": 1}}},
    }


def file_for_spec(output: pathlib.Path, spec: pathlib.Path) -> str:
    """How the spec names the file: relative to its own folder, which it may not leave."""
    relative = os.path.relpath(output.resolve(), spec.resolve().parent)
    if relative.split(os.sep)[0] == os.pardir:
        raise Refusal(f"--spec '{spec}': a workload names files of its own folder; write '{output}' there")
    return relative


def source_of(path: pathlib.Path) -> dict[str, str]:
    data = path.read_bytes()
    return {
        "source": path.name,
        "source_format": "PyTorch",
        "source_bytes": str(len(data)),
        "source_sha256": hashlib.sha256(data).hexdigest(),
    }


def bytes_of(plan: Plan, source: dict[str, str]) -> tuple[bytes, list[str], int]:
    """The file, the names of what was float64, and how many elements are not finite."""
    wide = [name for name, array in plan.arrays.items() if array.dtype == "F64"]
    arrays = {name: narrowed(name, array) for name, array in plan.arrays.items()}
    tensors = [(name, a.dtype, a.shape, a.content) for name, a in arrays.items()]
    metadata = {**source, "conversion": "F64 to F32, rounded to nearest even" if wide else "none", **plan.metadata}
    return vector_writers.safetensors(tensors, metadata), wide, sum(map(count_non_finite, arrays.values()))


def write_atomic(path: pathlib.Path, data: bytes) -> None:
    """All of it or nothing."""
    handle, name = tempfile.mkstemp(prefix=".stg-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def check_begin(begin: bytes) -> None:
    """What torch.load would say of another file is that it would run code."""
    if not begin.startswith(b"PK\3\4") and not (begin[:1] == b"\x80" and begin[1:2] in (b"\2", b"\3", b"\4", b"\5")):
        raise Refusal(
            "it is no file of PyTorch, a zip archive or a pickle; safetensors, GGUF, .npy and JSON are read "
            "by steergraph itself"
        )


def load(path: pathlib.Path):
    with open(path, "rb") as file:
        check_begin(file.read(4))
    try:
        import torch
    except ImportError:
        raise Refusal("it needs PyTorch; run it with a Python that has it") from None
    import pickle

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is said in one line
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise Refusal(
            "it needs more than weights_only=True reads, so reading it would run code of the file; "
            "save tensors alone: torch.save({'name': tensor}, ...)"
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        # OSError too: it was opened above, and torch seeks before the start of an archive that is cut
        first = str(error).strip().splitlines()
        raise Refusal(f"torch.load: {first[0] if first else type(error).__name__}; is the file whole?") from None


def check_outputs(source: pathlib.Path, outputs: list[pathlib.Path]) -> None:
    """No file replaces another of the same call."""
    seen = [source]
    for path in outputs:
        for other in seen:
            same = path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))
            if same:
                raise Refusal(f"'{path}' would replace '{other}'; name another file")
        seen.append(path)


def convert(words) -> str:
    """Returns the line that says what was written."""
    outputs = [words.output] + ([words.spec] if words.spec else [])
    check_outputs(words.input, outputs)
    plan = plan_of(load(words.input))
    spec = None
    if words.spec:
        spec = workload_of(plan, words.experiment, file_for_spec(words.output, words.spec))
    data, wide, non_finite = bytes_of(plan, source_of(words.input))
    write_atomic(words.output, data)
    if spec:
        write_atomic(words.spec, json.dumps(spec, indent=2, ensure_ascii=False).encode() + b"\n")
    count = len(plan.arrays)
    said = f"{words.output}: {count} tensor{'' if count == 1 else 's'}, {len(data)} B, from {words.input}"
    said += f"; float64 as float32: {', '.join(wide)}" if wide else ""
    said += f"; {non_finite} non-finite" if non_finite else ""
    uncapped = count_uncapped(plan, words.experiment) if spec else 0
    return said + (f"; {uncapped} intervention{'s' * (uncapped > 1)} without a cap left out" if uncapped else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="IN.pt", type=pathlib.Path)
    parser.add_argument("output", metavar="OUT.safetensors", type=pathlib.Path)
    parser.add_argument("--experiment", metavar="ID", help="of a capping configuration")
    parser.add_argument("--spec", metavar="OUT.json", type=pathlib.Path, help="the workload of that experiment")
    words = parser.parse_args()
    if (words.experiment is None) != (words.spec is None):
        parser.error("--experiment and --spec go together")
    try:
        print(convert(words))
    except (Refusal, OSError) as error:
        print(f"pt_to_safetensors: {words.input}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
