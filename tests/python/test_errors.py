"""Errors of the library as exceptions: one class per status, the library's own text."""
import unittest

import support  # noqa: F401
import tap
from steergraph import _abi, _errors
from support import np, refusal, steergraph


class Classes(unittest.TestCase):
    def test_every_class_stands_for_a_status_of_the_library(self):
        for status, kind in _errors.BY_STATUS.items():
            with self.subTest(kind.__name__):
                name = _abi.library().stg_status_name(status).decode()
                words = name.removeprefix("STG_E_").split("_")
                self.assertEqual(kind.__name__, "".join(map(str.capitalize, words)) + "Error")
                self.assertTrue(issubclass(kind, steergraph.SteergraphError))
                error = _errors.of_status(status, "the text")
                self.assertEqual((type(error), str(error)), (kind, "the text"))
                self.assertEqual(error.status, status)

    def test_a_status_of_a_newer_library_is_an_error_too(self):
        error = _errors.of_status(9999, "the text")
        self.assertIs(type(error), steergraph.SteergraphError)
        self.assertEqual((error.status, str(error)), (9999, "the text"))

    def test_python_knows_the_usual_kinds(self):
        for kind, usual in (
            (steergraph.InvalidError, ValueError),
            (steergraph.NoMemoryError, MemoryError),
            (steergraph.IoError, OSError),
            (steergraph.NotFoundError, LookupError),
            (steergraph.LibraryError, ImportError),
        ):
            self.assertTrue(issubclass(kind, usual))


class Texts(unittest.TestCase):
    def setUp(self):
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)
        self.table = steergraph.Steering(
            self.engine, 4, dtype="f32", max_slots=2, max_rows=8, max_chain=2, ops=["add", "swap"]
        )
        self.v = np.float32([0, 1, 0, 0])

    def refuses(self, kind, text, function, *arguments, **named):
        self.assertEqual(refusal(function, *arguments, **named), (kind, text))

    def test_a_table_that_cannot_be(self):
        self.refuses(
            steergraph.InvalidError,
            "hidden_size: 0 is not in 1..1048576",
            lambda: steergraph.Steering(self.engine, 0),
        )

    def test_slots_and_chains(self):
        v, table = self.v, self.table
        self.refuses(
            steergraph.NotDeclaredError,
            "slot 0: chains[0]: ops[0]: op 'ablation' is not among the 2 that the table declares",
            table.set, 0, {0: [("ablation", v)]},
        )
        self.refuses(
            steergraph.InvalidError,
            "slot 0: chains[0]: ops[0]: add: vector 'v' has 3 elements, hidden_size is 4",
            table.set, 0, {0: [("add", v[:3])]},
        )
        self.refuses(
            steergraph.InvalidError,
            "slot 0: chains[0]: ops[0]: add: vector 'v' is f16, the table's bank is f32; "
            "convert it",
            table.set, 0, {0: [("add", v.astype(np.float16))]},
        )
        self.refuses(
            steergraph.InvalidError,
            "op 'add' has no parameter 'scal', it has scale",
            table.set, 0, {0: [steergraph.op("add", v, scal=1)]},
        )
        self.refuses(
            steergraph.NotFoundError,
            "op 'mine' is not known here; register it first",
            table.set, 0, {0: [steergraph.op("mine", v, by=1)]},
        )
        for bad in (2, -1, 2**32):
            self.assertIs(refusal(table.set, bad, {})[0], steergraph.CapacityError)
            self.assertIs(refusal(table.clear, bad)[0], steergraph.CapacityError)
            self.assertIs(refusal(table.digest, bad)[0], steergraph.CapacityError)
        self.assertIs(
            refusal(table.set, 0, {0: [("add", v)] * 3})[0], steergraph.NotDeclaredError
        )
        self.assertIs(refusal(table.set_params, 0, 0, 0, [1])[0], steergraph.NotFoundError)

    def test_vectors(self):
        make = self.engine.vector
        kind, text = refusal(make, np.float32([1, np.nan]))
        self.assertIs(kind, steergraph.NonFiniteError)
        self.assertIn("1", text)
        self.assertIs(refusal(make, np.zeros(4, np.float32))[0], steergraph.InvalidError)
        self.assertIs(refusal(make, np.zeros(0, np.float32))[0], steergraph.InvalidError)
        self.refuses(
            steergraph.InvalidError,
            "a vector has shape (1, 4); give one dimension",
            make, self.v[None],
        )
        self.refuses(
            steergraph.InvalidError,
            "a vector is float64; give float32, float16, or bf16 as uint16",
            make, np.float64([1]),
        )
        self.refuses(
            TypeError, "a vector is list, not a numpy array or a torch tensor", make, [1.0]
        )
        self.refuses(
            steergraph.InvalidError, "a vector is f32, not the f16 asked for", make, self.v, "f16"
        )

    def test_steps(self):
        frame = self.table.frame()
        self.refuses(
            steergraph.BadSlotError,
            "row_map[1]: 2 is no slot below 2, nor -1 (unsteered) nor -2 (padding)",
            frame.step, [0, 2],
        )
        self.assertIs(refusal(frame.step, [0] * 9)[0], steergraph.CapacityError)
        self.assertIs(refusal(frame.plan)[0], steergraph.NotFoundError)
        self.refuses(
            steergraph.InvalidError,
            "stg_steer_apply: the frame has had no step; call stg_steer_step first",
            frame.apply, 0, np.ones((1, 4), np.float32),
        )
        frame.step([0])
        self.refuses(
            steergraph.InvalidError,
            "stg_steer_apply: layer 7 is not below the declared 1",
            frame.apply, 7, np.ones((1, 4), np.float32),
        )

    def test_integers_that_do_not_fit_are_refused_and_do_not_wrap(self):
        engine, table, v = self.engine, self.table, self.v
        frame, rows = table.frame(), np.ones((1, 4), np.float32)
        frame.step([0])

        def declared(name, value):
            return lambda: steergraph.Steering(engine, **{"hidden_size": 4, name: value})

        def opened(name, value):
            return lambda: steergraph.Engine("cpu", **{name: value})

        calls = {"hidden_size": (declared("hidden_size", 2**64 + 4), 2**64 + 4)}
        for name in ("layers", "max_rows", "max_slots", "max_vectors", "max_chain"):
            calls[name] = declared(name, 2**32 + 1), 2**32 + 1
        for name in ("row_buckets", "batch_buckets"):
            calls[name] = declared(name, [2**64 + 8]), 2**64 + 8
        for name in ("device", "max_plans", "compile_threads", "compile_queue"):
            calls[name] = opened(name, 2**32), 2**32
        for name in ("cache_max_bytes", "cache_max_entries"):
            calls[name] = opened(name, 2**64), 2**64
        for name in ("requests", "longest"):
            calls[name] = lambda name=name: frame.step([0], **{name: 2**32 + 1}), 2**32 + 1
        calls["rows"] = lambda: frame.step([0], rows=2**64 + 1), 2**64 + 1
        calls["a length"] = lambda: table.once(rows, [2**64 + 1], [[]]), 2**64 + 1
        calls["layer"] = lambda: table.set(0, {2**32: [("add", v)]}), 2**32
        calls["op_index"] = lambda: table.set_params(0, 0, 2**32, [1]), 2**32
        for what, (call, value) in calls.items():
            with self.subTest(what):
                kind, text = refusal(call)
                self.assertIs(kind, steergraph.InvalidError)
                self.assertTrue(text.startswith(f"{what} is {value}, not in "), text)
        for call in (
            lambda: table.set_params(0, 2**32, 0, [1]),
            lambda: frame.apply(2**32, rows),
        ):
            self.assertIs(refusal(call)[0], steergraph.CapacityError)

    def test_what_is_no_integer_is_no_number_of_anything(self):
        frame = self.table.frame()
        self.refuses(
            TypeError,
            "hidden_size is 4.0, not an integer",
            lambda: steergraph.Steering(self.engine, 4.0),
        )
        rows = np.ones((1, 4), np.float32)
        self.assertIs(refusal(self.table.once, rows, [1.5], [None])[0], TypeError)
        self.assertIs(refusal(frame.step, [0.5])[0], TypeError)
        self.table.set(np.int64(0), {np.int8(0): [("add", self.v)]})
        frame.step(list(np.int64([0])), rows=np.int32(1))
        self.table.once(rows, np.int32([1]), [None])

    def test_declared_sizes_of_0_are_the_librarys_defaults(self):
        table = steergraph.Steering(self.engine, 4, layers=0, max_rows=0)
        self.assertEqual((table.layers, table.max_rows), (1, 2048))

    def test_the_engine_goes_on_after_a_refusal(self):
        refusal(self.table.set, 0, {0: [("add", self.v[:3])]})
        self.table.set(0, {0: [("add", self.v)]})
        frame = self.table.frame()
        refusal(frame.step, [9])
        frame.step([0])
        rows = frame.apply(0, np.zeros((1, 4), np.float32))
        self.assertEqual(rows.tolist(), [self.v.tolist()])


tap.main()
