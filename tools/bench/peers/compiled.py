"""torch.compile of the loop over requests: dynamic shapes, and reduce-overhead.

Each begins with nothing compiled; the first call is timed, and the calls after which it has paid for
itself against the eager loop are counted from wall times.
"""
import peer


def compiled(side, **options):
    import torch
    from torch_side import loop_on, measure

    torch._dynamo.reset()
    chains = side.chains()
    function = torch.compile(lambda hidden: loop_on(hidden, chains), **options)
    scratch = side.hidden.clone()
    _, eager = measure(lambda index: loop_on(scratch, chains), 1, repeats=20)
    attempt = peer.Attempt(lambda buffers: lambda index: function(buffers[index]), compiled=True)
    attempt.amortised_against_us = eager.median
    return attempt


def dynamic(side):
    return compiled(side, dynamic=True)


def reduce_overhead(side):
    return compiled(side, mode="reduce-overhead")


if __name__ == "__main__":
    peer.main([
        ("torch.compile loop (dynamic)", dynamic),
        ("torch.compile loop (reduce-overhead)", reduce_overhead),
    ])
