"""The op of torch for components: against float64, with all gradients, compiled and captured."""
import gc
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_components
from torch_support import DEVICE, ON_CPU, closed_late, refusal, rows_of, steergraph

D_IN, D_OUT, C = 24, 17, 40
DTYPES = support.DTYPES
DTYPE = DTYPES[-1]
NAMES = ("x", "v", "u", "mask", "bias", "d", "delta")


def formula(x, v, u, mask=None, bias=None, d=None, delta=None):
    t = x @ v
    y = (t if mask is None else t * mask) @ u
    if bias is not None:
        y = y + bias
    return y if d is None else y + d.reshape(*x.shape[:-1], 1) * (x @ delta.T)


def derived(inputs, dy, change):
    """[y, gradient of each input that has one], by torch, in float64, of changed values."""
    wide = {
        name: t if t.dtype is torch.bool else change(t.detach().double()).requires_grad_()
        for name, t in inputs.items()
    }
    y = formula(**wide)
    y.backward(change(dy.double()))
    return [y.detach()] + [t.grad for t in wide.values() if t.dtype is not torch.bool]


TF32 = 3 * 2.0**-11  # of a product whose two operands are rounded to it, and of its sum


def worst(found, inputs, dy, operand=None):
    """The largest error of y and of each gradient in units of its bound. All is sums of products,
    whose errors are relative to the same sums of absolute values: sums of float32, which may round
    down, and one operand that is rounded to the tensors' type, or by `operand`."""
    wanted, size = (derived(inputs, dy, change) for change in (torch.clone, torch.abs))
    unit, smallest = support.UNIT_ROUNDOFF[dy.dtype], support.SMALLEST[dy.dtype]
    rows = inputs["x"].numel() // D_IN
    relative = (D_IN + D_OUT + C + rows + 16) * 2.0**-22 + (operand or unit)
    errors = []
    for got, right, sums in zip(found, wanted, size):
        assert got.shape == right.shape, (got.shape, right.shape)
        bound = relative * sums + unit * right.abs() + (rows + C) * 8 * smallest
        errors.append(((got.double() - right).abs() / bound).max().item())
    return errors


class Case(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def made(self, dtype=DTYPE, **declared):
        return steergraph.Components(self.engine, D_IN, D_OUT, C, dtype, **declared)

    def inputs(self, lead, dtype=DTYPE, mask=None, names=("x", "v", "u", "mask")):
        shapes = {"x": (*lead, D_IN), "v": (D_IN, C), "u": (C, D_OUT), "mask": mask or (*lead, C)}
        shapes.update(bias=(D_OUT,), d=lead, delta=(D_OUT, D_IN))
        return {
            name: rows_of(*shapes[name], dtype=dtype, seed=7 + NAMES.index(name)).requires_grad_()
            for name in names
        }

    def holds(self, made, inputs, seed=3, operand=None):
        """y and all gradients within their bounds."""
        y = torch_components.components(made, **inputs)
        dy = rows_of(*y.shape, dtype=y.dtype, seed=seed)
        y.backward(dy)
        grads = [t.grad for t in inputs.values() if t.dtype is not torch.bool]
        for t, grad in zip(inputs.values(), grads):
            self.assertEqual((grad.shape, grad.dtype), (t.shape, t.dtype))
        self.assertLessEqual(max(worst([y.detach()] + grads, inputs, dy, operand)), 1)


class Values(Case):
    def test_all_gradients_in_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                made = self.made(dtype, bias=True, delta=True)
                self.holds(made, self.inputs((3, 50), dtype, names=NAMES))

    def test_all_gradients_in_tf32(self):
        made = self.made(torch.float32, math="tf32", bias=True, delta=True)
        self.holds(made, self.inputs((3, 50), torch.float32, names=NAMES), operand=2 * TF32)

    def test_many_rows(self):
        self.holds(self.made(), self.inputs((2, 300)))

    def test_masks_that_broadcast(self):
        made = self.made()
        as_they_are = (4, 6, C), (4, 1, C), (1, 1, C), (C,)
        for shape in (*as_they_are, (1, 6, C), (6, C), (4, 6, 1), (6, 1), (1,)):
            with self.subTest(shape):
                self.holds(made, self.inputs((4, 6), mask=shape))

    def test_a_mask_that_was_expanded(self):
        inputs = self.inputs((4, 6), mask=(4, 1, C))
        y = torch_components.components(self.made(), **inputs)
        inputs["mask"] = inputs["mask"].detach().expand(4, 6, C)
        self.assertTrue(torch.equal(y, torch_components.components(self.made(), **inputs)))

    def test_masks_of_bool_and_none(self):
        inputs = self.inputs((5, 6))
        inputs["mask"] = inputs["mask"] > 0
        self.holds(self.made(mask="bool"), inputs)
        self.holds(self.made(mask=None), self.inputs((5, 6), names=("x", "v", "u")))
        inputs = self.inputs((5, 6), mask=(5, 1, C))
        inputs["mask"] = inputs["mask"] > 0
        self.holds(self.made(mask="bool"), inputs)
        with torch.no_grad():
            y = torch_components.components(self.made(), **inputs)  # of elements that it is copied to
            wanted = torch_components.components(self.made(mask="bool"), **inputs)
        self.assertTrue(torch.equal(y, wanted))

    def test_a_mask_of_float32_is_rounded_and_gets_its_gradient(self):
        inputs = self.inputs((5, 6), torch.bfloat16)
        wide = inputs["mask"].detach().float().requires_grad_()
        made = self.made(torch.bfloat16)
        y = torch_components.components(made, **{**inputs, "mask": wide})
        y.sum().backward()
        other = torch_components.components(made, **inputs)
        other.sum().backward()  # of a gradient that is one element, expanded
        self.assertTrue(torch.equal(y, other))
        self.assertEqual(wide.grad.dtype, torch.float32)
        self.assertTrue(torch.equal(wide.grad, inputs["mask"].grad.float()))

    def test_some_gradients_alone(self):
        made = self.made(bias=True, delta=True)
        whole = self.inputs((7,), names=NAMES)
        torch_components.components(made, **whole).sum().backward()
        for wanted in (("x",), ("mask", "d"), ("u", "bias"), ("delta", "v")):
            with self.subTest(wanted):
                some = {n: t.detach().requires_grad_(n in wanted) for n, t in whole.items()}
                torch_components.components(made, **some).sum().backward()
                for name, t in some.items():
                    if name in wanted:
                        self.assertTrue(torch.equal(t.grad, whole[name].grad), name)
                    else:
                        self.assertIsNone(t.grad)

    def test_autograd_keeps_inputs_alone(self):
        inputs = self.inputs((64, 8), mask=(64, 1, C))
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            torch_components.components(self.made(), **inputs)
        places = sorted(t.data_ptr() for t in kept)
        self.assertEqual(places, sorted(t.data_ptr() for t in inputs.values()))

    def test_padding(self):
        valid = torch.tensor([6, 0, 3], dtype=torch.int32, device=DEVICE)
        live = torch.arange(6, device=DEVICE) < valid[:, None]
        inputs = self.inputs((3, 6))
        with torch.no_grad():
            inputs["x"][~live] = torch.nan
            inputs["mask"][~live] = torch.nan
        made = self.made()
        y = torch_components.components(made, **inputs, valid=valid)
        self.assertFalse(y[~live].any())
        dy = rows_of(*y.shape, dtype=y.dtype, seed=3)
        y.backward(dy)
        packed = {n: t.detach()[live] if t.dim() == 3 else t.detach() for n, t in inputs.items()}
        packed = {n: t.clone().requires_grad_() for n, t in packed.items()}
        found = [y.detach()[live], inputs["x"].grad[live], inputs["v"].grad, inputs["u"].grad]
        found.append(inputs["mask"].grad[live])
        self.assertFalse(inputs["x"].grad[~live].any() or inputs["mask"].grad[~live].any())
        self.assertLessEqual(max(worst(found, packed, dy[live])), 1)

    def test_no_rows(self):
        inputs = self.inputs((0, 6), mask=(C,))
        torch_components.components(self.made(), **inputs).sum().backward()
        self.assertEqual(inputs["x"].grad.shape, (0, 6, D_IN))
        for name in ("v", "u", "mask"):
            self.assertFalse(inputs[name].grad.any(), name)


class Refusals(Case):
    def test_shapes_types_and_declarations(self):
        inputs = {name: t.detach() for name, t in self.inputs((4, 6)).items()}
        made = self.made()
        x, mask, word = inputs["x"], inputs["mask"], made.dtype
        other = torch.float16 if DTYPE is not torch.float16 else torch.float32
        for change, said in (
            ({"x": x[..., :5]}, "x has shape [4, 6, 5], the components take [..., 24]"),
            (
                {"x": x.transpose(0, 1)},
                "x is not contiguous: shape (6, 4, 24) with strides (24, 144, 1) is not one run of rows",
            ),
            (
                {"x": x.to(other)},
                f"x is {steergraph.tensors.dtype_word(other)}, the components take {word}",
            ),
            (
                {"mask": mask[:3]},
                "mask has shape [3, 6, 40], the components take [4, 6, 40], or with 1 for any number of "
                "the dimensions before the last, from behind",
            ),
            ({"mask": None}, "mask is missing: the components declare it"),
            ({"bias": x[0, 0]}, "bias is given: the components do not declare it"),
            ({"u": inputs["u"].T}, "u has shape [17, 40], the components take [40, 17]"),
        ):
            with self.subTest(said):
                self.assertEqual(
                    refusal(torch_components.components, made, **{**inputs, **change}),
                    (steergraph.InvalidError, said),
                )
        if not ON_CPU:
            found = refusal(torch_components.components, made, **{**inputs, "x": x.cpu()})
            self.assertEqual(found[1], "x is on cpu, the engine runs on cuda:0")

    def test_what_has_no_gradient_says_so(self):
        forward, inputs = self.made(backward=False), self.inputs((3,))
        said = "a tensor requires grad, but the components declare no backward"
        self.assertEqual(
            refusal(torch_components.components, forward, **inputs),
            (steergraph.NotDeclaredError, said),
        )
        with torch.no_grad():
            y = torch_components.components(forward, **inputs)
        self.assertTrue(torch.equal(y, torch_components.components(self.made(), **inputs)))
        y = torch_components.components(self.made(), **inputs)
        # the object, which nobody else has, lives until the way back
        gc.collect()
        (dx,) = torch.autograd.grad(y.sum(), inputs["x"], create_graph=True)
        self.assertEqual(
            refusal(dx.sum().backward),
            (steergraph.InvalidError, "gradients of components have none of their own"),
        )

    def test_numbers_of_what_is_gone(self):
        made = self.made()
        number, inputs = made.number, {n: t.detach() for n, t in self.inputs((3,)).items()}
        del made
        gc.collect()
        rest = (None, None, None, None, number, 0)
        self.assertEqual(
            refusal(torch.ops.steergraph.components, *inputs.values(), *rest),
            (
                steergraph.ClosedError,
                f"there is no components object {number}: it has been collected",
            ),
        )


class Graphs(Case):
    def step(self, made):
        """A loss and the gradients of its inputs, around the op."""

        def work(inputs):
            y = torch_components.components(made, **inputs)
            return (y.float() * y.float()).mean()

        return work

    def test_compiled_steps_are_the_same(self):
        for mask in ((4, 1, C), (6, 1)):
            torch._dynamo.reset()
            made, outs = self.made(bias=True, delta=True), []
            for backend in (None, "aot_eager", "inductor"):
                work = self.step(made)
                if backend is not None:
                    work = torch.compile(work, fullgraph=True, backend=backend)
                inputs = self.inputs((4, 6), mask=mask, names=NAMES)
                loss = work(inputs)
                loss.backward()
                outs.append([loss.detach()] + [t.grad for t in inputs.values()])
            self.assertTrue(all(torch.isfinite(t).all() for t in outs[0]))
            for other in outs[1:]:
                for a, b in zip(outs[0], other):
                    room = 8 * support.UNIT_ROUNDOFF[DTYPE] * a.abs().max()
                    self.assertLessEqual((a - b).abs().max().item(), room.item())

    def test_one_compiled_function_for_all_sizes(self):
        torch._dynamo.reset()
        made = self.made()
        work = torch.compile(self.step(made), fullgraph=True, backend="aot_eager", dynamic=True)
        for batch, sequence in ((4, 6), (3, 7), (5, 2)):
            for mask in ((batch, 1, C), (sequence, 1)):
                found = []
                for function in (self.step(made), work):
                    inputs = self.inputs((batch, sequence), mask=mask)
                    loss = function(inputs)
                    loss.backward()
                    found.append([loss.detach()] + [t.grad for t in inputs.values()])
                for a, b in zip(*found):
                    room = 8 * support.UNIT_ROUNDOFF[DTYPE] * a.abs().max()
                    self.assertLessEqual((a - b).abs().max().item(), room.item())

    def test_the_ops_are_what_they_say(self):
        made = self.made()
        x, v, u, mask = self.inputs((5, 6)).values()
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        rest = (None, None, None, None, made.number, 0)
        op = torch.ops.steergraph.components.default
        torch.library.opcheck(op, (x, v, u, mask, *rest), test_utils=tests)
        op = torch.ops.steergraph.components_backward.default
        wanted = [True, False, True, True, False, False, False]
        dy = rows_of(5, 6, D_OUT, dtype=DTYPE)
        inputs = (dy, *(t.detach() for t in (x, v, u, mask)), None, None, None, wanted)
        torch.library.opcheck(op, (*inputs, made.number, 0), test_utils=tests)

    @unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
    def test_a_captured_step_of_training(self):
        made = self.made(bias=True, delta=True)
        static = self.inputs((4, 64), mask=(4, 1, C), names=NAMES)
        work = self.step(made)

        def run():
            loss = work(static)
            return [loss, *torch.autograd.grad(loss, list(static.values()))]

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = run()
        for turn in range(3):
            with torch.no_grad():
                for name, t in static.items():
                    t.copy_(rows_of(*t.shape, dtype=DTYPE, seed=50 * turn + NAMES.index(name)))
            graph.replay()
            replayed = [t.clone() for t in captured]
            for a, b in zip(replayed, run()):
                self.assertTrue(torch.equal(a, b), turn)
        self.assertIs(refusal(made.close)[0], steergraph.BusyError)
        torch.cuda.synchronize()
        del graph
        self.assertTrue(closed_late(made))


tap.main()
