"""A case of the suite components on the device: inputs made again, and the judgement."""
import functools

import attn_case
import components_case
from components_agreement import VectorVerdict
from torch_side import DTYPES, Disagreement

import torch

MAX_SETS = 64
LARGE = 8192  # of each side of a product that tells what the card's library reaches


def draw(tensor: int, rows: int, columns: int, dtype, device: str = "cuda"):
    """A tensor that the bench makes up; see components_case.value."""
    count = rows * columns
    fresh = min(count, attn_case.PERIOD)
    index = torch.arange(fresh, dtype=torch.int64, device=device)
    values = attn_case.mixed(tensor, index) - (0 if tensor == components_case.MASK else 128)
    values = (values.float() * components_case.SCALES[tensor]).to(dtype)
    return values.repeat(-(-count // fresh))[:count].view(rows, columns)


@functools.cache
def large_product_tflops(dtype, tf32: bool) -> float:
    """What the library reaches at its best: a product of two matrices of LARGE by LARGE."""
    a = torch.randn(LARGE, LARGE, device="cuda").to(dtype)
    best = None
    for _ in range(6):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
        begin.record()
        a @ a
        end.record()
        torch.cuda.synchronize()
        ms = begin.elapsed_time(end)
        best = ms if best is None else min(best, ms)
    return 2 * LARGE**3 / best * 1e-9


class Buffer:
    """Inputs of a call, and what the call leaves."""

    y = dx = dv = du = dm = None
    unmasked = False  # the mask was left out on purpose


class Side:
    def __init__(self, case, device: str = "cuda"):
        self.case, self.device = case, device
        self.dtype = DTYPES[case.dtype]
        # for all that this process computes from here on
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
        self.expected = {part: self.upload(tensor) for part, tensor in case.expected.items()}
        self.pristine = self.inputs()

    def upload(self, tensor):
        data = torch.frombuffer(bytearray(tensor.data), dtype=DTYPES[tensor.dtype])
        return data.reshape(tensor.shape).to(self.device).double()

    def inputs(self) -> dict:
        case = self.case
        made = {
            "x": (components_case.X, case.rows, case.d_in),
            "v": (components_case.V, case.d_in, case.components),
            "u": (components_case.U, case.components, case.d_out),
            "mask": (components_case.MASK, case.mask_rows, case.components),
        }
        if case.both:
            made["dy"] = (components_case.DY, case.rows, case.d_out)
        found = {name: draw(*shape, self.dtype, self.device) for name, shape in made.items()}
        if case.mask_of_bool:
            found["mask"] = found["mask"] >= 0.5
        return found

    def buffer(self) -> Buffer:
        buffer = Buffer()
        for name, tensor in self.pristine.items():
            copy = tensor.clone()
            setattr(buffer, name, copy.requires_grad_() if self.case.both and name in self.wanted() else copy)
        return buffer

    def wanted(self) -> tuple:
        """Inputs that have a gradient."""
        return ("x", "v", "u") + (() if self.case.mask_of_bool else ("mask",))

    def buffers(self, at_least: int = 1) -> list:
        """Distinct ones that together exceed the L2 twice, again and again."""
        sets = 2 * torch.cuda.get_device_properties(0).L2_cache_size // self.case.bytes() + 1
        distinct = [self.buffer() for _ in range(min(sets, MAX_SETS))]
        return [distinct[i % len(distinct)] for i in range(max(len(distinct), min(at_least, 8)))]

    def check(self, series: str, after: Buffer) -> None:
        """Refuse what a peer left when it differs too much from float64's."""
        verdict = VectorVerdict(self.case.kind())
        for part, ours in self.expected.items() if not after.unmasked else ():
            self.judge(verdict, part, ours, self.found(part, after))
        if after.unmasked:
            self.judge(verdict, "y", self.without_mask(), self.found("y", after))
        if not verdict.agrees():
            raise Disagreement(f"{series}: case '{self.case.name}': disagrees with float64: {verdict}")

    def without_mask(self):
        x, v, u = (self.pristine[name].double() for name in "xvu")
        return x[self.case.sample] @ v @ u

    def found(self, part: str, after: Buffer):
        """What a peer left of the rows or components that are looked at."""
        tensor = getattr(after, part).detach()
        if part in ("y", "dx"):
            return tensor[self.case.sample].double()
        return tensor[self.case.columns].double() if part == "du" else tensor[:, self.case.columns].double()

    def judge(self, verdict, part: str, ours, theirs) -> None:
        over = -1 if part in ("y", "dx", "du") else 0  # along a vector
        verdict.add(f"{part},", (theirs - ours).norm(dim=over).tolist(), ours.norm(dim=over).tolist())
