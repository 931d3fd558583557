"""Blocks against their parts, and how what is made of a cache ends, in any order."""
import gc

import support  # noqa: F401  # first: it finds numpy, and the folders of the others

import tap
from attention_support import DIM, HEADS, KV_HEADS, WIDTH, Case
from support import np, refusal, steergraph


class Blocks(Case):
    def block(self, kv, steer=None, advance=True):
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        attend = steergraph.Attend(self.engine, HEADS, kv=kv)
        return steergraph.Block(self.engine, rope, attend, steer=steer, advance=advance)

    def test_a_block_is_its_parts(self):
        table = steergraph.Steering(self.engine, HEADS * DIM, layers=2, dtype="f32")
        table.set(0, {1: [("add", self.numbers(HEADS * DIM), 3.0)]})
        frame = table.frame()
        whole, split = self.cache(layers=2), self.cache(layers=2)
        block, parts = self.block(whole, table), self.block(split)
        rows, of_parts = (steergraph.Rows(self.engine, kv, max_rows=8) for kv in (whole, split))
        for turn in range(6):
            for map_of in (rows, of_parts):
                map_of.step([0, 1, 2])
            frame.step([0, steergraph.UNSTEERED, 0])
            block.step(rows, frame)
            for layer in range(2):
                qkv = self.numbers(3, WIDTH)
                out = block.apply(layer, qkv, steer_layer=layer)
                q = parts.rope.apply(of_parts, qkv, layer=layer)
                wanted = parts.attend.apply(of_parts, q, layer=layer)
                frame.apply(layer, wanted.reshape(3, -1))
                self.assertTrue((out == wanted).all())
            split.advance(of_parts)
            self.assertEqual(whole.lengths.tolist(), [turn + 1] * 3)
            self.assertEqual(split.lengths.tolist(), [turn + 1] * 3)
        self.assertTrue(np.array_equal(whole.k, split.k, equal_nan=True))
        plan = block.plan()
        self.assertIn("rope v1 | work=rotate heads=4 kv_heads=2 dim=16 dtype=f32", plan.signature)
        self.assertIn(" + decode v1 | ", plan.signature)
        self.assertIn(" + steer v1 | ", plan.signature)
        self.assertEqual((plan.source, plan.row_bucket, plan.seq_bucket), ("cpu", 4, 1))
        self.assertEqual(self.engine.stats()["attention_applies"], 6 * 2 * 3)

    def test_one_plan_serves_every_length(self):
        kv = self.cache(capacity=40)
        block, rows = self.block(kv), steergraph.Rows(self.engine, kv)
        seen = set()
        for _ in range(40):
            rows.step([0, 1, 2])
            block.step(rows)
            block.apply(0, self.numbers(3, WIDTH))
            seen.add((block.plan().graph_key, self.engine.stats()["plans_live"]))
        self.assertEqual(len(seen), 1)
        self.assertEqual(kv.lengths.tolist(), [40] * 3)
        kv.check()

    def test_a_block_of_one_part(self):
        kv = self.cache()
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        attend = steergraph.Attend(self.engine, HEADS, kv=kv)
        first = steergraph.Block(self.engine, rope)
        second = steergraph.Block(self.engine, attend=attend, advance=True)
        rows = steergraph.Rows(self.engine, kv)
        rows.step([1])
        first.step(rows)
        second.step(rows)
        q = first.apply(0, self.numbers(1, WIDTH))
        self.assertEqual(q.shape, (1, HEADS, DIM))
        wanted = attend.apply(rows, q)
        self.assertTrue((second.apply(0, q=q) == wanted).all() and wanted.any())
        self.assertEqual(kv.lengths.tolist(), [0, 1, 0])
        for function, arguments, said in (
            (second.apply, (0, q), "qkv is given, but the block has no rope"),
            (
                first.apply,
                (0, self.numbers(1, WIDTH), q, q),
                "out is given, but the block has no attend",
            ),
        ):
            self.assertEqual(refusal(function, *arguments), (steergraph.InvalidError, said))


class Lifetimes(Case):
    def made(self):
        kv = self.cache()
        rows = steergraph.Rows(self.engine, kv)
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        attend = steergraph.Attend(self.engine, HEADS, kv=kv)
        block = steergraph.Block(self.engine, rope, attend)
        rows.step([0])
        block.step(rows)
        return kv, rows, rope, attend, block

    def test_a_cache_closes_what_was_made_of_it(self):
        things = self.made()
        things[0].close()
        things[0].close()
        self.assertEqual([thing.closed for thing in things], [True] * 5)
        kv, rows, rope, attend, block = things
        for function, arguments, what in (
            (kv.check, (), "KV cache"),
            (kv.advance, (rows,), "KV cache"),
            (rows.step, ([0],), "rows object"),
            (rope.apply, (rows, self.numbers(1, WIDTH)), "rope"),
            (attend.apply, (rows, self.numbers(1, HEADS, DIM)), "attend"),
            (block.step, (rows,), "block"),
            (block.apply, (0, self.numbers(1, WIDTH)), "block"),
            (steergraph.Rows, (self.engine, kv), "KV cache"),
            (steergraph.Block, (self.engine, rope, attend), "rope"),
        ):
            said = (steergraph.ClosedError, f"the {what} is closed")
            self.assertEqual(refusal(function, *arguments), said)

    def test_any_order_of_closing(self):
        orders = ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3), (1, 3, 2, 0, 4))
        for order in orders:
            things = self.made()
            for index in order:
                things[index].close()
            self.assertTrue(all(thing.closed for thing in things))
        things = self.made()
        self.engine.close()
        self.assertTrue(all(thing.closed for thing in things))

    def test_any_order_of_collection(self):
        for first in range(5):
            things = list(self.made())
            del things[first]
            gc.collect()
            rest = [thing for thing in things if not thing.closed]
            self.assertEqual(len(rest), 4)
            del things, rest
            gc.collect()
        self.engine.close()  # would say what is alive

    def test_a_block_does_not_use_rows_or_frames_that_are_closed(self):
        kv, rows, rope, attend, block = self.made()
        rows.close()
        self.assertEqual(
            refusal(block.apply, 0, self.numbers(1, WIDTH)),
            (steergraph.ClosedError, "the rows object is closed"),
        )
        table = steergraph.Steering(self.engine, HEADS * DIM, dtype="f32")
        rows, frame = steergraph.Rows(self.engine, kv), table.frame()
        steered = steergraph.Block(self.engine, rope, attend, steer=table)
        rows.step([0])
        frame.step([-1])
        steered.step(rows, frame)
        frame.close()
        self.assertEqual(
            refusal(steered.apply, 0, self.numbers(1, WIDTH)),
            (steergraph.ClosedError, "the frame is closed"),
        )
        table.close()
        self.assertTrue(steered.closed)

    def test_a_cache_keeps_the_memory_that_it_was_lent(self):
        memory = np.zeros((1, 1, KV_HEADS, 2, DIM), np.float32)
        address = memory.ctypes.data
        kv = steergraph.Kv(
            self.engine,
            batch=1,
            kv_heads=KV_HEADS,
            dim=DIM,
            capacity=2,
            dtype="f32",
            k=memory,
            v=memory.copy(),
        )
        del memory
        gc.collect()
        self.assertEqual(kv.places().k, address)
        self.assertEqual(kv.k.ctypes.data, address)


tap.main()
