"""Rotation and attention, over the caches and rows of kv.py or over tensors.

Any thread, and of the same rows one call at a time. Calls release the GIL. Tensors are arrays of numpy
on the CPU, or tensors of torch on the engine's device.
"""
import contextlib
import ctypes

from . import _abi, _abi_attention, _errors, _heads, tensors
from ._abi_attention import AttendDesc, AttendTensors, HeadsTensors, RopeDesc, RopeTensors
from ._handle import Handle, Held, close_busy
from ._numbers import Numbers
from .kv import streams_of

_ropes, _attends = Numbers("rope"), Numbers("attend")
rope_of, attend_of = _ropes.find, _attends.find  # by number, as ops of torch name them


@contextlib.contextmanager
def using(rows):
    """The address of rows during a call; None of None."""
    if rows is None:
        yield None
    else:
        with rows.handle as address, rows.lock:
            yield address


def _create(owner, call, what, desc, wait_for):
    """The handle of a rope or an attend: made of its cache, if it has one, and destroyed when what
    was launched with it has ended."""
    pointer = ctypes.c_void_p()
    parent = owner.engine.handle if owner.kv is None else owner.kv.handle

    def destroy(address):
        wait_for.wait(what)
        _abi.call(f"stg_{call}_destroy", address)

    with owner.engine.handle as address, parent as above:
        if owner.kv is not None:
            desc.kv = above
        _abi.call(f"stg_{call}_create", address, ctypes.byref(desc), ctypes.byref(pointer))
        owner.handle = Handle(what, pointer.value, destroy, parent)
    owner.handle.owned_by(owner)


class Rope(Held):
    """Split packed rows of Q, K and V, rotate Q and K, and put K and V into a cache or out.

    heads         of Q
    kv            the cache that K and V are appended to; None: they go to tensors
    kv_heads, dim, dtype   of K, of a head and of all tensors; those of the cache where there is one
    rot           first elements of a head that are rotated; 0: all
    layout        what a packed row is: "concat", "interleaved", "grouped" or "head_fastest"
    pairs         that are rotated: "half" or "interleaved"
    round         where results are rounded: "final" or "each_op", as an eager framework does
    trig          what cosine and sine are rounded to: "default", "f32", "dtype" or "swapped_bf16"
    base          of the frequencies; 0: 10000
    scaling       None, "linear" (factor) or "llama3" (factor, low_freq, high_freq, original)
    xpos          None, "halves" or "pairs", with xpos_base; 0: 512
    table         float32 [positions, 2, rot / 2] on the host, cosines before sines, read in place
                  of computed angles; copied
    order         of single heads: "rows_first", [rows, heads, dim], or "heads_first"
    backward, transpose   declare the calls of that name
    """

    def __init__(
        self,
        engine,
        heads,
        *,
        kv=None,
        kv_heads=0,
        dim=0,
        dtype=None,
        rot=0,
        layout="concat",
        pairs="half",
        round="final",
        trig="default",
        base=0.0,
        scaling=None,
        factor=0.0,
        low_freq=0.0,
        high_freq=0.0,
        original=0,
        xpos=None,
        xpos_base=0.0,
        table=None,
        order="rows_first",
        backward=False,
        transpose=False,
    ):
        close_busy()
        self.engine, self.kv = engine, kv
        self.heads = _abi.uint32(heads, "heads")
        self.kv_heads = _abi.uint32(kv_heads, "kv_heads") or (kv.kv_heads if kv else 0)
        self.dim = _abi.uint32(dim, "dim") or (kv.dim if kv else 0)
        self.dtype = tensors.dtype_word(dtype if dtype or kv is None else kv.dtype)
        self.has_backward = backward
        self.layout = layout
        self.width = (self.heads + 2 * self.kv_heads) * self.dim  # of a packed row
        desc = _abi.new(
            RopeDesc,
            heads=self.heads,
            kv_heads=self.kv_heads,
            dim=self.dim,
            rot=_abi.uint32(rot, "rot"),
            dtype=_abi.DTYPE[self.dtype],
            layout=_abi.pick(_abi_attention.LAYOUT, layout, "layout"),
            pairs=_abi.pick(_abi_attention.PAIRS, pairs, "pairs"),
            round=_abi.pick(_abi_attention.ROUND, round, "round"),
            trig=_abi.pick(_abi_attention.TRIG, trig, "trig"),
            base=base,
            scaling=_abi.pick(_abi_attention.SCALING, scaling or "none", "scaling"),
            factor=factor,
            low_freq=low_freq,
            high_freq=high_freq,
            original=_abi.int64(original, "original"),
            xpos=_abi.pick(_abi_attention.XPOS, xpos or "none", "xpos"),
            xpos_base=xpos_base,
            order=_abi.pick(_abi_attention.ORDER, order, "order"),
            backward=backward,
            transpose=transpose,
        )
        if table is not None:
            desc.table, desc.table_positions = _table_of(table, (rot or self.dim) // 2)
        self._shapes = _heads.Shapes("rope", self.dtype, self.dim, order, engine.device)
        self.shape_of = self._shapes.shape_of  # of so many heads, and rows
        self.streams = streams_of(engine, kv)
        _create(self, "rope", "rope", desc, self.streams)
        self.number = _ropes.give(self)

    def close(self):
        """Close the rope and its blocks; waits for what is in flight. A second time does nothing.
        BusyError while a CUDA graph is alive that captured it: delete the graph and close again."""
        self.handle.close()

    def view_of_v(self, qkv):
        """V of packed rows, where it stands in them, in the rope's order."""
        rows = qkv.reshape(-1, self.width)
        heads, last = self.kv_heads, rows[:, -self.kv_heads * self.dim :]
        if self.layout == "grouped":
            v = rows.reshape(rows.shape[0], heads, self.width // (heads * self.dim), self.dim)[:, :, -1]
        elif self.layout == "head_fastest":
            v = last.reshape(rows.shape[0], self.dim, heads).swapaxes(1, 2)
        else:
            v = last.reshape(rows.shape[0], heads, self.dim)
        return v if self._shapes.rows_first else v.swapaxes(0, 1)

    def prepare(self, qkv, q, k, v, least, copy_v=True):
        """((q, k, v), fields of stg_rope_tensors) of a call over `least` rows or more; what is None
        and must not be is new. The caller keeps the tensors."""
        if not copy_v and self.kv is not None:
            raise _errors.InvalidError("copy_v is False; the rope puts V into its cache")
        if not copy_v and v is not None:
            raise _errors.InvalidError("v is given, but copy_v is False: V stays in qkv")
        address, count, stride = self._shapes.packed(qkv, "qkv", self.width, least)
        fields = {"qkv": address, "qkv_stride": stride}
        parts = [("q", q, self.heads)]
        if self.kv is None:
            parts += [("k", k, self.kv_heads), ("v", v, self.kv_heads)][: 1 + copy_v]
        elif k is not None or v is not None:
            raise _errors.InvalidError("k or v is given; the rope puts both into its cache")
        written = []
        for name, tensor, heads in parts:
            if tensor is None:
                tensor = self._shapes.empty(qkv, heads, count)
            place = self._shapes.heads(tensor, name, heads, least, True)
            fields[name], _, fields[name + "_stride"] = place
            written.append(tensor)
        if not copy_v:
            written.append(self.view_of_v(qkv))
        return tuple(written), fields

    def _where(self, rows, positions):
        """(fields of stg_rope_tensors, what to keep, rows): where rows are, which stepped rows say,
        or without them positions."""
        if (rows is None) == (positions is None):
            raise _errors.InvalidError("give rows, or positions without rows")
        if rows is not None:
            return {}, None, rows.rows
        address, count, device, kept, wide = tensors.positions_of(positions, "positions")
        if device != self.engine.device:
            raise _errors.InvalidError(
                f"positions is on {device}, the engine runs on {self.engine.device}"
            )
        return {"pos": address, "pos_is_64": wide, "rows": count}, kept, count

    def _run(self, call, addresses, fields, layer, stream):
        given = _abi.new(RopeTensors, layer=_abi.uint32(layer, "layer"), **fields)
        _abi.call(call, *addresses, ctypes.byref(given), self.streams.of(stream))

    def apply(
        self,
        rows,
        qkv,
        q=None,
        k=None,
        v=None,
        *,
        positions=None,
        layer=0,
        copy_v=True,
        stream=None,
    ):
        """Split and rotate the rows of a step. With a cache K and V are appended to its layer.

        rows       as they were stepped; None without a cache: `positions` then are those of rows of
                   one sequence, int32 or int64
        qkv        [rows, width], width (heads + 2 * kv_heads) * dim; leading dimensions are one run
        q, k, v    in the rope's order; new ones where None
        copy_v     False without a cache: V, which nothing rotates, stays where it is, and the v that is
                   returned is a view of qkv, of any row, padding too. It costs nothing
        Returns q, or (q, k, v) without a cache. Padding, and rows past the step, are left as they
        are: in new tensors they hold anything. A row without room is not appended: Kv.check().
        """
        with self.handle as address, using(rows) as map_address:
            where, kept, least = self._where(rows, positions)
            written, fields = self.prepare(qkv, q, k, v, least, bool(copy_v))
            fields.update(where)
            self._run("stg_rope_apply", (address, map_address), fields, layer, stream)
        del kept
        return written[0] if self.kv is not None else written

    def backward(self, rows, q, k, v, qkv=None, *, positions=None, layer=0, stream=None):
        """The way back: gradients of q, k and v in, that of the packed rows out. With v None the V of
        qkv is left as it is. Returns qkv; a new one is zeros for what the call leaves as it is."""
        with self.handle as address, using(rows) as map_address:
            fields, kept, least = self._where(rows, positions)
            for name, tensor in (("q", q), ("k", k), ("v", v)):
                if name == "v" and tensor is None:
                    continue
                heads = self.heads if name == "q" else self.kv_heads
                place, count, stride = self._shapes.heads(tensor, name, heads, least)
                fields[name], fields[name + "_stride"] = place, stride
            if qkv is None:
                qkv = _heads.empty(q, (count, self.width))
                qkv[:] = 0
            packed = self._shapes.packed(qkv, "qkv", self.width, least, True)
            fields["qkv"], _, fields["qkv_stride"] = packed
            self._run("stg_rope_backward", (address, map_address), fields, layer, stream)
        del kept
        return qkv

    def transpose(self, heads, to=None, *, order="rows_first", stream=None):
        """Heads in one order, `order`, to the other; returns `to`."""
        shape = tensors.view_of(heads, "heads").shape
        if len(shape) != 3:
            raise _errors.InvalidError(f"heads has shape {list(shape)}; give three dimensions")
        count = shape[0 if order == "heads_first" else 1]
        orders = [order, "heads_first" if order == "rows_first" else "rows_first"]
        code = _abi.pick(_abi_attention.ORDER, order, "order")
        own = self._shapes
        one, other = (_heads.Shapes("rope", own.dtype, own.dim, o, own.device) for o in orders)
        source, rows, from_stride = one.heads(heads, "heads", count, 0)
        if to is None:
            to = other.empty(heads, count, rows)
        place, found, to_stride = other.heads(to, "to", count, rows, True)
        if found != rows:
            raise _errors.InvalidError(f"to has {found} rows, heads has {rows}")
        given = _abi.new(
            HeadsTensors,
            from_order=code,
            heads=count,
            rows=rows,
            to=place,
            from_stride=from_stride,
            to_stride=to_stride,
        )
        setattr(given, "from", source)  # a keyword of Python
        stream = self.streams.of(stream)
        with self.handle as address:
            _abi.call("stg_heads_transpose", address, ctypes.byref(given), stream)
        return to

    def __repr__(self):
        state = "closed" if self.closed else self.dtype
        return f"<steergraph.Rope {self.heads}/{self.kv_heads} x {self.dim}: {state}>"


def _table_of(table, half):
    """(address, positions) of a table of cosines and sines."""
    view = tensors.view_of(table, "table")
    shape = view.shape
    dense = (2 * half, half, 1)
    if (
        (view.dtype, view.device) != ("f32", "cpu")
        or len(shape) != 3
        or shape[1:] != (2, half)
        or any(extent > 1 and a != b for extent, a, b in zip(shape, view.strides, dense))
    ):
        raise _errors.InvalidError(
            f"table is {view.dtype} {list(shape)} on {view.device}; give contiguous f32 "
            f"[positions, 2, {half}] on the cpu"
        )
    return view.pointer, shape[0]


class Attend(Held):
    """Attention of the rows of a step over a cache, or over a window of tokens in tensors.

    heads     of Q
    scale     of q.k; 0: 1 / sqrt(dim)
    window    positions that a row reads, its own with them; 0: all
    key_mask  whether every apply brings a mask of keys
    order     of q and out: "rows_first", [rows, heads, dim], or "heads_first"
    kv        the cache; None: K and V are tensors of batch, kv_heads, tokens, dim and dtype
    """

    def __init__(
        self,
        engine,
        heads,
        *,
        kv=None,
        scale=0.0,
        window=0,
        key_mask=False,
        order="rows_first",
        batch=0,
        kv_heads=0,
        dim=0,
        tokens=0,
        dtype=None,
    ):
        close_busy()
        self.engine, self.kv = engine, kv
        self.heads = _abi.uint32(heads, "heads")
        self.dtype = kv.dtype if kv is not None and dtype is None else tensors.dtype_word(dtype)
        desc = _abi.new(
            AttendDesc,
            heads=self.heads,
            scale=scale,
            window=_abi.int64(window, "window"),
            key_mask=key_mask,
            order=_abi.pick(_abi_attention.ORDER, order, "order"),
            batch=_abi.uint32(batch, "batch"),
            kv_heads=_abi.uint32(kv_heads, "kv_heads"),
            dim=_abi.uint32(dim, "dim"),
            tokens=_abi.int64(tokens, "tokens"),
            dtype=_abi.DTYPE["none" if kv is not None and dtype is None else self.dtype],
        )
        self.dim = kv.dim if kv is not None else desc.dim
        self.batch = kv.batch if kv is not None else desc.batch
        self.positions = kv.capacity if kv is not None else desc.tokens
        self._keys = (self.batch, desc.kv_heads, self.positions, self.dim)
        self._shapes = _heads.Shapes("attend", self.dtype, self.dim, order, engine.device)
        self.streams = streams_of(engine, kv)
        _create(self, "attend", "attend", desc, self.streams)
        self.number = _attends.give(self)

    def close(self):
        """As Rope.close."""
        self.handle.close()

    def prepare(self, q, out, k, v, lengths, key_mask, least):
        """(out, fields of stg_attend_tensors) of a call over `least` rows or more; without an out it
        is new. The caller keeps the tensors."""
        address, _, stride = self._shapes.heads(q, "q", self.heads, least)
        if out is None:
            out = _heads.empty(q, q.shape)
        place, _, distance = self._shapes.heads(out, "out", self.heads, least, True)
        fields = {"q": address, "q_stride": stride, "out": place, "out_stride": distance}
        if self.kv is None:
            fields["k"], strides = self._shapes.keys(k, "k", self._keys)
            fields["v"], others = self._shapes.keys(v, "v", self._keys)
            if strides != others:
                raise _errors.InvalidError(
                    f"k has strides {list(strides)}, v has {list(others)}; give both alike"
                )
            fields["seq_stride"], fields["head_stride"], fields["pos_stride"] = strides
        elif k is not None or v is not None or lengths is not None:
            raise _errors.InvalidError(
                "k, v or lengths is given; the attend reads those of its cache"
            )
        if lengths is not None:
            fields["len"] = _heads.words(lengths, "lengths", self.batch, self.engine.device)
        if key_mask is not None:
            fields["key_mask"], fields["mask_stride"] = _heads.mask(
                key_mask, self.batch, self.positions, self.engine.device
            )
        return out, fields

    def apply(
        self,
        rows,
        q,
        out=None,
        *,
        layer=0,
        k=None,
        v=None,
        lengths=None,
        key_mask=None,
        stream=None,
    ):
        """Attend: a row reads what its sequence has up to its own position. Returns out.

        rows      as they were stepped
        q, out    in the attend's order; a new out, of q's shape, where None
        k, v      without a cache: [batch, kv_heads, tokens, dim], of any strides but the last
        lengths   without a cache: int32 [batch]; rows from there on give zeros
        key_mask  uint8 or bool [batch, positions], where it is declared: keys of 0 are not read
        Rows without room give zeros. Padding, and rows past the step, are left as they are: in a new
        tensor they hold anything.
        """
        stream = self.streams.of(stream)
        with self.handle as address, using(rows) as map_address:
            least = 0 if rows is None else rows.rows  # None is C's to refuse
            out, fields = self.prepare(q, out, k, v, lengths, key_mask, least)
            given = _abi.new(AttendTensors, layer=_abi.uint32(layer, "layer"), **fields)
            _abi.call("stg_attend_apply", address, map_address, ctypes.byref(given), stream)
        return out

    def __repr__(self):
        state = "closed" if self.closed else self.dtype
        return f"<steergraph.Attend {self.heads} x {self.dim}: {state}>"
