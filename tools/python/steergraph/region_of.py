"""Functions of tensors as regions: padded to a bucket, copied to where the graph reads, captured once.

Imports torch. What a region is, region.py knows.
"""
import functools
import hashlib
import inspect
import threading
import weakref

import torch

from . import _abi, _errors, _locks
from .region import Region, bucket, chunks

_CONSTANTS = (type(None), bool, int, float, str)
_TEXT_CHARS = 160  # of what a signature says of arguments before it is a digest of that


def _text_of(tensor, dim):
    extents = ["*" if i == dim else str(extent) for i, extent in enumerate(tensor.shape)]
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(extents)}]"


def _mode_text(device):
    """What of torch's modes a capture has for good."""
    words = []
    if torch.is_autocast_enabled(device):
        words.append(f"autocast={str(torch.get_autocast_dtype(device)).removeprefix('torch.')}")
    if torch.is_inference_mode_enabled():
        words.append("inference")
    elif torch.is_grad_enabled():
        words.append("grad")
    return words


def _mapped(function, tree):
    """A result with each tensor as `function` has it."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_mapped(function, item) for item in tree))
    if type(tree) in (tuple, list):
        return type(tree)(_mapped(function, item) for item in tree)
    if type(tree) is dict:
        return {name: _mapped(function, item) for name, item in tree.items()}
    if isinstance(tree, _CONSTANTS):
        return tree
    raise _errors.InvalidError(
        f"a region_of function returns a {type(tree).__name__}, not tensors, numbers, str and None in "
        "tuples, lists and dicts"
    )


class RegionOf:
    """A function of tensors, called as it was. Any thread; calls go one after the other."""

    def __init__(self, engine, function, buckets, dim, fixed, key, clone, warmup, signature):
        functools.update_wrapper(self, function)
        self._function = function
        self._parameters = inspect.signature(function)
        kinds = [parameter.kind for parameter in self._parameters.parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
            raise _errors.InvalidError(
                f"{function.__qualname__} takes any arguments; name those that it takes"
            )
        self._fixed = frozenset([fixed] if isinstance(fixed, str) else fixed)
        unknown = self._fixed - self._parameters.parameters.keys()
        if unknown:
            raise _errors.InvalidError(
                f"fixed names {sorted(unknown)[0]!r}, which {function.__qualname__} does not take"
            )
        self._buckets = tuple(buckets)
        bucket(0, self._buckets)  # which refuses what are none
        self._dim = _abi.integer(dim, "dim", 0, 2**31 - 1)
        self._key = key
        self._clone = clone
        self._warmup = _abi.uint32(warmup, "warmup")
        self.engine = engine
        self._device = torch.device(engine.device)
        self._regions = regions = engine.its_regions()
        wanted = signature if signature is not None else f"{function.__module__}.{function.__qualname__}"
        self._name = regions.take_name(wanted, signature is None)
        Region(engine, self._name, None, 0, 0, 0, None, 0)  # which refuses what is none
        self._texts = set()
        self._last = {}  # a record of each stream, whose memory the next shares
        _locks.own(self, "_lock", threading.RLock)
        weakref.finalize(self, regions.give_up, self._name, self._texts)

    def forget(self):
        """Let all that was captured of the function go. BusyError while it is being launched."""
        for text in tuple(self._texts):
            self._regions.forget(text)

    def __call__(self, *args, **kwargs):
        bound = self._parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if self._is_capturing():
            return self._function(*bound.args, **bound.kwargs)
        pieces = chunks(self._size(given), self._buckets)
        if not pieces:
            return self._function(*bound.args, **bound.kwargs)  # of no rows
        with self._lock:
            text = self._text(given)
            if len(pieces) == 1:
                return self._piece(given, text, pieces[0], self._clone)
            results = [self._piece(given, text, piece, True) for piece in pieces]
        return self._joined(results, [size for _, size, _ in pieces])

    def _is_capturing(self):
        capture = self._regions.capture
        return capture is not None and capture.is_capturing()

    # Arguments.

    def _size(self, given):
        """The extent of the padded dimension, which all tensors but the fixed ones have."""
        sizes = {}
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                if not isinstance(value, _CONSTANTS):
                    raise _errors.InvalidError(
                        f"{name} is a {type(value).__name__}; a region_of function takes tensors, "
                        "numbers, str and None"
                    )
                continue
            if value.device != self._device:
                raise _errors.InvalidError(f"{name} is on {value.device}, the engine on {self._device}")
            if value.requires_grad and torch.is_grad_enabled():
                raise _errors.InvalidError(
                    f"{name} requires grad, which ends at a region; detach it, and let the function "
                    "have its own backward"
                )
            if name not in self._fixed:
                if value.dim() <= self._dim:
                    raise _errors.InvalidError(
                        f"{name} has {value.dim()} dimensions, and is padded in dimension {self._dim}; "
                        "name it in fixed if it is not to be"
                    )
                sizes[name] = value.shape[self._dim]
        if not sizes:
            raise _errors.InvalidError(f"{self._name} is given no tensor that is padded")
        (first, size), *others = sizes.items()
        for name, other in others:
            if other != size:
                raise _errors.InvalidError(
                    f"{name} has {other} rows in dimension {self._dim}, {first} has {size}; name it in "
                    "fixed if it is not to be padded"
                )
        return size

    def _text(self, given):
        """The signature: the function, and all of a call that a capture has for good, but the bucket."""
        words = []
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                value = _text_of(value, None if name in self._fixed else self._dim)
            else:
                value = repr(value)
            words.append(f"{name}={value}")
        words += _mode_text(self._device.type)
        if self._key is not None:
            words.append(f"key={self._key()!r}")
        text = " ".join(words)
        fits = len(text) <= _TEXT_CHARS and all(" " <= c <= "~" and c != "|" for c in text)
        if not fits:
            text = hashlib.sha256(text.encode()).hexdigest()
        return f"{self._name} {text}"

    def _room(self, given, padded):
        """Tensors of a bucket, where the graph reads."""
        room = {}
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                shape = list(value.shape)
                if name not in self._fixed:
                    shape[self._dim] = padded
                value = torch.empty(shape, dtype=value.dtype, device=value.device)
            room[name] = value
        return room

    def _fill(self, room, given, first, size, padded):
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                continue
            value, place = value.detach(), room[name]
            if name in self._fixed:
                place.copy_(value)
                continue
            place.narrow(self._dim, 0, size).copy_(value.narrow(self._dim, first, size))
            if size < padded:
                place.narrow(self._dim, size, padded - size).zero_()

    # Calls.

    def _piece(self, given, text, piece, clone):
        first, size, padded = piece
        self._texts.add(text)
        regions = self._regions
        with regions.current(None) as stream:
            record = regions.found((text, padded, 0, 0), stream)
            room = record.kept if record is not None else self._room(given, padded)
            self._fill(room, given, first, size, padded)
            region = Region(self.engine, text, None, padded, 0, 0, lambda: self._pool(stream), self._warmup)
            outputs = region.run(lambda: self._checked(room), kept=room)
            record = regions.found(region.name, stream)
            if record is not None:
                self._last[stream] = weakref.ref(record)
        return _mapped(lambda t: self._cut(t, size, padded, clone), outputs)

    def _pool(self, stream):
        """Buckets share memory: one of them runs at a time."""
        record = self._last[stream]() if stream in self._last else None
        return record.graph.pool() if record is not None and record.is_live else None

    def _checked(self, room):
        bound = inspect.BoundArguments(self._parameters, room)
        outputs = self._function(*bound.args, **bound.kwargs)
        _mapped(self._refuse_grad, outputs)
        return outputs

    def _refuse_grad(self, tensor):
        if tensor.requires_grad:
            raise _errors.InvalidError(
                f"region {self._name} returns a tensor that requires grad, which ends at a region; "
                "detach it, and let the function have its own backward"
            )

    def _has_rows(self, tensor, padded):
        return tensor.dim() > self._dim and tensor.shape[self._dim] == padded

    def _cut(self, tensor, size, padded, clone):
        if self._has_rows(tensor, padded):
            tensor = tensor.narrow(self._dim, 0, size)
        return tensor.clone() if clone else tensor

    def _joined(self, results, sizes):
        """The results of pieces as one."""
        first = results[0]
        if isinstance(first, torch.Tensor):
            for result, size in zip(results, sizes):
                if not self._has_rows(result, size):
                    raise _errors.InvalidError(
                        f"{self._name} has a result of shape {list(result.shape)}, without rows, of "
                        f"which that of {sum(sizes)} rows in pieces cannot be made; give a larger bucket"
                    )
            return torch.cat(results, self._dim)
        if isinstance(first, (tuple, list)):
            items = [self._joined(parts, sizes) for parts in zip(*results)]
            return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
        if isinstance(first, dict):
            return {word: self._joined([result[word] for result in results], sizes) for word in first}
        return first
