"""The ops of torch: against float64, in compiled functions, out of place, and what they refuse."""
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_op
from torch_support import DEVICE, DTYPES, ON_CPU, chain, refusal, rows_of, steergraph, unit_vectors

HIDDEN = 256


class Ops(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def table(self, dtype, **declared):
        """A table whose slot 0 adds and caps, its frame over rows [0, -1, 0, -1]."""
        table = steergraph.Steering(self.engine, HIDDEN, layers=2, dtype=dtype, **declared)
        v, w = unit_vectors(2, HIDDEN, dtype)
        given, self.wanted = chain(
            ("add", [v], {"scale": 3.0}), ("projection_cap", [w], {"max": -0.5})
        )
        table.set(0, {0: given})
        frame = table.frame()
        frame.step([0, -1, 0, -1])
        return table, frame

    def check(self, before, after):
        self.assertLessEqual(support.worst(before[::2], after[::2], self.wanted), 1)
        self.assertTrue(torch.equal(after[1::2], before[1::2]))

    def test_in_place_in_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                _, frame = self.table(dtype)
                before = rows_of(4, HIDDEN, dtype=dtype)
                after = before.clone()
                self.assertIs(torch_op.apply_(frame, 0, after), after)
                self.check(before, after)

    def test_out_of_place_leaves_its_input(self):
        _, frame = self.table(torch.bfloat16)
        before = rows_of(4, HIDDEN, dtype=torch.bfloat16)
        kept = before.clone()
        after = torch_op.apply(frame, 0, before)
        self.assertTrue(torch.equal(before, kept))
        self.check(before, after)

    def test_rows_apart_keep_their_distance(self):
        _, frame = self.table(torch.bfloat16)
        wide = rows_of(4, HIDDEN + 24, dtype=torch.bfloat16)
        before = wide[:, 8 : 8 + HIDDEN]
        self.check(before, torch_op.apply(frame, 0, before))
        after = wide.clone()
        torch_op.apply_(frame, 0, after[:, 8 : 8 + HIDDEN])
        self.check(before, after[:, 8 : 8 + HIDDEN])
        self.assertTrue(torch.equal(after[:, :8], wide[:, :8]))

    def test_a_row_map_on_the_device(self):
        _, frame = self.table(torch.bfloat16)
        row_map = torch.tensor([0, -1, 0, -1], dtype=torch.int32, device=DEVICE)
        frame.step(row_map, requests=2)
        before = rows_of(4, HIDDEN, dtype=torch.bfloat16)
        self.check(before, torch_op.apply(frame, 0, before))

    def test_a_vector_on_the_device_is_read(self):
        table, frame = self.table(torch.bfloat16)
        (v,) = unit_vectors(1, HIDDEN, torch.bfloat16, seed=9)
        table.set(1, {0: [("add", v.to(DEVICE), 2)]})
        frame.step([1])
        after = torch_op.apply(frame, 0, torch.zeros(1, HIDDEN, dtype=v.dtype, device=DEVICE))
        self.assertTrue(torch.equal(after[0], 2 * v.to(DEVICE)))

    def test_pairs_and_norms(self):
        table, frame = self.table(
            torch.float32, state="hidden+residual", epilogue="add_rmsnorm", epsilon=1e-5
        )
        hidden, residual = (rows_of(4, HIDDEN, dtype=torch.float32, seed=s) for s in (1, 2))
        weight = rows_of(HIDDEN, dtype=torch.float32, seed=3)
        total = hidden + residual
        normed, summed = torch_op.add_rmsnorm_(frame, 0, hidden, residual, weight)
        self.assertIs(normed, hidden)
        self.check(total, summed)
        expected = torch.nn.functional.rms_norm(summed, [HIDDEN], weight, 1e-5)
        self.assertTrue(torch.allclose(normed, expected, rtol=1e-5, atol=1e-6))

    def test_keep_one_graph_and_follow_the_frame_without_a_compile(self):
        table, frame = self.table(torch.bfloat16)

        def model(x, y):
            x = x * 2
            torch_op.apply_(frame, 0, x)
            return torch_op.apply(frame, 1, x) + y

        x, y = rows_of(4, HIDDEN, dtype=torch.bfloat16), torch.zeros(4, HIDDEN, device=DEVICE)
        y = y.bfloat16()
        for backend in ("eager", "aot_eager", "inductor"):
            with self.subTest(backend), torch.no_grad():
                torch._dynamo.reset()
                compiled = torch.compile(model, fullgraph=True, backend=backend)
                self.check(2 * x, compiled(x, y))
                with torch.compiler.set_stance("fail_on_recompile"):
                    frame.step([-1] * 4)
                    self.assertTrue(torch.equal(compiled(x, y), 2 * x))
                    frame.step([0, -1, 0, -1])
                    self.check(2 * x, compiled(x, y))
        torch._dynamo.reset()
        report = torch._dynamo.explain(model)(x, y)
        self.assertEqual((report.graph_count, report.graph_break_count), (1, 0))

    def test_tell_torch_the_truth_about_themselves(self):
        _, frame = self.table(torch.bfloat16)
        rows = rows_of(4, HIDDEN, dtype=torch.bfloat16)
        arguments = (rows, None, frame.number, 0)
        torch.library.opcheck(torch.ops.steergraph.apply_, arguments)
        torch.library.opcheck(torch.ops.steergraph.apply.default, arguments)

    def test_refuse_gradients_in_place(self):
        _, frame = self.table(torch.float32)
        rows = rows_of(4, HIDDEN, dtype=torch.float32).requires_grad_()
        kind, text = refusal(torch_op.apply_, frame, 0, rows * 1)
        self.assertIs(kind, steergraph.InvalidError)
        self.assertEqual(text, "steering has no gradient: use torch.no_grad()")
        self.assertIs(refusal(frame.apply, 0, rows)[0], steergraph.InvalidError)
        kind, text = refusal(torch_op.apply(frame, 0, rows).sum().backward)
        self.assertEqual(text, "steering has no gradient: use torch.no_grad()")

    def test_refuse_other_tensors_and_closed_frames(self):
        table, frame = self.table(torch.bfloat16)
        good = rows_of(4, HIDDEN, dtype=torch.bfloat16)
        for bad, said in (
            (good.double(), "hidden is torch.float64; give bfloat16, float16 or float32"),
            (good.float(), "hidden is f32, the table takes bf16"),
            (good[:, :100], "hidden has rows of 100 elements, the table's hidden_size is 256"),
            (good.T.contiguous().T, "hidden is not contiguous: elements of a row are 4 apart"),
            (good[:3], "hidden has 3 rows, the frame's step has 4"),
            (good.to_sparse(), "hidden is torch.sparse_coo, not strided"),
            (good[:1].expand(4, HIDDEN), "hidden: rows of 256 elements are 0 apart"),
        ):
            kind, text = refusal(frame.apply, 0, bad)
            self.assertEqual((kind, text), (steergraph.InvalidError, said))
        kind, text = refusal(torch_op.apply_, frame, 0, good.float())
        self.assertIs(kind, steergraph.InvalidError)
        kind, text = refusal(frame.step, torch.zeros(4, dtype=torch.int64))
        self.assertEqual(text, "row_map is torch.int64; give int32")
        if not ON_CPU:
            kind, text = refusal(frame.apply, 0, good.cpu())
            self.assertEqual(text, "hidden is on cpu, the engine runs on cuda:0")
        number = frame.number
        table.close()
        self.assertIs(refusal(torch_op.apply_, frame, 0, good)[0], steergraph.ClosedError)
        del frame
        with self.assertRaisesRegex(steergraph.ClosedError, "no frame"):
            torch.ops.steergraph.apply_(good, None, number + 1000, 0)

    @unittest.skipIf(ON_CPU, "needs streams")
    def test_memory_of_another_stream_is_kept_until_it_has_been_read(self):
        _, frame = self.table(torch.bfloat16)
        rows = 2048
        frame.step([0] * rows)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        before = rows_of(rows, HIDDEN, dtype=torch.bfloat16)
        given = before.clone()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            frame.step([0] * rows)
            torch.cuda._sleep(200_000_000)
            after = torch_op.apply(frame, 0, given)
        del given
        for _ in range(4):  # would take the memory over while the side stream still sleeps
            torch.full((rows, HIDDEN), float("nan"), dtype=torch.bfloat16, device=DEVICE)
        side.synchronize()
        self.assertLessEqual(support.worst(before, after, self.wanted), 1)

    @unittest.skipIf(ON_CPU, "needs streams")
    def test_no_tensor_of_an_apply_is_given_away_before_its_stream_has_done_with_it(self):
        table = steergraph.Steering(
            self.engine, HIDDEN, dtype=torch.float32, state="hidden+residual", probes=1
        )
        (v,) = unit_vectors(1, HIDDEN, torch.float32)
        table.set(0, {0: [("add", v, 2.0), steergraph.op("probe", v, column=0)]})
        frame, rows = table.frame(), 1024
        frame.step([0] * rows)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        given = {
            "hidden": torch.ones(rows, HIDDEN, device=DEVICE),
            "residual": torch.ones(rows + 512, HIDDEN, device=DEVICE)[:rows],
            "probes": torch.full((rows, 1), -7.0, device=DEVICE),
        }
        sizes = sorted(tensor.untyped_storage().nbytes() for tensor in given.values())
        places = {name: tensor.data_ptr() for name, tensor in given.items()}
        torch_op.apply(frame, 0, **given)  # what is made once is made now
        taken_by(sizes)  # and gone: CUDA need not be asked for it while the other stream sleeps
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.empty_like(given["hidden"])  # nor for what the apply returns
            torch.cuda._sleep(2_000_000_000)
            after = torch_op.apply(frame, 0, **given)
        del given
        taken = taken_by(sizes)
        self.assertFalse(side.query(), "the other stream slept too short")
        for name, place in places.items():
            with self.subTest(name):
                self.assertFalse(any(0 <= place - t.data_ptr() < t.numel() for t in taken))
        side.synchronize()
        self.assertTrue(torch.allclose(after, (1 + 2 * v.to(DEVICE)).expand_as(after)))


def taken_by(sizes):
    """Tensors of those sizes, the small ones first: more than a case leaves free."""
    return [
        torch.empty(size, dtype=torch.uint8, device=DEVICE)
        for size in sizes
        for _ in range(max(8, (8 << 20) // size))
    ]


tap.main()
