"""Regions in Python where nothing is captured: on the CPU; padded sizes, and what is refused."""
import gc
import json
import pathlib
import sys
import tempfile
import threading
import unittest
import weakref

import support  # first: it puts the package on the path

import tap
from steergraph import _regions
from support import refusal, steergraph


class Sizes(unittest.TestCase):
    def test_a_size_is_padded_to_the_smallest_bucket_that_holds_it(self):
        found = [steergraph.region_bucket(size, (2, 5, 9)) for size in range(10)]
        self.assertEqual(found, [2, 2, 2, 5, 5, 5, 9, 9, 9, 9])
        self.assertEqual([steergraph.region_bucket(size) for size in (1, 3, 9, 65, 300)], [1, 4, 16, 80, 512])

    def test_what_is_larger_is_cut(self):
        self.assertEqual(steergraph.region_chunks(0, (4, 8)), [])
        self.assertEqual(steergraph.region_chunks(3, (4, 8)), [(0, 3, 4)])
        self.assertEqual(steergraph.region_chunks(18, (4, 8)), [(0, 8, 8), (8, 8, 8), (16, 2, 4)])

    def test_refuses_sizes_that_are_none(self):
        invalid, capacity = steergraph.InvalidError, steergraph.CapacityError
        cases = (
            (steergraph.region_bucket, 10, (4, 8), capacity,
             "stg_region_bucket: size 10 is more than the largest bucket 8; cut it by stg_region_chunks"),
            (steergraph.region_bucket, -1, (4,), invalid, "stg_region_bucket: size -1 is negative"),
            (steergraph.region_chunks, 3, (4, 4), invalid,
             "stg_region_chunks: sizes[1] is 4, which is not above 4"),
            (steergraph.region_bucket, 1, (2**63,), invalid,
             f"sizes is {2**63}, not in {-2**63}..{2**63 - 1}"),
        )  # fmt: skip
        for function, size, sizes, kind, text in cases:
            with self.subTest(text):
                self.assertEqual(refusal(function, size, sizes), (kind, text))


class OnTheCpu(unittest.TestCase):
    def setUp(self):
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)

    def test_a_function_is_called_each_time_and_counted(self):
        region = self.engine.region("step", batch=8, rows=64)
        calls = []
        for i in range(5):
            self.assertEqual(region.run(lambda: calls.append(i) or i), i)
        self.assertEqual(calls, [0, 1, 2, 3, 4])
        self.assertFalse(region.recorded)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "traffic.json"
            self.engine.save_traffic(path)
            manifest = json.loads(path.read_text())["manifest"]
        wanted = {"signature": "region v1 | step | batch<=8 seq<=0 rows<=64", "count": 5}
        self.assertEqual(manifest, [wanted])
        self.assertEqual(self.engine.stats()["regions_recorded"], 0)

    def test_a_body_is_done_each_time(self):
        for _ in range(5):
            with self.engine.region("step") as going:
                self.assertIs(going, True)

    def test_what_a_function_raises_goes_on(self):
        region = self.engine.region("step")
        for error in (ValueError("wrong\nrows"), KeyboardInterrupt()):

            def fail(error=error):
                raise error

            with self.assertRaises(type(error)) as caught:
                region.run(fail)
            self.assertIs(caught.exception, error)
        self.assertEqual(region.run(lambda: 3), 3)
        with self.assertRaisesRegex(ValueError, "body"), region:
            raise ValueError("body")

    def test_a_region_within_a_region_is_part_of_it(self):
        outer, inner = self.engine.region("outer"), self.engine.region("inner")
        self.assertEqual(outer.run(lambda: inner.run(lambda: 4) + 1), 5)

    def test_nothing_is_recorded_or_replayed(self):
        region = self.engine.region("step", batch=2)
        kind, text = refusal(region.record().__enter__)
        self.assertEqual(kind, steergraph.UnsupportedError)
        self.assertEqual(text, "this engine captures nothing; let the work be done as it is each time")
        kind, text = refusal(region.replay)
        self.assertEqual(kind, steergraph.NotFoundError)
        self.assertEqual(text, "region 'step' has no record for this stream")
        region.forget()

    def test_refuses_what_is_no_region(self):
        words = "write 1 to 512 printable ASCII characters without '|'"
        cases = (
            (("",), {}, steergraph.InvalidError, f"signature is ''; {words}"),
            (("a|b",), {}, steergraph.InvalidError, f"signature is 'a|b'; {words}"),
            (("a\n",), {}, steergraph.InvalidError, f"signature is 'a\\n'; {words}"),
            (("x" * 513,), {}, steergraph.InvalidError, f"signature is '{'x' * 513}'; {words}"),
            ((b"a",), {}, TypeError, "signature is b'a', not a str"),
            (("a",), {"batch": -1}, steergraph.InvalidError, f"batch is -1, not in 0..{2**63 - 1}"),
            (("a",), {"rows": 1.5}, TypeError, "rows is 1.5, not an integer"),
            (("a",), {"warmup": -1}, steergraph.InvalidError, f"warmup is -1, not in 0..{2**32 - 1}"),
        )
        for args, named, kind, text in cases:
            with self.subTest(text):
                self.assertEqual(refusal(self.engine.region, *args, **named), (kind, text))
        self.engine.region("x" * 512).run(lambda: None)

    def test_regions_are_forgotten_while_others_fail(self):
        self.addCleanup(setattr, _regions, "_NAMES", _regions._NAMES)
        _regions._NAMES = 1 << 40
        regions, over = self.engine.its_regions(), threading.Event()
        names = [(f"step {i}", 0, 0, 0) for i in range(50000)]
        for name in names:
            regions.note_failure(name, ValueError("no"))

        def fail():
            for i in range(1 << 30):
                if over.is_set():
                    return
                regions.note_failure((f"other {i}", 0, 0, 0), ValueError("no"))

        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=fail)
        thread.start()
        try:
            for name in names[:20]:
                regions.forget(name[0])
        finally:
            over.set()
            thread.join()
        self.assertEqual([regions.why_not(name) for name in names[19:21]], [None, "ValueError: no"])

    def test_a_closed_engine_runs_nothing(self):
        region = self.engine.region("step")
        self.engine.close()
        calls = []
        self.assertEqual(
            refusal(region.run, lambda: calls.append(1)),
            (steergraph.ClosedError, "the engine is closed"),
        )
        self.assertEqual(refusal(region.forget), (steergraph.ClosedError, "the engine is closed"))
        closed = (steergraph.ClosedError, "the engine is closed")
        self.assertEqual(refusal(self.engine.region, "another"), closed)
        self.assertEqual(calls, [])

    def test_a_region_keeps_its_engine_and_no_more(self):
        engine = steergraph.Engine("cpu")
        region = engine.region("step")
        handle, there = engine.handle, weakref.ref(engine)
        del engine
        gc.collect()
        self.assertEqual(region.run(lambda: 1), 1)
        del region
        gc.collect()
        self.assertIsNone(there())
        self.assertTrue(handle.closed)


tap.main()
