"""Tensors that an apply takes, and those that it refuses: nothing is copied, nothing converted."""
import sys
import types
import unittest
from unittest import mock

import support  # noqa: F401
import tap
from steergraph import _apply, tensors
from support import np, refusal, steergraph, stored

HIDDEN, ROWS = 4, 6


class Tensors(unittest.TestCase):
    def setUp(self):
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)
        self.table, self.frame = self.made("f32")

    def made(self, dtype, **declared):
        table = steergraph.Steering(self.engine, HIDDEN, dtype=dtype, **declared)
        table.set(0, {0: [("add", stored([0, 1, 0, 0], dtype), 2)]})
        frame = table.frame()
        frame.step([0] * ROWS)
        return table, frame

    def rows(self, *shape):
        return np.zeros(shape or (ROWS, HIDDEN), np.float32)

    def refuses(self, text, *arguments, kind=steergraph.InvalidError, **named):
        self.assertEqual(refusal(self.frame.apply, 0, *arguments, **named), (kind, text))

    def steered(self, rows):
        return rows[..., 1] == 2

    def test_every_type_is_steered_in_its_own_memory(self):
        for dtype in ("f32", "f16", "bf16"):
            with self.subTest(dtype):
                _, frame = self.made(dtype)
                rows = stored(self.rows(), dtype)
                self.assertIs(frame.apply(0, rows), rows)
                self.assertTrue((support.exact(rows)[:, 1] == 2).all())

    def test_leading_dimensions_are_rows(self):
        rows = self.rows(2, 3, HIDDEN)
        self.frame.apply(0, rows)
        self.assertTrue(self.steered(rows).all())

    def test_rows_may_be_apart(self):
        wide = self.rows(ROWS, HIDDEN + 3)
        self.frame.apply(0, wide[:, 1 : 1 + HIDDEN])
        self.assertTrue((wide[:, 2] == 2).all())
        self.assertEqual(wide.sum(), 2 * ROWS)

    def test_more_rows_than_the_step_are_left_alone(self):
        rows = self.rows(ROWS + 2, HIDDEN)
        self.frame.apply(0, rows)
        self.assertEqual(self.steered(rows).tolist(), [True] * ROWS + [False] * 2)

    def test_fewer_rows_than_the_step_are_refused(self):
        self.refuses("hidden has 5 rows, the frame's step has 6", self.rows(5, HIDDEN))

    def test_one_row_may_be_one_dimension(self):
        self.frame.step([0])
        row = self.rows(HIDDEN)
        self.frame.apply(0, row)
        self.assertEqual(row.tolist(), [0, 2, 0, 0])

    def test_no_rows_are_fine(self):
        self.frame.step([])
        self.frame.apply(0, self.rows(0, HIDDEN))

    def test_refuses_other_types(self):
        self.refuses(
            "hidden is float64; give float32, float16, or bf16 as uint16",
            self.rows().astype(np.float64),
        )
        self.refuses(
            "hidden is int32; give float32, float16, or bf16 as uint16",
            self.rows().astype(np.int32),
        )
        self.refuses("hidden is f16, the table takes f32", self.rows().astype(np.float16))
        swapped = self.rows().astype(np.dtype(np.float32).newbyteorder())
        self.assertIs(refusal(self.frame.apply, 0, swapped)[0], steergraph.InvalidError)
        self.refuses(
            "hidden is list, not a numpy array or a torch tensor", [[0.0] * 4], kind=TypeError
        )

    def test_refuses_other_widths(self):
        self.refuses(
            "hidden has rows of 5 elements, the table's hidden_size is 4", self.rows(ROWS, 5)
        )
        self.refuses("hidden has no dimension; give [rows, hidden_size]", np.float32(1)[...])

    def test_refuses_what_is_not_contiguous(self):
        self.refuses(
            "hidden is not contiguous: elements of a row are 2 apart",
            self.rows(ROWS, 2 * HIDDEN)[:, ::2],
        )
        self.refuses(
            "hidden is not contiguous: elements of a row are 6 apart", self.rows(HIDDEN, ROWS).T
        )
        self.refuses(
            "hidden is not contiguous: shape (2, 3, 4) with strides (16, 4, 1) is not one run of "
            "rows",
            self.rows(2, 4, HIDDEN)[:, :3],
        )
        self.refuses("hidden: rows of 4 elements are -4 apart", self.rows()[::-1])
        self.refuses(
            "hidden: rows of 4 elements are 0 apart",
            np.lib.stride_tricks.as_strided(self.rows(), (ROWS, HIDDEN), (0, 4)),
        )

    def test_refuses_what_may_not_be_written(self):
        rows = self.rows()
        rows.flags.writeable = False
        self.refuses("hidden is read-only", rows)
        out = self.rows()
        self.frame.apply(0, rows, out=out)
        self.assertTrue(self.steered(out).all() and not self.steered(rows).any())
        self.refuses("out is read-only", self.rows(), out=rows)

    def test_other_tensors_must_match_hidden(self):
        self.refuses("out has 7 rows, hidden has 6", self.rows(), out=self.rows(7, HIDDEN))
        self.refuses(
            "rows of out are 7 elements apart, those of hidden 4",
            self.rows(),
            out=self.rows(ROWS, 7)[:, :HIDDEN],
        )
        self.refuses(
            "out is f16, the table takes f32", self.rows(), out=self.rows().astype(np.float16)
        )
        self.refuses(
            "stg_steer_apply: residual is given, but the table's state is hidden",
            self.rows(),
            residual=self.rows(),
        )
        both = self.rows(ROWS + 1, HIDDEN)
        kind, text = refusal(self.frame.apply, 0, both[:-1], out=both[1:])
        self.assertIs(kind, steergraph.InvalidError)
        self.assertIn("overlap in part", text)

    def test_a_norms_weight_is_one_row(self):
        table, self.frame = self.made(
            "f32", state="hidden+residual", epilogue="add_rmsnorm", epsilon=1e-5
        )
        self.refuses(
            "weight has 2 rows; give one",
            self.rows(), residual=self.rows(), weight=self.rows(2, HIDDEN),
        )
        residual = self.rows()
        residual.flags.writeable = False
        self.refuses(
            "residual is read-only",
            self.rows(), residual=residual, weight=np.ones(HIDDEN, np.float32),
        )

    def test_layouts_that_were_taken_before_are_still_told_apart(self):
        for _ in range(2):
            rows = self.frame.apply(0, self.rows())
            self.assertTrue(self.steered(rows).all())
        rows.flags.writeable = False
        self.refuses("hidden is read-only", rows)
        self.refuses("hidden is f16, the table takes f32", self.rows().astype(np.float16))
        self.refuses(
            "hidden is int32; give float32, float16, or bf16 as uint16",
            self.rows().astype(np.int32),
        )
        self.refuses("hidden: rows of 4 elements are -4 apart", self.rows()[::-1])
        self.refuses("out has 7 rows, hidden has 6", self.rows(), out=self.rows(7, HIDDEN))
        self.frame.step([0] * (ROWS + 1))
        self.refuses("hidden has 6 rows, the frame's step has 7", self.rows())
        other = steergraph.Steering(self.engine, HIDDEN + 1, dtype="f32").frame()
        other.step([])
        found = refusal(other.apply, 0, self.rows())  # of another table
        self.assertEqual(
            found[1], "hidden has rows of 4 elements, the table's hidden_size is 5"
        )

    def test_probes_of_a_layout_follow_the_rows_of_hidden(self):
        table, self.frame = self.made("f32", probes=2)
        table.set(0, {0: [("probe", np.float32([0, 1, 0, 0]), 1)]})
        self.frame.step([0])
        cells = np.zeros((2, 2), np.float32)
        for _ in range(2):
            self.frame.apply(0, self.rows(2, HIDDEN) + 3, probes=cells)
            self.assertEqual(cells.tolist(), [[0, 3], [0, 0]])
            text = "probes is f32 [2, 2], the apply takes f32 [1, 2]"
            self.refuses(text, self.rows(1, HIDDEN), probes=cells)
        cells.flags.writeable = False
        self.refuses("probes is read-only", self.rows(2, HIDDEN), probes=cells)

    def test_more_layouts_than_a_table_remembers(self):
        self.frame.step([0])
        for turn in range(2):
            for rows in range(1, _apply.MOST_LAYOUTS + 20):
                found = self.frame.apply(0, self.rows(rows, HIDDEN))
                self.assertEqual(self.steered(found).sum(), 1)
        self.assertLessEqual(len(self.table.layouts._states), _apply.MOST_LAYOUTS)

    def test_the_members_of_an_apply_do_not_outlive_it(self):
        table, self.frame = self.made("f32", state="hidden+residual")
        out = self.rows()
        given = self.rows()
        self.frame.apply(0, given, residual=self.rows(), out=out)
        self.assertTrue(self.steered(out).all() and not self.steered(given).any())
        kind, text = refusal(self.frame.apply, 0, given)
        self.assertIn("residual", text)
        out[...] = 0
        self.frame.apply(0, given, residual=self.rows())
        self.assertTrue(self.steered(given).all() and not self.steered(out).any())

    def test_layers_are_integers_that_fit(self):
        for layer in (-1, 2**32, 2**70):
            kind, text = refusal(self.frame.apply, layer, self.rows())
            self.assertIs(kind, steergraph.CapacityError)
            self.assertEqual(text, f"a slot or layer is {layer}, not in 0..{2**32 - 1}")
        self.assertEqual(
            refusal(self.frame.apply, 0.0, self.rows()),
            (TypeError, "a slot or layer is 0.0, not an integer"),
        )
        for layer in (False, np.int64(0)):
            self.assertTrue(self.steered(self.frame.apply(layer, self.rows())).all())

    def test_row_maps(self):
        for entries in ([0, -1, -2], (0, -1, -2), np.int32([0, -1, -2])):
            self.frame.step(entries)
            rows = self.frame.apply(0, self.rows(3, HIDDEN))
            self.assertEqual(self.steered(rows).tolist(), [True, False, False])
        self.frame.step(np.int32([0, 0, 0]), rows=1)
        self.assertEqual(self.frame.rows, 1)
        for bad, text in (
            (np.int64([0]), "row_map is int64; give int32"),
            (np.int32([[0]]), "row_map is not one contiguous dimension"),
            (np.int32([0, 0, 0])[::2], "row_map is not one contiguous dimension"),
            ([2**31], "row_map has an entry that is no int32"),
        ):
            found = refusal(self.frame.step, bad)
            self.assertEqual(found, (steergraph.InvalidError, text))
        found = refusal(self.frame.step, [0], rows=2)
        self.assertEqual(found, (steergraph.InvalidError, "rows is 2, row_map has 1"))
        self.assertEqual(self.frame.rows, 1)  # a refused step changes nothing

    def test_entries_between_elements_are_refused(self):
        table = steergraph.Steering(self.frame.steering.engine, HIDDEN, dtype="f32", windows=True)
        frame = table.frame()
        fit, apart = np.zeros(1, np.int32), np.ndarray(1, np.int32, bytearray(8), offset=1)
        for name in ("row_map", "positions", "prompt_lens"):
            given = {"row_map": fit, "positions": fit, "prompt_lens": fit, name: apart}
            found = refusal(frame.step, **given)
            self.assertIs(found[0], steergraph.InvalidError)
            self.assertRegex(found[1], f"{name} at 0x[0-9a-f]+ lies between elements of 4 bytes")

    def test_dtypes_by_many_names(self):
        for name, word in (
            ("bf16", "bf16"), (np.float32, "f32"), (np.dtype("float16"), "f16"), ("float32", "f32")
        ):
            self.assertEqual(steergraph.Steering(self.engine, 4, dtype=name).dtype, word)
        kind, text = refusal(steergraph.Steering, self.engine, 4, dtype="int8")
        self.assertEqual(kind, steergraph.InvalidError)
        self.assertIn("'int8'", text)


class Streams(unittest.TestCase):
    """Which stream a call goes on, with a torch that has no more than this."""

    def torch_of(self, **raw):
        asked = []

        def current_stream(device):
            asked.append(device)
            return types.SimpleNamespace(cuda_stream=700)

        return asked, types.SimpleNamespace(
            _C=types.SimpleNamespace(**raw),
            cuda=types.SimpleNamespace(current_stream=current_stream),
            device=lambda text: text,
        )

    def test_the_address_of_torchs_current_stream(self):
        asked, torch = self.torch_of(_cuda_getCurrentRawStream=lambda index: 1000 + index)
        with mock.patch.dict(sys.modules, torch=torch):
            self.assertEqual(tensors.stream_of("cuda:0", None), 1000)
            self.assertEqual(tensors.stream_of("cuda:3", None), 1003)
        self.assertEqual(asked, [])

    def test_a_torch_without_addresses_has_objects(self):
        asked, torch = self.torch_of()
        with mock.patch.dict(sys.modules, torch=torch):
            self.assertEqual(tensors.stream_of("cuda:3", None), 700)
        self.assertEqual(asked, ["cuda:3"])

    def test_a_stream_that_is_given(self):
        asked, torch = self.torch_of()
        with mock.patch.dict(sys.modules, torch=torch):
            self.assertEqual(tensors.stream_of("cuda:0", 5), 5)
            given = types.SimpleNamespace(cuda_stream=6)
            self.assertEqual(tensors.stream_of("cuda:0", given), 6)
            kind, text = refusal(tensors.stream_of, "cuda:0", -1)
            self.assertEqual(text, f"stream is -1, not in 0..{2**64 - 1}")
            self.assertIsNone(tensors.stream_of("cpu", None))
        self.assertEqual(asked, [])

    def test_no_torch_is_the_default_stream(self):
        with mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            self.assertIsNone(tensors.stream_of("cuda:0", None))


tap.main()
