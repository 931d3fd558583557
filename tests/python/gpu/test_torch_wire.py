"""The request form of serving systems with tensors of torch, against a loop in float64."""
import array
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from torch_support import DEVICE, DTYPES, chain, rows_of, steergraph, unit_vectors

HIDDEN = 128


def wanted_of(spec):
    items = []
    for kind, v, params in spec:
        if kind == "add":
            items.append(("add", [v.cpu()], {}))
        elif kind == "cap":
            items.append(("projection_cap", [v.cpu()], dict(zip(("min", "max"), params))))
        else:
            items.append(("ablation", [v.cpu()], {"scale": params}))
    return chain(*items)[1]


class Wire(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def specs(self, dtype):
        vectors = [v.to(DEVICE) for v in unit_vectors(4, HIDDEN, dtype)]
        a, b, c, d = vectors
        return vectors, [5, 2, 1, 4], [
            [("add", 3 * a, None)],
            None,
            [("cap", b, (-0.25, 0.25)), ("ablation", c, 0.0)],
            [("ablation", d, -1.0), ("cap", a, (-0.5, 0.0))],
        ]

    def check(self, before, after, lengths, specs):
        start = 0
        for length, spec in zip(lengths, specs):
            part = slice(start, start + length)
            start += length
            if spec is None:
                self.assertTrue(torch.equal(after[part], before[part]))
            else:
                self.assertLessEqual(support.worst(before[part], after[part], wanted_of(spec)), 1)
        self.assertTrue(torch.equal(after[start:], before[start:]))

    def test_a_mixture_in_every_type_and_in_inference_mode(self):
        for dtype in DTYPES:
            for mode in (torch.no_grad, torch.inference_mode):
                with self.subTest(dtype=dtype, mode=mode), mode():
                    _, lengths, specs = self.specs(dtype)
                    before = rows_of(sum(lengths) + 3, HIDDEN, dtype=dtype)
                    after = before.clone()
                    found = steergraph.apply_per_request_steering(
                        after, lengths, specs, engine=self.engine
                    )
                    self.assertIs(found, after)
                    self.check(before, after, lengths, specs)

    def test_a_pair(self):
        _, lengths, specs = self.specs(torch.float32)
        delta, residual = (
            rows_of(sum(lengths), HIDDEN, dtype=torch.float32, seed=s) for s in (1, 2)
        )
        total, kept = delta + residual, residual.clone()
        found = steergraph.apply_per_request_steering(
            (delta, residual), lengths, specs, engine=self.engine
        )
        self.assertIs(found[0], delta)
        self.assertTrue(torch.equal(residual, kept))
        start = 0
        for length, spec in zip(lengths, specs):
            part = slice(start, start + length)
            start += length
            if spec is not None:
                ops = wanted_of(spec)
                self.assertLessEqual(support.worst(total[part], (delta + residual)[part], ops), 4)

    def test_vectors_on_the_host_are_read_in_every_call(self):
        rows = torch.zeros(1, HIDDEN, dtype=torch.float32, device=DEVICE)
        wire = steergraph.Wire(self.engine)
        memory = array.array("f", [0.0] * HIDDEN)
        parameter = torch.nn.Parameter(torch.zeros(HIDDEN))
        for vector, write in (
            (torch.frombuffer(memory, dtype=torch.float32), memory.__setitem__),
            (parameter, parameter.data.__setitem__),
        ):
            for value in (1, 7):
                write(2, value)
                wire.apply(rows.zero_(), [1], [[("add", vector, None)]])
                self.assertEqual(rows[0, 2].item(), value)

    def test_views_that_negate_and_parameters_of_no_dimension(self):
        rows = torch.zeros(1, HIDDEN, dtype=torch.float32, device=DEVICE)
        data = torch.zeros(HIDDEN)
        data[2] = 1
        wire = steergraph.Wire(self.engine)
        held = self.engine.vector(data)
        for vector in (torch._neg_view(data), torch._neg_view(data.to(DEVICE))):
            wire.apply(rows.zero_(), [1], [[("add", vector, torch.tensor(3.0))]])
            self.assertEqual(rows[0, 2].item(), -3)
        scale = torch.tensor(3.0)
        for value in (3, 4):
            scale.fill_(value)
            wire.apply(rows.zero_(), [1], [[("add", held, scale)]])
            self.assertEqual(rows[0, 2].item(), value)
        found = support.refusal(wire.apply, torch._neg_view(rows), [1], [[("add", held, None)]])
        self.assertEqual(
            found,
            (
                steergraph.InvalidError,
                "hidden is a negated view of its memory: use resolve_neg()",
            ),
        )

    def test_vectors_are_read_once_and_again_when_they_change(self):
        vector = torch.zeros(HIDDEN, dtype=torch.float32, device=DEVICE)
        vector[3] = 1
        wire = steergraph.Wire(self.engine)
        rows = torch.zeros(1, HIDDEN, dtype=torch.float32, device=DEVICE)
        for _ in range(3):
            wire.apply(rows, [1], [[("add", vector, None)]])
        self.assertEqual(rows[0, 3].item(), 3)
        if not support.ON_CPU:
            self.assertEqual(self.engine.stats()["vector_intern_hits"], 0)
        vector[4] = 1
        wire.apply(rows, [1], [[("add", vector, None)]])
        self.assertEqual(rows[0, 3:5].tolist(), [4, 1])
        del vector
        wire.close()
        self.assertEqual(self.engine.stats()["vectors_live"], 0)

    def test_the_function_opens_an_engine_for_the_device(self):
        _, lengths, specs = self.specs(torch.bfloat16)
        before = rows_of(sum(lengths), HIDDEN, dtype=torch.bfloat16)
        after = before.clone()
        steergraph.apply_per_request_steering(after, lengths, specs)
        self.check(before, after, lengths, specs)


tap.main()
