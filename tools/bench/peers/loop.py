"""The loop over requests in PyTorch, eager, and the same captured in a CUDA graph."""
import peer


def eager(side):
    from torch_side import loop_on

    chains = side.chains()
    return peer.Attempt(lambda buffers: lambda index: loop_on(buffers[index], chains))


def in_graph(side):
    import torch
    from torch_side import loop_on

    chains = side.chains()

    def bind(buffers):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                loop_on(side.hidden.clone(), chains)
        torch.cuda.current_stream().wait_stream(stream)
        pool = torch.cuda.graph_pool_handle()
        graphs = []
        for hidden in buffers:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                loop_on(hidden, chains)
            graphs.append(graph)
        return lambda index: graphs[index].replay()

    return peer.Attempt(bind)


if __name__ == "__main__":
    peer.main([("torch eager loop", eager), ("torch loop in a CUDA graph", in_graph)])
