"""A case of the suites rope and attend: its shape, and the rows that steergraph made of it.

A folder with two files, written by `steergraph bench --peers`:
    case.json             the numbers of attn_case.h
    expected.safetensors  what steergraph gave, of the rows that are looked at: "q" [n, heads, dim], "k"
                          and "v" [n, kv_heads, dim] of a rope, "out" [n, heads, dim] of an attention; of
                          a loop over every length "out" [steps, batch, heads, dim]
Inputs are not in it: they are made again, element by element, from their indices. Needs no torch.
"""
import pathlib

import tensor_file
from case import CaseError, read_json

PERIOD = 16777213  # after so many elements they begin again
QKV, Q, K, V, TOKENS = 1, 2, 3, 4, 5  # tensors
WORKS = ("rope", "attend", "loop")
DTYPES = {"bf16": "BF16", "f16": "F16", "f32": "F32"}
SIDES = {"rope": "attn_side", "attend": "attn_side", "loop": "loop_side"}  # modules that have them on the device
COUNTS = ("heads", "kv_heads", "dim", "batch", "rows_each", "capacity")
MASK = 0xFFFFFFFF


def scale_of(tensor: int) -> float:
    return 1 / 32 if tensor <= Q else 1 / 128


def mixed(tensor: int, index):
    """The top 8 bits of 32 that are mixed; of an int, or of an int64 tensor of torch."""
    h = ((index % PERIOD) * 0x9E3779B1 + tensor * 0x85EBCA6B) & MASK
    h = h ^ (h >> 16)
    h = (h * 0x7FEB352D) & MASK
    h = h ^ (h >> 15)
    return ((h * 0x846CA68B) & MASK) >> 24


def value(tensor: int, index: int) -> float:
    """One element; every type holds it exactly."""
    return (mixed(tensor, index) - 128) * scale_of(tensor)


class AttnCase:
    def __init__(self, folder, suite: str = "", name: str = ""):
        self.folder = pathlib.Path(folder)
        self.suite, self.name = suite, name
        self.place = str(self.folder / "case.json")
        numbers = read_json(self.folder / "case.json")
        try:
            self.read(numbers)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CaseError(f"{self.place}: not a case of the bench ({error!r})") from None
        found = tensor_file.read(self.folder / "expected.safetensors")
        self.expected = {part: self.take(found, part) for part in self.parts()}

    def read(self, numbers: dict) -> None:
        self.work, self.dtype = numbers["work"], DTYPES[numbers["dtype"]]
        if self.work not in WORKS:
            raise ValueError(self.work)
        for count in COUNTS:
            setattr(self, count, int(numbers[count]))
        self.compiled = numbers["compiled"]
        if not isinstance(self.compiled, bool):
            raise ValueError("compiled")
        self.lengths = [int(length) for length in numbers["lengths"]]
        self.sample = [int(row) for row in numbers["sample"]]
        self.rows = self.batch * self.rows_each
        self.packed = (self.heads + 2 * self.kv_heads) * self.dim
        if len(self.lengths) != self.batch or not all(0 <= row < self.rows for row in self.sample):
            raise ValueError("lengths or sample")

    def parts(self) -> tuple:
        return ("q", "k", "v") if self.work == "rope" else ("out",)

    def shape(self, part: str) -> list:
        heads = self.kv_heads if part in ("k", "v") else self.heads
        rows = [len(self.sample)]
        if self.work == "loop":
            rows = [self.capacity // self.stride(), self.batch]
        return [*rows, heads, self.dim]

    @staticmethod
    def stride() -> int:
        """Of a loop, of so many steps the last one is looked at."""
        return 16

    def take(self, tensors: dict, part: str):
        tensor = tensors.get(part)
        if tensor is None or tensor.dtype != self.dtype or tensor.shape != self.shape(part):
            found = None if tensor is None else (tensor.dtype, tensor.shape)
            raise CaseError(f"{self.folder / 'expected.safetensors'}: '{part}' is {found}, not "
                            f"{(self.dtype, self.shape(part))}")
        return tensor

    def positions(self) -> list:
        """Of every row."""
        return [length - self.rows_each + i for length in self.lengths for i in range(self.rows_each)]

    def side(self) -> str:
        return SIDES[self.work]

    def appends(self) -> bool:
        return self.capacity > 0
