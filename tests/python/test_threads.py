"""One engine, many threads: frames of their own, slots changed meanwhile, closing under calls."""
import contextlib
import threading
import unittest
from unittest import mock

import support  # noqa: F401
import tap
from steergraph import _abi
from support import np, refusal, steergraph

HIDDEN, THREADS, ROUNDS = 16, 8, 150


def at_once(functions):
    """Run functions in threads; the first thing that one of them raised."""
    raised, start = [], threading.Barrier(len(functions))

    def guarded(function):
        start.wait()
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def axis(k):
    vector = np.zeros(HIDDEN, np.float32)
    vector[k] = 1
    return vector


class Threads(unittest.TestCase):
    def setUp(self):
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)
        self.table = steergraph.Steering(self.engine, HIDDEN, dtype="f32", max_slots=THREADS)

    def test_each_thread_with_a_frame_and_a_slot(self):
        def serve(k):
            frame = self.table.frame()
            for turn in range(ROUNDS):
                self.table.set(k, {0: [("add", axis(k), turn + 1)]})
                frame.step([k, -1])
                rows = frame.apply(0, np.zeros((2, HIDDEN), np.float32))
                assert rows[0, k] == turn + 1 and rows.sum() == turn + 1, rows
                self.table.digest(k)
                self.table.clear(k)
            frame.close()

        at_once([lambda k=k: serve(k) for k in range(THREADS)])
        self.assertEqual(self.engine.stats()["applies"], THREADS * ROUNDS)

    def test_threads_that_share_a_frame_take_turns(self):
        self.table.set(0, {0: [("add", axis(0), 1)]})
        frame = self.table.frame()
        frame.step([0])

        def apply():
            for _ in range(ROUNDS):
                frame.step([0])
                rows = frame.apply(0, np.zeros((1, HIDDEN), np.float32))
                assert rows.sum() == 1, rows

        at_once([apply] * THREADS)

    def test_applies_of_threads_that_share_a_frame_do_not_mix(self):
        """The frame's structs serve one call at a time: neither tensors nor errors get mixed up."""
        table = steergraph.Steering(self.engine, HIDDEN, layers=THREADS, dtype="f32")
        table.set(0, {k: [("add", axis(k), k + 1)] for k in range(THREADS)})
        frame = table.frame()
        frame.step([0, -1])

        def apply(k):
            for _ in range(ROUNDS):
                rows = frame.apply(k, np.zeros((2, HIDDEN), np.float32))
                assert rows[0, k] == k + 1 and rows.sum() == k + 1, rows
                kind, text = refusal(frame.apply, 100 + k, rows)
                assert kind is steergraph.InvalidError and f" {100 + k}" in text, text

        at_once([lambda k=k: apply(k) for k in range(THREADS)])

    def test_one_shot_calls_from_all_threads(self):
        def once(k):
            for turn in range(ROUNDS):
                rows = np.zeros((2, HIDDEN), np.float32)
                self.table.once(rows, [1, 1], [[("add", axis(k), turn)], None])
                assert rows[0, k] == turn and rows.sum() == turn, rows

        at_once([lambda k=k: once(k) for k in range(4)])

    def test_closing_under_calls_ends_them_with_an_error(self):
        for _ in range(20):
            engine = steergraph.Engine("cpu")
            table = steergraph.Steering(engine, HIDDEN, dtype="f32")
            table.set(0, {0: [("add", axis(1), 1)]})
            frames = [table.frame() for _ in range(3)]

            def serve(frame):
                try:
                    while True:
                        frame.step([0] * 64)
                        frame.apply(0, np.zeros((64, HIDDEN), np.float32))
                except steergraph.ClosedError:
                    pass

            at_once([lambda f=f: serve(f) for f in frames] + [engine.close])

    def test_closing_between_a_creation_and_its_handle_waits_for_the_handle(self):
        """What another thread may do right behind a call of C, done right there."""
        makers = {
            "stg_vector_intern": lambda engine, table: engine.vector(axis(0)),
            "stg_steer_create": lambda engine, table: steergraph.Steering(engine, HIDDEN),
            "stg_frame_create": lambda engine, table: table.frame(),
        }
        call = _abi.call
        for name, make in makers.items():
            engine = steergraph.Engine("cpu")
            table = steergraph.Steering(engine, HIDDEN, dtype="f32")
            called = []

            def closing(function, *arguments):
                call(function, *arguments)
                called.append(function)
                if function == name:
                    engine.close()

            with self.subTest(name), mock.patch.object(_abi, "call", closing):
                self.assertIs(refusal(make, engine, table)[0], steergraph.ClosedError)
                self.assertEqual(called.count("stg_engine_destroy"), 1)
                self.assertEqual(called[-1], "stg_engine_destroy")
                if name == "stg_vector_intern":
                    self.assertIn("stg_vector_release", called)

    def test_closing_under_sets_ends_them_with_an_error(self):
        for _ in range(20):
            engine = steergraph.Engine("cpu")
            table = steergraph.Steering(engine, HIDDEN, dtype="f32", max_slots=THREADS)
            begun = threading.Event()

            def hammer(k):
                with contextlib.suppress(steergraph.ClosedError):
                    while True:
                        table.set(k, {0: [("add", axis(k))]})
                        begun.set()

            def close():
                begun.wait()
                engine.close()

            at_once([lambda k=k: hammer(k) for k in range(4)] + [close])

    def test_errors_of_threads_do_not_mix(self):
        frames = [self.table.frame() for _ in range(THREADS)]

        def refuse(k):
            for _ in range(ROUNDS):
                try:
                    frames[k].step([100 + k])
                except steergraph.BadSlotError as error:
                    assert f" {100 + k} " in str(error), error
                else:
                    raise AssertionError("not refused")

        at_once([lambda k=k: refuse(k) for k in range(THREADS)])


tap.main()
