"""What the tests of `steergraph prove` have in common: a small base, policies, workloads."""
import json
import math
import random
import struct

from cli import SPECS, Case, safetensors_bytes

EXAMPLES = sorted(SPECS.glob("prove_*.json"))
FACTS = """parent(ann,bob).
parent(bob,cid).
parent(bob,dan).
parent(cid,eve).
sister(eve,dan).
"""
RULES = """r0:0.9:parent(a,h), parent(h,b) -> grandparent(a,b)
r1:0.8:sister(b,a) -> sister(a,b)
"""
QUERIES = "grandparent(ann,cid).\ngrandparent(bob,eve).\nsister(dan,eve).\n"


def weights(predicates, constants, embed=8, hidden=16, blocks=2, atoms=6, last=(1.0, 1.0), first=1.0):
    """The bytes of a policy in which no bias and no gain is like another; `last` scales weight and bias of the last layer,
    `first` the weight of the first one."""
    dice = random.Random(7)
    tensors = {}

    def add(name, *shape, factor=1.0):
        count = math.prod(shape)
        values = [factor * dice.uniform(-1, 1) for _ in range(count)]
        tensors[name] = ("F32", list(shape), struct.pack(f"<{count}f", *values))

    add("predicate.weight", predicates + 3, embed)
    add("entity.weight", constants + 2 * atoms, embed)
    add("in.weight", hidden, embed, factor=first)
    for name in ("in.bias", "in_norm.weight", "in_norm.bias"):
        add(name, hidden)
    for block in range(blocks):
        add(f"blocks.{block}.weight", hidden, hidden)
        for name in ("bias", "norm.weight", "norm.bias"):
            add(f"blocks.{block}.{name}", hidden)
    add("head.weight", hidden, hidden)
    add("head.bias", hidden)
    add("out.weight", embed, hidden, factor=last[0])
    add("out.bias", embed, factor=last[1])
    return safetensors_bytes(tensors)


class ProveCase(Case):
    def setUp(self):
        super().setUp()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""  # of a device: tests/gpu/test_prove_device.py
        self.write("facts.txt", FACTS)
        self.write("rules.txt", RULES)
        self.write("queries.txt", QUERIES)

    def spec(self, name="w.json", **changes):
        """A workload of the files above, with a policy of no size."""
        workload = {
            "steergraph": 1,
            "family": "prover",
            "knowledge": {"facts": "facts.txt", "rules": "rules.txt"},
            "queries": {"file": "queries.txt"},
            "policy": {"embed": 4, "hidden": 8, "blocks": 2, "weights": {"random": {"seed": 1}}},
            "corruptions": {"count": 3, "seed": 1},
            "run": {"warmup": 1, "repeats": 3},
        }
        workload.update(changes)
        return self.write(name, workload)

    def even_spec(self, seed):
        """One whose logits are all near 0, and whose picks are samples."""
        self.write("even.safetensors", weights(3, 5, last=(0.1, 0.1)))
        policy = {"embed": 8, "hidden": 16, "blocks": 2, "weights": {"file": "even.safetensors"}}
        return self.spec(policy=policy, pick={"sample": {"seed": seed}})

    def example(self, path, queries, count, **changes):
        workload = json.loads(path.read_text())
        workload["queries"]["first"] = queries
        workload["corruptions"]["count"] = count
        workload.update(changes)
        return self.write(path.name, workload)

    def prove(self, *words):
        return self.succeed("prove", "--json", *words).json()
