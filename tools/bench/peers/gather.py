"""Gather/scatter by op signature: rows with an equal chain are gathered, steered once, put back."""
import peer


def gather(side):
    import torch
    from torch_side import op_on

    groups = {}
    for request in side.case.requests:
        if request.chain:
            groups.setdefault(request.key(), []).append(request)
    work = []
    for requests in groups.values():
        index = torch.cat([torch.arange(r.first, r.end) for r in requests]).cuda()
        work.append((index, [side.resolve(op) for op in requests[0].chain]))

    def steer(hidden):
        for index, ops in work:
            x = hidden[index]
            for op in ops:
                x = op_on(x, op)
            hidden[index] = x

    return peer.Attempt(lambda buffers: lambda index: steer(buffers[index]))


if __name__ == "__main__":
    peer.main([("torch gather/scatter", gather)])
