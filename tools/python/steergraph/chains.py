"""Ops with their vectors and parameters, as Python writes them and as the library reads them."""
import contextlib
import ctypes
import math
from typing import Any, NamedTuple

from . import _abi, _abi_steering, _errors

# Parameters of the built-in ops, in the order of their definitions (specs/ops); a test compares.
BUILTIN_PARAMS = {
    "ablation": ("scale",),
    "add": ("scale",),
    "add_keep_norm": ("scale",),
    "add_norm_matched": ("scale",),
    "gated_add": ("scale", "sharpness", "threshold"),
    "probe": ("column",),
    "projection_cap": ("min", "max"),
    "scale_norm": ("scale",),
    "swap": (),
}


class Op(NamedTuple):
    """One op of a chain. `params`: by name, or in the op's order with None for the default."""

    name: str
    vectors: tuple
    params: Any = ()


def op(name, *vectors, **params):
    """An op of a chain: op("projection_cap", v, max=2.0)."""
    return Op(name, vectors, params)


class Prepared:
    """A chain for many calls, of Vectors that its maker keeps open."""

    def __init__(self, engine, ops):
        with Chains(engine, 1) as built:
            self.calls = built.calls_of(ops)
        self.pointer = ctypes.cast(self.calls, ctypes.POINTER(_abi_steering.OpCall))
        self.count = len(ops)


class Chains:
    """Chains for one call. Arrays given as vectors are interned until the end of the block."""

    def __init__(self, engine, count):
        self._engine = engine
        self._kept = contextlib.ExitStack()
        self._objects = []  # what the structs point to
        self.array = (_abi_steering.Chain * max(count, 1))()
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._kept.close()

    def add(self, layer, ops):
        """Append the chain of a layer: Prepared, or Ops or tuples (name, vectors, params)."""
        chain = self.array[self.count]
        chain.layer = _abi.uint32(layer, "layer")
        if isinstance(ops, Prepared):
            chain.ops, chain.n_ops = ops.pointer, ops.count
            self._objects.append(ops)
        else:
            ops = list(ops)
            calls = self.calls_of(ops)
            chain.ops = ctypes.cast(calls, ctypes.POINTER(_abi_steering.OpCall))
            chain.n_ops = len(ops)
            self._objects.append(calls)
        self.count += 1

    def calls_of(self, ops):
        calls = (_abi_steering.OpCall * max(len(ops), 1))()
        for call, item in zip(calls, ops):
            self._fill(call, *item)
        return calls

    def _fill(self, call, name, vectors=(), params=()):
        if not isinstance(name, str):
            raise _errors.InvalidError(f"an op begins with its name, not with {name!r}")
        call.op = _abi.text(name, "an op's name")
        if vectors is None:
            vectors = ()
        elif not isinstance(vectors, (tuple, list)):
            vectors = (vectors,)
        if len(vectors) > _abi_steering.MAX_CALL_VECTORS:
            raise _errors.InvalidError(
                f"op '{name}' is given {len(vectors)} vectors, at most {_abi_steering.MAX_CALL_VECTORS}"
            )
        for k, vector in enumerate(vectors):
            call.vectors[k] = self._kept.enter_context(self._engine.as_vector(vector))
        values, call.params_given = params_of(self._engine, name, params)
        for k, value in enumerate(values):
            call.params[k] = value


def params_of(engine, name, params):
    """(values, bits of those given) of parameters by name, by place, or of a single number."""
    if params is None:
        params = ()
    elif is_number(params):
        params = (params,)
    elif isinstance(params, (str, bytes)) or not hasattr(params, "__len__"):
        raise _errors.InvalidError(f"parameters of op '{name}' are {params!r}; give numbers")
    if isinstance(params, dict):
        names = engine.params_of_op(name)
        unknown = [word for word in params if names is None or word not in names]
        if names is None and unknown:
            raise _errors.NotFoundError(f"op '{name}' is not known here; register it first")
        if unknown:
            has = ", ".join(names) or "none"
            raise _errors.InvalidError(f"op '{name}' has no parameter '{unknown[0]}', it has {has}")
        params = [params.get(word) for word in names or ()]
    if len(params) > _abi_steering.MAX_CALL_PARAMS:
        raise _errors.InvalidError(
            f"op '{name}' is given {len(params)} parameters, at most {_abi_steering.MAX_CALL_PARAMS}"
        )
    given, values = 0, []
    for k, value in enumerate(params):
        if value is not None and not is_number(value):
            raise _errors.InvalidError(f"a parameter of op '{name}' is {value!r}; give a number")
        given |= (value is not None) << k
        values.append(0.0 if value is None else float_of(value))
    return values, given


def float_of(number):
    """An int beyond all floats is an infinity, as a float beyond float32 becomes one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def is_number(value):
    """Whether it is one number: also numpy's, and an array or a tensor of no dimension."""
    if isinstance(value, (int, float)):
        return True
    if not hasattr(value, "__float__"):
        return False
    try:
        len(value)
    except TypeError:
        return True
    return False
