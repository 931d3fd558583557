"""The life of engines, tables, frames and vectors: opening, closing in any order, the log, ops."""
import contextlib
import gc
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import support
import tap
from steergraph import _abi, _handle, wire
from support import np, refusal, steergraph

SWITCH = "STEERLLM_COMPILE_STEERING"


def opened():
    """An engine with everything that can be made from one."""
    engine = steergraph.Engine("cpu")
    table = steergraph.Steering(engine, 4, dtype="f32")
    frame = table.frame()
    vector = engine.vector(np.float32([1, 0, 0, 0]))
    return {"engine": engine, "table": table, "frame": frame, "vector": vector}


class Switch(unittest.TestCase):
    def enabled(self, value):
        with mock.patch.dict(os.environ):
            os.environ.pop(SWITCH, None)
            if value is not None:
                os.environ[SWITCH] = value
            return steergraph.enabled()

    def test_is_off_unless_it_is_1(self):
        self.assertIs(self.enabled(None), False)
        self.assertIs(self.enabled(""), False)
        self.assertIs(self.enabled("0"), False)
        self.assertIs(self.enabled("1"), True)

    def test_refuses_any_other_value_and_says_so(self):
        kind, text = refusal(self.enabled, "yes")
        self.assertIs(kind, steergraph.InvalidError)
        self.assertIn(SWITCH, text)
        self.assertIn("yes", text)


class Life(unittest.TestCase):
    def test_says_what_it_runs_on(self):
        with steergraph.Engine("cpu") as engine:
            self.assertEqual((engine.backend, engine.arch, engine.device), ("cpu", "cpu", "cpu"))
            self.assertIn("cpu backend", engine.reason)
            self.assertTrue(engine.device_name)
            self.assertEqual(engine.driver_version, 0)

    def test_closes_in_any_order(self):
        for order in itertools.permutations(("engine", "table", "frame", "vector")):
            with self.subTest(order):
                things = opened()
                for name in order:
                    things[name].close()
                for name in order:
                    things[name].close()  # a second time does nothing

    def test_is_collected_in_any_order(self):
        for order in itertools.permutations(("engine", "table", "frame", "vector")):
            with self.subTest(order):
                things = opened()
                for name in order:
                    del things[name]
                    gc.collect()

    def test_keeps_alive_what_a_frame_needs(self):
        frame = opened()["frame"]
        gc.collect()
        frame.step([-1])
        self.assertEqual(frame.apply(0, np.ones((1, 4), np.float32)).sum(), 4)

    def test_closing_an_engine_closes_what_was_made_from_it(self):
        things = opened()
        things["engine"].close()
        self.assertTrue(things["table"].closed and things["frame"].closed)
        for call, what in (
            (lambda: things["engine"].stats(), "engine"),
            (lambda: things["table"].clear(0), "steer table"),
            (lambda: things["table"].frame(), "steer table"),
            (lambda: things["frame"].step([0]), "frame"),
            (lambda: things["frame"].plan(), "frame"),
            (lambda: things["engine"].vector(np.ones(4, np.float32)), "engine"),
            (lambda: steergraph.Steering(things["engine"], 4), "engine"),
        ):
            self.assertEqual(refusal(call), (steergraph.ClosedError, f"the {what} is closed"))

    def test_a_closed_table_takes_no_apply_and_its_engine_goes_on(self):
        things = opened()
        things["table"].close()
        rows = np.ones((1, 4), np.float32)
        kind, _ = refusal(things["frame"].apply, 0, rows)
        self.assertIs(kind, steergraph.ClosedError)
        with steergraph.Steering(things["engine"], 8) as other:
            self.assertGreater(other.device_bytes, 0)
        things["engine"].close()

    def test_a_closed_vector_cannot_be_put_into_a_slot(self):
        things = opened()
        things["vector"].close()
        kind, text = refusal(things["table"].set, 0, {0: [("add", things["vector"])]})
        self.assertEqual((kind, text), (steergraph.ClosedError, "the vector is closed"))

    def test_a_slot_holds_its_vectors_itself(self):
        things = opened()
        things["table"].set(0, {0: [("add", things["vector"], 2)]})
        things["vector"].close()
        things["frame"].step([0])
        rows = things["frame"].apply(0, np.zeros((1, 4), np.float32))
        self.assertEqual(rows.tolist(), [[2, 0, 0, 0]])

    def test_blocks_close(self):
        with steergraph.Engine("cpu") as engine:
            with steergraph.Steering(engine, 4) as table, table.frame() as frame:
                frame.step([-1])
            self.assertTrue(frame.closed)
        self.assertTrue(engine.closed)

    def test_a_process_ends_with_everything_open(self):
        text = f"""
import sys
sys.argv[1:] = [{support.LIBRARY!r}]
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import support
engine = support.steergraph.Engine("cpu")
table = support.steergraph.Steering(engine, 4)
frame = table.frame()
frame.step([0])
"""
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_forked_child_leaves_the_parents_objects_alone(self):
        things = opened()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                things["engine"].close()
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        things["frame"].step([0])
        things["engine"].close()

    def in_a_child_forked_under(self, lock, act):
        """Fork while another thread holds a lock; whether `act` comes to its end in the child."""
        inside, done = threading.Event(), threading.Event()

        def hold():
            with lock:
                inside.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(10)  # a child that hangs is ended
                act()
                code = 0
            finally:
                os._exit(code)
        done.set()
        thread.join()
        return os.waitpid(child, 0)[1] == 0

    def test_a_child_finds_every_lock_free_that_a_thread_held(self):
        def own_engine():
            with steergraph.Engine("cpu") as engine:
                rows = np.zeros((1, 2), np.float32)
                ops = [("add", np.float32([1, 0]), 1.0)]
                steergraph.Wire(engine).apply(rows, [1], [ops])
                assert rows.tolist() == [[1, 0]], rows

        def answered(call, *arguments):
            """A call of the parent's objects: the backend may take it or refuse it."""
            with contextlib.suppress(steergraph.ForkedError):
                call(*arguments)

        things = opened()
        batches = steergraph.Wire(things["engine"])
        batch = np.zeros((1, 2), np.float32), [1], [None]
        for what, lock, act, *arguments in (
            ("handles", _handle._lock, own_engine),
            ("closing", _handle._lock, things["engine"].close),
            ("library", _abi._lock, steergraph.load),
            ("engines", wire._engines_lock, steergraph.apply_per_request_steering, *batch),
            ("wire", batches._lock, batches.apply, *batch),
            ("frame", things["frame"].lock, things["frame"].step, [0]),
        ):
            with self.subTest(what):
                self.assertTrue(
                    self.in_a_child_forked_under(lock, lambda: answered(act, *arguments))
                )
        things["engine"].close()


class Options(unittest.TestCase):
    def test_refuses_words_that_it_does_not_know(self):
        kind, text = refusal(steergraph.Engine, "gpu")
        self.assertIs(kind, steergraph.InvalidError)
        self.assertEqual(text, "backend is 'gpu', not one of 'auto', 'cuda', 'cpu'")
        kind, text = refusal(steergraph.Engine, "cpu", log_level="loud")
        self.assertIn("log_level is 'loud'", text)

    def test_hands_the_log_to_a_function(self):
        said = []
        steergraph.Engine(
            "cpu", log=lambda level, text: said.append((level, text)), log_level="info"
        ).close()
        self.assertIn("info", [level for level, _ in said])
        self.assertTrue(any("cpu backend" in text for _, text in said))

    def test_refuses_a_log_that_cannot_be_called(self):
        for bad in (0, "", "stderr", []):
            kind, text = refusal(steergraph.Engine, "cpu", log=bad)
            self.assertIs(kind, TypeError)
            self.assertEqual(text, f"log is {bad!r}, neither a function nor None")

    def test_takes_paths_in_every_form(self):
        with tempfile.TemporaryDirectory() as folder:
            odd = os.fsencode(folder) + b"/\xff"
            for form in (odd, os.fsdecode(odd), pathlib.Path(os.fsdecode(odd))):
                steergraph.Engine("cpu", cache=form).close()
                self.assertIs(steergraph.load(), steergraph.load(os.fsencode(support.LIBRARY)))
        for name in ("cache", "pack"):
            kind, text = refusal(steergraph.Engine, "cpu", **{name: "/tmp/a\0b"})
            self.assertIs(kind, steergraph.InvalidError)
            self.assertEqual(text, f"{name} is '/tmp/a\\x00b', which has a NUL byte")
            self.assertIs(refusal(steergraph.Engine, "cpu", **{name: 5})[0], TypeError)

    def test_logs_to_logging_by_itself(self):
        with self.assertLogs("steergraph", "INFO") as logs:
            steergraph.Engine("cpu", log_level="info").close()
        self.assertIn("cpu backend", logs.output[0])

    def test_takes_the_environment_or_not(self):
        with mock.patch.dict(os.environ, {"STEERGRAPH_LOG": "loud"}):
            kind, text = refusal(steergraph.Engine, "cpu")
            self.assertIs(kind, steergraph.InvalidError)
            self.assertIn("STEERGRAPH_LOG", text)
            steergraph.Engine("cpu", environment=False).close()

    def test_takes_limits_and_a_mode_of_the_cache(self):
        names = ("cache_max_bytes", "cache_max_entries", "cache_mode")
        given = {"cache_max_bytes": 2**40, "cache_max_entries": 7, "cache_mode": "memory"}
        environment = {"STEERGRAPH_CACHE_MAX_SIZE": "3K", "STEERGRAPH_CACHE_MAX_ENTRIES": "none"}
        seen = []
        call = _abi.call

        def look(name, *words):
            if name == "stg_engine_create":
                seen.append(tuple(getattr(words[0]._obj, option) for option in names))
            return call(name, *words)

        with mock.patch.dict(os.environ, environment), mock.patch.object(_abi, "call", look):
            for words in (given, {}, {"cache_max_entries": 0}):
                steergraph.Engine("cpu", **words).close()
        self.assertEqual(seen, [(2**40, 7, 4), (3072, 2**64 - 1, 0), (3072, 0, 0)])


class Ops(unittest.TestCase):
    NUDGE = {
        "op": "nudge",
        "vectors": ["v"],
        "params": {"by": {"default": 1}, "twice": {"default": 0}},
        "body": ["h += (by + twice + twice) * v"],
    }

    def test_a_registered_op_acts_and_takes_its_parameters_by_name(self):
        with steergraph.Engine("cpu") as engine:
            engine.register_op(self.NUDGE)
            engine.register_op(self.NUDGE)  # the same again is success
            table = steergraph.Steering(engine, 2, dtype="f32", ops=["add", "nudge"])
            v = np.float32([0, 1])
            table.set(0, {0: [steergraph.op("nudge", v, twice=3), ("nudge", v, {"by": 10})]})
            frame = table.frame()
            frame.step([0])
            rows = frame.apply(0, np.zeros((1, 2), np.float32))
            self.assertEqual(rows.tolist(), [[0, 17]])

    def test_a_malformed_op_is_refused_with_its_place(self):
        with steergraph.Engine("cpu") as engine:
            bad = {**self.NUDGE, "body": ["h += by * w"]}
            kind, text = refusal(engine.register_op, bad, "my_op.json")
            self.assertIs(kind, steergraph.FormatError)
            self.assertIn("my_op.json", text)
            self.assertIn("w", text)

    def test_names_are_whole(self):
        with steergraph.Engine("cpu") as engine:
            table = steergraph.Steering(engine, 2, dtype="f32")
            for call in (
                lambda: table.set(0, {0: [("add\0x", np.float32([0, 1]))]}),
                lambda: steergraph.Steering(engine, 2, ops=["add\0x"]),
                lambda: engine.register_op(self.NUDGE, "my\0op.json"),
            ):
                kind, text = refusal(call)
                self.assertIs(kind, steergraph.InvalidError)
                self.assertIn("which has a NUL byte", text)

    def test_counts(self):
        things = opened()
        things["frame"].step([0])
        things["frame"].apply(0, np.ones((1, 4), np.float32))
        stats = things["engine"].stats()
        self.assertEqual((stats["steps"], stats["applies"], stats["vectors_live"]), (1, 1, 1))
        self.assertEqual(stats["host_graphs_live"], 0)
        things["vector"].close()
        self.assertEqual(things["engine"].stats()["vectors_live"], 0)
        things["engine"].close()


class Library(unittest.TestCase):
    def test_is_loaded_once(self):
        self.assertIs(steergraph.load(), steergraph.load(support.LIBRARY))
        kind, text = refusal(steergraph.load, "/nowhere/libsteergraph.so")
        self.assertIs(kind, steergraph.LibraryError)
        self.assertIn("loaded already", text)

    def test_is_an_import_error_with_a_remedy_where_it_is_not_found(self):
        text = f"""
import sys
sys.path.insert(0, {str(support.ROOT / "tools" / "python")!r})
import steergraph
try:
    steergraph.load("/nowhere/libsteergraph.so")
except ImportError as error:
    print(error)
print(any(name in sys.modules for name in ("numpy", "torch")))
"""
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        said, imported = done.stdout.splitlines()
        self.assertIn("/nowhere/libsteergraph.so: cannot open shared object file", said)
        self.assertIn("in LD_LIBRARY_PATH when Python starts", said)
        self.assertIn("steergraph.load('/path/to/libsteergraph.so')", said)
        self.assertEqual(imported, "False")


tap.main()
