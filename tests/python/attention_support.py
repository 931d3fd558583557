"""What the tests of attention with numpy share: an engine, caches in arrays, bounds."""
import unittest

import support
from support import exact, np, steergraph, stored

DTYPES = ("f32", "f16", "bf16")
HEADS, KV_HEADS, DIM = 4, 2, 16
WIDTH = (HEADS + 2 * KV_HEADS) * DIM


class Case(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(11)
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)

    def numbers(self, *shape, dtype="f32"):
        return stored(self.random.standard_normal(shape), dtype)

    def holds(self, found, wanted, off, dtype):
        """Every element within its bound: the work's and the store's."""
        bound = off + support.UNIT_ROUNDOFF[dtype] * abs(wanted) + support.SMALLEST[dtype]
        worst = (abs(exact(found) - wanted) / bound).max(initial=0)
        self.assertLessEqual(worst, 1, f"{worst} times the bound")

    def cache(self, **sizes):
        """A cache in arrays of ours, all NaN before anything is written."""
        sizes = {"layers": 1, "batch": 3, "capacity": 9, "dtype": "f32", **sizes}
        dtype, pool = sizes["dtype"], (sizes["batch"], KV_HEADS, sizes["capacity"])
        if sizes.get("block"):
            pool = (sizes["blocks"], KV_HEADS, sizes["block"])
        shape = (sizes["layers"], *pool, DIM)
        memory = [stored(np.full(shape, np.nan), dtype) for _ in "kv"]
        lengths = np.zeros(sizes["batch"], np.int32)
        return steergraph.Kv(
            self.engine,
            kv_heads=KV_HEADS,
            dim=DIM,
            k=memory[0],
            v=memory[1],
            lengths=lengths,
            **sizes,
        )
