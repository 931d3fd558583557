"""Objects that the library calls busy: they stay open, to be closed again later. Copies, and streams
that are waited for."""
import contextlib
import copy
import gc
import pickle
import sys
import types
import unittest
import unittest.mock

import support  # noqa: F401
import tap
import numpy as np
from steergraph import _handle, _streams
from support import refusal, steergraph


class Owner:
    """What a user has of an object; collected, it closes the handle."""

    def __init__(self, handle):
        self.handle = handle
        handle.owned_by(self)


class Handles(unittest.TestCase):
    def setUp(self):
        self.busy, self.destroyed = set(), []

    def handle(self, name, *parents):
        def destroy(pointer):
            if pointer in self.busy:
                raise steergraph.BusyError(f"{pointer} is in use")
            self.destroyed.append(pointer)

        return _handle.Handle(name, name, destroy, *parents)

    def test_what_is_busy_stays_open_and_is_closed_again(self):
        engine = self.handle("engine")
        table = self.handle("table", engine)
        frame = self.handle("frame", table)
        self.busy.add("table")
        self.assertEqual(refusal(table.close), (steergraph.BusyError, "table is in use"))
        self.assertEqual(self.destroyed, ["frame"])
        self.assertEqual((frame.closed, table.closed), (True, False))
        with table as pointer:
            self.assertEqual(pointer, "table")
        self.assertEqual(refusal(table.close)[0], steergraph.BusyError)
        self.busy.clear()
        table.close()
        table.close()
        self.assertEqual(self.destroyed, ["frame", "table"])
        engine.close()
        self.assertEqual(self.destroyed, ["frame", "table", "engine"])

    def test_a_parent_waits_for_a_busy_child(self):
        engine = self.handle("engine")
        table = self.handle("table", engine)
        self.busy.add("table")
        self.assertEqual(refusal(engine.close), (steergraph.BusyError, "table is in use"))
        self.assertEqual((engine.closed, table.closed, self.destroyed), (True, False, []))
        self.assertEqual(refusal(engine.close), (steergraph.BusyError, "table is in use"))
        self.busy.clear()
        engine.close()
        engine.close()
        self.assertEqual(self.destroyed, ["table", "engine"])

    def test_a_child_of_several_parents_goes_before_any_of_them(self):
        engine = self.handle("engine")
        kv = self.handle("kv", engine)
        rope, attend = self.handle("rope", kv), self.handle("attend", kv)
        block = self.handle("block", rope, attend)
        with block:  # a call that is in flight
            kv.close()
            self.assertEqual(self.destroyed, [])
            self.assertEqual([h.closed for h in (kv, rope, attend, block)], [True] * 4)
        self.assertEqual(self.destroyed[0], "block")
        self.assertEqual(set(self.destroyed[1:3]), {"rope", "attend"})
        self.assertEqual(self.destroyed[3:], ["kv"])
        engine.close()
        self.assertEqual(self.destroyed[4:], ["engine"])

    def test_one_closed_parent_of_several_is_named(self):
        rope, attend = self.handle("rope"), self.handle("attend")
        attend.close()
        said = (steergraph.ClosedError, "the attend is closed")
        self.assertEqual(refusal(self.handle, "block", rope, attend), said)
        self.assertEqual(self.destroyed, ["attend", "block"])
        rope.close()  # has no child that it waits for
        self.assertEqual(self.destroyed, ["attend", "block", "rope"])

    def test_what_was_collected_while_busy_is_closed_with_the_next_table(self):
        engine = Owner(self.handle("engine"))
        table = Owner(self.handle("table", engine.handle))
        self.busy.add("table")
        del table
        gc.collect()
        _handle.close_busy()
        self.assertEqual(self.destroyed, [])
        self.busy.clear()
        with steergraph.Engine("cpu") as own, steergraph.Steering(own, 8, dtype="f32"):
            self.assertEqual(self.destroyed, ["table"])
        del engine
        gc.collect()
        self.assertEqual(self.destroyed, ["table", "engine"])
        self.assertEqual(_handle._busy, [])

    def test_a_copy_is_the_object_itself(self):
        direction = np.ones(8, np.float32)
        with steergraph.Engine("cpu") as engine:
            table = steergraph.Steering(engine, 8, dtype="f32")
            vector, frame = engine.vector(direction), table.frame()
            for held in (engine, vector, table, frame):
                self.assertIs(copy.copy(held), held)
                self.assertIs(copy.deepcopy(held), held)
                said = f"{type(held).__name__} objects are of this process: they cannot be pickled"
                self.assertEqual(refusal(pickle.dumps, held), (TypeError, said))
            chain = copy.deepcopy([steergraph.op("add", vector, scale=2.0)])
            vector.close()
            self.assertIs(refusal(table.set, 0, {0: chain})[0], steergraph.ClosedError)

    def test_what_was_collected_while_busy_is_closed_with_its_parent(self):
        engine = self.handle("engine")
        table = Owner(self.handle("table", engine))
        self.busy.add("table")
        del table
        gc.collect()
        self.busy.clear()
        engine.close()
        self.assertEqual(self.destroyed, ["table", "engine"])
        _handle.close_busy()
        self.assertEqual(self.destroyed, ["table", "engine"])


class Streams(unittest.TestCase):
    """With what stands for torch here, which has no streams without a GPU."""

    def setUp(self):
        waited = self.waited = []
        self.capturing = False

        class Stream:
            def __init__(self, address=0):
                self.address = address

            def synchronize(self):
                waited.append(self.address)
                if self.address == 13:
                    raise RuntimeError("invalid resource handle")

        cuda = types.SimpleNamespace(
            is_current_stream_capturing=lambda: self.capturing,
            device=contextlib.nullcontext,
            default_stream=Stream,
            ExternalStream=Stream,
        )
        torch = types.SimpleNamespace(cuda=cuda)
        patch = unittest.mock.patch.dict(sys.modules, torch=torch)
        patch.start()
        self.addCleanup(patch.stop)

    def test_each_stream_is_waited_for(self):
        streams = _streams.Streams("cuda:0")
        for stream in (7, 0, 13, 7, 9):
            self.assertEqual(streams.of(stream), stream)
        streams.wait("rope")
        self.assertEqual(sorted(self.waited), [0, 7, 9, 13])

    def test_a_capture_is_not_ended_by_waiting(self):
        streams = _streams.Streams("cuda:0")
        streams.of(7)
        self.capturing = True
        said = "the stream is capturing; close the rope when it has ended"
        self.assertEqual(refusal(streams.wait, "rope"), (steergraph.BusyError, said))
        self.assertEqual(self.waited, [])

    def test_the_cpu_has_none(self):
        streams = _streams.Streams("cpu")
        self.assertIsNone(streams.of(7))
        streams.wait("rope")
        self.assertEqual(self.waited, [])


tap.main()
