"""Regions with torch: functions padded to buckets; captured once, replayed, evicted, and done as they are
where torch cannot capture them."""
import collections
import gc
import random
import threading
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_components
from torch_support import DEVICE, ON_CPU, refusal, rows_of, steergraph

WIDTH = 32
BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
Pair = collections.namedtuple("Pair", "twice total")


class Case(unittest.TestCase):
    def setUp(self):
        self.said = []
        self.engine = self.opened()
        self.addCleanup(self.engine.close)

    def opened(self, **options):
        return steergraph.Engine(
            DEVICE.type, log=lambda *line: self.said.append(line), log_level="warn", **options
        )

    def regions_said(self):
        return [line for _, line in self.said if line.startswith("region ")]


def rows(count, seed=1):
    return rows_of(count, WIDTH, dtype=torch.float32, seed=seed)


class Functions(Case):
    """On the CPU as on a device: there they are captured after a call or two."""

    def test_results_are_those_of_the_rows_alone(self):
        weight = rows(WIDTH)
        shapes = []

        @self.engine.region_of((4, 8), warmup=1)
        def step(x, scale, /, *, mask):
            shapes.append(x.shape[0])
            return Pair(x * scale, [(x @ weight * mask).sum(-1), {"none": None, "word": "w"}])

        for size in (3, 4, 8, 5, 3, 1, 7, 8, 2, 19, 20, 0):
            x = rows(size, seed=size + 1)
            mask = (torch.arange(size, device=DEVICE) % 2 == 0).reshape(size, 1)
            found = step(x, 2.0, mask=mask)
            self.assertIsInstance(found, Pair)
            self.assertTrue(torch.equal(found.twice, x * 2.0))
            total, others = found.total
            wanted = (x @ weight * mask).sum(-1)
            self.assertTrue(torch.allclose(total, wanted, rtol=1e-4, atol=1e-3))
            self.assertEqual((total.shape, others), (wanted.shape, {"none": None, "word": "w"}))
        self.assertLessEqual(set(shapes), {0, 4, 8})

    def test_another_dimension_and_fixed_tensors(self):
        @self.engine.region_of((6,), dim=1, fixed="bias", warmup=0)
        def step(x, bias):
            return x + bias, bias * 2

        bias = torch.arange(3.0, device=DEVICE).reshape(3, 1)
        for size in (5, 2, 6):
            x = torch.ones(3, size, device=DEVICE)
            total, twice = step(x, bias)
            self.assertTrue(torch.equal(total, x + bias))
            self.assertTrue(torch.equal(twice, bias * 2))
            bias = bias + 1  # another tensor each time

    def test_rows_that_are_padded_are_zeros_each_time(self):
        @self.engine.region_of((8,), warmup=0)
        def step(x):
            return x - x.sum(0)

        bad = rows(8)
        bad[5:] = float("nan")
        step(bad)
        x = rows(5)
        self.assertTrue(torch.allclose(step(x), x - x.sum(0), atol=1e-5))

    def test_constants_modes_and_keys_are_part_of_the_signature(self):
        state = {"version": 1}

        @self.engine.region_of((4,), key=lambda: state["version"], warmup=0)
        def step(x, power):
            return x**power + state["version"]

        x = rows(3).abs()
        with torch.no_grad():
            for power, version in ((1, 1), (2, 1), (2, 2), (1, 1), (2, 2)):
                state["version"] = version
                self.assertTrue(torch.allclose(step(x, power), x**power + version))
        self.assertEqual(self.engine.stats()["plans_live"], 3)
        step(x, 1)
        with torch.inference_mode():
            step(x, 1)
        step(x, "word " * 0 or 1)
        self.assertEqual(self.engine.stats()["plans_live"], 5)

    def test_two_functions_of_one_name_are_two(self):
        def made(plus):
            @self.engine.region_of((4,), warmup=0)
            def step(x):
                return x + plus

            return step

        x, both = rows(3), [made(1), made(2)]
        for _ in range(3):
            for plus, step in enumerate(both, 1):
                self.assertTrue(torch.equal(step(x), x + plus))
        self.assertEqual(self.engine.stats()["plans_live"], 2)
        named = self.engine.region_of((4,), signature="mine")
        named(lambda x: x)
        wanted = steergraph.InvalidError, "signature 'mine' is another function's"
        self.assertEqual(refusal(named, lambda x: x), wanted)

    def test_the_longest_name_has_room_for_arguments(self):
        made = self.engine.region_of((4,), signature="a" * 320)(lambda x, word: x + len(word))
        for length in (120, 400):  # as it is, and as a digest
            self.assertTrue(torch.equal(made(rows(3), "b" * length), rows(3) + length))

    def test_refuses_what_it_cannot_copy_cut_or_join(self):
        def step(x, w=None, odd=None):
            return {"x": x, "w": w, "odd": x.sum(0), "bad": {1} if odd else None}["odd" if odd is None else odd]

        made = self.engine.region_of((4, 8), warmup=0, signature="step")(step)
        x, short = rows(5), rows(3)
        cases = (
            ((x, [x]), "w is a list; a region_of function takes tensors, numbers, str and None"),
            ((x, short), "w has 3 rows in dimension 0, x has 5; name it in fixed if it is not to be padded"),
            ((x, torch.tensor(1.0, device=DEVICE)),
             "w has 0 dimensions, and is padded in dimension 0; name it in fixed if it is not to be"),
            ((3,), "step is given no tensor that is padded"),
            ((x.clone().requires_grad_(),),
             "x requires grad, which ends at a region; detach it, and let the function have its own "
             "backward"),
            ((rows(9),), "step has a result of shape [32], without rows, of which that of 9 rows in pieces "
             "cannot be made; give a larger bucket"),
            ((x, None, "bad"), "a region_of function returns a set, not tensors, numbers, str and None in "
             "tuples, lists and dicts"),
        )  # fmt: skip
        for args, text in cases:
            with self.subTest(text):
                self.assertEqual(refusal(made, *args), (steergraph.InvalidError, text))
        weight = rows(WIDTH).requires_grad_()
        grown = self.engine.region_of((8,), signature="grown", warmup=0)(lambda x: x @ weight)
        text = (
            "region grown returns a tensor that requires grad, which ends at a region; detach it, and let "
            "the function have its own backward"
        )
        self.assertEqual(refusal(grown, x), (steergraph.InvalidError, text))
        if not ON_CPU:
            text = "x is on cpu, the engine on cuda:0"
            self.assertEqual(refusal(made, x.cpu()), (steergraph.InvalidError, text))

    def test_refuses_declarations(self):
        cases = (
            ({"fixed": "w"}, lambda x: x, "fixed names 'w', which {} does not take"),
            ({}, lambda *x: x, "{} takes any arguments; name those that it takes"),
            ({"buckets": (4, 2)}, lambda x: x, "stg_region_bucket: sizes[1] is 2, which is not above 4"),
            ({"dim": -1}, lambda x: x, "dim is -1, not in 0..2147483647"),
            ({"signature": "a|b"}, lambda x: x, "signature is 'a|b'; write 1 to 512 printable ASCII "
             "characters without '|'"),
            ({"signature": "a" * 321}, lambda x: x, "signature has 321 characters; write 320 at most, since "
             "what a call is given stands behind it"),
        )  # fmt: skip
        for named, function, text in cases:
            with self.subTest(text):
                wanted = text.format(function.__qualname__)
                error = refusal(self.engine.region_of(**named), function)
                self.assertEqual(error, (steergraph.InvalidError, wanted))

    def test_a_function_that_nobody_has_is_forgotten(self):
        @self.engine.region_of((4,), warmup=0)
        def step(x):
            return x + 1

        step(rows(3))
        step.forget()
        self.assertEqual(self.engine.stats()["plans_live"], 0)
        step(rows(3))
        del step
        gc.collect()
        self.engine.its_regions().drain()
        self.assertEqual(self.engine.stats()["plans_live"], 0)


@unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
class Captures(Case):
    def counts(self):
        stats = self.engine.stats()
        return tuple(stats[f"region{name}"] for name in ("s_recorded", "_replays", "_failures"))

    def test_a_thousand_random_batch_sizes_give_at_most_a_record_for_each_bucket(self):
        weight = rows(WIDTH)

        @self.engine.region_of(BUCKETS)
        def step(x):
            return torch.relu(x @ weight)

        seen, kept = random.Random(1), []
        data = rows(BUCKETS[-1])
        for i in range(1000):
            first = seen.randint(0, BUCKETS[-1] - 1)
            x = data[first : seen.randint(first + 1, BUCKETS[-1])]
            kept.append((x, step(x)))
            if len(kept) > 20:  # results of before stay as they were
                x, y = kept.pop(0)
                self.assertTrue(torch.allclose(y, torch.relu(x @ weight), rtol=1e-4, atol=1e-3), i)
        recorded, replays, failures = self.counts()
        self.assertEqual((recorded, failures), (len(BUCKETS), 0))
        self.assertEqual(replays, 1000 - 3 * len(BUCKETS))
        self.assertGreater(self.engine.stats()["region_bytes"], 0)
        self.assertEqual(self.regions_said(), [])

    def test_without_copies_a_result_is_the_graphs(self):
        step = self.engine.region_of((4,), clone=False, warmup=0)(lambda x: x * 2)
        first, second = step(rows(4, seed=1)), step(rows(4, seed=2))
        self.assertEqual(first.data_ptr(), second.data_ptr())
        self.assertTrue(torch.equal(first, rows(4, seed=2) * 2))

    def test_each_call_does_the_work_once(self):
        count, region = torch.zeros((), device=DEVICE), self.engine.region("count")
        for i in range(1, 8):
            region.run(lambda: count.add_(1))
            self.assertEqual(count.item(), i)
        for i in range(8, 15):
            with self.engine.region("count too") as going:
                if going:
                    count.add_(1)
            self.assertEqual(count.item(), i)
        third = self.engine.region("count three")
        with third.record() as going:
            self.assertTrue(going)
            count.add_(1)
        self.assertEqual(count.item(), 14)
        third.replay()
        self.assertEqual(count.item(), 15)
        self.assertEqual(self.counts(), (3, 9, 0))

    def test_streams_have_records_of_their_own(self):
        step = self.engine.region_of((4,), warmup=0)(lambda x: x + 1)
        streams = [torch.cuda.Stream() for _ in range(2)]
        for i in range(6):
            with torch.cuda.stream(streams[i % 2]):
                x = rows(3, seed=i + 1)
                y = step(x)
            streams[i % 2].synchronize()
            self.assertTrue(torch.equal(y, x + 1))
        self.assertEqual(self.counts(), (2, 6, 0))
        count = torch.zeros((), device=DEVICE)
        streams[1].wait_stream(torch.cuda.current_stream())
        region = self.engine.region("given", streams[1], warmup=0)
        region.run(lambda: count.add_(1))
        region.run(lambda: count.add_(1))
        self.assertTrue(region.recorded)
        self.assertFalse(self.engine.region("given").recorded)
        streams[1].synchronize()
        self.assertEqual(count.item(), 2)

    def test_records_beyond_the_limit_are_freed(self):
        self.engine.close()
        self.engine = self.opened(max_plans=2)
        self.addCleanup(self.engine.close)
        step = self.engine.region_of((1, 2, 4, 8), warmup=0)(lambda x: x * 3)
        for i in range(24):
            x = rows((1, 2, 4, 8)[i % 4], seed=i + 1)
            self.assertTrue(torch.equal(step(x), x * 3))
        self.assertEqual(self.counts(), (24, 24, 0))
        torch.cuda.synchronize()
        self.engine.its_regions().drain()
        self.assertEqual(self.engine.stats()["plans_live"], 2)
        self.assertLessEqual(len(self.engine.its_regions()._tokens), 2)

    def test_what_torch_cannot_capture_is_done_each_time(self):
        @self.engine.region_of((4,), warmup=0, signature="odd")
        def step(x):
            return x * x.sum().item()  # waits for the device

        for i in range(3):
            x = rows(3, seed=i + 1)
            self.assertTrue(torch.allclose(step(x), x * x.sum().item()))
        self.assertEqual(self.counts(), (0, 0, 1))
        (line,) = self.regions_said()
        self.assertIn("region 'odd x=float32[*,32] grad' is not recorded", line)
        torch.randn(3, device=DEVICE)  # the stream and the generator are as before
        other = self.engine.region_of((4,), warmup=0)(lambda x: x + torch.rand_like(x))
        self.assertFalse(torch.equal(other(x), other(x)))
        self.assertEqual(self.counts(), (1, 2, 1))

    def test_random_numbers_differ_between_replays(self):
        step = self.engine.region_of((4,))(lambda x: torch.nn.functional.dropout(x, 0.5))
        found = [step(torch.ones(4, 512, device=DEVICE)) for _ in range(8)]
        for i, one in enumerate(found):
            self.assertTrue(all(not torch.equal(one, other) for other in found[:i]))

    def test_a_capture_of_the_host_has_the_work_itself(self):
        stream = torch.cuda.Stream()
        known = self.engine.region_of((4,), warmup=0)(lambda x: x - 1)
        step = self.engine.region_of((4,), warmup=0)(lambda x: x + 1)
        x, count, graph = rows(3), torch.zeros((), device=DEVICE), torch.cuda.CUDAGraph()
        region = self.engine.region("known", warmup=0)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            known(x)
            region.run(lambda: count.add_(1))
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            y, z = step(x), known(x)
            region.run(lambda: count.add_(1))
            with region as going:
                self.assertTrue(going)
            with self.engine.region("inner") as going:
                self.assertTrue(going)
        x.add_(1)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(y, x + 1) and torch.equal(z, x - 1))
        self.assertEqual(count.item(), 2)
        self.assertEqual(self.counts(), (2, 2, 0))

    def test_threads_run_a_function_on_streams_of_their_own(self):
        step = self.engine.region_of((4, 8))(lambda x: torch.tanh(x) * 2)
        wrong = []

        def work(number):
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for i in range(60):
                        x = rows(1 + (number + i) % 8, seed=number * 100 + i)
                        if not torch.equal(step(x), torch.tanh(x) * 2):
                            wrong.append((number, i))
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.counts()[2], 0)


@unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
class Training(Case):
    """A step of training as a region: forward, backward and optimizer, with components of ours."""

    def step_of(self, made, seed):
        random_ = torch.Generator(device=DEVICE).manual_seed(seed)

        def parameter(*shape):
            values = torch.randn(*shape, generator=random_, device=DEVICE) / 8
            return values.bfloat16().requires_grad_()

        v, u, w = parameter(WIDTH, 40), parameter(40, WIDTH), parameter(WIDTH, 1)
        mask = torch.ones(40, device=DEVICE, dtype=torch.bfloat16)
        optimizer = torch.optim.AdamW([v, u, w], lr=1e-3, capturable=True)

        def step(x, weight):
            optimizer.zero_grad(set_to_none=True)
            hidden = torch_components.components(made, x, v, u, mask)
            loss = ((torch.relu(hidden) @ w).float() * weight).pow(2).sum() / weight.sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def test_losses_are_those_of_steps_that_are_not_captured(self):
        made = steergraph.Components(self.engine, WIDTH, WIDTH, 40, torch.bfloat16)
        eager = self.step_of(made, seed=1)
        ours = self.engine.region_of((8, 16))(self.step_of(made, seed=1))
        for i in range(24):
            x = rows((16, 12, 8)[i % 3], seed=i + 1).bfloat16()
            weight = torch.ones(len(x), 1, device=DEVICE)
            # sums over as many rows: an optimizer makes much of a gradient's last bits
            more = steergraph.region_bucket(len(x), (8, 16)) - len(x)
            wanted = eager(*(torch.nn.functional.pad(t, (0, 0, 0, more)) for t in (x, weight)))
            found = ours(x, weight)
            self.assertTrue(torch.allclose(found, wanted, rtol=1e-2), (i, found, wanted))
        self.assertEqual(self.engine.stats()["regions_recorded"], 2)
        self.assertEqual(self.regions_said(), [])
        self.engine.close()  # the graphs go before the components that they use
        self.assertTrue(made.closed)


tap.main()
