"""Objects by number, for ops of torch, which take no objects."""
import weakref

from . import _errors


class Numbers:
    """Of one kind of object. Holds references that do not keep their objects."""

    def __init__(self, what):
        self._what = what
        # A dict of its own: a WeakValueDictionary takes its time in every apply.
        self._objects = {}
        self._next = iter(range(1, 2**62)).__next__

    def give(self, owner):
        """The number of a new object."""
        number, objects = self._next(), self._objects
        objects[number] = weakref.ref(owner, lambda _: objects.pop(number, None))
        return number

    def find(self, number):
        """The object of a number; ClosedError when nobody has it any more."""
        reference = self._objects.get(number)
        found = None if reference is None else reference()
        if found is None:
            raise _errors.ClosedError(f"there is no {self._what} {number}: it has been collected")
        return found
