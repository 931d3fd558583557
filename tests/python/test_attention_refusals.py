"""What caches, rows, ropes, attends and blocks refuse: the exception and its whole text."""
import support  # noqa: F401  # first: it finds numpy, and the folders of the others

import tap
from attention_support import DIM, HEADS, KV_HEADS, WIDTH, Case
from support import np, refusal, steergraph


class Refusals(Case):
    def refuses(self, kind, said, function, *arguments, **named):
        self.assertEqual(refusal(function, *arguments, **named), (kind, said))

    def test_caches(self):
        good = {"batch": 2, "kv_heads": 2, "dim": 16, "capacity": 4, "dtype": "f32"}
        memory = np.zeros((1, 2, 2, 4, 16), np.float32)
        frozen = memory.copy()
        frozen.flags.writeable = False
        wrong = "the cache takes f32 [1, 2, 2, 4, 16] on cpu"
        for change, said in (
            ({"dim": 7}, "dim: 7 is not even and in 2..256"),
            ({"capacity": 0}, "capacity: 0 is not in 1..2147483646"),
            ({"capacity": 2**31 - 1}, "capacity: 2147483647 is not in 1..2147483646"),
            ({"block": 12, "blocks": 3}, "block: 12 is no power of two from 8 to 1024"),
            (
                {"blocks": 3},
                "n_blocks: 3 and a block table at (nil) need a block of so many positions",
            ),
            ({"batch": -1}, "batch is -1, not in 0..4294967295"),
            ({"k": memory[:, :1], "v": memory}, f"k is f32 [1, 1, 2, 4, 16] on cpu, {wrong}"),
            ({"k": memory, "v": memory.astype("f2")}, f"v is f16 [1, 2, 2, 4, 16] on cpu, {wrong}"),
            ({"k": memory[..., ::-1], "v": memory}, "k is not contiguous"),
            ({"k": frozen, "v": memory}, "k is read-only"),
            (
                {"lengths": np.zeros(3, np.int32)},
                "lengths has shape [3] on cpu, the cache takes [2] on cpu",
            ),
            ({"lengths": np.zeros(2, np.int64)}, "lengths is int64; give int32"),
            (
                {"block": 8, "blocks": 3, "block_table": np.zeros(4, np.int32)},
                "block_table is not 2 contiguous dimensions",
            ),
        ):
            self.refuses(
                steergraph.InvalidError, said, steergraph.Kv, self.engine, **{**good, **change}
            )
        kind, said = refusal(steergraph.Kv, self.engine, **good, k=memory)
        self.assertIs(kind, steergraph.InvalidError)
        self.assertRegex(said, r"^k: 0x\w+, v: \(nil\); both are given, or neither$")
        self.refuses(
            TypeError,
            "k is list, not a numpy array or a torch tensor",
            steergraph.Kv,
            self.engine,
            **good,
            k=[],
            v=memory,
        )
        self.refuses(
            TypeError,
            "lengths is list, not an array or a tensor",
            steergraph.Kv,
            self.engine,
            **good,
            lengths=[0, 0],
        )

    def test_lengths_and_blocks(self):
        kv = self.cache()
        for arguments, said in (
            (([3], [0]), "seqs[0]: 3 is no sequence below 3"),
            (([0], 10), "lens[0]: 10 is not in 0..9"),
            (([0, 1], [0]), "2 sequences, but 1 lengths"),
            (([1, 1], 0), "seqs[1]: 1 comes twice"),
            (([-1], 0), "a sequence is -1, not in 0..4294967295"),
        ):
            self.refuses(steergraph.InvalidError, said, kv.set_lengths, *arguments)
        kind, _ = refusal(kv.set_blocks, 0, [1])
        self.assertIs(kind, steergraph.NotDeclaredError)

    def test_steps(self):
        kv = self.cache()
        rows = steergraph.Rows(self.engine, kv, max_rows=4)
        loose = steergraph.Rows(self.engine, batch=2)
        invalid = steergraph.InvalidError
        for kind, said, function, arguments, named in (
            (
                invalid,
                "seq[2]: 1 comes twice; rows of one sequence need positions",
                rows.step,
                ([1, 0, 1],),
                {},
            ),
            (steergraph.BadSlotError, "seq[1]: 3 is no sequence below 3", rows.step, ([0, 3],), {}),
            (
                steergraph.CapacityError,
                "stg_rows_step_set: 5 rows, max_rows is declared as 4",
                rows.step,
                ([0] * 5, [0] * 5),
                {},
            ),
            (invalid, "pos[1]: -1 is not in 0..2147483646", rows.step, ([0, 0], [0, -1]), {}),
            (
                invalid,
                "pos has 1 entries on cpu, for 2 rows of seq on cpu",
                rows.step,
                ([0, 0], [0]),
                {},
            ),
            (invalid, "rows is 3, seq has 2", rows.step, ([0, 1],), {"rows": 3}),
            (invalid, "seq is int64; give int32", rows.step, (np.int64([0]),), {}),
            (invalid, "pos is float32; give int32 or int64", rows.step, ([0], np.float32([0])), {}),
            (invalid, "pos is not one contiguous dimension", rows.step, ([0], np.int32([[0]])), {}),
            (
                invalid,
                "stg_rows_step_set: without a cache rows have no lengths; give pos",
                loose.step,
                ([0],),
                {},
            ),
            (
                invalid,
                "batch: 0 without a cache; it is the cache's, or without one from 1 to 2^31 - 1",
                steergraph.Rows,
                (self.engine,),
                {},
            ),
            (
                invalid,
                "batch: 2 with a cache; it is the cache's, or without one from 1 to 2^31 - 1",
                steergraph.Rows,
                (self.engine, kv),
                {"batch": 2},
            ),
        ):
            with self.subTest(said):
                self.refuses(kind, said, function, *arguments, **named)
        self.assertEqual((rows.rows, rows.steps), (0, 0))

    def test_ropes(self):
        kv = self.cache()
        make, invalid = steergraph.Rope, steergraph.InvalidError
        sizes = {"kv_heads": 2, "dim": 16, "dtype": "f32"}
        table = np.zeros((9, 2, 8), np.float64)
        for named, said in (
            (
                {**sizes, "layout": "packed"},
                "layout is 'packed', not one of 'concat', 'interleaved', 'grouped', "
                "'head_fastest'",
            ),
            ({**sizes, "scaling": "yarn"}, "scaling is 'yarn', not one of 'linear', 'llama3'"),
            ({**sizes, "scaling": "linear"}, "factor: 0 is not finite and above 0"),
            ({"kv": kv, "dim": 8}, "kv_heads 2, dim 8, dtype f32; the cache has 2, 16, f32"),
            (
                {**sizes, "table": table},
                "table is float64; give float32, float16, or bf16 as uint16",
            ),
            (
                {**sizes, "table": np.zeros((9, 2, 7), np.float32)},
                "table is f32 [9, 2, 7] on cpu; give contiguous f32 [positions, 2, 8] on the cpu",
            ),
            (
                {"kv": kv, "table": np.zeros((8, 2, 8), np.float32)},
                "table_positions: 8 are fewer than the 9 of the cache",
            ),
            ({"kv_heads": 2, "dim": 16}, "dtype is None, not one of 'bf16', 'f16', 'f32'"),
        ):
            with self.subTest(said):
                self.refuses(invalid, said, make, self.engine, 4, **named)
        rows = steergraph.Rows(self.engine, kv)
        rows.step([0, 1])
        cached, loose = make(self.engine, 4, kv=kv), make(self.engine, 4, **sizes)
        qkv, q = self.numbers(2, WIDTH), self.numbers(2, HEADS, DIM)
        other = steergraph.Rows(self.engine, self.cache())
        other.step([0])
        bare = steergraph.Rows(self.engine, kv)
        frozen = q.copy()
        frozen.flags.writeable = False
        for said, arguments, named in (
            ("qkv has 1 rows, the step has 2", (rows, qkv[:1]), {}),
            ("qkv has shape [2, 64], the rope takes [rows, 128]", (rows, qkv[:, :64]), {}),
            ("qkv is f16, the rope takes f32", (rows, qkv.astype("f2")), {}),
            (
                "qkv is not contiguous: elements of a row are 2 apart",
                (rows, self.numbers(2, 2 * WIDTH)[:, ::2]),
                {},
            ),
            (
                "q has shape [2, 3, 16], the rope takes [rows, 4, 16]",
                (rows, qkv, self.numbers(2, 3, DIM)),
                {},
            ),
            ("q is read-only", (rows, qkv, frozen), {}),
            (
                "q is not contiguous: the heads of a row are apart",
                (rows, qkv, self.numbers(2, 8, DIM)[:, ::2]),
                {},
            ),
            ("k or v is given; the rope puts both into its cache", (rows, qkv, q, q), {}),
            ("copy_v is False; the rope puts V into its cache", (rows, qkv), {"copy_v": False}),
            ("layer: 1 is not below 1", (rows, qkv), {"layer": 1}),
            ("stg_rope_apply: the rows are of another cache", (other, qkv), {}),
            ("stg_rope_apply: the rows have had no step", (bare, qkv), {}),
            ("give rows, or positions without rows", (rows, qkv), {"positions": [0, 1]}),
            ("give rows, or positions without rows", (None, qkv), {}),
            (
                "stg_rope_apply: rows is NULL; with a cache they say where K and V go",
                (None, qkv),
                {"positions": [0, 1]},
            ),
        ):
            with self.subTest(said):
                self.refuses(invalid, said, cached.apply, *arguments, **named)
        turning = make(self.engine, 4, transpose=True, **sizes)
        for said, arguments, named in (
            ("heads has shape [2, 64]; give three dimensions", (q.reshape(2, -1),), {}),
            ("to has 3 rows, heads has 2", (q, self.numbers(HEADS, 3, DIM)), {}),
            ("to has shape [2, 4, 16], the rope takes [4, rows, 16]", (q, q.copy()), {}),
        ):
            with self.subTest(said):
                self.refuses(invalid, said, turning.transpose, *arguments, **named)
        self.refuses(
            invalid,
            "v is given, but copy_v is False: V stays in qkv",
            loose.apply,
            None,
            qkv,
            None,
            None,
            q[:, :2],
            positions=[0, 1],
            copy_v=False,
        )
        parts = loose.apply(None, qkv, positions=[0, 1])
        undeclared = steergraph.NotDeclaredError
        self.refuses(
            undeclared,
            "stg_rope_backward: the rope does not declare backward",
            loose.backward,
            None,
            *parts,
            positions=[0, 1],
        )
        self.refuses(
            undeclared,
            "stg_heads_transpose: the rope does not declare transpose",
            loose.transpose,
            parts[0],
        )
        self.refuses(
            invalid, "qkv has 2 rows, the step has 3", loose.apply, None, qkv, positions=[0, 1, 2]
        )

    def test_attends_and_blocks(self):
        kv = self.cache()
        make, invalid = steergraph.Attend, steergraph.InvalidError
        self.refuses(invalid, "window: -1 is below 0", make, self.engine, 4, kv=kv, window=-1)
        self.refuses(
            invalid,
            "batch 0, kv_heads 0, dim 16, tokens 0, dtype 0: with a cache they are its own; leave "
            "them 0",
            make,
            self.engine,
            4,
            kv=kv,
            dim=16,
        )
        rows = steergraph.Rows(self.engine, kv)
        rows.step([0, 1])
        q, keys = self.numbers(2, HEADS, DIM), self.numbers(1, KV_HEADS, 5, DIM)
        attend, masked = make(self.engine, 4, kv=kv), make(self.engine, 4, kv=kv, key_mask=True)
        window = make(self.engine, 4, batch=1, kv_heads=2, dim=16, tokens=5, dtype="f32")
        loose = steergraph.Rows(self.engine, batch=1)
        loose.step([0, 0], [0, 1])
        mask = np.zeros((3, 9), np.uint8)
        for said, function, arguments, named in (
            ("q has 1 rows, the step has 2", attend.apply, (rows, q[:1]), {}),
            ("stg_attend_apply: rows is NULL", attend.apply, (None, q), {}),
            (
                "out has shape [2, 2, 16], the attend takes [rows, 4, 16]",
                attend.apply,
                (rows, q, q[:, :2]),
                {},
            ),
            (
                "k, v or lengths is given; the attend reads those of its cache",
                attend.apply,
                (rows, q),
                {"k": keys},
            ),
            (
                "key_mask has shape [3, 8] on cpu, the attend takes [3, 9] on cpu",
                masked.apply,
                (rows, q),
                {"key_mask": mask[:, :8].copy()},
            ),
            (
                "key_mask is int64; give uint8 or bool",
                masked.apply,
                (rows, q),
                {"key_mask": mask.astype("i8")},
            ),
            (
                "k has shape [1, 2, 4, 16], the attend takes [1, 2, 5, 16]",
                window.apply,
                (loose, q),
                {"k": keys[:, :, :4], "v": keys},
            ),
            (
                "k has strides [160, 80, 16], v has [160, 16, 32]; give both alike",
                window.apply,
                (loose, q),
                {"k": keys, "v": self.numbers(1, 5, KV_HEADS, DIM).transpose(0, 2, 1, 3)},
            ),
            (
                "lengths has 2 entries on cpu, the attend takes 1 on cpu",
                window.apply,
                (loose, q),
                {"k": keys, "v": keys, "lengths": np.int32([1, 2])},
            ),
            (
                "rope, attend: neither has a cache; a block has one of them at least",
                steergraph.Block,
                (self.engine,),
                {},
            ),
            (
                "the block has had no step",
                steergraph.Block(self.engine, attend=attend).apply,
                (0,),
                {"q": q},
            ),
        ):
            with self.subTest(said):
                self.refuses(invalid, said, function, *arguments, **named)
        self.refuses(
            TypeError,
            "key_mask is list, not an array or a tensor",
            masked.apply,
            rows,
            q,
            key_mask=[1],
        )
        self.assertRegex(
            refusal(masked.apply, rows, q)[1], r"^key_mask: \(nil\); the attend declares one$"
        )
        table = steergraph.Steering(self.engine, 32, dtype="f32")
        self.refuses(
            invalid,
            "steer: hidden_size 32 of f32; the attend gives 64 of f32",
            steergraph.Block,
            self.engine,
            attend=attend,
            steer=table,
        )


tap.main()
