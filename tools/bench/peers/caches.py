"""A cache that grows with each token, and what has been proposed in its place, side by side: series of attend.py.

One layer of attention, float32, all sequences at one length: from the first token to the last that the
cache has room for, split, rotate, append, attend. What each costs is per token, once all lengths have
been met; that it compiles, again and again with some, is in the time of its first pass.

    growing       torch.cat of K and V with each token's
    functional    a cache of fixed size; appending gives a new one, and nothing is changed in place
    fixed masked  a cache of fixed size that is changed in place, and a mask
    mark_dynamic  slices of a cache of fixed size, whose length is marked as one that varies
    excluded      growing, with the append left out of the compile

Extras of a row:
    first_call_ms   the first pass, compiling among it; one that takes longer than TIME_BOX_S ends there
    lengths         how many it has met by then
    compiles        graphs that were compiled for the first time of their code, recompiles those after
    cudagraphs      1 where every step is a replay of a CUDA graph, cudagraph_skips why not
    peak_bytes      most memory of the first pass, the step's own tensors among it
    mae             mean distance from the same in float64
"""
import time

import peer
from attn_case import AttnCase

TIME_BOX_S = 20.0  # several compiles
PASSES = 3


class Loop:
    """What all ways share: the packed rows of every step, angles, and where results go."""

    def __init__(self, side):
        import torch
        from attn_side import trig

        case = self.case = side.case
        self.packed = side.pristine["packed"]
        device = self.packed.device
        self.cos, self.sin = trig(torch.arange(case.capacity, device=device), case.dim, side.dtype)
        self.rows = [(self.packed[i], self.cos[i], self.sin[i]) for i in range(case.capacity)]
        self.positions = torch.arange(case.capacity, device=device).view(-1, 1)
        self.out = torch.zeros(case.capacity, case.batch, case.heads, case.dim, device=device, dtype=side.dtype)
        self.device, self.dtype = device, side.dtype

    def cache(self, room: int) -> list:
        import torch

        shape = (self.case.batch, self.case.kv_heads, room, self.case.dim)
        return [torch.zeros(shape, device=self.device, dtype=self.dtype) for _ in "kv"]

    def split(self, packed, cos, sin) -> list:
        """q, k [batch, heads, 1, dim] rotated, v as it is."""
        from attn_side import rotate

        case = self.case
        sizes = [heads * case.dim for heads in (case.heads, case.kv_heads, case.kv_heads)]
        q, k, v = (part.view(case.batch, -1, 1, case.dim) for part in packed.split(sizes, -1))
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def attend(self, q, k, v, mask=None):
        import torch

        grouped = self.case.heads != self.case.kv_heads
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


def growing(loop, compile_step):
    import torch

    def step(packed, cos, sin, k, v):
        q, new_k, new_v = loop.split(packed, cos, sin)
        k, v = torch.cat((k, new_k), 2), torch.cat((v, new_v), 2)
        return loop.attend(q, k, v), k, v

    step = compile_step(step)
    state = []

    def begin():
        state[:] = loop.cache(0)

    def token(i):
        out, *state[:] = step(*loop.rows[i], *state)
        return out

    return begin, token


def fixed_inputs(loop):
    """(cos, sin, mask) of a position that is on the device."""
    import torch

    places = torch.arange(loop.case.capacity, device=loop.device)

    def inputs(position):
        cos, sin = (table.index_select(0, position) for table in (loop.cos, loop.sin))
        return cos, sin, (places <= position).view(1, 1, 1, -1)

    return inputs


def functional(loop, compile_step):
    import torch

    inputs = fixed_inputs(loop)

    def step(packed, position, k, v):
        cos, sin, mask = inputs(position)
        q, new_k, new_v = loop.split(packed, cos, sin)
        k, v = k.index_copy(2, position, new_k), v.index_copy(2, position, new_v)
        return loop.attend(q, k, v, mask), k, v

    step = compile_step(step)
    state = []

    def begin():
        state[:] = loop.cache(loop.case.capacity)

    def token(i):
        torch.compiler.cudagraph_mark_step_begin()
        out, k, v = step(loop.packed[i], loop.positions[i], *state)
        state[:] = k.clone(), v.clone()  # a graph's results are overwritten by its next replay
        return out

    return begin, token


def fixed_step(loop):
    inputs = fixed_inputs(loop)

    def step(packed, position, k, v):
        cos, sin, mask = inputs(position)
        q, new_k, new_v = loop.split(packed, cos, sin)
        k.index_copy_(2, position, new_k)
        v.index_copy_(2, position, new_v)
        return loop.attend(q, k, v, mask)

    return step


def fixed(loop, compile_step):
    import torch

    state = []
    step = compile_step(fixed_step(loop))

    def begin():
        if not state:
            state[:] = loop.cache(loop.case.capacity)
            for tensor in state:
                torch._dynamo.mark_static_address(tensor)  # else a graph is refused to what it changes

    def token(i):
        return step(loop.packed[i], loop.positions[i], *state)

    return begin, token


def captured(loop, _):
    """The fixed masked cache as a host would capture it by hand; nothing is compiled."""
    import torch

    state, held = [], {}
    step = fixed_step(loop)

    def capture():
        state[:] = loop.cache(loop.case.capacity)
        held["packed"], held["position"] = loop.packed[0].clone(), loop.positions[0].clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                step(held["packed"], held["position"], *state)
        torch.cuda.current_stream().wait_stream(stream)
        held["graph"] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(held["graph"]):
            held["out"] = step(held["packed"], held["position"], *state)

    def begin():
        if not state:
            capture()

    def token(i):
        held["packed"].copy_(loop.packed[i])
        held["position"].copy_(loop.positions[i])
        held["graph"].replay()
        return held["out"]

    return begin, token


def marked(loop, compile_step):
    import torch

    def step(packed, cos, sin, keys, values):
        q, new_k, new_v = loop.split(packed, cos, sin)
        keys[:, :, -1:] = new_k
        values[:, :, -1:] = new_v
        return loop.attend(q, keys, values)

    step = compile_step(step)
    state = []

    def begin():
        state[:] = loop.cache(loop.case.capacity)

    def token(i):
        slices = [tensor[:, :, : i + 1] for tensor in state]
        for tensor in slices:
            torch._dynamo.maybe_mark_dynamic(tensor, 2)
        return step(*loop.rows[i], *slices)

    return begin, token


def excluded(loop, compile_step):
    import torch

    @torch.compiler.disable
    def append(state, new_k, new_v):
        state[:] = torch.cat((state[0], new_k), 2), torch.cat((state[1], new_v), 2)
        return state[0], state[1]

    def step(packed, cos, sin, state):
        q, new_k, new_v = loop.split(packed, cos, sin)
        return loop.attend(q, *append(state, new_k, new_v))

    step = compile_step(step)
    state = []

    def begin():
        state[:] = loop.cache(0)

    def token(i):
        return step(*loop.rows[i], state)

    return begin, token


def counts(mode: str | None) -> dict:
    """What dynamo and inductor say of the compiles so far."""
    from torch._dynamo import utils

    ids = [str(metrics.compile_id) for metrics in utils.get_compilation_metrics() if metrics.compile_id]
    again = sum(not name.endswith("/0") for name in ids)
    skips = utils.counters["inductor"]["cudagraph_skips"]
    wanted = mode == "reduce-overhead"
    return {"compiles": len(ids) - again, "recompiles": again, "cudagraph_skips": skips,
            "cudagraphs": int(wanted and skips == 0)}  # fmt: skip


def run_pass(loop, begin, token, lengths: int, limit_s: float | None = None) -> int:
    """Steps through so many lengths; how many there were by the time limit."""
    begin()
    started = time.monotonic()
    for i in range(lengths):
        loop.out[i].copy_(token(i).squeeze(2))
        looked_at = i + 1 >= AttnCase.stride()  # without a step to look at nothing could be judged
        if limit_s is not None and looked_at and time.monotonic() - started > limit_s:
            return i + 1
    return lengths


def attempt_of(side, way, compiled: bool = False, mode: str | None = None):
    import torch
    from attn_side import start_compiler
    from torch._dynamo import utils
    from torch_side import compile_with

    if compiled:
        start_compiler()
    torch._dynamo.reset()
    utils.counters.clear()
    utils.clear_compilation_metrics()
    side.exact()  # made once, and not within the first pass
    loop = Loop(side)
    options = {"mode": mode} if mode else {}
    begin, token = way(loop, (lambda step: compile_with(step, **options)) if compiled else lambda step: step)
    attempt = peer.Attempt(None, calls=side.case.capacity, compiled=True, repeats=PASSES)
    met = []

    def first_pass(buffer):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        met.append(run_pass(loop, begin, token, side.case.capacity, TIME_BOX_S))
        torch.cuda.synchronize()
        attempt.calls = met[0]
        attempt.extras |= {"lengths": met[0], "peak_bytes": torch.cuda.max_memory_allocated() - before}
        attempt.extras |= counts(mode) if compiled else {"recompiles": 0, "cudagraphs": int(way is captured)}
        buffer.out, buffer.lengths = loop.out, met[0]
        attempt.extras["mae"] = side.mae(buffer)

    def bind(buffers):
        if not met:
            return lambda _: first_pass(buffers[0])
        return lambda _: run_pass(loop, begin, token, met[0])

    attempt.bind = bind
    return attempt


def ways(all_of_them: dict) -> list:
    return [(series, lambda side, words=words: attempt_of(side, *words)) for series, words in all_of_them.items()]


SERIES = ways({
    "torch growing cache": (growing,),
    "torch.compile growing cache": (growing, True),
    "torch.compile functional cache": (functional, True, "reduce-overhead"),
    "torch.compile fixed masked cache": (fixed, True, "reduce-overhead"),
    "torch.compile mark_dynamic cache": (marked, True),
    "torch.compile excluded cache": (excluded, True),
    "torch fixed masked cache in a graph": (captured,),
})
