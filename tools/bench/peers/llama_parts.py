"""Layers of a Llama with random weights whose linear layers are PyTorch's, in bf16 or FP8.

Of a layer `parts` computes what stands between them: `split(qkv)` gives rotated q, rotated k and v,
[batch, heads, sequence, dim], and `combine(attended)` the rows of heads for the next linear layer. All is
made on the device; nothing is trained.
"""
import math

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

EPSILON, BASE = 1e-5, 500000.0
FP8_MOST = 448.0
TENSOR_OPS = "tensor ops"  # the label of what `parts` does


class Shape:
    def __init__(self, name: str, layers: int, hidden: int, heads: int, kv_heads: int, d_ff: int, batch: int, sequence: int = 2048):
        self.name, self.layers, self.hidden, self.heads, self.kv_heads = name, layers, hidden, heads, kv_heads
        self.d_ff, self.batch, self.sequence = d_ff, batch, sequence
        self.dim = hidden // heads
        self.rows = batch * sequence
        self.packed = (heads + 2 * kv_heads) * self.dim

    def parameters(self) -> int:
        return self.layers * self.hidden * (self.packed + self.hidden + 3 * self.d_ff)


# As published: 16, 26 and 32 layers with heads of their own keys; and a mini model. What each has of parameters, with
# 32 000 embeddings in and out, is what was published: 940.6 M, 3.14 G and 6.74 G.
SHAPES = {
    "mini": Shape("mini", 4, 2048, 16, 16, 4096, 8),
    "1b": Shape("1B", 16, 2048, 32, 32, 5504, 4),
    "3b": Shape("3B", 26, 3072, 24, 24, 8192, 2),
    "8b": Shape("8B", 32, 4096, 32, 32, 11008, 1),
}


class Linear:
    """y = x W^T in bf16."""

    def __init__(self, d_in: int, d_out: int, device: str):
        self.weight = torch.empty(d_out, d_in, dtype=torch.bfloat16, device=device).normal_(0, 1 / math.sqrt(d_in))

    def __call__(self, x):
        return linear(x, self.weight)


class Fp8Linear(Linear):
    """The same with both operands in e4m3: x by a scale that is known before, W by its own."""

    def __init__(self, d_in: int, d_out: int, device: str):
        super().__init__(d_in, d_out, device)
        largest = self.weight.abs().max().float()
        self.scale = largest / FP8_MOST
        self.weight = (self.weight.float() / self.scale).to(torch.float8_e4m3fn)
        self.x_scale = torch.tensor(1 / 16, device=device)

    def __call__(self, x):
        rounded = (x * 16).clamp(-FP8_MOST, FP8_MOST).to(torch.float8_e4m3fn)
        return torch._scaled_mm(rounded, self.weight.t(), scale_a=self.x_scale, scale_b=self.scale, out_dtype=torch.bfloat16)


class Llama:
    def __init__(self, shape: Shape, kind: str, device: str = "cuda"):
        torch.manual_seed(5)
        self.shape = shape
        made = Fp8Linear if kind == "fp8" else Linear
        widths = ((shape.hidden, shape.packed), (shape.hidden, shape.hidden), (shape.hidden, 2 * shape.d_ff),
                  (shape.d_ff, shape.hidden))  # fmt: skip
        self.layers = [[made(*width, device) for width in widths] for _ in range(shape.layers)]
        self.norm = torch.ones(shape.hidden, dtype=torch.bfloat16, device=device)
        self.input = torch.randn(shape.rows, shape.hidden, device=device).to(torch.bfloat16)

    def forward(self, parts):
        shape, hidden = self.shape, self.input
        for qkv, out, gate_up, down in self.layers:
            x = qkv(rms_norm(hidden, (shape.hidden,), self.norm, EPSILON))
            with torch.profiler.record_function(TENSOR_OPS):
                q, k, v = parts.split(x)
            attended = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shape.heads != shape.kv_heads)
            with torch.profiler.record_function(TENSOR_OPS):
                rows = parts.combine(attended)
            hidden = hidden + out(rows)
            gate, up = gate_up(rms_norm(hidden, (shape.hidden,), self.norm, EPSILON)).chunk(2, -1)
            hidden = hidden + down(silu(gate) * up)
        return hidden


def rotate_half(x):
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


class Eager:
    """As models write it: views, two products and a sum each of q and k, heads put together again."""

    def __init__(self, shape: Shape, device: str = "cuda"):
        self.shape = shape
        inverse = BASE ** (-torch.arange(0, shape.dim, 2, device=device).float() / shape.dim)
        angles = torch.outer(torch.arange(shape.sequence, device=device).float(), inverse)
        angles = torch.cat((angles, angles), -1)
        self.cos, self.sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def split(self, qkv):
        shape = self.shape
        x = qkv.view(shape.batch, shape.sequence, -1, shape.dim).transpose(1, 2)
        q, k, v = x.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
        rotated = [part * self.cos + rotate_half(part) * self.sin for part in (q, k)]
        return (*rotated, v.contiguous())

    def combine(self, attended):
        return attended.transpose(1, 2).contiguous().view(self.shape.rows, -1)


class Compiled(Eager):
    """The same, compiled, as the surgical way has it: all else stays eager."""

    def __init__(self, shape: Shape, device: str = "cuda"):
        super().__init__(shape, device)
        self.split = torch.compile(super().split, dynamic=False)
        self.combine = torch.compile(super().combine, dynamic=False)


class Ours:
    """One launch of steergraph's rope, which leaves V in the packed rows; and its transposition, where heads do not stand by rows already."""

    def __init__(self, shape: Shape, steergraph, torch_attention, engine):
        self.shape, self.rotate = shape, torch_attention.rope
        self.rope = steergraph.Rope(
            engine, shape.heads, kv_heads=shape.kv_heads, dim=shape.dim, dtype=torch.bfloat16, base=BASE,
            transpose=True)  # fmt: skip
        self.positions = torch.arange(shape.sequence, device=engine.device).repeat(shape.batch)

    def split(self, qkv):
        shape = self.shape
        parts = self.rotate(self.rope, qkv, self.positions, copy_v=False)
        return [part.view(shape.batch, shape.sequence, -1, shape.dim).transpose(1, 2) for part in parts]

    def combine(self, attended):
        shape, rows = self.shape, attended.transpose(1, 2)
        if rows.is_contiguous():
            return rows.view(shape.rows, -1)
        rows = attended.new_empty(shape.batch, shape.sequence, shape.heads, shape.dim)
        for heads, to in zip(attended, rows, strict=True):
            self.rope.transpose(heads.contiguous(), to, order="heads_first")
        return rows.view(shape.rows, -1)
