"""One object of the library: who uses it, and when it is destroyed.

Closing in any order is safe. An object that is open counts as a user of itself, a call in another
thread as one more, and every child as one of each of its parents. close() closes the children first
and lets nothing new begin; whoever is the last to use the object destroys it, and then those of its
parents that wait for it. What the library calls busy (a CUDA graph still uses it) stays open, to be closed
again later. Knows nothing of what the objects are for.
"""
import os
import sys
import threading
import weakref

from . import _errors, _locks

# Reentrant: the garbage collector may run a finalizer while this thread holds it.
_locks.own(sys.modules[__name__], "_lock", threading.RLock)

# Handles that nobody has any more and that were busy when they should have been closed.
_busy = []


def close_busy():
    """Try again to close what was collected while a CUDA graph used it."""
    with _lock:
        waiting = _busy[:]
        _busy.clear()
    for handle in waiting:
        handle.close_quietly()


class Held:
    """What has a handle: closed at the end of a `with` block, if not before.

    A copy of what holds one, such as a chain or a module, holds the same: two that each thought the
    handle theirs would close it twice.
    """

    handle = None

    @property
    def closed(self):
        return self.handle.closed

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError(f"{type(self).__name__} objects are of this process: they cannot be pickled")


class Handle:
    """`with handle as pointer` keeps the object alive meanwhile; ClosedError when it is closed."""

    def __init__(self, what, pointer, destroy, *parents):
        self.what = what
        self.pointer = pointer
        self._destroy = destroy
        self._parents = parents
        self._children = weakref.WeakSet()
        self._users = 1
        self._closed = False
        self.first = False  # closed before the other children of its parents
        self._process = os.getpid()
        with _lock:
            closed = next((parent for parent in parents if parent._closed), None)
            if closed is None:
                for parent in parents:
                    parent._users += 1
                    parent._children.add(self)
        if closed is not None:
            destroy(pointer)
            raise _errors.ClosedError(f"the {closed.what} is closed")

    def owned_by(self, owner):
        """Close when `owner` is collected or the process ends: children before parents."""
        return weakref.finalize(owner, self.close_quietly)

    @property
    def closed(self):
        return self._closed

    def __enter__(self):
        with _lock:
            if self._closed:
                raise _errors.ClosedError(f"the {self.what} is closed")
            self._users += 1
        return self.pointer

    def __exit__(self, *_):
        with _lock:
            if self._users > 1:
                self._users -= 1
                return
        try:
            self._drop()
        except _errors.SteergraphError:
            pass  # of a destruction that another thread's close() left to this call

    def close(self):
        with _lock:
            again, self._closed = self._closed, True
            # of which some were busy, the last time
            children = sorted(self._children, key=lambda child: not child.first)
        failures = []
        for child in children:
            try:
                child.close()
            except _errors.SteergraphError as error:
                failures.append(error)
        try:
            if not again:
                self._drop()
        except _errors.SteergraphError as error:
            failures.append(error)
        if failures:
            raise failures[0]

    def close_quietly(self):
        try:
            self.close()
        except _errors.SteergraphError:
            if not self._closed:
                _busy.append(self)  # nobody is there to be told

    def _drop(self):
        """One user less. What nobody uses any more is destroyed, and is one user of its parents."""
        nodes, failure = [self], None
        while nodes:
            node = nodes.pop()
            with _lock:
                node._users -= 1
                if node._users > 0:
                    continue
            try:
                if node._process == os.getpid():  # what a parent process made is the parent's
                    node._destroy(node.pointer)
            except _errors.BusyError as error:
                failure = failure or error
                with _lock:
                    node._users, node._closed = 1, False
                continue
            except _errors.SteergraphError as error:
                failure = failure or error
            nodes += node._parents
        if failure is not None:
            raise failure
