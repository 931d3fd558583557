"""The streams that launches of an object went to, which must have ended when it is destroyed.

Knows of CUDA what torch says; without torch a host that has streams sees to that itself.
"""
import sys

from . import _errors, tensors


class Streams:
    """Of one object. Any thread: calls of a set are atomic."""

    def __init__(self, device):
        self.device = device
        self._seen = set()

    def of(self, stream):
        """The stream of a call, as C takes it."""
        found = tensors.stream_of(self.device, stream)
        self._seen.add(found)
        return found

    def wait(self, what):
        """Wait for all of them. Waiting would end a capture of this thread: BusyError."""
        torch = sys.modules.get("torch")
        if self.device == "cpu" or torch is None:
            return
        if torch.cuda.is_current_stream_capturing():
            raise _errors.BusyError(f"the stream is capturing; close the {what} when it has ended")
        with torch.cuda.device(self.device):
            for stream in tuple(self._seen):
                if isinstance(stream, int):  # another type of stream is its host's to wait for
                    _wait(torch, stream)


def _wait(torch, stream):
    try:
        if stream == 0:
            torch.cuda.default_stream().synchronize()
        else:
            torch.cuda.ExternalStream(stream).synchronize()
    except RuntimeError:
        pass  # the stream is gone or the device lost: there is nothing left to wait for
