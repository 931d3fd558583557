"""torch.compile of the loop over requests, for dynamic shapes.

Nothing is compiled when it begins, and its first call is timed: the bench counts from it the calls
after which compiling has paid for itself. Ways to compile are processes of their own, because the
second would find what the first has loaded.
"""
import peer


def compiled(side, **options):
    from torch_side import compile_with, loop_on

    chains = side.chains()
    function = compile_with(lambda hidden: loop_on(hidden, chains), **options)
    return peer.Attempt(lambda buffers: lambda index: function(buffers[index]), compiled=True)


if __name__ == "__main__":
    peer.main([("torch.compile loop (dynamic)", lambda side: compiled(side, dynamic=True))])
