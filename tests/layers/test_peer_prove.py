#!/usr/bin/env python3
"""The parts of tools/bench/peers for prove that need no torch: the base, the case, agreement, series.

Where torch can be imported its dense step is held against a search that is written here, one query at a
time. Then the peer as a process, where torch cannot be imported.
"""
import importlib.util
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import types

import peer_support
from peer_support import PEERS, file_bytes, refuses, report

import prove  # noqa: E402
import prove_agreement  # noqa: E402
import prove_case  # noqa: E402
from case import CaseError  # noqa: E402

FACTS = """\
parent(ann,bob). % a comment
parent(bob,cid).
# another
sister(eve,ann).
parent(cid, dan-2) .
"""
RULES = """\
r0:0.74:parent(x,h), parent(h,y) -> grandparent(x,y)
r1:1.0:sister(y,x) -> sister(x,y)
"""
CANDIDATES = "grandparent(ann,cid).\nsister(ann,eve).\ngrandparent(ann,bob).\n"
NUMBERS = {"atoms": 3, "children": 5, "depth": 4, "embed": 4, "hidden": 6, "blocks": 1, "epsilon": 1e-5, "batch": 2,
           "cases": {"all": {"first": 0, "count": 3, "repeat": False}, "one": {"first": 1, "count": 2, "repeat": True}}}
EXPECTED = {"logp": [-1.0, -2.0, -3.0], "depth": [2, 1, 4], "outcome": [1, 2, 4], "close": [0, 0, 1]}


def floats(values) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def shapes_of(numbers: dict, predicates: int, constants: int) -> dict:
    """By name, as specs/prove_policy.h has them."""
    embed, hidden = numbers["embed"], numbers["hidden"]
    shapes = {"predicate.weight": [predicates + 3, embed], "entity.weight": [constants + 2 * numbers["atoms"], embed],
              "in.weight": [hidden, embed], "in.bias": [hidden], "in_norm.weight": [hidden], "in_norm.bias": [hidden]}
    for block in range(numbers["blocks"]):
        name = f"blocks.{block}"
        shapes |= {f"{name}.weight": [hidden, hidden], f"{name}.bias": [hidden]}
        shapes |= {f"{name}.norm.weight": [hidden], f"{name}.norm.bias": [hidden]}
    return shapes | {"head.weight": [hidden, hidden], "head.bias": [hidden],
                     "out.weight": [embed, hidden], "out.bias": [embed]}  # fmt: skip


def write_case(folder: pathlib.Path, numbers=None, facts=FACTS, rules=RULES, candidates=CANDIDATES, seed=3,
               expected=None, names=(3, 5)) -> pathlib.Path:
    """A folder as the bench writes it, its weights drawn from a seed."""
    numbers = NUMBERS if numbers is None else numbers
    folder.mkdir(exist_ok=True)
    for name, text in (("facts", facts), ("rules", rules), ("candidates", candidates)):
        (folder / f"{name}.txt").write_text(text)
    (folder / "case.json").write_text(json.dumps(numbers))
    source = random.Random(seed)
    weights = {name: ("F32", shape, floats([source.gauss(0, 1) for _ in range(math.prod(shape))]))
               for name, shape in shapes_of(NUMBERS, *names).items()}
    (folder / "weights.safetensors").write_bytes(file_bytes(weights))
    tensors = {name: ("F32", [len(values)], floats(values)) for name, values in (expected or EXPECTED).items()}
    (folder / "expected.safetensors").write_bytes(file_bytes(tensors))
    return folder


# --- the case ---


def test_case(folder: pathlib.Path) -> None:
    case = prove_case.ProveCase(write_case(folder / "good"), "prove", "all")
    base = case.base
    report(list(base.predicates.numbers) == ["parent", "sister", "grandparent"], "numbers predicates as they come", base.predicates.numbers)
    report(list(base.constants.numbers) == ["ann", "bob", "cid", "eve", "dan-2"], "and constants", base.constants.numbers)
    report(base.facts == [(1, 1, 2), (1, 2, 3), (2, 4, 1), (1, 3, 5)], "reads facts", base.facts)
    report(base.rules == [((3, -1, -3), [(1, -1, -2), (1, -2, -3)]), ((2, -2, -1), [(2, -1, -2)])], "reads rules", base.rules)
    report(case.candidates == [(3, 1, 3), (2, 1, 4), (3, 1, 2)] and case.expected["depth"] == [2, 1, 4], "reads candidates", case.candidates)
    report(set(case.weights()) == set(shapes_of(NUMBERS, 3, 5)), "reads weights", case.shapes())
    case = prove_case.ProveCase(folder / "good", "prove", "one")
    report(case.candidates == [(2, 1, 4)] * 2 and case.expected["outcome"] == [2, 2], "repeats one", case.candidates)
    bad = [
        ("a fact without its end", {"facts": "parent(ann,bob)\n"}, "facts.txt:1: expected 'predicate(a,b).', found 'parent(ann,bob)'"),
        ("a fact of three", {"facts": "a(b,c,d).\n"}, "facts.txt:1: expected 'predicate(a,b).'"),
        ("a rule without a head", {"rules": "# x\nr:1:a(x,y)\n"}, "rules.txt:2: expected 'name:confidence:body -> head'"),
        ("a rule with a hole", {"rules": "r:1:a(x,y) b(x,y) -> c(x,y)\n"}, "rules.txt:1: expected"),
        ("a candidate that is strange", {"candidates": "parent(ann,zoe).\n"}, "candidates.txt:1: 'zoe' is not in the base"),
        ("fewer candidates", {"candidates": "parent(ann,bob).\n"}, "more candidates than the 1 of candidates.txt"),
        ("a number that is missing", {"numbers": {k: v for k, v in NUMBERS.items() if k != "depth"}}, "KeyError('depth')"),
        ("a number that is too small", {"numbers": {**NUMBERS, "batch": 0}}, "not a case of the bench"),
        ("another case", {"numbers": {**NUMBERS, "cases": {}}}, "KeyError('all')"),
        ("results of another number", {"expected": {**EXPECTED, "logp": [0.0]}}, "'logp': expected F32 [3], found F32 [1]"),
        ("results that are missing", {"expected": {"depth": [1, 1, 1]}}, "'logp': expected F32 [3], found nothing"),
    ]  # fmt: skip
    for name, members, said in bad:
        path = write_case(folder / "bad", **members)
        found = refuses(lambda path=path: prove_case.ProveCase(path, "prove", "all"), CaseError)
        report(said in found and "\n" not in found, f"refuses {name}", found)
    case = prove_case.ProveCase(write_case(folder / "bad", names=(4, 5)), "prove", "all")
    found = refuses(case.weights, CaseError)
    report("'predicate.weight': expected F32 [6, 4], found F32 [7, 4]" in found, "refuses weights of another shape", found)
    (folder / "bad" / "facts.txt").unlink()
    found = refuses(lambda: prove_case.ProveCase(folder / "bad", "prove", "all"), CaseError)
    report("facts.txt: No such file" in found, "says which file is missing", found)


# --- agreement ---


def verdict_of(*proofs) -> prove_agreement.ProofVerdict:
    verdict = prove_agreement.ProofVerdict()
    for index, proof in enumerate(proofs):
        verdict.add(index, *proof)
    return verdict


def test_agreement() -> None:
    ours = (-3.0, 5.0, 2.0)
    same = (0, ours, ours)
    report(verdict_of(same).agrees(), "agrees with itself")
    report(verdict_of((0, ours, (-3.0009, 5, 2))).agrees(), "agrees within a thousandth")
    for name, theirs in (("another logp", (-3.0011, 5, 2)), ("another depth", (-3.0, 4, 2)), ("another outcome", (-3.0, 5, 3)),
                         ("a NaN", (math.nan, 5, 2))):  # fmt: skip
        verdict = verdict_of(same, (0, ours, theirs))
        report(not verdict.agrees() and "1 of 2 proofs differ, 0 were close; candidate 1" in str(verdict), f"refuses {name}", verdict)
    close = (1, ours, (-9.0, 9, 9))
    report(verdict_of(*[same] * 9, close).agrees(), "passes over what was close")
    report(not verdict_of(*[same] * 8, close).agrees(), "but not over much of it")
    report(not verdict_of().agrees() and not verdict_of(close).agrees(), "does not agree with nothing")


# --- series ---


def test_series() -> None:
    def side_of(name: str, count: int):
        return types.SimpleNamespace(case=types.SimpleNamespace(name=name, batch=512), queries=[0] * count)

    names = [series for series, _ in prove.SERIES]
    report(len(set(names)) == 5 and all(name.startswith("torch") for name in names), "has five series", names)
    published, large = side_of("family, 512 varied", 512), side_of("family, pool 2048", 2048)
    made = [prove.eager(published), prove.early(published), prove.in_graph(published), prove.fixed(published)]
    report(made == [None] * 4, "runs published batches compiled alone", made)
    made = [prove.eager(large), prove.early(large), prove.in_graph(large), prove.reduced(large)]
    report(made == [None] * 4, "and large pools in batches alone", made)
    evaluated = side_of("family, 10100 evaluated", 10100)
    made = [prove.eager(evaluated), prove.early(evaluated), prove.in_graph(evaluated)]
    report(made == [None] * 3, "and evaluations", made)
    report(prove.fixed(side_of("family, pool 512", 512)) is None, "of which one is no more than a batch")


# --- the dense step, where there is torch ---


class Search:
    """The search as its text has it, one query at a time; the policy is the peer's."""

    def __init__(self, case, logits):
        self.case, self.logits = case, logits
        self.n, self.words = len(case.base.constants), len(case.base.predicates)
        self.facts = set(case.base.facts)

    def word(self, which: int) -> tuple:
        return ((self.words + which, 0, 0),)

    def unify(self, pairs):
        bound = {}

        def walk(term):
            while term in bound:
                term = bound[term]
            return term

        for x, y in pairs:
            x, y = walk(x), walk(y)
            if x != y and isinstance(x, str):
                bound[x] = y
            elif x != y and isinstance(y, str):
                bound[y] = x
            elif x != y:
                return None
        return walk

    def child(self, query, atoms, walk):
        atoms = [(p, walk(a), walk(b)) for p, a, b in atoms]
        return [atom for atom in atoms if atom == query or atom not in self.facts]

    def numbered(self, atoms) -> tuple:
        """Variables are texts here, numbers in a state."""
        names = {}
        number = lambda x: self.n + 1 + names.setdefault(x, len(names)) if isinstance(x, str) else x  # noqa: E731
        return tuple((p, number(a), number(b)) for p, a, b in atoms)

    def derive(self, query, state, path) -> list:
        named = [(p, *(f"s{x}" if x > self.n else x for x in args)) for p, *args in state]
        goal, rest, found = named[0], named[1:], []
        for fact in self.case.base.facts:
            walk = self.unify(zip(goal[1:], fact[1:]))
            if fact[0] == goal[0] and fact != query and walk:
                found.append(self.child(query, rest, walk))
        name = lambda atom: (atom[0], *(f"r{x}" if x < 0 else x for x in atom[1:]))  # noqa: E731
        for head, body in self.case.base.rules:
            walk = self.unify(zip(goal[1:], name(head)[1:]))
            if head[0] == goal[0] and walk:
                found.append(self.child(query, [name(atom) for atom in body] + rest, walk))
        found = found[: self.case.children]
        if [] in found:
            return [self.word(prove_case.TRUE)]
        states = [self.numbered(atoms) for atoms in found if len(atoms) <= self.case.atoms]
        states = [state for state in states if sorted(state) not in path]
        if not states:
            return [self.word(prove_case.FALSE)]
        return states[: self.case.children - 1] + [self.word(prove_case.ENDF)]

    def prove(self, query) -> tuple:
        """(logp, depth, outcome), and whether another child was nearly as good at a step."""
        state, path, logp, close = (query,), [[query]], 0.0, False
        for depth in range(1, self.case.depth + 1):
            children = self.derive(query, state, path)
            scores = self.logits(state, children)
            most = max(scores)
            pick = scores.index(most)
            close = close or sum(most - score < 1e-4 for score in scores) > 1
            logp -= math.log(sum(math.exp(score - most) for score in scores))
            state = children[pick]
            path.append(sorted(state))
            if state[0][0] > self.words:
                return (logp, depth, state[0][0] - self.words), close
        return (logp, self.case.depth, prove_case.OUT_OF_STEPS), close


def random_text(source: random.Random) -> dict:
    """A base whose states come back, grow too long and have too many children."""
    people = [f"p{i}" for i in range(7)]
    facts = {f"{p}({a},{b})." for p in "abc" for a in people for b in people if source.random() < 0.12}
    rules = []
    for i in range(9):
        body = [f"{source.choice('abc')}({source.choice('xyz')},{source.choice('xyz')})" for _ in range(source.randint(1, 3))]
        rules.append(f"r{i}:1.0:{', '.join(body)} -> {source.choice('abc')}({source.choice('xy')},{source.choice('xy')})")
    known = sorted({name for fact in facts for name in fact[2:-2].split(",")})
    candidates = [f"{source.choice(sorted(facts))[0]}({source.choice(known)},{source.choice(known)})." for _ in range(24)]
    return {"facts": "\n".join(sorted(facts)), "rules": "\n".join(rules), "candidates": "\n".join(candidates)}


def test_dense(folder: pathlib.Path) -> None:
    if importlib.util.find_spec("torch") is None:
        print("ok - the dense step # SKIP python3 has no torch")
        return
    import torch

    import prove_dense

    wrong, outcomes, compared = [], set(), 0
    for seed in range(12):
        texts = random_text(random.Random(seed))
        numbers = {**NUMBERS, "cases": {"all": {"first": 0, "count": 24, "repeat": False}}}
        expected = {name: [0.0] * 24 for name in EXPECTED}
        base = write_case(folder / "dense", numbers, **texts, expected=expected)
        known = prove_case.KnowledgeBase(base)
        write_case(base, numbers, **texts, expected=expected, seed=seed, names=(len(known.predicates), len(known.constants)))
        case = prove_case.ProveCase(base, "prove", "all")
        tensors = {name: torch.tensor(tensor.floats()).reshape(tensor.shape) for name, tensor in case.weights().items()}
        dense, policy = prove_dense.Base(case, "cpu"), prove_dense.Policy(case, tensors)

        def logits(state, children, case=case, policy=policy):
            if len(children) == 1:
                return [0.0]
            padded = [[*x, *[(0, 0, 0)] * (case.atoms - len(x))] for x in (state, *children)]
            states = torch.tensor(padded)
            return policy(states[:1], states[None, 1:])[0].double().tolist()

        queries = torch.tensor(case.candidates)
        state = prove_dense.begin(dense, queries)
        for _ in range(case.depth):
            state = prove_dense.step(dense, policy, queries, *state)
        search = Search(case, logits)
        for i, query in enumerate(case.candidates):
            ours, close = search.prove(query)
            if close:
                continue
            theirs = state[3][i].item(), state[2][i].item(), state[4][i].item()
            outcomes.add(ours[2])
            compared += 1
            if theirs[1:] != ours[1:] or not abs(theirs[0] - ours[0]) < 1e-3:
                wrong.append((seed, i, query, ours, theirs))
    report(not wrong and outcomes == {1, 2, 3, 4} and compared > 150, "the dense step finds the proofs of a plain search",
           f"{compared} {outcomes} {wrong[:3]}")  # fmt: skip


# --- the peer as a process ---


def test_process(folder: pathlib.Path) -> None:
    (folder / "torch.py").write_text("raise ImportError('no torch here', name='torch')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(path, name):
        words = [sys.executable, PEERS / "prove.py", "--json", folder / "rows.json", "--case", "prove", name, path]
        return subprocess.run(words, capture_output=True, text=True, env=environment)

    done = run(folder / "good", "all")
    report(done.returncode == 1 and done.stderr == "cannot import torch: no torch here\n", "says that torch is missing", done.stderr)
    done = run(folder / "good", "none")
    report(done.returncode == 1 and "not a case of the bench (KeyError('none'))" in done.stderr, "refuses a case before it asks for torch", done.stderr)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        test_case(pathlib.Path(folder))
        test_agreement()
        test_series()
        test_dense(pathlib.Path(folder))
        test_process(pathlib.Path(folder))
    return 0 if peer_support.good else 1


raise SystemExit(main())
