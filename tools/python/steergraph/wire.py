"""The request form of serving systems: lengths, and for each request a list of ops or None.

A request's ops are tuples (op type, vector, params), as a list or as the attribute `operations` of
an object: ("add", v, None) with the scale folded in, or a scale; ("cap", v, (min, max)), either may
be None; ("ablation", v, scale). They act in their order, as given: no vector is normalised.

Arrays of the host are read in every call. A tensor on a device is read at its first call, and again
when torch counts a write to it: one through `.data`, of a kernel of its own, or in inference mode
is not counted, so hand over another tensor, or a Vector.

Per call this makes records of the chains, so it costs the host more than slots do (steering.py).
Tables are made at the first call of a kind and made again, larger, where a batch asks for more,
which waits for the device. Not for use while a stream captures.
"""
import contextlib
import sys
import threading
import weakref

from . import _errors, _locks, chains, tensors
from .engine import Engine, Vector
from .steering import Steering

_NAMES = {"add": "add", "cap": "projection_cap", "projection_cap": "projection_cap"}
_NAMES["ablation"] = "ablation"
_MAX_PREPARED = 4096
_MAX_ROWS, _MAX_SLOTS, _MAX_VECTORS, _MAX_CHAIN = 4194304, 65536, 65536, 16


class Wire:
    """Steers batches in the wire form on one engine. Any thread."""

    def __init__(self, engine):
        self.engine = engine
        _locks.own(self, "_lock", threading.Lock)
        self._tables = {}
        self._prepared = {}  # (name, id of a Vector, params) of each op: the chain
        self._vectors = {}  # of a tensor: (weak reference, its contents' version, Vector)

    def apply(self, hidden, seq_lens, request_layer_specs, *, stream=None):
        """Steer the rows of a batch in place and return `hidden`.

        hidden: [rows, hidden_size], or a pair (delta, residual): ops then see the sum, and delta is
        written. seq_lens: rows of each request, in order; what is left of the rows is padding.
        """
        delta, residual = _pair_of(hidden)
        rows = tensors.rows_of(delta, "hidden")
        requests = [_chain(number, spec) for number, spec in enumerate(request_layer_specs)]
        ops = [op for chain in requests for op in chain]
        wide = rows.dtype != "f32" and any(_is_f32(vector) for _, vector, _ in ops)
        requests = [
            [(name, self._known(vector, wide), params) for name, vector, params in chain]
            for chain in requests
        ]
        state = "hidden" if residual is None else "hidden+residual"
        kind = (rows.width, rows.dtype, state, "f32" if wide else rows.dtype)
        needs = (rows.rows, sum(map(bool, requests)), len(ops), max(map(len, requests), default=0))
        with contextlib.ExitStack() as held:
            self._hold(held, requests)
            built = [self._prepare(ops) for ops in requests]
            return self._apply(hidden, delta, residual, seq_lens, built, kind, needs, stream)

    def _apply(self, hidden, delta, residual, seq_lens, built, kind, needs, stream):
        while True:
            table = self._table(kind, needs)
            try:
                table.once(delta, seq_lens, built, residual=residual, stream=stream)
                return hidden
            except _errors.ClosedError:
                if self.engine.closed:
                    raise
                continue  # another thread has just made a larger table
            except _errors.CapacityError:
                if table.max_vectors >= _MAX_VECTORS or not table.takes(needs, limited=False):
                    raise
                needs = (needs[0], table.max_slots, 2 * table.max_vectors, needs[3])

    def close(self):
        """Close the tables and drop the vectors; the engine is left open."""
        with self._lock:
            tables, self._tables = self._tables, {}
            self._vectors, self._prepared = {}, {}
        for table in tables.values():
            table.close()

    def _hold(self, held, requests):
        """Keep the Vectors of a call open: the ids in a chain that was prepared name them."""
        vectors = {id(vector): vector for ops in requests for _, vector, _ in ops}
        for vector in vectors.values():
            if isinstance(vector, Vector):
                held.enter_context(self.engine.as_vector(vector))

    def _prepare(self, ops):
        """A chain of Vectors as a call before made it; arrays are interned by the call itself.

        The ids are those of Vectors that are open, so a chain of before means the same.
        """
        if not all(_is_cacheable(*op) for op in ops):
            return ops
        key = tuple((name, vector.id, params) for name, vector, params in ops)
        found = self._prepared.get(key)
        if found is None:
            if len(self._prepared) >= _MAX_PREPARED:
                self._prepared = {}
            found = self._prepared[key] = chains.Prepared(self.engine, ops)
        return found

    def _table(self, kind, needs):
        """A table of a kind that is large enough: the one there is, or a larger one."""
        rows, slots, vectors, chain = needs
        with self._lock:
            old = self._tables.get(kind)
            if old is not None and old.takes(needs):
                return old
            known = (2048, 64, 256, 4) if old is None else old.sizes
            sizes = (
                _grown(known[0], rows, _MAX_ROWS),
                _grown(known[1], slots, _MAX_SLOTS),
                _grown(known[2], vectors, _MAX_VECTORS),
                _grown(known[3], chain, _MAX_CHAIN),
            )
            table = _Table(self.engine, kind, sizes)
            self._tables[kind] = table
        if old is not None:
            old.close()
        return table

    def _known(self, vector, wide):
        """A Vector for a tensor of a device seen before: reading one waits for the device.

        A table has one type of vectors: where one is float32, narrower ones are widened. Memory of
        the host is read each time: nothing tells of every write to it.
        """
        if not tensors.is_torch(vector) or vector.device.type == "cpu":
            return tensors.widened(vector) if wide else vector
        version = None if vector.is_inference() else vector._version
        key, state = (id(vector), wide), (vector.data_ptr(), version)
        with self._lock:
            known = self._vectors.get(key)
        if known is not None and known[0]() is vector and known[1] == state:
            return known[2]
        interned = Vector(self.engine, tensors.widened(vector) if wide else vector)
        entry = weakref.ref(vector, lambda _, key=key: self._vectors.pop(key, None))
        with self._lock:
            self._vectors[key] = (entry, state, interned)
        return interned


class _Table(Steering):
    """A table that knows what it was made for."""

    def __init__(self, engine, kind, sizes):
        hidden_size, dtype, state, bank_dtype = kind
        self.sizes = sizes
        self.max_slots, self.max_vectors = sizes[1:3]
        super().__init__(
            engine,
            hidden_size,
            dtype=dtype,
            bank_dtype=bank_dtype,
            state=state,
            max_rows=sizes[0],
            max_slots=sizes[1],
            max_vectors=sizes[2],
            max_chain=sizes[3],
            ops=("ablation", "add", "projection_cap"),
        )

    def takes(self, needs, limited=True):
        """Whether it is as large as needed, or as large as can be: then the library refuses."""
        limits = (_MAX_ROWS, _MAX_SLOTS, _MAX_VECTORS, _MAX_CHAIN)
        wanted = map(min, needs, limits) if limited else needs
        return all(size >= need for size, need in zip(self.sizes, wanted))


def _grown(size, need, limit):
    while size < need and size < limit:
        size *= 2
    return min(size, limit)


def _pair_of(hidden):
    """(delta, residual) of the two forms of hidden states."""
    if not isinstance(hidden, (tuple, list)):
        return hidden, None
    if len(hidden) != 2:
        raise _errors.InvalidError(
            f"hidden is {len(hidden)} tensors; give one, or a pair (delta, residual)"
        )
    return hidden


def _chain(number, spec):
    ops = getattr(spec, "operations", spec)
    return [_op(number, op) for op in ops or ()]


def _op(number, op):
    if not isinstance(op, (tuple, list)) or len(op) not in (2, 3):
        kind = repr(op) if isinstance(op, str) else type(op).__name__
        raise _errors.InvalidError(
            f"request {number}: an op is {kind}; give a list of tuples (op type, vector, params)"
        )
    kind, vector, params = (*op, None)[:3]
    name = _NAMES.get(kind)
    if name is None:
        raise _errors.InvalidError(
            f"request {number}: op type {kind!r} is not one of 'add', 'cap', 'ablation'"
        )
    if name == "projection_cap" and (not isinstance(params, (tuple, list)) or len(params) != 2):
        raise _errors.InvalidError(f"request {number}: a cap takes (min, max), not {params!r}")
    return name, vector, _frozen(params)


def _is_cacheable(name, vector, params):
    values = params if isinstance(params, tuple) else (params,)
    numbers = all(value is None or isinstance(value, float) for value in values)
    return numbers and isinstance(vector, Vector)


def _frozen(params):
    """Parameters as they are now: a tensor of one number is hashed by its place, not its value."""
    if params is None:
        return None
    if chains.is_number(params):
        return chains.float_of(params)
    if isinstance(params, (tuple, list)):
        return tuple(chains.float_of(value) if chains.is_number(value) else value for value in params)
    return params  # by name, or refused by the chain's maker


def _is_f32(vector):
    if isinstance(vector, Vector):
        return vector.dtype == "f32"
    return str(getattr(vector, "dtype", "")).endswith("float32")


_engines = {}  # by device, for calls that name none
_locks.own(sys.modules[__name__], "_engines_lock", threading.Lock)


def apply_per_request_steering(hidden, seq_lens, request_layer_specs, *, engine=None):
    """Steer a batch in the wire form in place; returns `hidden`, a tensor or (delta, residual).

    Without an engine, one per device is opened from the environment and kept by the process.
    """
    if engine is None:
        engine = _engine_of(tensors.rows_of(_pair_of(hidden)[0], "hidden").device)
    wire = vars(engine).get("_wire")
    if wire is None:
        wire = vars(engine).setdefault("_wire", Wire(engine))  # lives as long as the engine
    return wire.apply(hidden, seq_lens, request_layer_specs)


def _engine_of(device):
    with _engines_lock:
        engine = _engines.get(device)
        if engine is None or engine.closed:
            kind, _, ordinal = device.partition(":")
            engine = _engines[device] = Engine(kind, int(ordinal or 0))
    return engine
