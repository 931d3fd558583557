"""A case of the suite components: its shape, and what float64 says of some rows and components.

A folder with two files, written by `steergraph bench --peers`:
    case.json             the numbers of components_case.h
    expected.safetensors  float32: "y" [n, d_out] and "dx" [n, d_in] of the rows that are looked at, "dv"
                          [d_in, k], "du" [k, d_out] and "dm" [rows of the mask, k] of the components
Inputs are not in it: they are made again, element by element, from their indices. Needs no torch.
"""
import pathlib

import tensor_file
from attn_case import DTYPES, mixed
from case import CaseError, read_json

X, V, U, MASK, DY = 11, 12, 13, 14, 15  # tensors
COUNTS = ("d_in", "d_out", "components", "rows", "share")
FLAGS = ("tf32", "mask_of_bool", "both", "compiled")
SCALES = {X: 1 / 64, V: 1 / 1024, U: 1 / 2048, MASK: 1 / 256, DY: 1 / 64}


def value(tensor: int, index: int) -> float:
    """One element; every type holds it exactly."""
    return (mixed(tensor, index) - (0 if tensor == MASK else 128)) * SCALES[tensor]


class ComponentsCase:
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
        self.dtype = DTYPES[numbers["dtype"]]
        for count in COUNTS:
            setattr(self, count, int(numbers[count]))
            if getattr(self, count) < 1:
                raise ValueError(count)
        for flag in FLAGS:
            setattr(self, flag, numbers[flag])
            if not isinstance(numbers[flag], bool):
                raise ValueError(flag)
        self.sample = [int(row) for row in numbers["sample"]]
        self.columns = [int(column) for column in numbers["columns"]]
        self.mask_rows = -(-self.rows // self.share)
        if not all(0 <= row < self.rows for row in self.sample) or not self.sample:
            raise ValueError("sample")
        if not all(0 <= column < self.components for column in self.columns) or not self.columns:
            raise ValueError("columns")

    def kind(self) -> str:
        """What operands of products are rounded to."""
        return "TF32" if self.tf32 else self.dtype

    def parts(self) -> tuple:
        gradients = ("dx", "dv", "du") + (() if self.mask_of_bool else ("dm",))
        return ("y", *(gradients if self.both else ()))

    def shape(self, part: str) -> list:
        return {
            "y": [len(self.sample), self.d_out],
            "dx": [len(self.sample), self.d_in],
            "dv": [self.d_in, len(self.columns)],
            "du": [len(self.columns), self.d_out],
            "dm": [self.mask_rows, len(self.columns)],
        }[part]

    def take(self, tensors: dict, part: str):
        tensor = tensors.get(part)
        if tensor is None or tensor.dtype != "F32" or tensor.shape != self.shape(part):
            found = None if tensor is None else (tensor.dtype, tensor.shape)
            raise CaseError(f"{self.folder / 'expected.safetensors'}: '{part}' is {found}, not "
                            f"{('F32', self.shape(part))}")
        return tensor

    def side(self) -> str:
        return "components_side"

    def flop(self) -> float:
        back = 3 * self.d_in + 2 * self.d_out if self.both else 0
        return 2.0 * self.rows * self.components * (self.d_in + self.d_out + back)

    def bytes(self) -> int:
        """Of the mask, which is most of what a call touches."""
        return self.mask_rows * self.components * (1 if self.mask_of_bool else tensor_file.BYTES[self.dtype])
