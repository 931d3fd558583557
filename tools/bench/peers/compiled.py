"""torch.compile of the loop over requests: dynamic shapes, and reduce-overhead.

Each begins with nothing compiled, and its first call is timed: the bench counts from it the calls
after which compiling has paid for itself.
"""
import peer


def compiled(side, **options):
    from torch_side import compile_with, loop_on

    chains = side.chains()
    function = compile_with(lambda hidden: loop_on(hidden, chains), **options)
    return peer.Attempt(lambda buffers: lambda index: function(buffers[index]), compiled=True)


def dynamic(side):
    return compiled(side, dynamic=True)


def reduce_overhead(side):
    return compiled(side, mode="reduce-overhead")


if __name__ == "__main__":
    peer.main([
        ("torch.compile loop (dynamic)", dynamic),
        ("torch.compile loop (reduce-overhead)", reduce_overhead),
    ])
