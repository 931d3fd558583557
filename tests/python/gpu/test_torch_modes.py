"""What torch does around an op: autograd, version counters, inference, modes that watch, trace or
only pretend, and compilers that meet gradients."""
import gc
import importlib
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_op
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch_support import DEVICE, refusal, steergraph, unit_vectors

HIDDEN, ROWS = 64, 4
NO_GRADIENT = (steergraph.InvalidError, "steering has no gradient: use torch.no_grad()")


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.seen.append(str(function))
        return function(*arguments, **(named or {}))


class Modes(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)
        self.table = steergraph.Steering(self.engine, HIDDEN, layers=2, dtype="f32")
        (v,) = unit_vectors(1, HIDDEN, torch.float32)
        self.added = 2 * v.to(DEVICE)
        self.table.set(0, {0: [steergraph.op("add", v, scale=2.0)]})
        self.frame = self.table.frame()
        self.frame.step([0] * ROWS)

    def zeros(self):
        return torch.zeros(ROWS, HIDDEN, device=DEVICE)

    def steered(self, rows):
        return torch.equal(rows, self.added.expand(ROWS, HIDDEN))

    def test_writes_are_counted(self):
        rows = self.zeros()
        before = rows._version
        torch_op.apply_(self.frame, 0, rows)
        self.assertGreater(rows._version, before)
        before = rows._version
        torch_op.apply_(self.frame, 0, rows[:])  # a view, of which the base hears
        self.assertGreater(rows._version, before)
        before = rows._version
        torch_op.apply(self.frame, 0, rows)
        self.assertEqual(rows._version, before)

    def test_autograd_hears_of_a_write_to_what_it_saved(self):
        weight = torch.ones(HIDDEN, device=DEVICE, requires_grad=True)
        rows = self.zeros()
        loss = (rows * weight).sum()
        torch_op.apply_(self.frame, 0, rows)
        kind, text = refusal(loss.backward)
        self.assertIs(kind, RuntimeError)
        self.assertIn("modified by an inplace operation", text)

    def test_ops_in_place_refuse_gradients_also_by_their_own_names(self):
        rows = self.zeros().requires_grad_()
        self.assertEqual(refusal(torch_op.apply_, self.frame, 0, rows * 1), NO_GRADIENT)
        op = torch.ops.steergraph.apply_
        kind, text = refusal(op, rows * 1, None, self.frame.number, 0)
        self.assertIs(kind, steergraph.InvalidError)
        self.assertIn("use torch.no_grad()", text)
        with torch.no_grad():
            again = rows * 1
            torch_op.apply_(self.frame, 0, again)
        self.assertTrue(self.steered(again))

    def test_the_op_out_of_place_refuses_when_a_gradient_is_asked_for(self):
        rows = self.zeros().requires_grad_()
        out = torch_op.apply(self.frame, 0, rows)
        self.assertTrue(out.requires_grad)
        self.assertTrue(self.steered(out.detach()))
        self.assertEqual(refusal((out * 2).sum().backward), NO_GRADIENT)
        op = torch.ops.steergraph.apply
        self.assertEqual(refusal(op, rows, None, self.frame.number, 0), NO_GRADIENT)

    def test_compiled_functions_refuse_gradients(self):
        def model(rows):
            rows = rows * 1
            torch_op.apply_(self.frame, 0, rows)
            return rows

        def by_name(rows):
            rows = rows * 1
            torch.ops.steergraph.apply_(rows, None, self.frame.number, 0)
            return rows

        rows = self.zeros().requires_grad_()
        for function in (model, by_name):
            torch._dynamo.reset()
            _, text = refusal(torch.compile(function, backend="aot_eager"), rows)
            self.assertIn("use torch.no_grad()", text)
            torch._dynamo.reset()
            with torch.no_grad():
                compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
                self.assertTrue(self.steered(compiled(rows)))

    def test_out_of_place_a_compiled_function_with_gradients_falls_back(self):
        def model(rows):
            return torch_op.apply(self.frame, 0, rows * 1) * 2

        rows = self.zeros().requires_grad_()
        torch._dynamo.reset()
        out = torch.compile(model, backend="aot_eager")(rows)
        self.assertTrue(self.steered(out.detach() / 2))
        self.assertIn("steering has no gradient", refusal(out.sum().backward)[1])

    def test_inference_mode(self):
        with torch.inference_mode():
            rows = self.zeros()
            self.assertTrue(self.steered(torch_op.apply(self.frame, 0, rows)))
            torch_op.apply_(self.frame, 0, rows)
        self.assertTrue(self.steered(rows))

    def test_modes_that_watch_see_one_op(self):
        rows = self.zeros()
        with Watch() as watch:
            torch_op.apply_(self.frame, 0, rows)
        self.assertEqual(watch.seen, ["steergraph.apply_.default"])
        self.assertTrue(self.steered(rows))
        with Watch() as watch:
            self.assertTrue(self.steered(torch_op.apply(self.frame, 0, self.zeros())))
        self.assertIn("steergraph.apply.default", watch.seen)

    def test_tensors_that_hold_nothing_are_not_touched(self):
        with FakeTensorMode():
            rows = self.zeros()
            self.assertIs(torch_op.apply_(self.frame, 0, rows), rows)
            out = torch_op.apply(self.frame, 1, rows)
            self.assertEqual((out.shape, out.stride()), (rows.shape, rows.stride()))
        for device in ("meta",):
            rows = torch.zeros(ROWS, HIDDEN, device=device)
            torch_op.apply_(self.frame, 0, rows)
            self.assertEqual(torch_op.apply(self.frame, 0, rows).device.type, device)
        self.assertEqual(self.engine.stats()["applies"], 0)

    def test_traces_and_exports_hold_the_op(self):
        def model(rows):
            return torch_op.apply_(self.frame, 0, rows * 1)

        with torch.no_grad():
            traced = make_fx(model)(self.zeros())
            self.assertIn("steergraph.apply_.default", traced.code)
            self.assertTrue(self.steered(traced(self.zeros())))

            class Module(torch.nn.Module):
                def forward(self, rows):
                    return model(rows)

            program = torch.export.export(Module(), (self.zeros(),))
            self.assertIn("steergraph.apply_.default", program.graph_module.code)
            self.assertTrue(self.steered(program.module()(self.zeros())))

    def test_a_function_that_breaks_its_graph_still_steers(self):
        def model(rows):
            rows = rows * 1
            torch._dynamo.graph_break()
            torch.ops.steergraph.apply_(rows, None, self.frame.number, 0)
            self.assertTrue(rows.shape)
            return rows

        torch._dynamo.reset()
        with torch.no_grad():
            compiled = torch.compile(model, backend="aot_eager")
            for _ in range(3):
                self.assertTrue(self.steered(compiled(self.zeros())))

    def test_layouts_that_were_taken_before_are_still_told_apart(self):
        rows = self.zeros()
        self.frame.apply(0, rows)
        wanted = rows.requires_grad_()
        kind, text = refusal(self.frame.apply, 0, wanted)
        self.assertEqual(
            text, "hidden requires grad, and steering has none: use torch.no_grad()"
        )
        with torch.no_grad():
            self.frame.apply(0, wanted)
        negated = torch._neg_view(self.zeros())
        kind, text = refusal(self.frame.apply, 0, negated)
        self.assertEqual(text, "hidden is a negated view of its memory: use resolve_neg()")
        for other, said in (
            (self.zeros().half(), "hidden is f16, the table takes f32"),
            (self.zeros().int(), "hidden is torch.int32; give bfloat16, float16 or float32"),
            (self.zeros()[:3], "hidden has 3 rows, the frame's step has 4"),
        ):
            for _ in range(2):
                self.assertEqual(refusal(self.frame.apply, 0, other)[1], said)

    def test_a_reload_keeps_the_ops(self):
        importlib.reload(torch_op)
        gc.collect()
        self.assertTrue(self.steered(torch_op.apply_(self.frame, 0, self.zeros())))
        self.assertTrue(self.steered(torch_op.apply(self.frame, 0, self.zeros())))
        with FakeTensorMode():
            self.assertEqual(torch_op.apply(self.frame, 0, self.zeros()).shape, (ROWS, HIDDEN))

    @unittest.skipIf(support.ON_CPU, "needs streams")
    def test_applies_go_on_the_current_stream(self):
        rows = self.zeros()
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            rows.add_(1)
            self.frame.step([0] * ROWS)
            torch_op.apply_(self.frame, 0, rows)  # behind the sum, or lost under it
            rows.mul_(2)
        side.synchronize()
        self.assertTrue(torch.allclose(rows, 2 * (1 + self.added).expand(ROWS, HIDDEN)))


tap.main()
