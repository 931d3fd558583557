"""A case of the suites rope and attend on the device: inputs made again, and the judgement."""
import functools

import attn_agreement
import attn_case
from torch_side import DTYPES, Disagreement

import torch

DEVICE = "cuda"
BASE = 10000.0
MAX_SETS = 256
LONG_LINE, LONG_BYTES = 4, 1 << 30  # buffers of a line whose calls touch so much, at least


def draw(tensor: int, count: int, dtype):
    """Elements of a tensor that the bench makes up, flat; see attn_case.value."""
    fresh = min(count, attn_case.PERIOD)
    index = torch.arange(fresh, dtype=torch.int64, device=DEVICE)
    values = ((attn_case.mixed(tensor, index) - 128).float() * attn_case.scale_of(tensor)).to(dtype)
    return values.repeat(-(-count // fresh))[:count]


def upload(tensor):
    data = torch.frombuffer(bytearray(tensor.data), dtype=DTYPES[tensor.dtype])
    return data.reshape(tensor.shape).to(DEVICE)


def trig(positions, dim: int, dtype) -> tuple:
    """cos, sin [rows, dim] as models make them: angles in float32, then the tensors' type."""
    inverse = 1.0 / BASE ** (torch.arange(0, dim, 2, device=DEVICE).float() / dim)
    angles = torch.outer(positions.float(), inverse)
    both = torch.cat((angles, angles), -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rotate_half(x):
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


def rotate(x, cos, sin):
    return x * cos + rotate_half(x) * sin


@functools.cache
def start_compiler() -> None:
    """Pay what a process pays once, so that first calls are those of the work alone."""
    torch.compile(lambda x: x + 1)(torch.zeros(8, device=DEVICE))


class Buffer:
    """Inputs of a call, and what the call leaves: q, k, v, or out."""

    q = k = v = out = None


class Side:
    def __init__(self, case):
        self.case = case
        self.dtype = DTYPES[case.dtype]
        self.positions = torch.tensor(case.positions(), dtype=torch.int64, device=DEVICE)
        self.expected = {part: upload(tensor).double() for part, tensor in case.expected.items()}
        if case.work != "loop":
            self.cos, self.sin = (x[:, None] for x in trig(self.positions, case.dim, self.dtype))
        self.pristine = self.inputs()

    def inputs(self) -> dict:
        case = self.case
        if case.work == "rope":
            return {"packed": draw(attn_case.QKV, case.rows * case.packed, self.dtype).view(case.rows, -1)}
        if case.work == "loop":
            count = case.capacity * case.batch * case.packed
            return {"packed": draw(attn_case.TOKENS, count, self.dtype).view(case.capacity, case.batch, -1)}
        q = draw(attn_case.Q, case.rows * case.heads * case.dim, self.dtype)
        shape = (case.batch, case.kv_heads, case.capacity, case.dim)
        count = case.batch * case.kv_heads * case.capacity * case.dim
        keys, values = (draw(tensor, count, self.dtype).view(shape) for tensor in (attn_case.K, attn_case.V))
        queries = q.view(case.batch, case.rows_each, case.heads, case.dim).transpose(1, 2)
        return {"queries": queries, "keys": keys, "values": values}

    def bytes(self) -> int:
        """That a call touches at least."""
        case = self.case
        if case.work == "attend":
            elements = 2 * sum(case.lengths) * case.kv_heads * case.dim
        else:
            elements = 2 * case.rows * case.packed
        return elements * self.dtype.itemsize

    def buffer(self) -> Buffer:
        buffer = Buffer()
        for name, tensor in self.pristine.items():
            setattr(buffer, name, tensor.clone() if self.case.work != "loop" else tensor)
        if self.case.work == "rope" and self.case.appends():
            shape = (self.case.batch, self.case.kv_heads, self.case.capacity, self.case.dim)
            buffer.cache_k, buffer.cache_v = (torch.zeros(shape, dtype=self.dtype, device=DEVICE) for _ in "kv")
        return buffer

    def buffers(self, at_least: int = 1) -> list:
        """Distinct ones that together exceed the L2 twice, again and again."""
        if self.case.work == "loop":
            return [self.buffer()]
        at_least = min(at_least, LONG_LINE) if self.bytes() >= LONG_BYTES else at_least
        sets = 2 * torch.cuda.get_device_properties(0).L2_cache_size // self.bytes() + 1
        distinct = [self.buffer() for _ in range(min(sets, MAX_SETS))]
        return [distinct[i % len(distinct)] for i in range(max(len(distinct), at_least))]

    def check(self, series: str, after: Buffer) -> None:
        """Refuse what a peer left when it differs too much from ours."""
        verdict = attn_agreement.HeadVerdict(self.case.dtype)
        for part, ours in self.expected.items():
            self.judge(verdict, part, ours, self.found(part, after))
        if not verdict.agrees():
            raise Disagreement(f"{series}: case '{self.case.name}': disagrees with steergraph: {verdict}")

    def found(self, part: str, after: Buffer):
        """What a peer left of the rows that are looked at, [n, heads, dim]."""
        case = self.case
        index = torch.tensor(case.sample, device=DEVICE)
        if case.work == "attend":
            rows = after.out.transpose(1, 2).reshape(case.rows, case.heads, case.dim)
        elif case.work == "rope" and case.appends() and part != "q":
            cache = after.cache_k if part == "k" else after.cache_v
            return cache[index // case.rows_each, :, self.positions[index]].double()
        else:
            rows = getattr(after, part)
        return rows[index].double()

    def judge(self, verdict, part: str, ours, theirs) -> None:
        distances = (theirs - ours).norm(dim=-1).tolist()
        lengths = ours.norm(dim=-1).tolist()
        for i, row in enumerate(self.case.sample):
            position = int(self.positions[row])
            verdict.add(f"row {row} of {part}", position, distances[i], lengths[i])
