"""Captures by torch: its allocator, generators and autograd have to know of one, so it makes them.

Imports torch, which is loaded when a tensor of it is on a device. Knows nothing of regions.
"""
import contextlib
import threading

import torch

# torch documents neither of these; the code that torch.compile generates calls them. Its own functions
# make an object each time, or see whether CUDA is there at all.
_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_stream = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream
)

# torch waits for the whole device before a capture, which no capture of another thread survives.
_one_at_a_time = threading.RLock()


class Taken:
    """What a capture came to: a torch.cuda.CUDAGraph, and the device memory that it made torch hold."""

    def __init__(self):
        self.graph = torch.cuda.CUDAGraph()
        self.bytes = 0


def stream_of(device):
    """A stream for captures, and for what is done before one."""
    return torch.cuda.Stream(device=torch.device(device))


is_capturing = torch.cuda.is_current_stream_capturing


def is_out_of_memory(error):
    return isinstance(error, torch.cuda.OutOfMemoryError)


def here(index, stream):
    """The address of the stream that is current on a device, where that device and the stream, if one
    is given, are current already; else None."""
    if _device() != index:
        return None
    address = _stream(index)
    return address if stream is None or stream.cuda_stream == address else None


def on(device, stream):
    """A context with the device, and a stream of torch or the one that is current there."""
    if stream is not None:
        return torch.cuda.stream(stream)  # which changes the device too
    wanted = torch.device(device)
    if torch.cuda.current_device() == wanted.index:
        return contextlib.nullcontext()
    return torch.cuda.device(wanted)


@contextlib.contextmanager
def beside(stream):
    """A body on another stream, behind what is on the current one, and before what follows."""
    here = torch.cuda.current_stream()
    stream.wait_stream(here)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        here.wait_stream(stream)


@contextlib.contextmanager
def capturing(stream, pool):
    """Capture a body on a stream, with memory of a pool, or of its own. What was broken is given up, and
    torch left as it was before."""
    with _one_at_a_time:
        taken, here, raised = Taken(), torch.cuda.current_stream(), None
        pool = pool if pool is not None else torch.cuda.graph_pool_handle()
        try:
            # threads of autograd allocate in a capture, which any other mode refuses
            with torch.cuda.graph(
                taken.graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            ):
                before = torch.cuda.memory_reserved()
                try:
                    yield taken
                except BaseException as error:
                    raised = error
                    raise
                taken.bytes = max(torch.cuda.memory_reserved() - before, 0)
        except BaseException:
            torch.cuda.set_stream(here)  # which torch does not, either, when it ends in an error
            _mend(taken.graph, pool)
            torch.cuda.set_stream(here)
            if raised is not None:  # else that it broke the capture is all there would be to read
                raise raised
            raise


def _mend(broken, pool):
    """Undo what torch has begun for a capture and does not end when the driver says that it broke."""
    device, library = torch.cuda.current_device(), torch._C
    with contextlib.suppress(RuntimeError, AttributeError, TypeError):  # torch does not document them
        # the allocator frees nothing that two streams used while it knows of a capture
        library._cuda_endAllocateToPool(device, pool)
        library._cuda_releasePool(device, pool)
    with contextlib.suppress(RuntimeError):
        broken.reset()
    with contextlib.suppress(RuntimeError):
        # generators refuse to be used outside of a capture, until one has ended
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"):
            torch.zeros(1, device="cuda")
        graph.reset()


def wait(device):
    """For all of a device. One that is lost has nothing to wait for."""
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize(torch.device(device))
