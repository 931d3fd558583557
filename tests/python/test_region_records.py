"""What Python knows of records, against the library's: kept, evicted, told, freed, and done once each
call, whatever fails. On the stub of the driver, with a capture that keeps a list where torch has a
graph.

Called with the library and the stub of libcuda.
"""
import contextlib
import ctypes
import gc
import random
import sys
import threading
import types
import unittest
import unittest.mock

import support  # first: it puts the package on the path

import tap
from region_stand_in import Capture, Graph
from steergraph import _regions
from support import refusal, steergraph

# The library then finds it whatever driver the machine has.
_stub = ctypes.CDLL(sys.argv[2])


class Case(unittest.TestCase):
    def setUp(self):
        self.capture = Capture()
        sys.modules["steergraph._capture"] = steergraph._capture = self.capture
        self.said = []
        self.engine = self.opened()
        self.done = 0

    def tearDown(self):
        self.engine.close()
        self.assertEqual(self.capture.live(), 0)

    def opened(self, **options):
        return steergraph.Engine(
            "cuda", cache_mode="off", pack="", log=lambda *line: self.said.append(line),
            log_level="warn", **options
        )  # fmt: skip

    def step(self):
        """A body: one more is done, by now or by a replay."""

        def item():
            self.done += 1

        self.capture.do(item)
        return "result"

    def counts(self):
        stats = self.engine.stats()
        return {name: stats[f"region{name}"] for name in ("s_recorded", "_replays", "_failures", "_bytes")}


class Runs(Case):
    def test_each_call_does_the_work_once(self):
        region = self.engine.region("step", batch=8)
        for i in range(1, 8):
            self.assertEqual(region.recorded, i > 4)
            self.assertEqual(region.run(self.step), "result")
            self.assertEqual(self.done, i)
        self.assertEqual(self.capture.asides, 3)
        wanted = {"s_recorded": 1, "_replays": 4, "_failures": 0, "_bytes": 100}
        self.assertEqual(self.counts(), wanted)
        self.assertEqual(self.said, [])

    def test_a_body_of_a_with_is_done_once_too(self):
        went = []
        for i in range(1, 8):
            with self.engine.region("step", pool="a pool") as going:
                went.append(going)
                if going:
                    self.step()
            self.assertEqual(self.done, i)
        self.assertEqual(went, [True] * 4 + [False] * 3)
        self.assertEqual(self.capture.pools, ["a pool"])
        self.assertEqual(self.counts()["_replays"], 4)

    def test_record_and_replay(self):
        region = self.engine.region("step")
        self.assertEqual(refusal(region.replay)[0], steergraph.NotFoundError)
        for wanted in (True, False):
            with region.record() as going:
                self.assertIs(going, wanted)
                if going:
                    self.step()
        self.assertEqual(self.done, 0)
        region.replay()
        region.replay()
        self.assertEqual(self.done, 2)
        region.forget()
        self.assertEqual(self.capture.live(), 0)
        self.assertEqual(refusal(region.replay)[0], steergraph.NotFoundError)

    def test_a_stream_that_captures_has_the_work_itself(self):
        region = self.engine.region("step", warmup=0)
        self.capture.going = graph = Graph(self.capture)
        region.run(self.step)
        with region as going:
            self.assertTrue(going)
            self.step()
        self.assertEqual(
            refusal(region.record().__enter__),
            (steergraph.CapturingError, "the stream captures; let it have the work itself"),
        )
        self.capture.going = None
        self.assertEqual((self.done, len(graph.work)), (0, 2))
        self.assertEqual(self.counts()["s_recorded"], 0)

    def test_a_stream_of_another_device_is_refused(self):
        region = self.engine.region("step", "a stream", warmup=0)
        self.capture.on = lambda device, stream: contextlib.nullcontext()
        self.capture.elsewhere = True  # also with the stream
        text = "the stream is of another device than the engine, which is on cuda:0"
        for call in (lambda: region.run(self.step), region.replay, region.__enter__, region.record().__enter__):
            self.assertEqual(refusal(call), (steergraph.InvalidError, text))
        self.capture.elsewhere = False
        self.assertEqual((self.done, self.counts()["s_recorded"]), (0, 0))

    def test_random_sizes_give_at_most_a_record_for_each_bucket(self):
        sizes, seen = (1, 2, 4, 8, 16, 24, 32, 48, 64), random.Random(1)
        for i in range(1000):
            batch = steergraph.region_bucket(seen.randint(1, 64), sizes)
            self.engine.region("step", batch=batch).run(self.step)
            self.assertEqual(self.done, i + 1)
        self.assertEqual(self.counts()["s_recorded"], len(sizes))
        self.assertEqual(self.counts()["_replays"], 1000 - 3 * len(sizes))

    def test_with_plain_launches_nothing_is_captured(self):
        plain = self.opened(launch="plain")
        self.addCleanup(plain.close)
        for i in range(1, 6):
            plain.region("step").run(self.step)
            self.assertEqual(self.done, i)
        self.assertEqual(self.capture.graphs, [])
        self.assertEqual(plain.stats()["regions_recorded"], 0)


class Ends(Case):
    def test_those_beyond_the_limit_go_and_are_freed(self):
        self.engine.close()
        self.engine = self.opened(max_plans=2)
        regions = [self.engine.region(text, warmup=1) for text in "abc"]
        for region in regions:
            region.run(self.step)
            region.run(self.step)
        self.assertEqual(self.capture.live(), 3)  # nobody has asked
        self.assertTrue(regions[0].recorded)
        self.assertEqual(regions[0].run(self.step), "result")  # recorded anew, without a warm-up
        self.assertEqual(self.done, 7)
        self.assertEqual(len(self.capture.graphs), 4)
        regions[2].run(self.step)
        regions[1].run(self.step)
        self.assertEqual(self.done, 9)
        self.assertEqual(len(self.capture.graphs), 5)
        self.assertEqual(self.capture.live(), 3)
        self.assertEqual(self.counts()["s_recorded"], 5)

    def test_a_closed_engine_has_freed_all(self):
        region = self.engine.region("step", warmup=0)
        region.run(self.step)
        self.capture.going = Graph(self.capture)
        self.assertEqual(
            refusal(self.engine.close),
            (steergraph.BusyError, "the stream is capturing; close the engine when it has ended"),
        )
        self.capture.going = None
        self.engine.close()
        self.assertEqual(self.capture.live(), 0)
        self.assertEqual(refusal(region.run, self.step)[0], steergraph.ClosedError)

    def test_closing_waits_for_launches_of_other_threads(self):
        regions = [self.engine.region(text, warmup=0) for text in ("long", "short")]
        for region in regions:
            region.run(self.step)
        begun, ends = threading.Event(), threading.Event()

        def wait():
            begun.set()
            ends.wait()

        self.capture.graphs[0].replay = wait
        launching = threading.Thread(target=regions[0].replay)
        closing = threading.Thread(target=self.engine.close)
        launching.start()
        begun.wait()
        with unittest.mock.patch.object(steergraph._regions, "_LIMIT_S", 0):
            text = "a region is being launched; close the engine when that has returned"
            self.assertEqual(refusal(self.engine.close), (steergraph.BusyError, text))
        closing.start()
        closing.join(0.05)
        self.assertTrue(closing.is_alive())
        self.assertEqual(self.capture.live(), 2)
        with self.assertRaisesRegex(steergraph.ClosedError, "the engine is closed"):
            regions[1].replay()
        ends.set()
        launching.join()
        closing.join()
        self.assertEqual(self.capture.live(), 0)

    def test_an_engine_is_not_closed_in_a_launch(self):
        region = self.engine.region("step", warmup=0)
        region.run(self.step)
        graph, errors = self.capture.graphs[0], []
        graph.replay = lambda: errors.append(refusal(self.engine.close))
        with unittest.mock.patch.object(steergraph._regions, "_LIMIT_S", 3600):  # there is no use in waiting
            region.replay()
        text = "a region is being launched; close the engine when that has returned"
        self.assertEqual(errors, [(steergraph.BusyError, text)])
        self.assertEqual(self.capture.live(), 1)
        self.assertEqual(refusal(region.replay), (steergraph.ClosedError, "the engine is closed"))

    def test_an_engine_that_nobody_has_frees_all(self):
        engine = self.opened()
        engine.region("step", warmup=0).run(self.step)
        handle = engine.handle
        self.assertEqual(self.capture.live(), 1)
        del engine
        gc.collect()
        self.assertTrue(handle.closed)
        self.assertEqual(self.capture.live(), 0)

    def test_one_that_is_being_launched_is_not_forgotten(self):
        region = self.engine.region("step", warmup=0)
        error = refusal(region.run, lambda: self.capture.do(region.forget))
        wanted = "region 'step' is being run; forget it when that has returned"
        self.assertEqual(error, (steergraph.BusyError, wanted))
        self.assertEqual(self.capture.live(), 1)
        self.assertTrue(region.recorded)

    def test_closing_waits_for_the_driver_to_let_go(self):
        answers = [steergraph.BusyError("in use"), steergraph.BusyError("in use"), None]

        def destroy(_):
            answer = answers.pop(0)
            if answer is not None:
                raise answer

        child = steergraph._handle.Handle("x", 1, destroy, self.engine.handle)
        self.engine.region("step", warmup=0).run(self.step)
        self.engine.close()
        self.assertTrue(child.closed and self.engine.closed)
        self.assertEqual(answers, [])

    def test_what_captured_ends_before_what_it_captured_with(self):
        order = []
        child = steergraph._handle.Handle("x", 1, lambda _: order.append("other"), self.engine.handle)
        self.engine.region("step", warmup=0).run(self.step)
        graph = self.capture.graphs[0]
        graph.reset = lambda: (order.append("graph"), setattr(graph, "freed", True))
        self.engine.close()
        self.assertEqual(order, ["graph", "other"])
        self.assertTrue(child.closed)


class Failures(Case):
    WHY = "RuntimeError: operation not permitted when stream is capturing"

    def broken(self):
        return RuntimeError("operation not permitted when stream is capturing\nand more lines")

    def test_what_cannot_be_captured_is_done_each_time_and_said_once(self):
        region = self.engine.region("odd", warmup=0)
        self.capture.breaks = self.broken()
        for i in range(1, 4):
            self.assertEqual(region.run(self.step), "result")
            self.assertEqual(self.done, i)
        self.assertEqual(len(self.capture.pools), 1)  # tried once
        ((level, line),) = self.said
        self.assertEqual(level, "warn")
        self.assertIn("region 'odd' is not recorded", line)
        self.assertIn(self.WHY, line)
        wanted = {"s_recorded": 0, "_replays": 0, "_failures": 1, "_bytes": 0}
        self.assertEqual(self.counts(), wanted)
        with region as going:
            self.assertTrue(going)
        self.capture.breaks = None
        region.forget()
        region.run(self.step)
        self.assertEqual(self.counts()["s_recorded"], 1)

    def test_a_body_that_raises_by_itself_is_the_callers_error(self):
        region = self.engine.region("odd", warmup=0)
        calls = []

        def fail():
            calls.append(self.capture.is_capturing())
            raise ValueError("rows")

        for _ in range(2):  # and is captured anew
            with self.assertRaisesRegex(ValueError, "rows"):
                region.run(fail)
        self.assertEqual(calls, [True, False] * 2)
        self.assertEqual(self.said, [])
        region.run(self.step)
        self.assertEqual(self.counts()["s_recorded"], 1)

    def test_a_with_that_cannot_be_captured_raises_and_is_done_from_then_on(self):
        region = self.engine.region("odd", warmup=0)
        self.capture.breaks = self.broken()
        with self.assertRaises(RuntimeError) as caught, region:
            self.step()
        self.assertIs(caught.exception, self.capture.breaks)
        self.assertEqual(self.done, 0)
        for _ in range(2):
            with region as going:
                self.assertTrue(going)
                self.step()
        self.assertEqual(self.done, 2)
        self.assertEqual(len(self.capture.pools), 1)

    def test_what_is_known_of_names_has_an_end(self):
        self.addCleanup(setattr, _regions, "_NAMES", _regions._NAMES)
        _regions._NAMES = 3
        regions = self.engine.its_regions()
        for i in range(10):
            self.engine.region(f"cold {i}").run(self.step)
            self.assertLessEqual(len(regions._calls), 3)
            self.capture.breaks = RuntimeError("no")
            self.engine.region(f"bad {i}", warmup=0).run(self.step)
            self.capture.breaks = None
            self.assertLessEqual(len(regions._failed), 3)
            self.assertEqual(regions.why_not((f"bad {i}", 0, 0, 0)), "RuntimeError: no")
        last = self.engine.region("cold 9")
        for recorded in (False, False, True):
            last.run(self.step)
            self.assertEqual(last.recorded, recorded)

    def test_a_function_that_goes_while_others_are_forgotten_is_forgotten_too(self):
        regions = self.engine.its_regions()
        name = regions.take_name("step", False)
        region = self.engine.region("step x", warmup=0)
        region.run(self.step)
        late = regions._unwanted.append  # as a finalizer has it that runs beside
        regions.drain()
        late((name, ["step x"]))
        regions.drain()
        self.assertFalse(region.recorded)
        self.assertEqual(regions.take_name("step", False), name)

    def test_a_lack_of_memory_passes(self):
        region = self.engine.region("large", warmup=0)
        self.capture.breaks = MemoryError("out of memory")
        self.assertEqual(region.run(self.step), "result")
        with self.assertRaises(MemoryError), region:
            pass
        self.capture.breaks = None
        self.assertEqual(region.run(self.step), "result")
        self.assertEqual(self.done, 2)
        self.assertEqual(self.counts()["s_recorded"], 1)
        self.assertEqual(self.said, [])

    def test_what_a_replay_raises_goes_on(self):
        region = self.engine.region("step", warmup=0)
        region.run(self.step)
        error = RuntimeError("the graph is no more")

        def fail():
            raise error

        graph = self.capture.graphs[0]
        graph.replay, replay = fail, graph.replay
        for call in (lambda: region.run(self.step), region.replay, region.__enter__):
            with self.assertRaises(RuntimeError) as caught:
                call()
            self.assertIs(caught.exception, error)
        graph.replay = replay
        region.replay()
        self.assertEqual(self.done, 2)

    def test_a_graph_that_the_engine_refuses_is_freed(self):
        region = self.engine.region("step")
        self.engine.its_regions()
        regions, graph = self.engine.its_regions(), Graph(self.capture)
        taken = types.SimpleNamespace(graph=graph, bytes=-1)
        kind, _ = refusal(regions.adopt, ("a|b", 0, 0, 0), None, taken, None, None)
        self.assertEqual(kind, steergraph.InvalidError)
        self.assertTrue(graph.freed)
        self.assertFalse(region.recorded)


class Threads(Case):
    def test_threads_run_a_region_beside_each_other(self):
        wrong, lock = [], threading.Lock()
        count = [0]

        def item():
            with lock:
                count[0] += 1

        region_of = [f"step {i}" for i in range(3)]
        for text in region_of:  # captures of one list at a time are the stand-in's limit
            region = self.engine.region(text, warmup=0)
            region.run(lambda: self.capture.do(item))

        def work():
            try:
                for i in range(200):
                    region = self.engine.region(region_of[i % 3], warmup=0)
                    region.run(lambda: wrong.append("captured again"))
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(count[0], 3 + 6 * 200)
        self.assertEqual(self.counts()["_replays"], 3 + 6 * 200)


tap.main()
