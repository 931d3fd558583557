"""Numpy arrays and torch tensors as rows in memory: where, of what type, how far apart.

Nothing is copied or converted: what does not fit is refused, with what it is and what is wanted.
Imports neither numpy nor torch; a tensor of theirs means that its module is there already.
"""
import ctypes
import functools
import operator
import sys
from typing import NamedTuple

from . import _abi, _errors

# bf16 is no type of numpy: bit patterns in uint16 stand for it, or the type that ml_dtypes adds.
_NUMPY_DTYPES = {"float32": "f32", "float16": "f16", "uint16": "bf16", "bfloat16": "bf16"}
_TORCH_DTYPES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}
_WANTED = "a numpy array or a torch tensor"


class Rows(NamedTuple):
    """A tensor as [rows, width], `row_stride` elements from one row to the next."""

    pointer: int
    dtype: str
    rows: int
    width: int
    row_stride: int
    device: str  # "cpu", "cuda:0"


def is_torch(tensor):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def is_numpy(tensor):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


class View(NamedTuple):
    """A tensor as it is; strides in elements."""

    pointer: int
    dtype: str
    shape: tuple
    strides: tuple
    device: str  # "cpu", "cuda:0"


def view_of(tensor, what):
    """A tensor of an element type that the library has."""
    if is_torch(tensor):
        pointer, dtype, strides, device = _of_torch(tensor, what)
    elif is_numpy(tensor):
        pointer, dtype, strides, device = _of_numpy(tensor, what)
    else:
        raise TypeError(f"{what} is {type(tensor).__name__}, not {_WANTED}")
    return View(pointer, dtype, tuple(tensor.shape), tuple(strides), device)


def bytes_of(tensor, what):
    """A tensor of bytes, bool or uint8, as it is; its type is "bool"."""
    if is_torch(tensor):
        device, word = _device_of(tensor, what), str(tensor.dtype).partition(".")[2]
        address, strides = tensor.data_ptr(), tensor.stride()
    elif is_numpy(tensor):
        word, address, strides, device = tensor.dtype.name, tensor.ctypes.data, tensor.strides, "cpu"
    else:
        raise TypeError(f"{what} is {type(tensor).__name__}, not {_WANTED}")
    if word not in ("bool", "uint8"):
        raise _errors.InvalidError(f"{what} is {word}; give bool or uint8")
    return View(address, "bool", tuple(tensor.shape), tuple(strides), device)


def word_of_bytes(tensor):
    """The type of what bytes_of takes; None of anything else."""
    word = str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    return word if word in ("bool", "uint8") else None


def empty_bytes(like, count):
    """New memory of the kind of `like`."""
    if is_torch(like):
        import torch

        return torch.empty(count, dtype=torch.uint8, device=like.device)
    import numpy

    return numpy.empty(count, numpy.uint8)


def rows_of(tensor, what):
    """Any tensor of one dimension or more as rows; leading dimensions must be one run of rows."""
    view = view_of(tensor, what)
    if not view.shape:
        raise _errors.InvalidError(f"{what} has no dimension; give [rows, hidden_size]")
    return rows_of_view(view, what)


def rows_of_view(view, what):
    """The same of a View, whose last dimension is a row."""
    pointer, dtype, shape, strides, device = view
    width = shape[-1]
    if 0 in shape[:-1]:
        return Rows(pointer, dtype, 0, width, width, device)
    if width > 1 and strides[-1] != 1:
        raise _errors.InvalidError(
            f"{what} is not contiguous: elements of a row are {strides[-1]} apart"
        )
    rows, row_stride = _run_of_rows(shape, strides, what)
    return Rows(pointer, dtype, rows, width, row_stride, device)


def _run_of_rows(shape, strides, what):
    """How many rows, and the one distance between them."""
    width, rows, row_stride, next_stride = shape[-1], 1, shape[-1], None
    for extent, stride in zip(reversed(shape[:-1]), reversed(strides[:-1])):
        if extent == 1:
            continue
        if next_stride is None:
            row_stride = stride
        elif stride != next_stride:
            raise _errors.InvalidError(
                f"{what} is not contiguous: shape {shape} with strides {tuple(strides)} is not "
                "one run of rows"
            )
        next_stride = stride * extent
        rows *= extent
    if row_stride < width:
        raise _errors.InvalidError(f"{what}: rows of {width} elements are {row_stride} apart")
    return rows, row_stride


def _of_torch(tensor, what):
    device = _device_of(tensor, what)
    dtype = _word(tensor.dtype)
    if dtype is None:
        raise _errors.InvalidError(f"{what} is {tensor.dtype}; give bfloat16, float16 or float32")
    if tensor.is_neg():
        raise _errors.InvalidError(f"{what} is a negated view of its memory: use resolve_neg()")
    return tensor.data_ptr(), dtype, tensor.stride(), device


def _device_of(tensor, what):
    """Where a tensor of torch has its elements."""
    import torch

    if tensor.layout is not torch.strided:
        raise _errors.InvalidError(f"{what} is {tensor.layout}, not strided")
    device = _word(tensor.device)
    if device is None:
        raise _errors.InvalidError(
            f"{what} is on {tensor.device}; give memory of the CPU or of CUDA"
        )
    return device


@functools.lru_cache(maxsize=64)
def _word(of_torch):
    """What we call a type or a device of torch; None for one that we do not take."""
    text = str(of_torch)
    if text in _TORCH_DTYPES:
        return _TORCH_DTYPES[text]
    return text if text.partition(":")[0] in ("cpu", "cuda") else None


def _of_numpy(tensor, what):
    dtype = _NUMPY_DTYPES.get(tensor.dtype.name) if tensor.dtype.isnative else None
    if dtype is None:
        raise _errors.InvalidError(
            f"{what} is {tensor.dtype.name}; give float32, float16, or bf16 as uint16"
        )
    strides = tensor.strides
    if any(stride % tensor.itemsize for stride in strides):
        raise _errors.InvalidError(f"{what}: strides {strides} are no multiples of an element")
    strides = tuple(stride // tensor.itemsize for stride in strides)
    return tensor.ctypes.data, dtype, strides, "cpu"


def check(rows, what, *, dtype, width, device):
    """Refuse rows that the table does not take. C sees only an address."""
    if rows.dtype != dtype:
        raise _errors.InvalidError(f"{what} is {rows.dtype}, the table takes {dtype}")
    if rows.width != width:
        raise _errors.InvalidError(
            f"{what} has rows of {rows.width} elements, the table's hidden_size is {width}"
        )
    if rows.device != device:
        raise _errors.InvalidError(f"{what} is on {rows.device}, the engine runs on {device}")


def check_written(tensor, what, writer="steering"):
    """Refuse what may not be written, or what autograd would not see written. One that rows_of took."""
    if is_torch(tensor):
        if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise _errors.InvalidError(
                f"{what} requires grad, and {writer} has none: use torch.no_grad()"
            )
    elif not tensor.flags.writeable:
        raise _errors.InvalidError(f"{what} is read-only")


def look(tensor):
    """(layout, address, whether it may be written) without a check: None three times for what
    rows_of and check_written have to be asked about each time.

    A layout is a key for all that rows_of finds but the address.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.layout is torch.strided and not tensor.is_neg():
            layout = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
            return layout, tensor.data_ptr(), not tensor.requires_grad
    elif is_numpy(tensor):
        layout = tensor.shape, tensor.strides, tensor.dtype
        return layout, tensor.ctypes.data, tensor.flags.writeable
    return None, None, None


def vector_of(data, dtype=None):
    """A vector in host memory: (address, dtype, length, what keeps the memory).

    A torch tensor of another device is copied to the host, which waits for the device.
    """
    if is_torch(data):
        data = data.detach().resolve_neg()
        if data.device.type != "cpu":
            data = data.cpu()
    if len(getattr(data, "shape", ())) != 1 and (is_torch(data) or is_numpy(data)):
        raise _errors.InvalidError(f"a vector has shape {tuple(data.shape)}; give one dimension")
    rows = rows_of(data, "a vector")
    if dtype is not None and rows.dtype != dtype:
        raise _errors.InvalidError(f"a vector is {rows.dtype}, not the {dtype} asked for")
    return rows.pointer, _abi.DTYPE[rows.dtype], rows.width, data


def widened(data):
    """A vector as float32, which is exact; one that is float32 as it is."""
    if is_torch(data):
        return data.float()
    if is_numpy(data) and data.dtype.name == "uint16":
        return (data.astype("uint32") << 16).view("float32")
    if is_numpy(data) and data.dtype.name in _NUMPY_DTYPES:
        return data.astype("float32", copy=False)
    return data


def dtype_word(dtype):
    """"bf16" of "bf16", torch.bfloat16, numpy's float32, ..."""
    if isinstance(dtype, str) and dtype in _abi.DTYPE_BYTES:
        return dtype
    name = str(getattr(dtype, "__name__", dtype))
    word = _TORCH_DTYPES.get(name) or _NUMPY_DTYPES.get(name)
    if word is None:
        raise _errors.InvalidError(f"dtype is {dtype!r}, not one of 'bf16', 'f16', 'f32'")
    return word


def entries_of(entries, what):
    """int32 entries: (address, count, device, what keeps the memory). A sequence is copied."""
    if is_torch(entries) or is_numpy(entries):
        address, shape, device, _ = integers_of(entries, what, ("int32",), 1)
        return address, shape[0], device, entries
    numbers = list(map(operator.index, entries))
    if any(not -(2**31) <= number < 2**31 for number in numbers):
        raise _errors.InvalidError(f"{what} has an entry that is no int32")
    kept = (ctypes.c_int32 * max(len(numbers), 1))(*numbers)
    return ctypes.addressof(kept), len(numbers), "cpu", kept


def positions_of(entries, what):
    """int32 or int64 entries: (address, count, device, what keeps the memory, whether int64)."""
    if is_torch(entries) or is_numpy(entries):
        address, shape, device, word = integers_of(entries, what, ("int32", "int64"), 1)
        return address, shape[0], device, entries, word == "int64"
    numbers, count = _abi.int64_array(entries, what)
    return ctypes.addressof(numbers), count, "cpu", numbers, True


def integers_of(array, what, words, dimensions):
    """(address, shape, device, type) of a contiguous array or tensor of one of these types."""
    if is_torch(array):
        word, negated = str(array.dtype).partition(".")[2], array.is_neg()
        contiguous, device, said = array.is_contiguous(), str(array.device), str(array.dtype)
    else:
        word, negated = array.dtype.name, not array.dtype.isnative
        contiguous, device, said = array.flags.c_contiguous, "cpu", word
    if word not in words or (negated and not is_torch(array)):
        raise _errors.InvalidError(f"{what} is {said}; give {' or '.join(words)}")
    if len(array.shape) != dimensions or not contiguous or negated:
        dense = "one contiguous dimension" if dimensions == 1 else f"{dimensions} contiguous dimensions"
        raise _errors.InvalidError(f"{what} is not {dense}")
    address = array.data_ptr() if is_torch(array) else array.ctypes.data
    return address, tuple(array.shape), device, word


def stream_of(device, stream):
    """The CUDA stream of a call: the one given, else torch's current one, else the default one."""
    if device == "cpu":
        return None
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        # The address alone: torch's object takes as long as an apply. torch does not document this
        # name; the code that torch.compile generates calls it. If it goes, the object does.
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        if raw is not None:
            return raw(_index_of(device))
        stream = torch.cuda.current_stream(torch.device(device))
    stream = getattr(stream, "cuda_stream", stream)
    return _abi.uint64(stream, "stream") if isinstance(stream, int) else stream


@functools.lru_cache(maxsize=64)
def _index_of(device):
    """7 of "cuda:7"."""
    return int(device.partition(":")[2] or 0)
