"""Probes in the ops of torch, in hooks and in norm modules: eager, compiled, in a CUDA graph."""
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_op
from steergraph.attach import attach
from steergraph.norm import SteeredRMSNorm
from torch_support import DEVICE, refusal, rows_of, steergraph, unit_vectors

HIDDEN, ROWS, LAYERS, PROBES = 64, 4, 3, 2
UNTOUCHED = -7.0


class Double(torch.nn.Module):
    def forward(self, hidden):
        return hidden * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Double() for _ in range(LAYERS))

    def forward(self, hidden):
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class Probes(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)
        self.frame = self.made()

    def made(self, **declared):
        """Slot 0 reads column 0, adds, reads column 1, at every layer; rows 1 and 3 are not its."""
        declared = {"probes": PROBES, "dtype": "f32", **declared}
        self.table = steergraph.Steering(self.engine, HIDDEN, layers=LAYERS, **declared)
        (v,) = unit_vectors(1, HIDDEN, torch.float32)
        self.v = v.double().to(DEVICE)
        read = steergraph.op
        self.table.set(
            0,
            {
                layer: [
                    read("probe", v, column=0),
                    steergraph.op("add", v, scale=1.0 + layer),
                    read("probe", v, column=1),
                ]
                for layer in range(LAYERS)
            },
        )
        frame = self.table.frame()
        frame.step([0, -1, 0, -1])
        return frame

    def cells(self, *shape):
        return torch.full((*shape, PROBES), UNTOUCHED, device=DEVICE)

    def check(self, cells, before, layer, row=slice(None, None, 2)):
        """`before` is what the chain saw; cells of rows without the chain stay."""
        seen = before.double()[row] @ self.v
        off = (self.v @ self.v).item() * (1.0 + layer)
        wanted = torch.stack([seen, seen + off], dim=-1)
        self.assertTrue(torch.allclose(cells[row].double(), wanted, rtol=1e-4, atol=1e-4))
        others = torch.ones(len(cells), dtype=torch.bool)
        others[row] = False
        self.assertTrue((cells[others.to(DEVICE)] == UNTOUCHED).all())

    def rows(self, seed=5):
        return rows_of(ROWS, HIDDEN, dtype=torch.float32, seed=seed)

    def test_in_and_out_of_place(self):
        before = self.rows()
        for act in (torch_op.apply_, torch_op.apply):
            cells = self.cells(ROWS)
            version = cells._version
            act(self.frame, 1, before.clone(), probes=cells)
            self.check(cells, before, 1)
            self.assertGreater(cells._version, version)

    def test_rows_of_cells_may_be_apart(self):
        before = self.rows()
        wide = torch.full((ROWS, PROBES + 3), UNTOUCHED, device=DEVICE)
        torch_op.apply_(self.frame, 1, before.clone(), probes=wide[:, 1 : 1 + PROBES])
        self.check(wide[:, 1 : 1 + PROBES], before, 1)
        self.assertTrue((wide[:, 0] == UNTOUCHED).all() and (wide[:, 3:] == UNTOUCHED).all())

    def test_with_a_norm(self):
        frame = self.made(state="hidden+residual", epilogue="add_rmsnorm", epsilon=1e-5)
        weight = torch.ones(HIDDEN, device=DEVICE)
        cells = self.cells(ROWS + 2)  # more than the forward has
        hidden, residual = self.rows(1), self.rows(2)
        total = hidden + residual
        with torch.no_grad():
            norm = SteeredRMSNorm(weight, frame, 1, cells)
            norm(hidden.clone(), residual.clone())
            self.check(cells[:ROWS], total, 1)
            self.assertTrue((cells[ROWS:] == UNTOUCHED).all())
            norm.probes = self.cells(ROWS)
            norm(total.clone())
            self.check(norm.probes, total, 1)
            torch._dynamo.reset()
            norm.probes = self.cells(ROWS)
            torch.compile(norm, fullgraph=True)(hidden.clone(), residual.clone())
            self.check(norm.probes, total, 1)
            norm.probes = self.cells(ROWS - 1)
            self.assertEqual(
                refusal(norm, total), (steergraph.InvalidError, "hidden has 4 rows, probes has 3")
            )

    def expected(self, cells, hidden):
        """The cells of a forward of Model with every layer hooked."""
        for layer in range(LAYERS):
            hidden = hidden.double() * 2
            self.check(cells[layer, :ROWS], hidden, layer)
            hidden[::2] += (1.0 + layer) * self.v
        self.assertTrue((cells[:, ROWS:] == UNTOUCHED).all())

    def test_hooks_eager_and_compiled(self):
        hidden = self.rows()
        for backend in (None, "eager", "aot_eager", "inductor"):
            for in_place in (True, False):
                model, cells = Model(), self.cells(LAYERS, ROWS + 1)
                torch._dynamo.reset()
                with self.subTest(backend=backend, in_place=in_place), torch.no_grad():
                    with attach(model, self.frame, in_place=in_place, probes=cells):
                        run = model
                        if backend is not None:
                            run = torch.compile(model, backend=backend, fullgraph=True)
                        run(hidden)
                        self.expected(cells, hidden)
                        cells.fill_(UNTOUCHED)
                        self.frame.step([-1] * ROWS)
                        with torch.compiler.set_stance("fail_on_recompile"):
                            self.assertTrue(torch.equal(run(hidden), hidden * 8))
                        self.assertTrue((cells == UNTOUCHED).all())
                        self.frame.step([0, -1, 0, -1])

    def test_hooks_on_pairs(self):
        class Pair(torch.nn.Module):
            def forward(self, hidden, residual):
                return hidden, residual

        frame = self.made(state="hidden+residual")
        layers = torch.nn.ModuleList([Pair()])
        cells = self.cells(LAYERS, ROWS)
        hidden, residual = self.rows(1), self.rows(2)
        with torch.no_grad(), attach(layers, frame, {0: 2}, probes=cells):
            layers[0](hidden.clone(), residual)
        self.check(cells[2], hidden + residual, 2)
        self.assertTrue((cells[:2] == UNTOUCHED).all())

    def test_ops_tell_torch_the_truth(self):
        rows, cells = self.rows(), self.cells(ROWS)
        number = self.frame.number
        for op in (torch.ops.steergraph.apply_.default, torch.ops.steergraph.apply.probes):
            torch.library.opcheck(op, (rows, None, number, 0, cells))
        frame = self.made(state="hidden+residual", epilogue="add_rmsnorm", epsilon=1e-5)
        torch.library.opcheck(
            torch.ops.steergraph.add_rmsnorm_.default,
            (rows, self.rows(2), torch.ones(HIDDEN, device=DEVICE), frame.number, 0, cells),
        )

    def test_refusals(self):
        kinds = steergraph.InvalidError
        model = Model()
        for probes, said in (
            (None, "the table declares 2 probes; give float32 [3, rows, 2]"),
            (self.cells(ROWS), "probes has shape (4, 2); give float32 [3, rows, 2]"),
            (self.cells(2, ROWS), "probes has shape (2, 4, 2); give float32 [3, rows, 2]"),
            (self.cells(LAYERS, ROWS).half(), "probes is torch.float16; give float32 [3, rows, 2]"),
            (
                self.cells(LAYERS, ROWS).to("meta"),
                f"probes is on meta, the engine runs on {self.engine.device}",
            ),
        ):
            found = refusal(attach, model, self.frame, probes=probes)
            self.assertEqual(found, (kinds, said))
        self.assertFalse(any(layer._forward_hooks for layer in model.layers))
        with torch.no_grad(), attach(model, self.frame, probes=self.cells(LAYERS, 3)):
            found = refusal(model, self.rows())
        self.assertEqual(found, (kinds, "hidden has 4 rows, probes has 3"))
        with torch.no_grad():
            found = refusal(
                torch_op.apply_, self.frame, 0, self.rows(), probes=self.cells(ROWS).half()
            )
        self.assertEqual(found, (kinds, "probes is f16 [4, 2], the apply takes f32 [4, 2]"))
        wanting = self.cells(ROWS).requires_grad_()
        for act in (torch_op.apply_, torch_op.apply):
            found = refusal(act, self.frame, 0, self.rows(), probes=wanting)
            self.assertEqual(found, (kinds, "steering has no gradient: use torch.no_grad()"))
        kind, said = refusal(torch_op.apply_, self.frame, 0, self.rows())
        self.assertIs(kind, kinds)
        self.assertIn("probes", said)
        norms = {"state": "hidden+residual", "epilogue": "add_rmsnorm", "epsilon": 1e-5}
        weight = torch.ones(HIDDEN, device=DEVICE)
        frame = self.made(**norms)
        for probes, said in (
            (None, "the table declares 2 probes; give float32 [rows, 2]"),
            (self.cells(2, ROWS), "probes has shape (2, 4, 2); give float32 [rows, 2]"),
        ):
            found = refusal(SteeredRMSNorm, weight, frame, 0, probes)
            self.assertEqual(found, (kinds, said))
        plain = steergraph.Steering(self.engine, HIDDEN, layers=LAYERS, dtype="f32").frame()
        found = refusal(attach, model, plain, probes=self.cells(LAYERS, ROWS))
        self.assertEqual(
            found,
            (kinds, "probes is given, but the table declares none; set probes when it is created"),
        )

    @unittest.skipIf(support.ON_CPU, "needs torch.cuda.graph")
    def test_replays_of_a_graph_write_what_the_last_step_says(self):
        model, cells = Model(), self.cells(LAYERS, ROWS)
        static = self.rows()
        side = torch.cuda.Stream()
        with torch.no_grad(), attach(model, self.frame, probes=cells):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                model(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(static)
        for seed in range(8):
            static.copy_(self.rows(seed))
            cells.fill_(UNTOUCHED)
            self.frame.step([0, -1, 0, -1] if seed % 2 else [-1] * ROWS)
            graph.replay()
            if seed % 2:
                self.expected(cells, static)
            else:
                self.assertTrue((cells == UNTOUCHED).all())
        torch.cuda.synchronize()
        del graph


tap.main()
