"""Components with numpy on the CPU backend, against float64 (components_reference.py)."""
import gc
import unittest

import support  # first: it finds numpy, and the folders of the others

import components_reference as reference
import tap
from steergraph.components import share_of
from support import exact, np, refusal, steergraph, stored

DTYPES = ("f32", "f16", "bf16")
D_IN, D_OUT, C = 12, 7, 21
ROUNDED = {"f32": 0.0, **{dtype: support.UNIT_ROUNDOFF[dtype] for dtype in ("f16", "bf16")}}


class Case(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(8)
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)

    def made(self, dtype="f32", **declared):
        return steergraph.Components(self.engine, D_IN, D_OUT, C, dtype, **declared)

    def numbers(self, *shape, dtype="f32"):
        return stored(self.random.standard_normal(shape), dtype)

    def inputs(self, lead, dtype="f32", mask=None):
        """Arguments of a call: x, v, u, mask and dy."""
        shapes = ((*lead, D_IN), (D_IN, C), (C, D_OUT), mask or (*lead, C), (*lead, D_OUT))
        return [self.numbers(*shape, dtype=dtype) for shape in shapes]

    def holds(self, found, wanted, off, dtype):
        bound = off + support.UNIT_ROUNDOFF[dtype] * abs(wanted) + support.SMALLEST[dtype]
        self.assertEqual(found.shape, wanted.shape)
        worst = (abs(exact(found) - wanted) / bound).max(initial=0)
        self.assertLessEqual(worst, 1, f"{worst} times the bound")

    def expected(self, dtype, x, v, u, mask, dy, bias=None, d=None, delta=None, math_unit=0.0):
        """(values, bounds) by name, of rows and of a mask of rows."""
        rows = x.size // D_IN
        flat = {
            "x": exact(x).reshape(rows, D_IN),
            "v": exact(v),
            "u": exact(u),
            "m": np.broadcast_to(mask, (*x.shape[:-1], C)).reshape(rows, C).astype(float),
            "dy": exact(dy).reshape(rows, D_OUT),
            "bias": np.zeros(D_OUT) if bias is None else exact(bias),
            "d": np.zeros(rows) if d is None else exact(d).reshape(rows),
            "delta": np.zeros((D_OUT, D_IN)) if delta is None else exact(delta),
        }
        unit = ROUNDED[dtype] + math_unit
        return reference.values(**flat), reference.bounds(unit, support.SMALLEST[dtype], **flat)

    def check(self, found, expected, name, shape, dtype):
        """A result that has the shape of its input, of which the reference knows rows."""
        with self.subTest(name):
            self.assertEqual(found.shape, shape)
            wanted, off = (part[name] for part in expected)
            self.holds(found.reshape(wanted.shape), wanted, off, dtype)


class Values(Case):
    def test_forward_and_all_gradients_in_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                made = self.made(dtype, bias=True, delta=True)
                x, v, u, mask, dy = self.inputs((3, 5), dtype)
                rest = {"d": self.numbers(3, 5, dtype=dtype)}
                rest["delta"] = self.numbers(D_OUT, D_IN, dtype=dtype)
                bias = self.numbers(D_OUT, dtype=dtype)
                expected = self.expected(dtype, x, v, u, exact(mask), dy, bias, **rest)
                y = made.apply(x, v, u, mask, bias=bias, **rest)
                self.check(y, expected, "y", (3, 5, D_OUT), dtype)
                grads = made.backward(x, v, u, dy, mask, **rest)
                shapes = {"dx": x, "dv": v, "du": u, "dm": mask, "dbias": bias}
                shapes.update(dd=rest["d"], ddelta=rest["delta"])
                for name, like in shapes.items():
                    self.assertEqual(getattr(grads, name).dtype, like.dtype)
                    self.check(getattr(grads, name), expected, name, like.shape, dtype)

    def test_tf32_rounds_operands(self):
        x, v, u, mask, dy = self.inputs((9,))
        expected = self.expected("f32", x, v, u, mask, dy, math_unit=3 * 2.0**-11)
        y = self.made(math="tf32").apply(x, v, u, mask)
        self.check(y, expected, "y", (9, D_OUT), "f32")
        self.assertTrue((y != self.made().apply(x, v, u, mask)).any())

    def test_masks_of_bytes_and_none(self):
        x, v, u, _, dy = self.inputs((6,))
        mask = self.random.integers(0, 2, (6, C)).astype(bool)
        for name, declared, given, as_numbers in (
            ("bool", "bool", mask, mask),
            ("bytes", "bool", mask.astype(np.uint8) * 200, mask),
            ("none", None, None, np.ones((6, C))),
        ):
            with self.subTest(name):
                made = self.made(mask=declared)
                expected = self.expected("f32", x, v, u, as_numbers, dy)
                self.check(made.apply(x, v, u, given), expected, "y", (6, D_OUT), "f32")
                grads = made.backward(x, v, u, dy, given)
                self.assertIsNone(grads.dm)
                self.check(grads.dx, expected, "dx", x.shape, "f32")
                self.check(grads.dv, expected, "dv", v.shape, "f32")

    def test_masks_that_rows_share(self):
        x, v, u, _, dy = self.inputs((3, 5))
        made = self.made()
        for shape in ((3, 5, C), (3, 1, C), (1, 1, C), (1, C), (C,)):
            with self.subTest(shape):
                mask = self.numbers(*shape)
                values, off = self.expected("f32", x, v, u, mask, dy)
                self.check(made.apply(x, v, u, mask), (values, off), "y", (3, 5, D_OUT), "f32")
                dm = made.backward(x, v, u, dy, mask, grads={"dm": None}).dm
                whole = [part["dm"].reshape(3, 5, C) for part in (values, off)]
                padded = (1,) * (3 - len(shape)) + shape
                axes = tuple(i for i, extent in enumerate(padded) if extent == 1)
                self.assertEqual(dm.shape, shape)
                summed = [part.sum(axes, keepdims=True).reshape(shape) for part in whole]
                self.holds(dm, *summed, "f32")

    def test_what_rows_share(self):
        for mask, rows, share in (
            ((4, 6), (4, 6), 1),
            ((4, 1), (4, 6), 6),
            ((), (4, 6), 24),
            ((1, 1), (1, 6), 6),
            ((1,), (), None),
            ((1, 6), (4, 6), None),
            ((3, 1), (4, 6), None),
            ((4, 1, 1), (4, 6, 2), 12),
            ((4, 1, 2), (4, 6, 2), None),
            ((), (), 1),
        ):
            self.assertEqual(share_of(mask, rows), share, (mask, rows))

    def test_rows_that_are_apart_and_tensors_of_the_caller(self):
        x, v, u, mask, dy = self.inputs((4,))
        wide = [np.zeros((4, part.shape[1] + 3), np.float32) for part in (x, mask, dy, dy, x, mask)]
        for to, values in zip(wide, (x, mask, dy)):
            to[:, : values.shape[1]] = values
        xs, ms, dys, y, dx, dm = (part[:, :-3] for part in wide)
        made = self.made()
        self.assertIs(made.apply(xs, v, u, ms, y), y)
        self.assertTrue((y == made.apply(x, v, u, mask)).all())
        work = np.zeros(made.work_bytes(4) + 16, np.uint8)
        work = work[-work.ctypes.data % 16 :]
        out = {"dx": dx, "dm": dm, "du": np.empty_like(u)}
        grads = made.backward(xs, v, u, dys, ms, grads=out, work=work)
        whole = made.backward(x, v, u, dy, mask)
        for name in ("dv", "dbias", "dd", "ddelta"):
            self.assertIsNone(getattr(grads, name))
        for name, tensor in out.items():
            self.assertIs(getattr(grads, name), tensor)
            self.assertTrue((tensor == getattr(whole, name)).all())
        for padding in (wide[3], wide[4], wide[5]):
            self.assertFalse(padding[:, -3:].any())

    def test_padding_is_not_read_and_gives_zeros(self):
        x, v, u, mask, dy = self.inputs((3, 4))
        lengths = np.int32([4, 0, 2])
        made = self.made()
        live = np.arange(4) < lengths[:, None]
        whole = made.apply(x, v, u, mask)
        clean = [np.where(live[..., None], part, 0).astype(np.float32) for part in (x, mask, dy)]
        wanted = made.backward(clean[0], v, u, clean[2], clean[1])
        for tensor in (x, mask, dy):
            tensor[~live] = np.nan
        for valid, sequence in ((lengths, 0), (lengths, 4), ([4, 0, 2], 4)):
            y = made.apply(x, v, u, mask, valid=valid, sequence=sequence)
            self.assertTrue((y[live] == whole[live]).all())
            self.assertFalse(y[~live].any())
            grads = made.backward(x, v, u, dy, mask, valid=valid, sequence=sequence)
            for name in ("dx", "dm"):
                self.assertFalse(getattr(grads, name)[~live].any())
            for name in ("dx", "dm", "dv", "du"):
                self.assertTrue((getattr(grads, name) == getattr(wanted, name)).all(), name)

    def test_no_rows(self):
        x, v, u, _, dy = self.inputs((0,))
        mask = self.numbers(C)
        made = self.made(bias=True)
        self.assertEqual(made.apply(x, v, u, mask, bias=self.numbers(D_OUT)).shape, (0, D_OUT))
        out = {"dm": np.full(C, 9, np.float32), "dv": np.full((D_IN, C), 9, np.float32)}
        grads = made.backward(x, v, u, dy, mask, grads={"dx": None, **out})
        self.assertEqual(grads.dx.shape, (0, D_IN))
        self.assertFalse(grads.dm.any() or grads.dv.any())

    def test_plans_and_statistics(self):
        made = self.made("bf16", row_buckets=[8, 64])
        plan = made.plan(9)
        self.assertEqual(plan.row_bucket, 64)
        for part in ("components v1", "work=apply", f"d_in={D_IN}", "dtype=bf16", "cpu"):
            self.assertIn(part, plan.signature)
        self.assertIn("work=sum", made.plan(9, backward=True).signature)
        x, v, u, mask, dy = self.inputs((9,), "bf16")
        made.apply(x, v, u, mask)
        made.backward(x, v, u, dy, mask)
        self.assertEqual(self.engine.stats()["components_applies"], 2)
        kind, said = refusal(made.plan, 65)
        self.assertIs(kind, steergraph.CapacityError)
        self.assertIn("65", said)


class Life(Case):
    def test_closing(self):
        made = self.made()
        self.assertEqual(repr(made), "<steergraph.Components 12 x 21 x 7: f32>")
        with made:
            made.apply(*self.inputs((2,))[:4])
        self.assertTrue(made.closed)
        made.close()
        self.assertEqual(repr(made), "<steergraph.Components 12 x 21 x 7: closed>")
        closed = (steergraph.ClosedError, "the components object is closed")
        self.assertEqual(refusal(made.apply, *self.inputs((2,))[:4]), closed)
        other = self.made()
        self.engine.close()
        self.assertTrue(other.closed)

    def test_numbers_of_what_is_gone(self):
        from steergraph.components import components_of

        made = self.made()
        self.assertIs(components_of(made.number), made)
        number = made.number
        del made
        gc.collect()
        said = f"there is no components object {number}: it has been collected"
        self.assertEqual(refusal(components_of, number), (steergraph.ClosedError, said))


class Refusals(Case):
    def refuses(self, said, function, *arguments, **named):
        self.assertEqual(
            refusal(function, *arguments, **named), (steergraph.InvalidError, said)
        )

    def test_declarations(self):
        for declared, said in (
            ({"math": "fast"}, "math is 'fast', not one of 'exact', 'tf32'"),
            ({"mask": "bits"}, "mask is 'bits', not one of 'elements', 'bool', 'absent'"),
            ({"max_rows": -1}, "max_rows: -1 is below 0"),
            ({"tile": -1}, "tile is -1, not in 0..4294967295"),
            ({"dtype": "f64"}, "dtype is 'f64', not one of 'bf16', 'f16', 'f32'"),
        ):
            with self.subTest(said):
                self.refuses(said, self.made, **declared)
        kind, said = refusal(steergraph.Components, self.engine, 0, D_OUT, C, "f32")
        self.assertIs(kind, steergraph.InvalidError)
        self.assertTrue(said.startswith("d_in: 0 "), said)

    def test_tensors_forward(self):
        made = self.made()
        x, v, u, mask, _ = self.inputs((2, 3))
        frozen = np.zeros((2, 3, D_OUT), np.float32)
        frozen.flags.writeable = False
        rows = "or with 1 for any number of the dimensions before the last, from behind"
        taken = f"the components take [2, 3, {C}], {rows}"
        for change, said in (
            ({"x": x.astype("f2")}, "x is f16, the components take f32"),
            ({"x": x[..., :5]}, "x has shape [2, 3, 5], the components take [..., 12]"),
            ({"x": x[..., ::-1]}, "x is not contiguous: elements of a row are -1 apart"),
            ({"v": v.T}, "v has shape [21, 12], the components take [12, 21]"),
            ({"v": np.zeros((C, D_IN), "f4").T}, "v is not contiguous"),
            ({"u": u[1:]}, "u has shape [20, 7], the components take [21, 7]"),
            ({"mask": None}, "mask is missing: the components declare it"),
            ({"mask": mask[:1]}, f"mask has shape [1, 3, 21], {taken}"),
            ({"mask": mask[..., :1]}, f"mask has shape [2, 3, 1], {taken}"),
            ({"mask": mask > 0}, 'mask is bool; give f32, or declare mask="bool"'),
            ({"y": frozen}, "y is read-only"),
            ({"y": frozen[:1].copy()}, "y has shape [1, 3, 7], the components take [2, 3, 7]"),
            ({"bias": u[0]}, "bias is given: the components do not declare it"),
            ({"d": x[..., 0]}, "d is given: the components do not declare it"),
            ({"delta": v}, "delta is given: the components do not declare it"),
            (
                {"valid": [1]},
                "valid has 1 entries on cpu, for 6 rows in sequences of 3 the components take 2 on cpu",
            ),
            (
                {"valid": [1, 1], "sequence": -3},
                "valid has 2 entries on cpu, for 6 rows in sequences of -3 the components take 6 on cpu",
            ),
            (
                {"valid": [1] * 6, "sequence": -3},
                "sequence: -3 is not in 1..2147483647",
            ),
            ({"valid": np.int64([1, 1])}, "valid is int64; give int32"),
        ):
            with self.subTest(said):
                self.refuses(said, made.apply, **{"x": x, "v": v, "u": u, "mask": mask, **change})
        said = "mask is float32; give bool or uint8"
        self.refuses(said, self.made(mask="bool").apply, x, v, u, mask)
        said = "mask is list, not a numpy array or a torch tensor"
        found = refusal(self.made(mask="bool").apply, x, v, u, [1])
        self.assertEqual(found, (TypeError, said))
        said = "bias is missing: the components declare it"
        self.refuses(said, self.made(bias=True).apply, x, v, u, mask)

    def test_tensors_backward(self):
        made = self.made()
        x, v, u, mask, dy = self.inputs((4,))
        needed = made.work_bytes(4)
        work = np.zeros(needed + 16, np.uint8)
        work = work[-work.ctypes.data % 16 :]
        for change, said in (
            ({"dy": dy[:2]}, "dy has shape [2, 7], the components take [4, 7]"),
            ({"grads": {"dbias": None}}, "grads names 'dbias'; the call has dx, dv, du, dm"),
            ({"grads": {"y": None}}, "grads names 'y'; the call has dx, dv, du, dm"),
            ({"grads": {"dv": v.T.copy()}}, "dv has shape [21, 12], the components take [12, 21]"),
            ({"grads": {"dm": mask[0].copy()}}, "dm has a row for 4 rows of x each, mask for 1"),
            ({"stream": 7}, "a stream is given without work: give both"),
            (
                {"work": work.reshape(-1, 1)},
                f"work has shape [{work.size}, 1] on cpu; give one contiguous dimension on cpu",
            ),
            ({"work": work.astype("i4")}, "work is int32; give bool or uint8"),
            (
                {"work": work[: needed - 1]},
                f"work_bytes: {needed - 1} are fewer than the {needed} that 4 rows need",
            ),
        ):
            with self.subTest(said):
                good = {"x": x, "v": v, "u": u, "dy": dy, "mask": mask}
                self.refuses(said, made.backward, **{**good, **change})
        said = "grads is ['dx'], not a dict of tensors or None by name"
        self.assertEqual(refusal(made.backward, x, v, u, dy, mask, grads=["dx"]), (TypeError, said))
        grads = made.backward(x, v, u, dy, mask, grads={"dx": None, "dm": None}, stream=7)
        self.assertTrue(np.isfinite(grads.dx).all())  # neither needs work
        bytewise = self.made(mask="bool")
        said = "grads names 'dm'; the call has dx, dv, du"
        self.refuses(said, bytewise.backward, x, v, u, dy, mask > 0, grads={"dm": None})
        forward = self.made(backward=False)
        said = "stg_components_back: the components do not declare backward"
        found = refusal(forward.backward, x, v, u, dy, mask, grads={"dx": None})
        self.assertEqual(found, (steergraph.NotDeclaredError, said))
        self.assertIs(refusal(forward.work_bytes, 4)[0], steergraph.NotDeclaredError)
        self.assertIs(refusal(made.work_bytes, -1)[0], steergraph.InvalidError)


tap.main()
