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
from ._rooms import CONSTANTS, Room, has_rows, mapped
from .region import Region, bucket, chunks

_EXACT = frozenset((type(None), bool, int, str))  # equal ones have equal texts
_KNOWN = 4096  # arguments that are remembered, by their types, shapes and constants
_TEXTS = 1024  # signatures of a function, whose records are kept
_TEXT_CHARS = 160  # of what a signature says of arguments before it is a digest of that
_NAME_CHARS = 320  # of a function's name before that, with room for a number behind it


def _text_of(tensor, dim):
    extents = ["*" if i == dim else str(extent) for i, extent in enumerate(tensor.shape)]
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(extents)}]"


def _mode_words(autocast, inference, grad):
    """What of torch's modes a capture has for good."""
    words = [] if autocast is None else [f"autocast={str(autocast).removeprefix('torch.')}"]
    if inference or grad:
        words.append("inference" if inference else "grad")
    return words


class _Known:
    """What a call comes to, from the types, shapes and constants of its arguments."""

    def __init__(self, text, pieces):
        self.text = text
        self.pieces = [((text, padded, 0, 0), first, size) for first, size, padded in pieces]


class RegionOf:
    """A function of tensors, called as it was. Any thread; calls go one after the other."""

    def __init__(self, engine, function, buckets, dim, fixed, key, clone, warmup, signature):
        functools.update_wrapper(self, function)
        self._function = function
        self._parameters = inspect.signature(function)
        parameters = self._parameters.parameters
        kinds = [parameter.kind for parameter in parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
            raise _errors.InvalidError(
                f"{function.__qualname__} takes any arguments; name those that it takes"
            )
        self._fixed = frozenset([fixed] if isinstance(fixed, str) else fixed)
        unknown = self._fixed - parameters.keys()
        if unknown:
            raise _errors.InvalidError(
                f"fixed names {sorted(unknown)[0]!r}, which {function.__qualname__} does not take"
            )
        self._names = tuple(parameters)
        self._defaults = tuple(parameter.default for parameter in parameters.values())
        self._n_places = len(kinds) - kinds.count(inspect.Parameter.KEYWORD_ONLY)
        self._n_simple = len(kinds) if self._n_places == len(kinds) else -1
        self._are_fixed = [name in self._fixed for name in parameters]
        self._orders = {}  # by how many arguments have no name, and the names of the others
        self._known = {}
        self._buckets = tuple(buckets)
        bucket(0, self._buckets)  # which refuses what are none
        self._dim = _abi.integer(dim, "dim", 0, 2**31 - 1)
        self._key = key
        self._clone = clone
        self._warmup = _abi.uint32(warmup, "warmup")
        self.engine = engine
        self._device = torch.device(engine.device)
        self._device_type = self._device.type
        self._regions = regions = engine.its_regions()
        wanted = signature if signature is not None else f"{function.__module__}.{function.__qualname__}"
        Region(engine, wanted, None, 0, 0, 0, None, 0)  # which refuses what is none
        if len(wanted) > _NAME_CHARS:
            raise _errors.InvalidError(
                f"signature has {len(wanted)} characters; write {_NAME_CHARS} at most, since what a call "
                "is given stands behind it"
            )
        self._name = regions.take_name(wanted, signature is None)
        self._texts = {}  # in the order in which they were looked for
        capture = regions.capture
        self._is_capturing = capture.is_capturing if capture is not None else lambda: False
        self._last = {}  # a record of each stream, whose memory the next shares
        _locks.own(self, "_lock", threading.RLock)
        weakref.finalize(self, regions.give_up, self._name, self._texts)

    def forget(self):
        """Let all that was captured of the function go. BusyError while it is being launched."""
        for text in tuple(self._texts):
            self._regions.forget(text)

    def __call__(self, *args, **kwargs):
        values = args if not kwargs and len(args) == self._n_simple else self._in_order(args, kwargs)
        if self._is_capturing():
            return self._as_it_is(values)
        with self._lock:
            pieces = self._find(values).pieces
            if len(pieces) == 1:
                return self._piece(values, *pieces[0], True, self._clone)
            results = [self._piece(values, *piece, False, True) for piece in pieces]
        if not results:
            return self._as_it_is(values)  # of no rows
        return self._joined(results, [size for _, _, size in pieces])

    def _as_it_is(self, values):
        names = self._names[self._n_places :]
        return self._function(*values[: self._n_places], **dict(zip(names, values[self._n_places :])))

    def _in_order(self, args, kwargs):
        form = len(args), tuple(kwargs)
        order = self._orders.get(form)
        if order is None:
            order = self._orders[form] = self._order(*form)
        given = (*args, *kwargs.values(), *self._defaults)
        return [given[i] for i in order]

    def _order(self, count, names):
        """Where each parameter's value is among those given, with the defaults behind them."""
        n_given = count + len(names)
        named = dict(zip(names, range(count, n_given)))
        bound = self._parameters.bind(*range(count), **named).arguments
        return [bound.get(name, n_given + i) for i, name in enumerate(self._names)]

    # Arguments.

    def _find(self, values):
        """What there is to know of a call. It is worked out once for arguments that differ in nothing but
        what is in their tensors."""
        word, device, grad = self._device_type, self._device, torch.is_grad_enabled()
        key = [
            torch.get_autocast_dtype(word) if torch.is_autocast_enabled(word) else None,
            torch.is_inference_mode_enabled(),
            grad,
            None if self._key is None else repr(self._key()),
        ]
        for value in values:
            if isinstance(value, torch.Tensor):
                if value.device != device or (grad and value.requires_grad):
                    break
                key += value.dtype, value.shape
            else:
                kind = type(value)
                if kind not in _EXACT:
                    if not isinstance(value, CONSTANTS):
                        break
                    value = repr(value)  # -0.0 equals 0.0
                key += kind, value
        else:
            known = self._known.get(key := tuple(key))
            if known is not None:
                return known
        given = dict(zip(self._names, values))
        pieces = chunks(self._size(given), self._buckets)  # which refuses what broke off
        known = _Known(self._text(given, key[:4]), pieces)
        self._keep(known.text)
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[key] = known
        return known

    def _keep(self, text):
        """Remember a signature. The one that was longest not looked for goes where there are too many, and
        with it its records, and all that is known of calls, so that those that still come are looked for."""
        if self._texts.pop(text, self) is self and len(self._texts) >= _TEXTS:
            oldest = next(iter(self._texts))
            del self._texts[oldest]
            self._known.clear()
            try:
                self._regions.forget(oldest)
            except _errors.BusyError:
                self._texts[oldest] = None
        self._texts[text] = None

    def _size(self, given):
        """The extent of the padded dimension, which all tensors but the fixed ones have."""
        sizes = {}
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                if not isinstance(value, CONSTANTS):
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

    def _text(self, given, modes):
        """The signature: the function, and all of a call that a capture has for good, but the bucket."""
        words = []
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                value = _text_of(value, None if name in self._fixed else self._dim)
            else:
                value = repr(value)
            words.append(f"{name}={value}")
        *modes, key = modes
        words += _mode_words(*modes)
        if key is not None:
            words.append(f"key={key}")
        text = " ".join(words)
        fits = len(text) <= _TEXT_CHARS and all(" " <= c <= "~" and c != "|" for c in text)
        if not fits:
            text = hashlib.sha256(text.encode()).hexdigest()
        return f"{self._name} {text}"

    # Calls.

    def _piece(self, values, name, first, size, is_whole, clone):
        record = self._regions.found_here(name)
        if record is not None:
            room = record.kept
            room.fill(values, first, size, is_whole)
            if self._regions.launch(record) is not None:
                self._last[record.key[-1]] = record.ref
                return room.results(record.outputs, size, clone)
        return self._piece_anew(values, name, first, size, is_whole, clone)

    def _piece_anew(self, values, name, first, size, is_whole, clone):
        regions = self._regions
        with regions.current(None) as stream:
            record = regions.found(name, stream)
            room = record.kept if record is not None else Room(values, self._are_fixed, self._dim, name[1])
            room.fill(values, first, size, is_whole)
            region = Region(self.engine, name[0], None, *name[1:], lambda: self._pool(stream), self._warmup)
            outputs = region.run(lambda: self._checked(room), kept=room)
            record = regions.found(name, stream)
            if record is not None:
                self._last[stream] = record.ref
        return room.results(outputs, size, clone)

    def _pool(self, stream):
        """Buckets share memory: one of them runs at a time."""
        record = self._last[stream]() if stream in self._last else None
        return record.graph.pool() if record is not None and record.is_live else None

    def _checked(self, room):
        outputs = self._as_it_is(room.values)
        mapped(self._refuse_grad, outputs)
        return outputs

    def _refuse_grad(self, tensor):
        if tensor.requires_grad:
            raise _errors.InvalidError(
                f"region {self._name} returns a tensor that requires grad, which ends at a region; "
                "detach it, and let the function have its own backward"
            )

    def _joined(self, results, sizes):
        """The results of pieces as one."""
        first = results[0]
        if isinstance(first, torch.Tensor):
            for result, size in zip(results, sizes):
                if not has_rows(result, self._dim, size):
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
