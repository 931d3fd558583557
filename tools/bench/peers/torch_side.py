"""What every peer needs of PyTorch: the inputs on the device, the judgement, the clock.

Device time is between two events around a call, over buffers that together exceed the L2 twice; a
call that the host cannot enqueue as fast as the device works is as long as the host took. Wall time
is between two synchronisations of the host.
"""
import ctypes
import math
import time

import agreement
import norm_agreement
import rows

import torch

WARMUP = 10
REPEATS = 100
MAX_BUFFERS = 1024
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


class Disagreement(Exception):
    """One line: series, case, how far off."""


class RowsMath:
    """agreement.ListMath for many rows at once: rows [n, size], vectors [size], numbers [n, 1]."""

    @staticmethod
    def each(function, *rows_of):
        return function(*rows_of)

    @staticmethod
    def scale(number, row):
        return number * row

    @staticmethod
    def total(row):
        return row.sum(-1, keepdim=row.dim() > 1)

    @staticmethod
    def root(x):
        return x.sqrt()

    @staticmethod
    def clamp(x, low, high):
        return x.clamp(low, high)

    @staticmethod
    def worst(differences, bounds):
        if isinstance(differences, list):
            return agreement.ListMath.worst(differences, bounds)
        if differences.numel() == 0:
            return 0.0
        ratios = torch.where(differences == 0, torch.zeros_like(differences), differences / bounds)
        return torch.nan_to_num(ratios, nan=math.inf, posinf=math.inf).max().item()

    @staticmethod
    def numbers(number, row):
        count = row.shape[0]
        return number.flatten().tolist() if torch.is_tensor(number) else [number] * count

    @staticmethod
    def rounded(dtype, row):
        return row.to(DTYPES[dtype]).to(row.dtype)

    rounded_number = rounded

    @staticmethod
    def size(row):
        return row.shape[-1]


def upload(tensor):
    """A tensor of a file on the device."""
    data = torch.frombuffer(bytearray(tensor.data), dtype=DTYPES[tensor.dtype])
    return data.reshape(tensor.shape).cuda()


class Buffer:
    """Rows of a case with a residual. A peer puts its results in their place."""

    def __init__(self, hidden, residual):
        self.hidden, self.residual = hidden, residual


class Side:
    """A case on the device."""

    def __init__(self, case):
        self.case = case
        self.hidden = upload(case.hidden)
        self.expected = upload(case.expected)
        self.exact_vectors = upload(case.vectors).double()
        self.vectors = self.exact_vectors.to(self.hidden.dtype)
        if case.has_norm:
            self.residual, self.weight = upload(case.residual), upload(case.weight)
            self.expected_residual = upload(case.expected_residual)

    def resolve(self, op) -> tuple:
        """An op as op_on takes it. A scaled vector is made once, not per call."""
        v = self.vectors[op.vector].clone()  # a vector of a request, not a view of a table
        if op.name == "add":
            return "add", (op.params["scale"] * self.exact_vectors[op.vector]).to(v.dtype), 0.0, 0.0
        if op.name == "projection_cap":
            return op.name, v, op.params["min"], op.params["max"]
        if op.params["scale"] == 0:
            return "project_out", v, 0.0, 0.0
        return op.name, v, op.params["scale"] - 1, 0.0

    def chains(self) -> list:
        """The steered requests, as loop_on takes them."""
        steered = [request for request in self.case.requests if request.chain and request.end > request.first]
        return [(r.first, r.end, [self.resolve(op) for op in r.chain]) for r in steered]

    def check(self, series: str, after) -> None:
        """Refuse `after`, what a peer made of the case's rows, when it differs too much."""
        case = self.case
        verdict = self.judge_norm(after) if case.has_norm else self.judge(after)
        if not verdict.agrees():
            raise Disagreement(f"{series}: case '{case.name}': disagrees with steergraph: {verdict}")

    def judge_norm(self, after):
        rows_of = ((self.hidden, self.residual), (after.hidden, after.residual),
                   (self.expected, self.expected_residual))
        exact = [tuple(tensor.double() for tensor in pair) for pair in rows_of]
        verdict = norm_agreement.NormVerdict()
        norm = norm_agreement.Norm(self.weight.double(), self.case.epsilon)
        verdict.add(RowsMath, *exact, norm, self.case.dtype)
        return verdict

    def judge(self, after):
        case = self.case
        groups = {}
        for request in case.requests:
            groups.setdefault(request.key(), []).append(request)
        verdict = agreement.Verdict()
        for requests in groups.values():
            index = torch.cat([torch.arange(r.first, r.end) for r in requests]).cuda()
            before, found, expected = (t[index].double() for t in (self.hidden, after, self.expected))
            verdict.add(RowsMath, before, found, expected, requests[0].chain, self.exact_vectors, case.dtype)
        return verdict

    def buffer(self):
        """A copy of the rows."""
        hidden = self.hidden.clone()
        return Buffer(hidden, self.residual.clone()) if self.case.has_norm else hidden

    def buffers(self, at_least: int = 1) -> list:
        """Copies of the rows that together exceed the L2 twice."""
        properties = torch.cuda.get_device_properties(0)
        count = 2 * properties.L2_cache_size // (self.hidden.numel() * self.hidden.element_size()) + 2
        return [self.buffer() for _ in range(max(min(count, MAX_BUFFERS), at_least))]


def driver_version() -> int:
    """1000 * major + 10 * minor of the CUDA that the driver speaks, as in `steergraph bench`."""
    version = ctypes.c_int(0)
    result = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    if result != 0:
        raise RuntimeError(f"cuDriverGetVersion: error {result}")
    return version.value


def machine() -> dict:
    return {
        "card": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "cuda": torch.version.cuda,
    }


def measure(call, count: int, repeats: int = REPEATS) -> tuple:
    """(device, wall) Times of call(index of a buffer)."""
    warmup = min(WARMUP, repeats)
    for index in range(warmup):
        call(index % count)
    device, wall = [], []
    for repeat in range(repeats):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start = time.perf_counter()
        begin.record()
        call((warmup + repeat) % count)
        end.record()
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - start) * 1e6)
        device.append(begin.elapsed_time(end) * 1e3)
    return rows.Times(device), rows.Times(wall)


def compile_with(function, **options):
    """torch.compile with nothing compiled before. Numbers of the batch (first rows, bounds) are
    constants: as symbols they would only make compiling longer."""
    torch._dynamo.reset()
    for kind in ("specialize_int", "specialize_float"):  # the second only where it can be off
        if hasattr(torch._dynamo.config, kind):
            setattr(torch._dynamo.config, kind, True)
    return torch.compile(function, **options)


def first_call_ms(call) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def op_on(x, op):
    """One op on rows of one request, as eager code writes it; a new tensor."""
    kind, v, a, b = op
    if kind == "add":
        return x + v
    p = (x @ v).unsqueeze(-1)
    if kind == "projection_cap":
        return x + (p.clamp(a, b) - p) * v
    if kind == "project_out":
        return x - p * v
    return x + (a * p) * v


def loop_on(hidden, chains):
    """The loop over requests, in place: chains are (first row, end, ops)."""
    for first, end, ops in chains:
        x = hidden[first:end]
        for op in ops:
            x = op_on(x, op)
        hidden[first:end] = x
    return hidden
