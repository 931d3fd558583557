"""A base of the suite prove on the device: pools proved in each way of running its steps, and the judgement."""
import prove_agreement
import prove_dense
from torch_side import DTYPES, Disagreement

import torch

DEVICE = "cuda"


def upload(tensor, device):
    return torch.frombuffer(bytearray(tensor.data), dtype=DTYPES[tensor.dtype]).reshape(tensor.shape).to(device)


class Prover:
    """Base and policy of a folder, which its cases share, and step functions that cases warm up in turn."""

    def __init__(self, case, device: str = DEVICE):
        self.device, self.depth = device, case.depth
        self.base = prove_dense.Base(case, device)
        tensors = {name: upload(tensor, device) for name, tensor in case.weights().items()}
        self.policy = prove_dense.Policy(case, tensors)
        self.compiled = None
        self.executed = 0  # query-steps of the last run, waste among them

    def step(self, queries, *state):
        return prove_dense.step(self.base, self.policy, queries, *state)

    def begin(self, queries):
        return prove_dense.begin(self.base, queries)

    def in_batches(self, queries, batch: int, prove):
        """(logp, depth, outcome) of queries, `batch` at a time; the last one is padded with its first query."""
        found = []
        self.executed = 0
        for first in range(0, len(queries), batch):
            part = queries[first : first + batch]
            pad = part[:1].expand(batch - len(part), -1)
            _, _, depth, logp, outcome = prove(torch.cat((part, pad)))
            found.append([x[: len(part)].clone() for x in (logp, depth, outcome)])
        return tuple(torch.cat(parts) for parts in zip(*found))

    def count(self, queries) -> None:
        self.executed += len(queries)

    # ways to run the steps

    def all_steps(self, queries):
        state = self.begin(queries)
        for _ in range(self.depth):
            state = self.step(queries, *state)
            self.count(queries)
        return state

    def until_done(self, queries):
        state = self.begin(queries)
        for _ in range(self.depth):
            state = self.step(queries, *state)
            self.count(queries)
            if bool((state[4] > 0).all()):  # waits for the device
                break
        return state

    def in_graph(self, batch: int):
        """A step is captured once, and replayed."""
        fixed = torch.zeros(batch, 3, dtype=torch.int64, device=self.device)
        fixed[:, 0] = 1
        state = self.begin(fixed)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.step(fixed, *state)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for old, new in zip(state, self.step(fixed, *state)):
                old.copy_(new)

        def prove(queries):
            fixed.copy_(queries)
            for old, new in zip(state, self.begin(queries)):
                old.copy_(new)
            for _ in range(self.depth):
                graph.replay()
                self.count(queries)
            return state

        return prove

    def reduced(self, queries):
        """torch.compile(mode="reduce-overhead") of a step: CUDA graphs of one size each, as published."""
        if self.compiled is None:
            self.compiled = torch.compile(self.step, mode="reduce-overhead", fullgraph=True, dynamic=False)
        state = self.begin(queries)
        for _ in range(self.depth):
            torch.compiler.cudagraph_mark_step_begin()
            state = tuple(x.clone() for x in self.compiled(queries, *state))
            self.count(queries)
        return state


class Buffer:
    """What a call leaves: (logp, depth, outcome)."""

    result = None


class Side:
    kept = {}  # provers by folder: a base is uploaded once

    def __init__(self, case):
        self.case = case
        folder = str(case.folder)
        if folder not in Side.kept:
            Side.kept = {folder: Prover(case)}
        self.prover = Side.kept[folder]
        self.queries = torch.tensor(case.candidates, dtype=torch.int64, device=DEVICE)

    def buffer(self) -> Buffer:
        return Buffer()

    def buffers(self, at_least: int = 1) -> list:
        return [self.buffer() for _ in range(at_least)]

    def check(self, series: str, after: Buffer) -> None:
        """Refuse proofs that are not ours."""
        verdict = verdict_of(self.case, after.result)
        if not verdict.agrees():
            raise Disagreement(f"{series}: case '{self.case.name}': disagrees with steergraph: {verdict}")

    def wasted(self) -> float:
        """The share of executed query-steps that no query needed, by the depths that were expected."""
        return 1 - sum(self.case.expected["depth"]) / self.prover.executed


def verdict_of(case, result) -> prove_agreement.ProofVerdict:
    verdict = prove_agreement.ProofVerdict()
    theirs = zip(*(part.tolist() for part in result))
    expected = case.expected
    ours = zip(expected["logp"], expected["depth"], expected["outcome"])
    for index, (close, mine, other) in enumerate(zip(expected["close"], ours, theirs)):
        verdict.add(index, close, mine, other)
    return verdict
