"""The overhead of compiling single ops: each request's slice gets its op, eager and compiled alone.

Times are per op, that is per slice.
"""
import peer


def alone(side, **options):
    from torch_side import compile_with, op_on

    function = compile_with(op_on, **options) if options else op_on
    chains = side.chains()

    def steer(hidden):
        for first, end, ops in chains:
            x = hidden[first:end]
            for op in ops:
                x = function(x, op)
            hidden[first:end] = x

    calls = sum(len(ops) for _, _, ops in chains)
    return peer.Attempt(
        lambda buffers: lambda index: steer(buffers[index]), calls=calls, compiled=bool(options))


if __name__ == "__main__":
    peer.main([
        ("torch eager op", alone),
        ("torch.compile op (dynamic)", lambda side: alone(side, dynamic=True)),
        ("torch.compile op (reduce-overhead)", lambda side: alone(side, mode="reduce-overhead")),
    ])
