"""Stands for _capture.py: a list of what was done, where torch has a graph. On the stub of the driver."""
import contextlib
import types


class Graph:
    """Work that was put on a stream while it captured; a replay does it."""

    def __init__(self, capture):
        self.capture = capture
        self.work = []
        self.freed = False

    def replay(self):
        assert not self.freed and not self.capture.going
        for item in self.work:
            item()

    def reset(self):
        assert not self.capture.going
        self.freed = True

    def pool(self):
        return self


class Capture:
    """In the place of the module."""

    def __init__(self):
        self.going = None  # the graph of the capture in progress
        self.elsewhere = False  # whether another device is current
        self.breaks = None  # what a capture raises at its end
        self.asides = 0
        self.graphs = []
        self.pools = []

    def do(self, item):
        """Work of a body: now, or in replays of what is being captured."""
        if self.going is not None:
            self.going.work.append(item)
        else:
            item()

    def stream_of(self, device):
        return object()

    def is_capturing(self):
        return self.going is not None

    def is_out_of_memory(self, error):
        return isinstance(error, MemoryError)

    def here(self, index, stream):
        return None if self.elsewhere else 0

    @contextlib.contextmanager
    def on(self, device, stream):
        before, self.elsewhere = self.elsewhere, False
        yield
        self.elsewhere = before

    def wait(self, device):
        pass

    @contextlib.contextmanager
    def beside(self, stream):
        self.asides += 1
        yield

    @contextlib.contextmanager
    def capturing(self, stream, pool):
        graph = Graph(self)
        self.pools.append(pool)
        self.going = graph
        try:
            yield types.SimpleNamespace(graph=graph, bytes=100)
            if self.breaks is not None:
                raise self.breaks
        finally:
            self.going = None
        self.graphs.append(graph)

    def live(self):
        return sum(not graph.freed for graph in self.graphs)
