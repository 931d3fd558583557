"""((x V) * m) U in PyTorch by two products of its library and a mask between them, and its gradients.

Eager, in a CUDA graph over every buffer, and of some cases compiled. Behind y alone the two products
without the mask, which no fusion around them could beat. `tflops` counts the products once, as our rows
do; `large_product_tflops` is what the library reaches with a product of 8192 by 8192.
"""
import peer
from components_case import ComponentsCase


def work_of(side):
    """(function of tensors, a buffer's arguments for it, what takes its results)."""
    import torch

    case = side.case

    def forward(x, v, u, mask):
        t = x @ v
        if case.share > 1:
            t = (t.view(case.mask_rows, case.share, -1) * mask[:, None]).view(case.rows, -1)
        else:
            t = t * mask
        return t @ u

    def both(x, v, u, mask, dy):
        y = forward(x, v, u, mask)
        return (y, *torch.autograd.grad(y, (x, v, u) + (() if case.mask_of_bool else (mask,)), dy))

    def take(buffer, result):
        buffer.y, buffer.dx, buffer.dv, buffer.du, buffer.dm = (*result, None)[:5] if case.both else (result,) + (None,) * 4

    if case.both:
        return both, lambda b: (b.x, b.v, b.u, b.mask, b.dy), take
    return forward, lambda b: (b.x, b.v, b.u, b.mask), take


def counted(side, attempt):
    """With what the product of large matrices reaches."""
    from components_side import large_product_tflops

    attempt.extras["gflop"] = side.case.flop() * 1e-9
    attempt.extras["large_product_tflops"] = large_product_tflops(side.dtype, side.case.tf32)
    return attempt


def eager(side):
    from rope import call_of

    return counted(side, peer.Attempt(call_of(side, *work_of(side))))


def in_graph(side):
    from rope import LINES, graph_of

    return counted(side, peer.Attempt(graph_of(*work_of(side)), line=True, repeats=LINES))


def products_alone(side):
    if side.case.both:
        return None
    from rope import LINES, graph_of

    def products(x, v, u):
        return x @ v @ u

    def take(buffer, result):
        buffer.y, buffer.unmasked = result, True

    return peer.Attempt(graph_of(products, lambda b: (b.x, b.v, b.u), take), line=True, repeats=LINES)


def compiled(side, **options):
    if not side.case.compiled:
        return None
    from attn_side import start_compiler
    from rope import call_of
    from torch_side import compile_with

    start_compiler()
    function, arguments, take = work_of(side)
    if side.case.both:  # autograd is asked outside of what is compiled, as training does
        return peer.Attempt(call_of(side, around(compile_with(forward_of(side), **options)), arguments, take), compiled=True)
    return peer.Attempt(call_of(side, compile_with(function, **options), arguments, take), compiled=True)


def forward_of(side):
    """y alone of a case with an elements' mask of each row."""
    return lambda x, v, u, mask: ((x @ v) * mask) @ u


def around(forward):
    import torch

    def both(x, v, u, mask, dy):
        y = forward(x, v, u, mask)
        return (y, *torch.autograd.grad(y, (x, v, u, mask), dy))

    return both


SERIES = [
    ("torch", eager),
    ("torch in a graph", in_graph),
    ("torch products alone in a graph", products_alone),
    ("torch.compile", compiled),
    ("torch.compile (reduce-overhead)", lambda side: compiled(side, mode="reduce-overhead")),
]

if __name__ == "__main__":
    peer.main(SERIES, ComponentsCase, ComponentsCase.side)
