"""A KV cache for the decode loop of a torch model: one step per forward, a layer at a time.

    cache = StaticKVCache(engine, layers=32, heads=32, kv_heads=8, dim=128, batch=4, capacity=4096)
    cache.step(sequences, positions)                 # a prompt: which sequence and position a row is
    out = cache.forward(layer, qkv)                  # in each layer: rotate, append, attend
    cache.advance()                                  # behind the last layer
    cache.step()                                     # a decode step: one row of each sequence

step, reset and check stay outside of torch.cuda.graph; all else can be captured, once for all
lengths: a replay follows the last step. Made of attention.py, which has what is not here.
"""
import torch

from . import _abi, _errors, tensors, torch_attention
from ._handle import Held
from .attention import Attend, Rope
from .block import Block
from .kv import Kv, Rows

_TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class StaticKVCache(Held):
    """K, V and lengths in tensors of torch: `keys`, `values` and `lengths`.

    layers, heads, kv_heads, dim   of the model
    batch, capacity  sequences, and positions of each
    dtype            of the model and the cache
    max_rows         of a step; 0: 2048, or batch or capacity where that is more
    rope             what Rope takes beside, such as {"base": 500000.0}
    scale, window    as Attend takes them
    block, blocks    paged, as Kv takes them: kv.set_blocks then says which block has what
    steer            a table that acts on the rows that forward returns, of hidden_size heads * dim

    Not for autograd. close() closes all that it is made of.
    """

    def __init__(
        self,
        engine,
        *,
        layers,
        heads,
        kv_heads,
        dim,
        batch,
        capacity,
        dtype=torch.bfloat16,
        max_rows=0,
        rope=None,
        scale=0.0,
        window=0,
        block=0,
        blocks=0,
        steer=None,
    ):
        self.engine = engine
        self.steer = steer
        own = _TORCH[tensors.dtype_word(dtype)]
        pool = (blocks, kv_heads, block) if block else (batch, kv_heads, capacity)
        self.keys = torch.empty(layers, *pool, dim, dtype=own, device=engine.device)
        self.values = torch.empty_like(self.keys)
        self.lengths = torch.zeros(batch, dtype=torch.int32, device=engine.device)
        self.kv = Kv(
            engine,
            layers=layers,
            batch=batch,
            kv_heads=kv_heads,
            dim=dim,
            capacity=capacity,
            dtype=dtype,
            block=block,
            blocks=blocks,
            k=self.keys,
            v=self.values,
            lengths=self.lengths,
        )
        self.handle = self.kv.handle
        try:
            self.rows = Rows(engine, self.kv, max_rows=max_rows or max(2048, batch, capacity))
            self.rope = Rope(engine, heads, kv=self.kv, **(rope or {}))
            self.attention = Attend(engine, heads, kv=self.kv, scale=scale, window=window)
            self.block = Block(engine, self.rope, self.attention, steer=steer)
        except BaseException:
            self.kv.close()
            raise

    @classmethod
    def of_config(cls, engine, config, *, batch, capacity, **more):
        """For a model of transformers with the attention of Llama, by its config."""
        heads = config.num_attention_heads
        named = {
            "layers": config.num_hidden_layers,
            "heads": heads,
            "kv_heads": getattr(config, "num_key_value_heads", None) or heads,
            "dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
            "rope": rope_of_config(config),
        }
        return cls(engine, batch=batch, capacity=capacity, **{**named, **more})

    def close(self):
        """Close the cache. BusyError while a CUDA graph is alive that captured it: delete the graph
        and close again. A second time does nothing."""
        self.handle.close()

    def step(self, seq=None, pos=None, *, frame=None, stream=None, **batch):
        """Say what the rows of the next forward are, as Rows.step: which sequence, and without `pos`
        one row at its end. seq None: one row of each sequence. frame: of the steer table, stepped
        with as many rows."""
        if seq is None:
            if pos is not None:
                raise _errors.InvalidError("pos is given without seq")
            seq = range(self.kv.batch)
        self.rows.step(seq, pos, stream=stream, **batch)
        self.block.step(self.rows, frame, stream=stream)

    def append(self, layer, qkv, q=None):
        """Split and rotate packed rows, append K and V; returns Q, [rows, heads, dim]."""
        if q is None:
            q = self._new_q(qkv)
        return torch_attention.rope_append_(self.rope, self.rows, qkv, q, layer)

    def attend(self, layer, q):
        """What the rows of Q read of the layer; [rows, heads, dim]."""
        return torch_attention.attend(self.attention, self.rows, q, layer)

    def forward(self, layer, qkv, *, steer_layer=None):
        """append and attend, and with a table steering, in one launch; [rows, heads, dim].
        steer_layer: of the table; None: the same layer."""
        q = self._new_q(qkv)
        return torch_attention.block_(
            self.block,
            layer,
            qkv,
            q,
            torch.empty_like(q),
            steer_layer=layer if steer_layer is None and self.steer is not None else steer_layer or 0,
        )

    def _new_q(self, qkv):
        rows = qkv.numel() // self.rope.width
        return qkv.new_empty(self.rope.shape_of(self.rope.heads, rows))

    def advance(self):
        """Behind the last layer: sequences grow by the rows that they had and that had room."""
        self.kv.advance(self.rows)

    def reset(self, seqs=None, length=0):
        """Begin sequences anew, or take them back to a length. None: all."""
        self.kv.set_lengths(range(self.kv.batch) if seqs is None else seqs, length)

    def check(self):
        """Raise KvFullError when a row since the last check had no room: nothing of it was kept and
        its attention gave zeros. Waits for the stream."""
        self.kv.check()

    def __repr__(self):
        return f"<steergraph.StaticKVCache of {self.kv!r}>"


def rope_of_config(config):
    """What Rope takes of a config of transformers."""
    old = getattr(config, "rope_scaling", None) or {}
    given = {**old, **(getattr(config, "rope_parameters", None) or {})}
    kind = given.get("rope_type", given.get("type", "default"))
    found = {"base": float(given.get("rope_theta") or getattr(config, "rope_theta", 10000.0))}
    partial = given.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None)
    if partial:
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        found["rot"] = int(dim * partial)
    if kind == "default":
        return found
    if kind not in ("linear", "llama3"):
        raise _errors.UnsupportedError(
            f"rope_type is {kind!r}, not one of 'default', 'linear', 'llama3'; give a table"
        )
    found.update(scaling=kind, factor=float(given["factor"]))
    if kind == "llama3":
        found.update(
            low_freq=float(given["low_freq_factor"]),
            high_freq=float(given["high_freq_factor"]),
            original=_abi.int64(
                given["original_max_position_embeddings"], "original_max_position_embeddings"
            ),
        )
    return found
