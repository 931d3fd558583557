"""Small workloads of attention, and what the cases of `steergraph run` on them share."""
import json
import math
import random
import struct

from cli import SPECS, Case, read_safetensors, safetensors_bytes

RUN = ("run", "--backend", "cpu", "--json", "--no-timing")


def example(name):
    return json.loads((SPECS / f"{name}.json").read_text())


def step(**changes):
    """A small step: two sequences of 3 and 1 positions, heads 2 over one KV head of 8."""
    spec = {
        "steergraph": 1,
        "family": "step",
        "geometry": {"heads": 2, "kv_heads": 1, "dim": 8, "dtype": "f32"},
        "rope": {},
        "attend": {},
        "cache": {"batch": 2, "capacity": 4, "lengths": [3, 1]},
        "rows": {"positions": "len", "requests": [{"repeat": 2}]},
        "input": {name: {"random": {"seed": seed}} for seed, name in enumerate(("qkv", "k", "v"), 1)},
    }
    spec.update(changes)
    return spec


def steered(vectors, **changes):
    """A step whose first row is steered."""
    return step(
        steer={
            "geometry": {"hidden_size": 16, "dtype": "f32"},
            "vectors": vectors,
            "slots": {"up": {"layers": {"0": [{"op": "add", "v": "v", "scale": 2}]}}},
            "batch": {"requests": [{"slot": "up", "rows": 1}, {"slot": None, "rows": 1}]},
        },
        **changes,
    )


class Run(Case):
    def report(self, spec, *words, name="w.json"):
        return self.succeed(*RUN, *words, self.write(name, spec)).json()

    def output(self, spec, name="w.json"):
        out = self.folder / "out.st"
        report = self.report(spec, "--output", out, name=name)
        self.assertEqual(report["output"], str(out))
        return report, *read_safetensors(out)

    def numbers(self, name, shape, seed):
        """A file of one tensor whose values are exact in every type; the values."""
        draw = random.Random(seed)
        values = [draw.randint(-32, 32) / 16 for _ in range(math.prod(shape))]
        self.write(f"{name}.st", safetensors_bytes({"t": ("F32", list(shape), struct.pack(f"<{len(values)}f", *values))}))
        return values, {"file": f"{name}.st", "tensor": "t"}
