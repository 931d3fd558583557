"""The ops of torch for rope and attention: against float64, with a gradient, compiled and captured."""
import gc
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_attention
from torch_support import DEVICE, DTYPES, ON_CPU, refusal, rows_of, steergraph

HEADS, KV_HEADS, DIM = 4, 2, 64
WIDTH = (HEADS + 2 * KV_HEADS) * DIM
BATCH, CAPACITY, LAYERS = 3, 24, 2
EPSILON = 2.0**-23


def rotated(heads, positions, back=False):
    """(float64 heads rotated, bound without the store's rounding), as attention_reference.rotate."""
    half = heads.shape[-1] // 2
    exponents = torch.arange(0, 2 * half, 2, dtype=torch.float64, device=heads.device) / (2 * half)
    inverse = (10000.0**-exponents).float().double()
    angles = (positions.double()[:, None] * inverse)[:, None]
    cos, sin = angles.cos(), angles.sin() * (-1 if back else 1)
    a, b = heads.double().split(half, -1)
    off = EPSILON * (positions.double()[:, None, None] + 4) * torch.hypot(a, b)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1), torch.cat([off, off], -1)


def worst(found, wanted, off):
    """The largest error in units of its bound."""
    dtype = found.dtype
    bound = off + support.UNIT_ROUNDOFF[dtype] * wanted.abs() + support.SMALLEST[dtype]
    return ((found.double() - wanted).abs() / bound).max().item()


def split(qkv):
    heads = qkv.reshape(-1, WIDTH // DIM, DIM)
    return heads.split([HEADS, KV_HEADS, KV_HEADS], 1)


class Ropes(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def rope(self, dtype, **declared):
        sizes = {"kv_heads": KV_HEADS, "dim": DIM, "backward": True, **declared}
        return steergraph.Rope(self.engine, HEADS, dtype=dtype, **sizes)

    def test_in_every_type_and_position_type(self):
        for dtype in DTYPES:
            for wide in (torch.int32, torch.int64):
                with self.subTest(dtype=dtype, positions=wide):
                    qkv = rows_of(2, 5, WIDTH, dtype=dtype)
                    positions = torch.tensor([[0, 1, 7, 300, 4095]] * 2, dtype=wide, device=DEVICE)
                    q, k, v = torch_attention.rope(self.rope(dtype), qkv, positions)
                    parts = split(qkv)
                    for found, part in zip((q, k), parts):
                        wanted = rotated(part, positions.reshape(-1))
                        self.assertLessEqual(worst(found, *wanted), 1)
                    self.assertTrue(torch.equal(v, parts[2]))
                    alone = torch_attention.rope(self.rope(dtype), qkv, positions, copy_v=False)
                    self.assertTrue(torch.equal(alone[0], q) and torch.equal(alone[1], k))
                    self.assertTrue(torch.equal(alone[2], v))

    def test_without_a_copy_v_is_a_view_of_the_packed_rows(self):
        positions = torch.tensor([3, 1, 100], device=DEVICE)
        for layout in ("concat", "grouped", "head_fastest"):
            for order in ("rows_first", "heads_first"):
                with self.subTest(layout=layout, order=order):
                    rope = self.rope(torch.float32, layout=layout, order=order)
                    qkv = rows_of(3, WIDTH, dtype=torch.float32)
                    before = qkv.clone()
                    wanted = torch_attention.rope(rope, qkv, positions)
                    found = torch_attention.rope(rope, qkv, positions, copy_v=False)
                    for one, other in zip(found, wanted):
                        self.assertTrue(torch.equal(one, other))
                    self.assertTrue(torch.equal(qkv, before))
                    area = qkv.untyped_storage().data_ptr()
                    self.assertEqual(found[2].untyped_storage().data_ptr(), area)
                    self.assertNotEqual(found[1].untyped_storage().data_ptr(), area)

    def test_the_gradient_is_the_same_without_a_copy_of_v(self):
        positions = torch.tensor([5, 2, 100] * 2, device=DEVICE)
        for layout in ("concat", "grouped", "head_fastest"):
            for dtype in DTYPES:
                with self.subTest(layout=layout, dtype=dtype):
                    rope, found = self.rope(dtype, layout=layout), []
                    for copy_v in (True, False):
                        qkv = rows_of(2, 3, WIDTH, dtype=dtype).requires_grad_()
                        outs = torch_attention.rope(rope, qkv, positions, copy_v=copy_v)
                        grads = [rows_of(*out.shape, dtype=dtype, seed=i) for i, out in enumerate(outs)]
                        torch.autograd.backward(outs, grads)
                        found.append(qkv.grad)
                    self.assertTrue(torch.equal(*found))

    def test_the_gradient_is_the_rotation_back(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                rope = self.rope(dtype)
                qkv = rows_of(2, 3, WIDTH, dtype=dtype).requires_grad_()
                positions = torch.tensor([5, 2, 100] * 2, dtype=torch.int64, device=DEVICE)
                outs = torch_attention.rope(rope, qkv, positions)
                grads = [rows_of(*out.shape, dtype=dtype, seed=i) for i, out in enumerate(outs)]
                torch.autograd.backward(outs, grads)
                self.assertEqual(qkv.grad.shape, qkv.shape)
                found = split(qkv.grad)
                for got, grad in zip(found[:2], grads):
                    wanted = rotated(grad, positions, back=True)
                    self.assertLessEqual(worst(got, *wanted), 1)
                self.assertTrue(torch.equal(found[2], grads[2]))

    def test_the_gradient_of_some_outputs_and_of_broadcasts(self):
        rope, positions = self.rope(torch.float32), torch.arange(4, device=DEVICE)
        qkv = rows_of(4, WIDTH, dtype=torch.float32).requires_grad_()
        q, _, _ = torch_attention.rope(rope, qkv, positions)
        q.sum().backward()  # its gradient is one element, expanded
        found = split(qkv.grad)
        wanted = rotated(torch.ones_like(found[0]), positions, back=True)
        self.assertLessEqual(worst(found[0], *wanted), 1)
        self.assertFalse(found[1].any() or found[2].any())

    def test_gradients_agree_with_differences(self):
        """The derivative along a direction, by a quotient of differences: the op is linear."""
        rope, positions = self.rope(torch.float32), torch.arange(3, device=DEVICE)
        qkv = rows_of(3, WIDTH, dtype=torch.float32).requires_grad_()
        along, weights = (rows_of(3, WIDTH, dtype=torch.float32, seed=s) for s in (1, 2))

        def value(rows):
            return (torch.cat([p.flatten(1) for p in torch_attention.rope(rope, rows, positions)], 1) * weights).sum()

        value(qkv).backward()
        with torch.no_grad():
            moved = (value(qkv + along) - value(qkv - along)) / 2
        self.assertAlmostEqual((qkv.grad * along).sum().item(), moved.item(), delta=1e-2)

    def test_what_has_no_gradient_says_so(self):
        plain, positions = self.rope(torch.float32, backward=False), torch.arange(2, device=DEVICE)
        qkv = rows_of(2, WIDTH, dtype=torch.float32).requires_grad_()
        said = "qkv requires grad, but the rope declares no backward"
        self.assertEqual(
            refusal(torch_attention.rope, plain, qkv, positions), (steergraph.NotDeclaredError, said)
        )
        said = "the op rope has no gradient: use torch_attention.rope"
        op = torch.ops.steergraph.rope
        self.assertEqual(
            refusal(op, qkv, positions, plain.number), (steergraph.InvalidError, said)
        )
        said = "the op rope_qk has no gradient: use torch_attention.rope"
        op = torch.ops.steergraph.rope_qk
        self.assertEqual(
            refusal(op, qkv, positions, plain.number), (steergraph.InvalidError, said)
        )
        with torch.no_grad():
            torch_attention.rope(plain, qkv, positions)
            torch_attention.rope(plain, qkv, positions, copy_v=False)
        said = f"qkv has shape [2, {WIDTH}], for 1 positions give as many rows of {WIDTH}"
        self.assertEqual(
            refusal(torch_attention.rope, plain, qkv, positions[:1]),
            (steergraph.InvalidError, said),
        )

    def test_compiled_with_its_gradient(self):
        rope, positions = self.rope(torch.float32), torch.arange(4, device=DEVICE)

        for copy_v in (True, False):

            def work(rows):
                q, k, v = torch_attention.rope(rope, rows * 2, positions, copy_v=copy_v)
                return (q * q).sum() + (k * v).sum()

            torch._dynamo.reset()
            grads = []
            for function in (work, torch.compile(work, fullgraph=True, backend="aot_eager")):
                qkv = rows_of(4, WIDTH, dtype=torch.float32).requires_grad_()
                function(qkv).backward()
                grads.append(qkv.grad)
            with self.subTest(copy_v=copy_v):
                self.assertLess((grads[0] - grads[1]).abs().max().item(), 1e-4)

    def test_ops_pass_torch_s_own_checks(self):
        rope, positions = self.rope(torch.float32), torch.arange(4, device=DEVICE)
        qkv = rows_of(4, WIDTH, dtype=torch.float32)
        tests = ("test_schema", "test_faketensor")
        ops = torch.ops.steergraph
        parts = ops.rope(qkv, positions, rope.number)
        for op, arguments in (
            (ops.rope.default, (qkv, positions, rope.number)),
            (ops.rope_qk.default, (qkv, positions, rope.number)),
            (ops.rope_backward.default, (*parts, positions, rope.number)),
            (ops.rope_backward.default, (*parts[:2], None, positions, rope.number)),
        ):
            found = torch.library.opcheck(op, arguments, test_utils=tests)
            self.assertEqual(set(found.values()), {"SUCCESS"})


class Cached(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)

    def made(self, dtype, **declared):
        """A cache in tensors of torch, NaN before anything is written, and what goes with it."""
        shape = (LAYERS, BATCH, KV_HEADS, CAPACITY, DIM)
        keys, values = (torch.full(shape, torch.nan, dtype=dtype, device=DEVICE) for _ in "kv")
        lengths = torch.zeros(BATCH, dtype=torch.int32, device=DEVICE)
        kv = steergraph.Kv(
            self.engine,
            layers=LAYERS,
            batch=BATCH,
            kv_heads=KV_HEADS,
            dim=DIM,
            capacity=CAPACITY,
            dtype=dtype,
            k=keys,
            v=values,
            lengths=lengths,
        )
        rows = steergraph.Rows(self.engine, kv, max_rows=64)
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        return kv, rows, rope, steergraph.Attend(self.engine, HEADS, kv=kv, **declared)

    def judge(self, kv, layer, q, out, seqs, positions):
        """Rows of an attend against float64 over what the cache has. As attention_reference.attend."""
        scale = DIM**-0.5
        for row, (seq, position) in enumerate(zip(seqs, positions)):
            k, v = (t[layer, seq, :, : position + 1].double() for t in (kv.k, kv.v))
            k, v = (t.repeat_interleave(HEADS // KV_HEADS, 0) for t in (k, v))
            at = q[row].double()
            scores = scale * torch.einsum("hd,hnd->hn", at, k)
            away = scores.max(-1, keepdim=True).values - scores
            weights = (-away).softmax(-1)
            wanted = torch.einsum("hn,hnd->hd", weights, v)
            size = torch.einsum("hd,hnd->hn", at.abs(), k.abs())
            errors = EPSILON * ((DIM / 8 + 8) * scale * size + away)
            spread = torch.einsum("hn,hnd->hd", weights * errors.expm1(), v.abs() + wanted.abs()[:, None])
            sums = EPSILON * 66 * torch.einsum("hn,hnd->hd", weights, v.abs())
            self.assertLessEqual(worst(out[row], wanted, 1.01 * (spread + sums)), 1)

    def prompt(self, kv, rows):
        """Some positions of two sequences, in int64 on the device as models have them."""
        seqs, positions = [0] * 5 + [2] * 2, [*range(5), *range(2)]
        on_device = (torch.tensor(seqs, dtype=torch.int32), torch.tensor(positions))
        rows.step(*(t.to(DEVICE) for t in on_device), requests=2, longest=5)
        return seqs, positions

    def test_append_and_attend_in_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype), torch.no_grad():
                kv, rows, rope, attend = self.made(dtype)
                steps = [self.prompt(kv, rows)]
                for turn in range(CAPACITY - 5):
                    for layer in range(LAYERS):
                        count = len(steps[-1][0])
                        qkv = rows_of(count, WIDTH, dtype=dtype, seed=turn)
                        q = torch.empty(count, HEADS, DIM, dtype=dtype, device=DEVICE)
                        version = q._version
                        torch_attention.rope_append_(rope, rows, qkv, q, layer)
                        self.assertEqual(q._version, version + 1)
                        positions = torch.tensor(steps[-1][1], device=DEVICE)
                        self.assertLessEqual(worst(q, *rotated(split(qkv)[0], positions)), 1)
                        out = torch_attention.attend(attend, rows, q, layer)
                        self.judge(kv, layer, q, out, *steps[-1])
                        into = torch.empty_like(q)
                        self.assertIs(torch_attention.attend_(attend, rows, q, into, layer), into)
                        self.assertTrue(torch.equal(into, out))
                    kv.advance(rows)
                    steps.append(([0, 1, 2], kv.lengths.tolist()))
                    rows.step([0, 1, 2])
                kv.check()
                self.assertEqual(kv.lengths.tolist(), [23, 18, 20])

    def test_a_row_without_room_raises(self):
        with torch.no_grad():
            kv, rows, rope, attend = self.made(torch.float32)
            kv.set_lengths([0, 1, 2], [3, CAPACITY, 0])
            rows.step([0, 1])
            q = rope.apply(rows, rows_of(2, WIDTH, dtype=torch.float32))
            out = attend.apply(rows, q)
            kv.advance(rows)
            self.assertFalse(out[1].any())
            kind, said = refusal(kv.check)
            self.assertIs(kind, steergraph.KvFullError)
            self.assertIn("row 1 of sequence 1 had no room in a KV cache of 24 positions", said)
            self.assertEqual(kv.lengths.tolist(), [4, CAPACITY, 0])

    @unittest.skipIf(ON_CPU, "maps on the device need one")
    def test_a_sequence_on_the_device_that_there_is_not_raises(self):
        with torch.no_grad():
            kv, rows, rope, _ = self.made(torch.float32)
            rows.step(torch.tensor([0, BATCH], dtype=torch.int32, device=DEVICE))
            rope.apply(rows, rows_of(2, WIDTH, dtype=torch.float32))
            kind, said = refusal(kv.check)
            self.assertIs(kind, steergraph.BadSlotError)
            self.assertIn(f"row 1 was of sequence {BATCH}", said)

    def test_what_would_need_a_gradient_is_refused(self):
        kv, rows, rope, attend = self.made(torch.float32)
        rows.step([0, 1])
        qkv = rows_of(2, WIDTH, dtype=torch.float32)
        q = torch.empty(2, HEADS, DIM, device=DEVICE)
        block = steergraph.Block(self.engine, rope, attend)
        block.step(rows)
        said = "caches and attention have no gradient: use torch.no_grad()"
        wanting = {"qkv": qkv.clone().requires_grad_(), "q": q.clone().requires_grad_()}
        ops = torch.ops.steergraph
        for function, arguments in (
            (torch_attention.rope_append_, (rope, rows, wanting["qkv"], q)),
            (torch_attention.attend, (attend, rows, wanting["q"])),
            (torch_attention.attend_, (attend, rows, q, wanting["q"])),
            (torch_attention.block_, (block, 0, wanting["qkv"], q, q.clone())),
            (ops.attend, (wanting["q"], None, None, None, None, attend.number, rows.number, 0)),
        ):
            self.assertEqual(refusal(function, *arguments), (steergraph.InvalidError, said))
        said = "q requires grad, and the rope has none: use torch.no_grad()"
        self.assertEqual(
            refusal(rope.apply, rows, qkv, wanting["q"]), (steergraph.InvalidError, said)
        )

    def test_numbers_of_what_is_gone(self):
        kv, rows, rope, attend = self.made(torch.float32)
        number = rope.number
        q = torch.empty(1, HEADS, DIM, device=DEVICE)
        del rope
        gc.collect()
        op = torch.ops.steergraph.rope_append_
        self.assertEqual(
            refusal(op, rows_of(1, WIDTH, dtype=torch.float32), q, number, rows.number, 0),
            (steergraph.ClosedError, f"there is no rope {number}: it has been collected"),
        )
        said = "the rope appends to a cache: use rope_append_"
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        self.assertEqual(
            refusal(torch_attention.rope, rope, q, q), (steergraph.InvalidError, said)
        )

    def test_tensors_of_another_kind_are_refused(self):
        kv, rows, rope, attend = self.made(torch.float32)
        rows.step([0])
        qkv = rows_of(1, WIDTH, dtype=torch.float32)
        kind, said = refusal(rope.apply, rows, qkv.half())
        self.assertEqual((kind, said), (steergraph.InvalidError, "qkv is f16, the rope takes f32"))
        if not ON_CPU:
            kind, said = refusal(rope.apply, rows, qkv.cpu())
            self.assertEqual(said, "qkv is on cpu, the engine runs on cuda:0")
            kind, said = refusal(rows.step, [0], torch.zeros(1, dtype=torch.int32, device=DEVICE))
            self.assertEqual(said, "pos has 1 entries on cuda:0, for 1 rows of seq on cpu")

    def decode(self, rope, rows, attend):
        """A function of a step's packed rows, through the ops."""

        def work(qkv):
            found = []
            for layer in range(LAYERS):
                q = torch.empty(qkv.shape[0], HEADS, DIM, dtype=qkv.dtype, device=qkv.device)
                torch_attention.rope_append_(rope, rows, qkv, q, layer)
                out = torch_attention.attend(attend, rows, q, layer)
                qkv = qkv + out.flatten(1).repeat(1, WIDTH // (HEADS * DIM))
                found.append(out)
            return torch.stack(found)

        return work

    def test_compiled_steps_are_the_same(self):
        torch._dynamo.reset()
        outs = []
        for backend in (None, "aot_eager", "inductor"):
            with torch.no_grad():
                kv, rows, rope, attend = self.made(torch.float32)
                work = self.decode(rope, rows, attend)
                if backend is not None:
                    work = torch.compile(work, fullgraph=True, backend=backend)
                found = []
                for turn in range(6):
                    rows.step([0, 1, 2])
                    found.append(work(rows_of(3, WIDTH, dtype=torch.float32, seed=turn)))
                    kv.advance(rows)
                outs.append(torch.stack(found))
                self.assertEqual(kv.lengths.tolist(), [6] * 3)
        self.assertTrue(torch.isfinite(outs[0]).all())
        for other in outs[1:]:
            self.assertLess((other - outs[0]).abs().max().item(), 1e-5)

    @unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
    def test_one_captured_step_serves_every_length(self):
        with torch.no_grad():
            kv, rows, rope, attend = self.made(torch.bfloat16)
            eager = self.made(torch.bfloat16)
            work, other = self.decode(rope, rows, attend), self.decode(eager[2], eager[1], eager[3])
            static = torch.zeros(BATCH, WIDTH, dtype=torch.bfloat16, device=DEVICE)
            rows.step([0, 1, 2])
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                work(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = work(static)
                kv.advance(rows)
                refused = refusal(rows.step, [0])
                self.assertIs(refused[0], steergraph.CapturingError)
                self.assertIs(refusal(kv.set_lengths, [0], 0)[0], steergraph.CapturingError)
                self.assertIs(refusal(kv.check)[0], steergraph.CapturingError)
            kv.set_lengths(range(BATCH), 0)
            compiles = self.engine.stats()["kernel_compiles"]
            for turn in range(CAPACITY):
                seqs = [0, 1, 2][: 1 + turn % 3]
                padded = seqs + [-1] * (BATCH - len(seqs))
                values = rows_of(BATCH, WIDTH, dtype=torch.bfloat16, seed=turn)
                static.copy_(values)
                rows.step(padded)
                graph.replay()
                eager[1].step(seqs)
                wanted = other(values[: len(seqs)])
                eager[0].advance(eager[1])
                self.assertTrue(torch.equal(out[:, : len(seqs)], wanted), turn)
            self.assertEqual(kv.lengths.tolist(), eager[0].lengths.tolist())
            self.assertEqual(self.engine.stats()["kernel_compiles"], compiles)
            kv.check()

    @unittest.skipIf(ON_CPU, "needs torch.cuda.graph")
    def test_what_a_graph_uses_is_busy_until_it_is_gone(self):
        with torch.no_grad():
            kv, rows, rope, attend = self.made(torch.float32)
            block = steergraph.Block(self.engine, rope, attend, advance=True)
            qkv = rows_of(2, WIDTH, dtype=torch.float32)
            rows.step([0, 1])
            block.step(rows)
            block.apply(0, qkv)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for layer in range(LAYERS):
                    out = block.apply(layer, qkv)
                kind, said = refusal(attend.close)
                self.assertIs(kind, steergraph.BusyError)
                self.assertEqual(said, "the stream is capturing; close the attend when it has ended")
            kind, said = refusal(kv.close)
            self.assertIs(kind, steergraph.BusyError)
            self.assertIn("host graphs that were captured with the", said)
            graph.replay()
            self.assertEqual(kv.lengths[:2].tolist(), [1, 1])
            self.assertTrue(torch.isfinite(out).all())
            torch.cuda.synchronize()
            del graph
            gc.collect()
            things = (rows, rope, attend, kv)
            for _ in range(100):  # each waits for a tenth of a second: CUDA says late that it is gone
                for thing in things:
                    try:
                        thing.close()
                    except steergraph.BusyError:
                        pass
                if all(thing.closed for thing in things):
                    break
            self.assertTrue(all(thing.closed for thing in things))
            self.assertTrue(kv.handle._users == 0)


tap.main()
