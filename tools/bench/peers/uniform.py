"""One op, the same for every request, on the whole batch at once: the fast path of a host."""
import peer


def uniform(side):
    from torch_side import op_on

    if not side.case.is_uniform():
        return None
    ops = [side.resolve(op) for op in side.case.requests[0].chain]

    def steer(hidden):
        x = hidden
        for op in ops:
            x = op_on(x, op)
        hidden.copy_(x)

    return peer.Attempt(lambda buffers: lambda index: steer(buffers[index]))


if __name__ == "__main__":
    peer.main([("torch uniform op", uniform)])
