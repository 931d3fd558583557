"""Calls of region_of functions that are replayed, on tensors of the CPU: on the stub of the driver, with
a capture that keeps a list where torch has a graph.

Called with the library and the stub of libcuda. Exit status 77 where there is no torch.
"""
import ctypes
import functools
import pathlib
import random
import sys
import unittest

# The library then finds it whatever driver the machine has.
_stub = ctypes.CDLL(sys.argv[2])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
sys.argv.append("--cpu")

import torch_support  # noqa: E402 first: it finds torch, and the folders of the others

import tap  # noqa: E402
import torch  # noqa: E402
from region_stand_in import Capture, Graph  # noqa: E402
from steergraph import _capture, _rooms, region_of  # noqa: E402
from torch_support import refusal, steergraph  # noqa: E402

WIDTH = 6


def rows(count, seed=1, dtype=torch.float32):
    return torch_support.rows_of(count, WIDTH, dtype=dtype, seed=seed)


class Case(unittest.TestCase):
    def setUp(self):
        self.capture = Capture()
        sys.modules["steergraph._capture"] = steergraph._capture = self.capture
        self.opened()

    def opened(self, **options):
        self.engine = steergraph.Engine("cuda", cache_mode="off", pack="", **options)
        self.addCleanup(self.engine.close)
        self.engine.its_regions()
        self.engine.device = "cpu"  # where the tensors are

    def made(self, function, buckets=(4, 8), **named):
        """A region_of function, of a list of tensors; replays do it on the tensors of its capture."""

        @functools.wraps(function)
        def body(*args, **kwargs):
            if self.capture.going is None:
                return function(*args, **kwargs)
            # a capture does nothing yet, so it writes to no argument
            given = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
            places = [torch.zeros_like(result) for result in function(*given, **kwargs)]

            def work():
                for place, result in zip(places, function(*args, **kwargs)):
                    place.copy_(result)

            self.capture.going.work.append(work)
            return places

        return self.engine.region_of(buckets, warmup=0, **named)(body)

    def counts(self):
        stats = self.engine.stats()
        return stats["regions_recorded"], stats["region_replays"]


class Calls(Case):
    def test_rows_behind_those_given_are_zeros_each_time_whatever_the_function_wrote(self):
        for dtype in (torch.float32, torch.complex64):  # torch.cat, and what has none everywhere
            for clone in (True, False):
                step = self.made(lambda x: [x.add_(1), x.sum(0), x * 2], (8, 16), clone=clone)
                sizes = random.Random(1)
                for i in range(60):
                    x = rows(sizes.randint(1, 40), i + 1).to(dtype)
                    if len(x) > 16:
                        x = x[:16]
                    padded = 8 if len(x) <= 8 else 16
                    plus, total, twice = step(x)
                    self.assertTrue(torch.equal(plus, x + 1), i)
                    self.assertTrue(torch.allclose(total, x.sum(0) + padded, atol=1e-5), i)
                    self.assertTrue(torch.equal(twice, (x + 1) * 2), i)
        self.assertEqual(self.counts(), (8, 240))

    def test_pieces_and_another_dimension_and_fixed_tensors(self):
        step = self.made(lambda x, bias: [x + bias], (2, 5), dim=1, fixed="bias")
        for i, size in enumerate((1, 4, 5, 12, 13, 10, 2, 12)):
            x, bias = rows(3, i + 1).repeat(1, 3)[:, :size].t().t(), rows(3, i + 9)[:, :1]
            self.assertTrue(torch.equal(step(x, bias)[0], x + bias), size)
        self.assertEqual(self.counts()[0], 2)

    def test_constants_that_are_written_differently_are_others(self):
        seen = []

        def noted(x, constant):
            seen.append(repr(constant))
            return [x * 1]

        step = self.made(noted)
        constants = (1, True, 1.0, 0.0, -0.0, False, 0, "1", None, float("nan"), float("nan"), 2**70)
        for _ in range(2):
            for constant in constants:
                seen.clear()
                step(rows(3), constant)
                self.assertEqual(set(seen), {repr(constant)})
        self.assertEqual(self.counts(), (len(constants) - 1, 2 * len(constants)))  # one nan

    def test_modes_types_and_keys_are_others(self):
        state = {"key": 1}
        step = self.made(lambda x: [x * 2], key=lambda: state["key"])

        def all_ways():
            x = rows(3)
            yield step(x)
            yield step(x.half())
            with torch.no_grad():
                yield step(x)
            with torch.inference_mode():
                yield step(x)
                yield step(rows(3))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                yield step(x)
            with torch.autocast("cpu", dtype=torch.float16):
                yield step(x)
            state["key"] += 1

        for _ in range(2):
            for found in all_ways():
                self.assertTrue(torch.equal(found[0], (rows(3) * 2).to(found[0].dtype)))
        self.assertEqual(self.counts(), (12, 14))

    def test_arguments_go_where_they_went(self):
        step = self.made(lambda x, y=3, /, z=4, *, w=5: [x + (10 * y + 100 * z + 1000 * w)])
        x = rows(3)
        for args, named, wanted in (
            ((x,), {}, 5430), ((x, 1), {}, 5410), ((x,), {"w": 1}, 1430), ((x, 3, 4), {"w": 5}, 5430),
            ((x,), {"w": 2, "z": 1}, 2130), ((x,), {"z": 1, "w": 2}, 2130), ((x, 3, 2), {"w": 1}, 1230),
        ):  # fmt: skip
            for _ in range(2):
                self.assertTrue(torch.equal(step(*args, **named)[0], x + wanted), (args, named))
        self.assertEqual(self.counts()[0], 5)
        plain = self.made(lambda x, y: [x * y])
        self.assertTrue(torch.equal(plain(y=2, x=x)[0], plain(x, 2)[0]))
        for args, named, text in (
            ((), {}, "missing a required argument: 'x'"),
            ((x, 1, 2), {}, "too many positional arguments"),
            ((x,), {"x": x, "y": 1}, "multiple values for argument 'x'"),
            ((x, 2), {"odd": 1}, "got an unexpected keyword argument 'odd'"),
        ):
            for _ in range(2):
                self.assertEqual(refusal(plain, *args, **named), (TypeError, text))

    def test_what_is_refused_is_refused_when_others_have_passed(self):
        step = self.made(lambda x, y: [x * 1])
        x = rows(3)
        step(x, x), step(x, 1)
        grown = rows(3).requires_grad_()
        with torch.no_grad():
            step(grown, x)  # which is no other call
        self.assertEqual(self.counts()[0], 3)
        for y, text in (
            (grown, "y requires grad, which ends at a region; detach it, and let the function have its own "
             "backward"),
            ([x], "y is a list; a region_of function takes tensors, numbers, str and None"),
            (x[:2], "y has 2 rows in dimension 0, x has 3; name it in fixed if it is not to be padded"),
            (x.to("meta"), "y is on meta, the engine on cpu"),
        ):  # fmt: skip
            for _ in range(2):
                self.assertEqual(refusal(step, x, y), (steergraph.InvalidError, text))

    def test_a_result_is_its_callers_own(self):
        for clone in (True, False):
            step = self.made(lambda x: [x * 2, x.sum(0)], clone=clone)
            first = step(rows(4))
            for result in first:
                result.requires_grad_()
            second = step(rows(4, 2))
            self.assertTrue(torch.equal(second[0], rows(4, 2) * 2))
            self.assertEqual([result.requires_grad for result in second], [False, False])
            self.assertEqual(torch.equal(first[0], rows(4) * 2), clone)

    def test_a_stream_that_captures_has_the_function_itself(self):
        step = self.made(lambda x: [x * 2])
        step(rows(3))
        self.capture.going = graph = Graph(self.capture)
        step(rows(3))
        self.capture.going = None
        self.assertEqual((len(graph.work), self.counts()), (1, (1, 1)))
        region = self.engine.region("step", warmup=0)
        region.run(lambda: 1)
        self.capture.going = Graph(self.capture)
        regions = self.engine.its_regions()
        regions._replay, replay = lambda *_: steergraph.CapturingError.status, regions._replay
        self.assertEqual(region.run(lambda: 2), 2)
        with region as going:
            self.assertTrue(going)
        self.assertEqual(refusal(region.replay)[0], steergraph.CapturingError)
        regions._replay = replay
        self.capture.going = None
        self.assertEqual(region.run(lambda: 2), 1)


class Remembered(Case):
    def test_what_is_remembered_has_an_end(self):
        for module, name in ((region_of, "_KNOWN"), (_rooms, "_SIZES")):
            self.addCleanup(setattr, module, name, getattr(module, name))
            setattr(module, name, 3)
        step, sizes = self.made(lambda x: [x * 2], (16,)), random.Random(1)
        for i in range(80):
            x = rows(sizes.randint(1, 16), i + 1)
            self.assertTrue(torch.equal(step(x)[0], x * 2))
            self.assertLessEqual(len(step._known), 3)
        (record,) = self.engine.its_regions()._tokens.values()
        self.assertLessEqual(max(len(record.kept._rest), len(record.kept._cuts)), 3)

    def test_signatures_have_an_end(self):
        self.addCleanup(setattr, region_of, "_TEXTS", region_of._TEXTS)
        region_of._TEXTS = 3
        step, regions = self.made(lambda x, by: [x * by]), self.engine.its_regions()
        for i in range(2, 20):
            for by in (1, i):  # the one comes again and again, and stays
                x = rows(3, i)
                self.assertTrue(torch.equal(step(x, by)[0], x * by))
            self.assertLessEqual(len(step._texts), 3)
            self.assertLessEqual(len(regions._records), 3)
            self.assertLessEqual(len(regions._tokens), 3)
        self.assertEqual(self.counts()[0], 19)
        step.forget()
        self.assertEqual(regions._records, {})

    def test_what_was_evicted_is_captured_anew_and_has_results_of_its_own(self):
        self.engine.close()
        self.opened(max_plans=1)
        step, other = self.made(lambda x: [x * 2]), self.made(lambda x: [x * 3])
        for elsewhere in (False, True) * 3:  # another device: then the record is looked at first
            x = rows(3)
            self.assertTrue(torch.equal(step(x)[0], x * 2))
            self.assertTrue(torch.equal(other(x)[0], x * 3))
            self.capture.elsewhere = elsewhere
            x = rows(3, 2)
            self.assertTrue(torch.equal(step(x)[0], x * 2))
            self.capture.elsewhere = False
        self.assertEqual(self.counts(), (13, 18))

    def test_what_was_forgotten_is_captured_anew(self):
        state = [2]
        step = self.made(lambda x, more=1: [x * state[0]])
        x = rows(3)
        for state[0] in (2, 5):
            self.assertTrue(torch.equal(step(x)[0], x * state[0]))
            step.forget()
        self.assertEqual(self.counts(), (2, 2))


class Here(unittest.TestCase):
    def test_a_stream_is_said_where_it_and_its_device_are_current(self):
        class Stream:
            cuda_stream = 0x70

        for name, answer in (("_device", lambda: 1), ("_stream", lambda index: 0x70 + index - 1)):
            self.addCleanup(setattr, _capture, name, getattr(_capture, name))
            setattr(_capture, name, answer)
        self.assertEqual(_capture.here(1, None), 0x70)
        self.assertEqual(_capture.here(1, Stream()), 0x70)
        self.assertIsNone(_capture.here(0, None))
        Stream.cuda_stream = 0x71
        self.assertIsNone(_capture.here(1, Stream()))


tap.main()
