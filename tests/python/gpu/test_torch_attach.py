"""Hooks on layers written by hand: tensors, tuples, pairs, stages, detaching, compiling, copies."""
import copy
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph.attach import attach
from torch_support import DEVICE, chain, refusal, rows_of, steergraph, unit_vectors

HIDDEN, LAYERS = 64, 3


class Layer(torch.nn.Module):
    """Doubles, and returns what the model's kind of layer returns."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, hidden, residual=None):
        hidden = hidden * 2
        if self.kind == "tensor":
            return hidden
        return (hidden, residual) if self.kind == "pair" else (hidden, "weights")


class Model(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(kind) for _ in range(LAYERS))

    def forward(self, hidden, residual=None):
        for layer in self.layers:
            out = layer(hidden, residual)
            hidden = out[0] if isinstance(out, tuple) else out
        return hidden


class Wrapped(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.model = Model(kind)

    def forward(self, *arguments):
        return self.model(*arguments)


class Attach(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def made(self, layers=LAYERS, **declared):
        table = steergraph.Steering(
            self.engine, HIDDEN, layers=layers, dtype="f32", **declared
        )
        vectors = unit_vectors(layers, HIDDEN, torch.float32)
        chains = [chain(("add", [v], {"scale": 2.0 + k})) for k, v in enumerate(vectors)]
        table.set(0, {layer: given for layer, (given, _) in enumerate(chains)})
        frame = table.frame()
        frame.step([0, -1])
        self.adds = [
            (2.0 + k) * v.double().to(DEVICE) for k, v in enumerate(vectors)
        ]
        return frame

    def expected(self, hidden, layers):
        """`layers`: {index in the model: layer of the table}."""
        hidden = hidden.double()
        for at in range(LAYERS):
            hidden = hidden * 2
            if at in layers:
                hidden[0] += self.adds[layers[at]]
        return hidden

    def check(self, found, hidden, layers):
        self.assertTrue(torch.allclose(found.double(), self.expected(hidden, layers), rtol=1e-5))

    def test_tensors_and_tuples_in_and_out_of_place(self):
        frame = self.made()
        hidden = rows_of(2, HIDDEN, dtype=torch.float32)
        for kind in ("tensor", "tuple"):
            for in_place in (True, False):
                for model in (Model(kind), Wrapped(kind)):
                    with self.subTest(kind=kind, in_place=in_place), torch.no_grad():
                        with attach(model, frame, in_place=in_place):
                            self.check(model(hidden), hidden, {k: k for k in range(LAYERS)})
                        self.assertTrue(torch.equal(model(hidden), hidden * 8))

    def test_pairs_steer_hidden_on_the_sum(self):
        frame = self.made(state="hidden+residual")
        model = Model("pair")
        hidden, residual = (rows_of(2, HIDDEN, dtype=torch.float32, seed=s) for s in (1, 2))
        kept = residual.clone()
        with torch.no_grad(), attach(model, frame):
            self.check(model(hidden, residual), hidden, {k: k for k in range(LAYERS)})
        self.assertTrue(torch.equal(residual, kept))
        model = Model("tensor")
        with torch.no_grad(), attach(model, frame):
            kind, text = refusal(model, hidden)
        self.assertIs(kind, steergraph.InvalidError)
        self.assertIn("takes (hidden, residual)", text)

    def test_some_layers_and_a_stage_of_a_pipeline(self):
        frame = self.made()
        model = Model("tensor")
        hidden = rows_of(2, HIDDEN, dtype=torch.float32)
        with torch.no_grad():
            with attach(model, frame, [1]):
                self.check(model(hidden), hidden, {1: 1})
            with attach(model.layers, frame, {0: 2, 2: 0}):
                self.check(model(hidden), hidden, {0: 2, 2: 0})

    def test_refuses_layers_that_are_not_there(self):
        frame = self.made(layers=2)
        model = Model("tensor")
        for layers, said in (
            (None, "the model has 3 layers, the table 2; name the layers"),
            ([2], "layer 2 is not one of the table's 2"),
            ({3: 0}, "layer 3 is not one of the model's 3"),
        ):
            found = refusal(attach, model, frame, layers)
            self.assertEqual(found, (steergraph.InvalidError, said))
        self.assertIn("give its layers", refusal(attach, torch.nn.ReLU(), frame)[1])
        self.assertFalse(any(layer._forward_hooks for layer in model.layers))

    def test_refuses_what_would_be_steered_twice_or_in_part(self):
        frame = self.made()
        model = Model("tensor")
        shared = [model.layers[0], model.layers[1], model.layers[0]]
        for given, layers, said in (
            (model, [0, 0], "layer 0 is the module of layer 0 again"),
            (model, [2, 1, 2], "layer 2 is the module of layer 2 again"),
            (shared, None, "layer 2 is the module of layer 0 again"),
        ):
            found = refusal(attach, given, frame, layers)
            self.assertEqual(found[0], steergraph.InvalidError)
            self.assertIn(said, found[1])
        found = refusal(attach, [model.layers[0], model.layers[1], torch.relu], frame)
        self.assertEqual(found[0], TypeError)
        self.assertIn("layer 2 is builtin_function_or_method, not a torch.nn.Module", found[1])
        self.assertIn("frame is Steering", refusal(attach, model, frame.steering)[1])
        self.assertFalse(any(layer._forward_hooks for layer in model.layers))

    def test_refuses_outputs_that_are_no_tensors(self):
        class Returns(torch.nn.Module):
            def __init__(self, what):
                super().__init__()
                self.what = what

            def forward(self, hidden):
                return self.what(hidden)

        frame = self.made(layers=1)
        for what in (lambda rows: [rows], lambda rows: {"rows": rows}, lambda rows: (), lambda rows: None):
            layer = Returns(what)
            with torch.no_grad(), attach([layer], frame):
                found = refusal(layer, rows_of(2, HIDDEN, dtype=torch.float32))
            self.assertEqual(found[0], steergraph.InvalidError)
            self.assertIn("layer 0 returns ", found[1])

    def test_copies_of_a_model_share_the_frame(self):
        frame = self.made()
        model = Model("tensor")
        hidden = rows_of(2, HIDDEN, dtype=torch.float32)
        with torch.no_grad():
            with attach(model, frame):
                twin = copy.deepcopy(model)
            self.assertTrue(torch.equal(model(hidden), hidden * 8))
            self.check(twin(hidden), hidden, {k: k for k in range(LAYERS)})

    def test_a_model_compiled_before(self):
        frame = self.made()
        hidden = rows_of(2, HIDDEN, dtype=torch.float32)
        for looks in (True, False):
            with torch._dynamo.config.patch(skip_nnmodule_hook_guards=not looks), torch.no_grad():
                torch._dynamo.reset()
                model = Model("tensor")
                compiled = torch.compile(model, backend="eager")
                self.assertTrue(torch.equal(compiled(hidden), hidden * 8))
                with attach(model, frame):
                    if not looks:
                        torch._dynamo.reset()
                    self.check(compiled(hidden), hidden, {k: k for k in range(LAYERS)})
                self.assertTrue(torch.equal(compiled(hidden), hidden * 8))

    def test_detaches_once(self):
        frame = self.made()
        model = Model("tensor")
        attachment = attach(model, frame)
        attachment.detach()
        attachment.detach()
        self.assertFalse(any(layer._forward_hooks for layer in model.layers))

    def test_leading_dimensions_are_rows(self):
        frame = self.made()
        frame.step([0, 0, -1, -1])
        model = Model("tensor")
        hidden = rows_of(2, 2, HIDDEN, dtype=torch.float32)
        with torch.no_grad(), attach(model, frame, [0]):
            found = model(hidden)
        self.assertTrue(torch.allclose(found[0].double(),
                                       (hidden[0].double() * 2 + self.adds[0]) * 4, rtol=1e-5))
        self.assertTrue(torch.equal(found[1], hidden[1] * 8))

    def test_a_compiled_model_keeps_one_graph(self):
        frame = self.made()
        hidden = rows_of(2, HIDDEN, dtype=torch.float32)
        for in_place in (True, False):
            torch._dynamo.reset()
            model = Model("tensor")
            with torch.no_grad(), attach(model, frame, in_place=in_place):
                compiled = torch.compile(model, fullgraph=True)
                self.check(compiled(hidden), hidden, {k: k for k in range(LAYERS)})
                frame.step([-1, -1])
                with torch.compiler.set_stance("fail_on_recompile"):
                    self.assertTrue(torch.equal(compiled(hidden), hidden * 8))
                frame.step([0, -1])


tap.main()
