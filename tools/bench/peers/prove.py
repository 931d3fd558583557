"""Proof search by one step for a whole batch, as published: eager, with an exit when all are done, a step in
a CUDA graph, and compiled with reduce-overhead.

Each takes all steps that a query may have, for every query of the batch, but for the exit. Batches are as
large as the pool, or "in batches of 512" padded to that size. Of one pool each step's time is told beside how
many queries were done after it. Compiled, the cases run one behind the other in one process: the first pays
for its size, and so does each that has another one; an evaluation is in batches of 512, as published.
"""
import time

import peer
import rows
from prove_case import ProveCase

REPEATS = 3
STEPS = ", pool 512"  # of this case the steps are told


def attempt_of(side, batch: int, make, **more):
    """`make()` gives prove(queries), which runs a batch. Its memory counts as it is allocated, and as it is
    reserved, where graphs keep theirs apart."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    prove = make()

    def bind(buffers):
        def call(index):
            buffers[index].result = side.prover.in_batches(side.queries, batch, prove)
            attempt.extras |= facts_of(side, batch)

        return call

    attempt = peer.Attempt(bind, repeats=1 if is_evaluation(side) else REPEATS, **more)
    return attempt


def facts_of(side, batch: int) -> dict:
    import torch

    return {"pool": len(side.queries), "batch": batch, "wasted": side.wasted(),
            "allocated_mb": torch.cuda.max_memory_allocated() * 1e-6,
            "reserved_mb": torch.cuda.max_memory_reserved() * 1e-6}  # fmt: skip


def is_pool(side) -> bool:
    return ", pool " in side.case.name


def is_evaluation(side) -> bool:
    return side.case.name.endswith(" evaluated")


def at_once(side) -> bool:
    """Pools that are one batch of their size."""
    return is_pool(side) and len(side.queries) <= 2 * side.case.batch


def eager(side):
    if not at_once(side):
        return None
    attempt = attempt_of(side, len(side.queries), lambda: side.prover.all_steps)
    if side.case.name.endswith(STEPS):
        attempt.more = lambda machine: step_rows(side, machine)
    return attempt


def early(side):
    return attempt_of(side, len(side.queries), lambda: side.prover.until_done) if at_once(side) else None


def in_graph(side):
    size = len(side.queries)
    return attempt_of(side, size, lambda: side.prover.in_graph(size)) if at_once(side) else None


def fixed(side):
    """Batches of one size, the last one padded."""
    batch = side.case.batch
    wanted = is_evaluation(side) or (is_pool(side) and len(side.queries) != batch)
    return attempt_of(side, batch, lambda: side.prover.in_graph(batch)) if wanted else None


def reduced(side):
    if is_pool(side):
        return None
    from attn_side import start_compiler
    from torch._dynamo.utils import counters

    start_compiler()
    before = counters["stats"]["unique_graphs"]
    batch = side.case.batch if is_evaluation(side) else len(side.queries)
    attempt = attempt_of(side, batch, lambda: side.prover.reduced, compiled=True)
    bind = attempt.bind

    def bind_and_count(buffers):
        attempt.extras["compiles"] = counters["stats"]["unique_graphs"] - before
        return bind(buffers)

    attempt.bind = bind_and_count
    return attempt


def step_rows(side, machine: dict) -> list:
    """A row for each step: its time, between two synchronisations, and how many were done after it."""
    import torch

    found = []
    state = side.prover.begin(side.queries)
    for number in range(1, side.prover.depth + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start = time.perf_counter()
        begin.record()
        state = side.prover.step(side.queries, *state)
        end.record()
        torch.cuda.synchronize()
        wall = rows.Times([(time.perf_counter() - start) * 1e6])
        device = rows.Times([begin.elapsed_time(end) * 1e3])
        extras = {"step": number, "done": int((state[4] > 0).sum()), "pool": len(side.queries)}
        found.append(rows.make(side.case, f"torch, step {number:02d}", machine, device, wall, extras))
    return found


SERIES = [
    ("torch eager step", eager),
    ("torch eager step, exit when all are done", early),
    ("torch step in a CUDA graph", in_graph),
    ("torch step in a CUDA graph, in batches of 512", fixed),
    ("torch.compile step (reduce-overhead)", reduced),
]

if __name__ == "__main__":
    peer.main(SERIES, ProveCase, ProveCase.side)
