"""Locks that a forked child finds free: the thread that held one in the parent is not in the child.

What a lock guards may be left half done there. It belongs to the parent's objects, which a child
leaves alone, or is set in one assignment.
"""
import os
import weakref

_owners = weakref.WeakKeyDictionary()


def own(owner, name, make):
    """Give an object or a module the lock `name`, made by `make`, again in each forked child."""
    setattr(owner, name, make())
    _owners[owner] = name, make


def _renew():
    for owner, (name, make) in list(_owners.items()):
        setattr(owner, name, make())


os.register_at_fork(after_in_child=_renew)
