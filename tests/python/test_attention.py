"""Ropes, and attention over caches and tensors, with numpy on the CPU backend, against float64
(attention_reference.py)."""
import support  # noqa: F401  # first: it finds numpy, and the folders of the others

import attention_reference as reference
import tap
from attention_support import DIM, DTYPES, HEADS, KV_HEADS, WIDTH, Case
from support import exact, np, refusal, steergraph


class Ropes(Case):
    """Of tensors that no cache has."""

    def rope(self, dtype="f32", heads=HEADS, **declared):
        declared = {"kv_heads": KV_HEADS, "dim": DIM, "backward": True, **declared}
        return steergraph.Rope(self.engine, heads, dtype=dtype, **declared)

    def check(self, rope, qkv, positions, layout, inverse, pairs="half"):
        dtype = rope.dtype
        q, k, v = rope.apply(None, qkv, positions=positions)
        parts = reference.parts_of(layout, rope.heads, rope.kv_heads, DIM)
        for found, part, name in zip((q, k), parts, "qk"):
            wanted = reference.rotate(exact(qkv)[:, part], positions, inverse, pairs)
            with self.subTest(name):
                self.holds(found, *wanted, dtype)
        self.assertTrue((v == qkv[:, parts[2]]).all())
        back = rope.backward(None, q, k, v, positions=positions)
        self.assertEqual((back.shape, back.dtype), (qkv.shape, qkv.dtype))
        for given, part, name in zip((q, k), parts, "qk"):
            wanted = reference.rotate(exact(given), positions, inverse, pairs, back=True)
            with self.subTest("gradient of " + name):
                self.holds(back[:, part], *wanted, dtype)
        self.assertTrue((back[:, parts[2]] == v).all())

    def test_every_layout_and_type_there_and_back(self):
        positions = np.int32([0, 1, 8, 300, 17, 4095, 131071])
        inverse = reference.frequencies(DIM)
        for layout in ("concat", "grouped", "head_fastest", "interleaved"):
            for dtype in DTYPES:
                with self.subTest(layout=layout, dtype=dtype):
                    kv_heads = HEADS if layout == "interleaved" else KV_HEADS
                    rope = self.rope(dtype, layout=layout, kv_heads=kv_heads)
                    qkv = self.numbers(7, rope.width, dtype=dtype)
                    self.check(rope, qkv, positions, layout, inverse)

    def test_without_a_copy_v_stays_in_the_packed_rows(self):
        positions = np.int32([3, 0, 300, 17])
        for layout in ("concat", "grouped", "head_fastest", "interleaved"):
            for order in ("rows_first", "heads_first"):
                with self.subTest(layout=layout, order=order):
                    kv_heads = HEADS if layout == "interleaved" else KV_HEADS
                    rope = self.rope(layout=layout, kv_heads=kv_heads, order=order)
                    qkv = self.numbers(2, 2, rope.width)
                    before = qkv.copy()
                    wanted = rope.apply(None, qkv, positions=positions)
                    q, k, v = rope.apply(None, qkv, positions=positions, copy_v=False)
                    self.assertTrue((q == wanted[0]).all() and (k == wanted[1]).all())
                    self.assertEqual(v.shape, wanted[2].shape)
                    self.assertTrue((v == wanted[2]).all() and (qkv == before).all())
                    self.assertTrue(np.shares_memory(v, qkv))
                    v[:] = 7  # which marks it
                    back = np.full_like(qkv, 5)
                    self.assertIs(rope.backward(None, q, k, None, back, positions=positions), back)
                    self.assertTrue((back[qkv == 7] == 5).all())
                    self.assertLess(abs(back - before)[qkv != 7].max(), 1e-5)
                    new = rope.backward(None, q, k, None, positions=positions)
                    self.assertFalse(new.reshape(qkv.shape)[qkv == 7].any())

    def test_pairs_partial_rotation_base_and_scaling(self):
        positions = np.int64([3, 2000, 9])
        llama3 = (8.0, 1.0, 4.0, 64)
        for declared, inverse, pairs in (
            ({"pairs": "interleaved"}, reference.frequencies(DIM), "interleaved"),
            ({"rot": 6}, reference.frequencies(6), "half"),
            ({"base": 500000.0}, reference.frequencies(DIM, 500000.0), "half"),
            (
                {"scaling": "linear", "factor": 4.0},
                (reference.frequencies(DIM).astype(np.float64) / 4).astype(np.float32),
                "half",
            ),
            (
                {
                    "scaling": "llama3",
                    "factor": 8.0,
                    "low_freq": 1.0,
                    "high_freq": 4.0,
                    "original": 64,
                },
                reference.frequencies(DIM, llama3=llama3),
                "half",
            ),
        ):
            with self.subTest(declared):
                qkv = self.numbers(3, WIDTH)
                self.check(self.rope(**declared), qkv, positions, "concat", inverse, pairs)

    def test_a_table_stands_for_angles(self):
        angles = self.random.standard_normal((5, DIM // 2))
        table = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
        rope = self.rope(table=table)
        table[:] = 0  # it was copied
        qkv, positions = self.numbers(2, WIDTH), np.int32([4, 1])
        q, _, _ = rope.apply(None, qkv, positions=positions)
        head = exact(qkv)[:, : HEADS * DIM].reshape(2, HEADS, DIM)
        a, b = head[..., : DIM // 2], head[..., DIM // 2 :]
        cos, sin = np.cos(angles)[positions, None], np.sin(angles)[positions, None]
        wanted = np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        self.assertLess(abs(q - wanted).max(), 1e-6)

    def test_rounding_after_each_operation_is_another_result(self):
        qkv, positions = self.numbers(9, WIDTH, dtype="bf16"), np.int32(range(9))
        one, each = (
            self.rope("bf16", round=word).apply(None, qkv, positions=positions)[0]
            for word in ("final", "each_op")
        )
        self.assertTrue((one != each).any())
        self.assertLess(abs(exact(one) - exact(each)).max(), 0.1)

    def test_positions_of_either_width_are_the_same(self):
        rope, qkv = self.rope(), self.numbers(3, WIDTH)
        found = [
            rope.apply(None, qkv, positions=positions)[0]
            for positions in (np.int32([5, 0, 70]), np.int64([5, 0, 70]), [5, 0, 70])
        ]
        self.assertTrue((found[0] == found[1]).all() and (found[0] == found[2]).all())

    def test_heads_first_is_the_transpose_and_tensors_may_be_given(self):
        qkv, positions = self.numbers(5, WIDTH), np.int32([0, 1, 2, 3, 4])
        by_rows = self.rope(transpose=True)
        by_heads = self.rope(order="heads_first")
        q, k, v = by_rows.apply(None, qkv, positions=positions)
        room = np.zeros((HEADS, 8, DIM), np.float32)
        own = room[:, :5]  # heads of more rows apart
        other = by_heads.apply(None, qkv, own, positions=positions)
        self.assertIs(other[0], own)
        for found, wanted in zip(other, (q, k, v)):
            self.assertTrue((found == wanted.transpose(1, 0, 2)).all())
        self.assertFalse(room[:, 5:].any())
        turned = by_rows.transpose(q)
        self.assertEqual(turned.shape, (HEADS, 5, DIM))
        self.assertTrue((turned == q.transpose(1, 0, 2)).all())
        self.assertTrue((by_rows.transpose(turned, order="heads_first") == q).all())

    def test_no_rows_are_no_fault(self):
        for order in ("rows_first", "heads_first"):
            with self.subTest(order):
                rope = self.rope(order=order, transpose=True)
                q, k, v = rope.apply(None, np.empty((0, WIDTH), np.float32), positions=[])
                self.assertEqual((q.size, k.size, v.size), (0, 0, 0))
                for layout in ("concat", "grouped", "head_fastest"):
                    other = self.rope(order=order, layout=layout)
                    empty = np.empty((0, WIDTH), np.float32)
                    view = other.apply(None, empty, positions=[], copy_v=False)[2]
                    self.assertEqual(view.shape, v.shape)
                self.assertEqual(q.shape, rope.shape_of(HEADS, 0))
                self.assertEqual(rope.backward(None, q, k, v, positions=[]).shape, (0, WIDTH))
                self.assertEqual(rope.transpose(q, order=order).size, 0)
                kv = steergraph.Kv(
                    self.engine, batch=1, kv_heads=KV_HEADS, dim=DIM, capacity=2, dtype="f32"
                )
                rows = steergraph.Rows(self.engine, kv)
                rows.step([])
                attend = steergraph.Attend(self.engine, HEADS, kv=kv, order=order)
                self.assertEqual(attend.apply(rows, q).shape, q.shape)

    def test_rows_of_several_sequences_without_a_cache(self):
        rope, qkv = self.rope(), self.numbers(5, WIDTH)
        rows = steergraph.Rows(self.engine, batch=2)
        rows.step([0, -1, 1, 1], [7, 0, 3, 4])
        q, k, v = (self.numbers(5, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
        kept = [tensor.copy() for tensor in (q, k, v)]
        rope.apply(rows, qkv, q, k, v)
        wanted = rope.apply(None, qkv[[0, 2, 3]], positions=[7, 3, 4])
        for now, was, new in zip((q, k, v), kept, wanted):
            self.assertTrue((now[[0, 2, 3]] == new).all())
            self.assertTrue((now[[1, 4]] == was[[1, 4]]).all())
        back = rope.backward(rows, q, k, v)
        self.assertFalse(back[[1, 4]].any())
        self.assertLess(abs(back[[0, 2, 3]] - qkv[[0, 2, 3]]).max(), 1e-5)

    def test_xpos_scales_q_and_its_inverse_k(self):
        rope, plain = self.rope(xpos="halves", xpos_base=64.0), self.rope()
        qkv, positions = self.numbers(4, WIDTH), np.int32([0, 9, 40, 41])
        q, k, v = rope.apply(None, qkv, positions=positions)
        wanted = plain.apply(None, qkv, positions=positions)
        self.assertTrue((abs(q - wanted[0]) > 1e-3).any())
        self.assertTrue((v == wanted[2]).all())
        product = exact(q)[:, :KV_HEADS] * exact(k)
        unscaled = exact(wanted[0])[:, :KV_HEADS] * exact(wanted[1])
        self.assertLess(abs(product - unscaled).max(), 1e-5)


class Attention(Case):
    """Appends and attends over caches."""

    def parts(self, kv, **declared):
        rows = steergraph.Rows(self.engine, kv, max_rows=64)
        rope = steergraph.Rope(self.engine, HEADS, kv=kv)
        return rows, rope, steergraph.Attend(self.engine, HEADS, kv=kv, **declared)

    def wanted(self, q, k, v, seq, position, window=0, mask=None, scale=DIM**-0.5):
        """[HEADS, DIM] and its bound, by what K and V [batch, KV_HEADS, S, DIM] have."""
        first = max(0, position - window + 1) if window else 0
        found = []
        for head in range(HEADS):
            of = head * KV_HEADS // HEADS
            read = np.arange(first, position + 1)
            if mask is not None:
                read = read[mask[seq, read] != 0]
            found.append(
                reference.attend(
                    exact(q[head]), exact(k[seq, of][read]), exact(v[seq, of][read]), scale
                )
            )
        return tuple(np.stack(part) for part in zip(*found))

    def run_rows(self, kv, parts, layer, seqs, positions, **named):
        """Append and attend one step, held against float64 over what the cache then has."""
        rows, rope, attend = parts
        qkv = self.numbers(len(seqs), WIDTH, dtype=kv.dtype)
        q = rope.apply(rows, qkv, layer=layer)
        split = reference.parts_of("concat", HEADS, KV_HEADS, DIM)
        inverse = reference.frequencies(DIM)
        at = np.int64(positions)
        self.holds(q, *reference.rotate(exact(qkv)[:, split[0]], at, inverse), kv.dtype)
        keys, off = reference.rotate(exact(qkv)[:, split[1]], at, inverse)
        for row, (seq, position) in enumerate(zip(seqs, positions)):
            self.holds(kv.k[layer, seq, :, position], keys[row], off[row], kv.dtype)
            self.assertTrue((kv.v[layer, seq, :, position] == qkv[row, split[2]]).all())
        out = attend.apply(rows, q, layer=layer, key_mask=named.get("mask"))
        for row, (seq, position) in enumerate(zip(seqs, positions)):
            wanted = self.wanted(q[row], kv.k[layer], kv.v[layer], seq, position, **named)
            self.holds(out[row], *wanted, kv.dtype)
        return out

    def test_a_length_for_all_may_be_an_array_of_no_dimension(self):
        lengths = np.int32([0, 0])
        kv = steergraph.Kv(
            self.engine, batch=2, kv_heads=1, dim=DIM, capacity=5, dtype="f32", lengths=lengths
        )
        kv.set_lengths([0, 1], np.array(3))
        self.assertEqual(lengths.tolist(), [3, 3])

    def test_decode_after_a_prompt_in_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                kv = self.cache(layers=2, dtype=dtype, capacity=40)
                parts = self.parts(kv)
                seqs, positions = [0] * 5 + [2] * 3, [*range(5), *range(3)]
                parts[0].step(np.int32(seqs), np.int32(positions))
                for layer in range(2):
                    self.run_rows(kv, parts, layer, seqs, positions)
                kv.advance(parts[0])
                self.assertEqual(kv.lengths.tolist(), [5, 0, 3])
                for turn in range(30):
                    seqs = [2, 0, 1][: 1 + turn % 3]
                    positions = [int(kv.lengths[seq]) for seq in seqs]
                    parts[0].step(seqs)
                    for layer in range(2):
                        self.run_rows(kv, parts, layer, seqs, positions)
                    kv.advance(parts[0])
                kv.check()
                self.assertEqual(kv.lengths.tolist(), [5 + 20, 10, 3 + 30])

    def test_windows_and_masks_of_keys(self):
        mask = (self.random.random((3, 40)) < 0.7).astype(np.uint8)
        mask[1, :] = 0  # reads nothing: zeros
        kv = self.cache(capacity=40)
        plain, masked = {"window": 5}, {"window": 0, "mask": mask}
        for declared, named in (({"window": 5}, plain), ({"key_mask": True}, masked)):
            parts = self.parts(kv, **declared)
            kv.set_lengths([0, 1, 2], 0)
            for turn in range(20):
                parts[0].step([0, 1, 2])
                out = self.run_rows(kv, parts, 0, [0, 1, 2], [turn] * 3, **named)
                kv.advance(parts[0])
            if "mask" in named:
                self.assertFalse(out[1].any())
                again = parts[2].apply(parts[0], self.numbers(3, HEADS, DIM), key_mask=mask != 0)
                self.assertFalse(again[1].any())

    def test_a_paged_cache_has_the_bits_of_a_dense_one(self):
        dense, paged = self.cache(capacity=20), self.cache(capacity=20, block=8, blocks=9)
        for seq in range(3):
            paged.set_blocks(seq, [7 - seq])
            paged.set_blocks(seq, [seq, 8 if seq == 0 else -1], first=1)
        of_dense, of_paged = self.parts(dense), self.parts(paged)
        for turn in range(18):
            qkv = self.numbers(3, WIDTH)
            outs = []
            for kv, (rows, rope, attend) in ((dense, of_dense), (paged, of_paged)):
                rows.step([0, 1, 2])
                outs.append(attend.apply(rows, rope.apply(rows, qkv)))
                kv.advance(rows)
            live = 3 if turn < 16 else 1  # then two sequences have no block
            self.assertTrue((outs[0][:live] == outs[1][:live]).all())
            self.assertFalse(outs[1][live:].any())
        kind, said = refusal(paged.check)
        self.assertIs(kind, steergraph.KvFullError)
        self.assertEqual(
            said,
            "row 1 of sequence 1 had no room in a KV cache of 20 positions, or no block; 4 rows "
            "were refused",
        )
        self.assertEqual(paged.lengths.tolist(), [18, 16, 16])
        self.assertEqual(paged.places().blocks, 3)

    def test_a_row_past_the_capacity_is_refused_and_reported_once(self):
        kv = self.cache(layers=2, capacity=4)
        rows, rope, attend = parts = self.parts(kv)
        for position in range(4):
            rows.step([1])
            self.run_rows(kv, parts, 0, [1], [position])
            kv.advance(rows)
        kv.check()
        before = kv.k.copy(), kv.v.copy()
        rows.step([0, 1])
        for layer in range(2):
            out = attend.apply(
                rows, rope.apply(rows, self.numbers(2, WIDTH), layer=layer), layer=layer
            )
            self.assertTrue(out[0].any() and not out[1].any())
        kv.advance(rows)
        self.assertEqual(kv.lengths.tolist(), [1, 4, 0])
        for now, was in zip((kv.k, kv.v), before):
            self.assertTrue(np.array_equal(now[:, 1:], was[:, 1:], equal_nan=True))
        with self.assertRaises(steergraph.KvFullError) as raised:
            kv.check()
        self.assertEqual(
            str(raised.exception),
            "row 1 of sequence 1 had no room in a KV cache of 4 positions; 2 rows were refused",
        )
        self.assertEqual(
            raised.exception.report,
            steergraph.KvReport(2, 1, 1, bad_rows=0, bad_row=-1, bad_seq=-1),
        )
        kv.check()  # begins anew
        kv.set_lengths([1], [2])  # two rows taken back
        rows.step([1])
        self.run_rows(kv, parts, 0, [1], [2])
        kv.check()

    def test_padding_and_rows_past_the_step_stay_as_they_are(self):
        kv = self.cache()
        rows, rope, attend = self.parts(kv)
        rows.step(np.int32([2, -1, 0, 1]), rows=3)
        q, out = self.numbers(5, HEADS, DIM), self.numbers(5, HEADS * DIM)
        kept = q.copy(), out.copy()
        self.assertIs(rope.apply(rows, self.numbers(5, WIDTH), q), q)
        self.assertIs(attend.apply(rows, q, out), out)
        kv.advance(rows)
        for now, was in zip((q, out), kept):
            changed = (now != was).reshape(5, -1).any(1)
            self.assertEqual(changed.tolist(), [True, False, True, False, False])
        self.assertEqual(kv.lengths.tolist(), [1, 0, 1])
        self.assertTrue(np.isnan(kv.k[0, 1]).all())

    def test_a_window_of_tokens_in_tensors(self):
        batch, tokens = 2, 6
        for dtype in DTYPES:
            attend = steergraph.Attend(
                self.engine,
                HEADS,
                batch=batch,
                kv_heads=KV_HEADS,
                dim=DIM,
                tokens=tokens,
                dtype=dtype,
                key_mask=True,
                scale=0.5,
            )
            rows = steergraph.Rows(self.engine, batch=batch)
            seqs, positions = np.repeat([0, 1], tokens), np.tile(np.arange(tokens), 2)
            rows.step(seqs.astype(np.int32), positions)
            # tokens before heads, as projections leave them
            k, v = (
                self.numbers(batch, tokens, KV_HEADS, DIM, dtype=dtype).transpose(0, 2, 1, 3)
                for _ in "kv"
            )
            q = self.numbers(batch * tokens, HEADS, DIM, dtype=dtype)
            mask = self.random.random((batch, tokens)) < 0.7
            out = attend.apply(rows, q, k=k, v=v, lengths=np.int32([tokens, 4]), key_mask=mask)
            for row, (seq, position) in enumerate(zip(seqs, positions)):
                if seq == 1 and position >= 4:
                    self.assertFalse(out[row].any())
                    continue
                wanted = self.wanted(q[row], k, v, seq, position, mask=mask, scale=0.5)
                self.holds(out[row], *wanted, dtype)

    def test_memory_of_the_library_s_own(self):
        kv = steergraph.Kv(
            self.engine, batch=2, kv_heads=KV_HEADS, dim=DIM, capacity=3, dtype="f32", layers=2
        )
        state = 2 * 2 * 2 * KV_HEADS * 3 * DIM * 4
        self.assertGreaterEqual(kv.device_bytes, state)
        self.assertLess(self.cache(capacity=3).device_bytes, 100)
        self.assertEqual((kv.k, kv.v, kv.lengths), (None, None, None))
        places = kv.places()
        self.assertTrue(places.k and places.v and places.lengths and not places.block_table)
        self.assertEqual(places[4:], (0, 2 * KV_HEADS * 3 * DIM, KV_HEADS * 3 * DIM, 3 * DIM))
        rows, rope, attend = self.parts(kv)
        rows.step([0, 1])
        qkv = self.numbers(2, WIDTH)
        out = attend.apply(rows, rope.apply(rows, qkv, layer=1), layer=1)
        wanted = np.repeat(qkv[:, -KV_HEADS * DIM :].reshape(2, KV_HEADS, DIM), 2, 1)
        self.assertLess(abs(out - wanted).max(), 1e-6)  # of one key: its value


tap.main()
