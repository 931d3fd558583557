"""A Llama of 4 layers whose 28 linear layers are masked low-rank components, as a model of torch.

d = 128, 4 query heads and 2 of keys and values of 32, d_ff 341, 1200 components each: 11.05 million
parameters in V and U, which are trained; embedding, norms and head are frozen, and random. Masks are
given. `op(name, x, v, u, mask)` is what computes a module: eager code here, or somebody else's.
"""
import math

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

LAYERS, D, HEADS, KV_HEADS, DIM, D_FF, COMPONENTS, VOCABULARY = 4, 128, 4, 2, 32, 341, 1200, 4019
SHAPES = {
    "q": (D, HEADS * DIM), "k": (D, KV_HEADS * DIM), "v": (D, KV_HEADS * DIM), "o": (HEADS * DIM, D),
    "gate": (D, D_FF), "up": (D, D_FF), "down": (D_FF, D),
}  # fmt: skip
BASE, EPSILON = 10000.0, 1e-6


def eager(_, x, v, u, mask):
    return ((x @ v) * mask) @ u


class Model:
    """Tensors of the model, and what a step reads: tokens and a mask of each module."""

    def __init__(self, batch: int, sequence: int, device: str = "cuda", dtype=torch.float32, mask_gradients: bool = False):
        self.batch, self.sequence = batch, sequence
        made = torch.Generator("cpu").manual_seed(8)

        def random(*shape, scale: float):
            return (torch.randn(*shape, generator=made, dtype=torch.float64) * scale).to(device, dtype)

        self.weights = {}  # "0.q": (V, U)
        for layer in range(LAYERS):
            for name, (d_in, d_out) in SHAPES.items():
                v = random(d_in, COMPONENTS, scale=1 / math.sqrt(d_in)).requires_grad_()
                u = random(COMPONENTS, d_out, scale=1 / math.sqrt(COMPONENTS)).requires_grad_()
                self.weights[f"{layer}.{name}"] = (v, u)
        self.embedding = random(VOCABULARY, D, scale=1.0)
        self.head = random(D, VOCABULARY, scale=1 / math.sqrt(D))
        self.norms = [1 + random(D, scale=0.1) for _ in range(2 * LAYERS + 1)]
        self.tokens = torch.randint(VOCABULARY, (batch, sequence), generator=made).to(device)
        self.masks = self.masks_of(device, dtype, mask_gradients)
        angles = torch.outer(torch.arange(sequence), BASE ** (-torch.arange(0, DIM, 2) / DIM))
        angles = torch.cat((angles, angles), -1).to(device, torch.float64)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def masks_of(self, device: str, dtype, mask_gradients: bool) -> dict:
        """In [0, 1), the same in every type and run: made where they are used, which is quick."""
        made = torch.Generator(device).manual_seed(9)
        shape = (self.batch, self.sequence, COMPONENTS)
        return {name: torch.rand(shape, generator=made, device=device).to(dtype).requires_grad_(mask_gradients)
                for name in self.weights}  # fmt: skip

    def parameters(self) -> list:
        return [tensor for pair in self.weights.values() for tensor in pair]

    def tensors(self) -> list:
        """All that a step reads, which stays where it is."""
        return [*self.parameters(), *self.masks.values(), *self.norms, self.embedding, self.head, self.tokens, self.cos,
                self.sin]  # fmt: skip

    def rotate(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat((-high, low), -1) * self.sin

    def logits(self, op=eager):
        def module(name: str, x):
            return op(name, x, *self.weights[name], self.masks[name])

        def heads(x, count: int):
            return x.view(self.batch, self.sequence, count, DIM).transpose(1, 2)

        hidden = self.embedding[self.tokens]
        for layer in range(LAYERS):
            x = rms_norm(hidden, (D,), self.norms[2 * layer], EPSILON)
            q = self.rotate(heads(module(f"{layer}.q", x), HEADS))
            k = self.rotate(heads(module(f"{layer}.k", x), KV_HEADS)).repeat_interleave(HEADS // KV_HEADS, 1)
            v = heads(module(f"{layer}.v", x), KV_HEADS).repeat_interleave(HEADS // KV_HEADS, 1)
            attended = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
            hidden = hidden + module(f"{layer}.o", attended.reshape(self.batch, self.sequence, HEADS * DIM))
            x = rms_norm(hidden, (D,), self.norms[2 * layer + 1], EPSILON)
            gated = silu(module(f"{layer}.gate", x)) * module(f"{layer}.up", x)
            hidden = hidden + module(f"{layer}.down", gated)
        return rms_norm(hidden, (D,), self.norms[-1], EPSILON) @ self.head

    def loss(self, op=eager):
        return self.logits(op).mean()

    def gradients(self, loss) -> list:
        """Of V and U after the way back of a loss, which are then let go."""
        loss.backward()
        found = [tensor.grad for tensor in self.parameters()]
        for tensor in self.parameters():
            tensor.grad = None
        return found


def off(found: list, wanted: list) -> float:
    """The worst distance of a gradient from float64's, over that one's length."""
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, wanted, strict=True))
