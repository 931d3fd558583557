"""Applies inside torch.cuda.graph: replays follow steps and slots, sizes share a frame."""
import ctypes
import itertools
import threading
import time
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_op
from torch_support import DEVICE, chain, closed_late, refusal, rows_of, steergraph, unit_vectors

if support.ON_CPU:
    support.skip("needs torch.cuda.graph")

HIDDEN, ROWS, LAYERS = 512, 8, 3
DTYPE = torch.bfloat16
PREFILL_ROWS = 300  # a capture of as many wants the prefill tile
OPS = ("ablation", "add", "add_keep_norm", "add_norm_matched",
       "gated_add", "projection_cap", "scale_norm", "swap")  # fmt: skip
LIMIT_S = 240
KERNEL_NODE = 0


def driver(name, *arguments):
    """Call libcuda as it is."""
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if status != 0:
        raise AssertionError(f"{name} returns {status}")


def nodes_so_far():
    """The kinds of the nodes that the capture of the current stream has recorded."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status, graph, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t()
    driver(
        "cuStreamGetCaptureInfo_v2",
        stream,
        ctypes.byref(status),
        None,
        ctypes.byref(graph),
        None,
        None,
    )
    if status.value != 1:
        raise AssertionError(f"the capture has status {status.value}")
    driver("cuGraphGetNodes", graph, None, ctypes.byref(count))
    if count.value == 0:
        return []  # the driver refuses to copy none
    nodes = (ctypes.c_void_p * count.value)()
    driver("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    kinds = []
    for node in nodes:
        kind = ctypes.c_int()
        driver("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        kinds.append(kind.value)
    return kinds


def cold_engine(**options):
    """Nothing in any cache, and compiles in the background."""
    return steergraph.Engine(
        "cuda", 0, compile="background", cache_mode="off", pack="", environment=False, **options
    )


def pairs_of_ops():
    """Names for tables that no other shares a declared kernel with."""
    return itertools.combinations(OPS, 2)


class Graphs(unittest.TestCase):
    def setUp(self):
        self.open(support.engine())
        self.vectors = unit_vectors(8, HIDDEN, DTYPE)

    def open(self, engine):
        """The table and the frame of the case."""
        self.engine = engine
        self.addCleanup(engine.close)
        self.table = steergraph.Steering(engine, HIDDEN, layers=LAYERS, dtype=DTYPE, max_slots=16)
        self.frame = self.table.frame()

    def captured(self, rows, out_of_place=False):
        """(graph, input, output) of an apply per layer."""
        static = torch.zeros(rows, HIDDEN, dtype=DTYPE, device=DEVICE)

        def model():
            hidden = static.clone()
            for layer in range(LAYERS):
                if out_of_place:
                    hidden = torch_op.apply(self.frame, layer, hidden)
                else:
                    torch_op.apply_(self.frame, layer, hidden)
            return hidden

        self.frame.step([-1] * rows)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model()
        return graph, static, out

    def replay(self, graph, static, out, values):
        static.copy_(values)
        graph.replay()
        return out.clone()

    def test_replays_follow_the_steps_and_the_slots(self):
        for out_of_place in (False, True):
            captured = self.captured(ROWS, out_of_place)
            values = rows_of(ROWS, HIDDEN, dtype=DTYPE)
            self.assertTrue(torch.equal(self.replay(*captured, values), values))
            for turn in range(100):
                v = self.vectors[turn % len(self.vectors)]
                layer, slot, row = turn % LAYERS, turn % 16, turn % ROWS
                given, wanted = chain(("add", [v], {"scale": 1.0 + turn % 7}))
                self.table.set(slot, {layer: given})
                self.frame.step([slot if k == row else -1 for k in range(ROWS)])
                found = self.replay(*captured, values)
                part = slice(row, row + 1)
                self.assertLessEqual(support.worst(values[part], found[part], wanted), 1)
                others = [k for k in range(ROWS) if k != row]
                self.assertTrue(torch.equal(found[others], values[others]))
            torch.cuda.synchronize()

    def test_a_slot_cleared_between_replays_steers_no_more(self):
        captured = self.captured(ROWS)
        values = rows_of(ROWS, HIDDEN, dtype=DTYPE)
        self.table.set(0, {0: [("add", self.vectors[0], 4.0)]})
        self.frame.step([0] * ROWS)
        self.assertFalse(torch.equal(self.replay(*captured, values), values))
        self.table.clear(0)
        self.frame.step([0] * ROWS)
        self.assertTrue(torch.equal(self.replay(*captured, values), values))

    def test_sizes_share_a_frame(self):
        sizes = {rows: self.captured(rows) for rows in (1, 2, 4, 8)}
        given, wanted = chain(("add", [self.vectors[0]], {"scale": 2.0}))
        self.table.set(0, {0: given})
        for rows in (8, 1, 4, 2, 8):
            values = rows_of(rows, HIDDEN, dtype=DTYPE, seed=rows)
            self.frame.step([0] * rows)
            found = self.replay(*sizes[rows], values)
            self.assertLessEqual(support.worst(values, found, wanted), 1)

    def test_fewer_rows_than_were_captured_leave_the_others_alone(self):
        captured = self.captured(ROWS)
        given, wanted = chain(("add", [self.vectors[0]], {"scale": 2.0}))
        self.table.set(0, {0: given})
        values = rows_of(ROWS, HIDDEN, dtype=DTYPE)
        self.frame.step([0] * 3)
        found = self.replay(*captured, values)
        self.assertLessEqual(support.worst(values[:3], found[:3], wanted), 1)
        self.assertTrue(torch.equal(found[3:], values[3:]))

    def test_a_step_inside_a_capture_is_refused_and_the_capture_goes_on(self):
        self.frame.step([-1] * ROWS)
        rows = torch.zeros(ROWS, HIDDEN, dtype=DTYPE, device=DEVICE)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = refusal(self.frame.step, [0] * ROWS)
            self.table.set(0, {0: [("add", self.vectors[0], 2.0)]})  # allowed
            torch_op.apply_(self.frame, 0, rows)
        self.assertIs(found[0], steergraph.CapturingError)
        self.frame.step([0] * ROWS)
        graph.replay()
        self.assertTrue(torch.equal(rows[0], 2 * self.vectors[0].to(DEVICE)))

    def test_a_table_is_busy_until_its_graphs_are_gone(self):
        captured = self.captured(ROWS)
        given, wanted = chain(("add", [self.vectors[0]], {"scale": 2.0}))
        self.table.set(0, {0: given})
        self.frame.step([0] * ROWS)
        values = rows_of(ROWS, HIDDEN, dtype=DTYPE)
        kind, said = refusal(self.table.close)
        self.assertIs(kind, steergraph.BusyError)
        self.assertIn("1 host graphs that were captured with this table are alive", said)
        self.assertTrue(self.frame.closed)
        found = self.replay(*captured, values)  # by the last step of the frame
        self.assertLessEqual(support.worst(values, found, wanted), 1)
        torch.cuda.synchronize()
        del captured
        self.assertTrue(closed_late(self.table))

    def test_an_apply_is_one_kernel_node_and_nothing_else(self):
        self.frame.step([-1] * ROWS)
        rows = torch.zeros(ROWS, HIDDEN, dtype=DTYPE, device=DEVICE)
        calls = {
            "in place": lambda layer: torch_op.apply_(self.frame, layer, rows),
            "out of place": lambda layer: torch_op.apply(self.frame, layer, rows),
            "by the frame": lambda layer: self.frame.apply(layer, rows),
        }
        for call in calls.values():
            call(0)
        graph = torch.cuda.CUDAGraph()
        counted, kept = {}, []
        with torch.cuda.graph(graph):
            for name, call in calls.items():
                before = len(nodes_so_far())
                kept += [call(layer) for layer in range(LAYERS)]
                counted[name] = nodes_so_far()[before:]
        for name, kinds in counted.items():
            with self.subTest(name):
                self.assertEqual(kinds, [KERNEL_NODE] * LAYERS)
        graph.replay()
        torch.cuda.synchronize()

    def test_a_kernel_that_is_not_there_is_refused_and_the_capture_goes_on(self):
        engine = cold_engine(compile_threads=1)
        self.addCleanup(engine.close)
        # kernels that nobody waits for: on one thread, the prefill tile of the last table is behind
        # them, seconds away
        crowd = [
            steergraph.Steering(engine, HIDDEN, dtype=DTYPE, ops=ops)
            for ops in itertools.islice(pairs_of_ops(), 6)
        ]
        table = steergraph.Steering(engine, 2 * HIDDEN, dtype=DTYPE)
        (v,) = unit_vectors(1, 2 * HIDDEN, DTYPE)
        table.set(0, {0: [("add", v, 2.0)]})
        frame = table.frame()
        frame.step([0] * PREFILL_ROWS)
        rows = torch.zeros(PREFILL_ROWS, 2 * HIDDEN, dtype=DTYPE, device=DEVICE)
        other = torch.zeros(ROWS, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kind, said = refusal(torch_op.apply_, frame, 0, rows)
            after = nodes_so_far()
            other.add_(1)
        self.assertIs(kind, steergraph.NotWarmError)
        self.assertIn("tile=prefill", said)
        self.assertIn("is not there yet: capture when stg_engine_stats counts no compile", said)
        self.assertEqual(after, [])
        for _ in range(2):
            graph.replay()
        self.assertTrue((other == 2).all())
        self.assertTrue((rows == 0).all())
        self.wait_for_compiles(engine)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # without another step
            torch_op.apply_(frame, 0, rows)
            after = nodes_so_far()
        self.assertEqual(after, [KERNEL_NODE])
        graph.replay()
        self.assertTrue(torch.equal(rows, (2 * v.to(DEVICE)).expand_as(rows)))
        self.assertEqual(engine.stats()["kernel_compiles"], 2 * (len(crowd) + 2))

    def wait_for_compiles(self, engine):
        until = time.monotonic() + LIMIT_S
        while (stats := engine.stats())["compiles_queued"] + stats["compiles_running"] > 0:
            self.assertLess(time.monotonic(), until, "compiles that do not end")
            time.sleep(0.01)

    def test_captures_while_other_threads_set_slots_and_fifty_kernels_compile(self):
        self.open(cold_engine())
        pairs = list(itertools.islice(pairs_of_ops(), 25))  # each has a kernel per tile
        wanted_swaps = 2 * len(pairs)
        tables, raised = [], []

        def disturb():
            try:
                for turn, ops in enumerate(pairs):
                    tables.append(steergraph.Steering(self.engine, HIDDEN, dtype=DTYPE, ops=ops))
                    self.table.set(8 + turn % 8, {0: [("add", self.vectors[turn % 8], turn)]})
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=disturb)
        until = time.monotonic() + LIMIT_S
        given, wanted = chain(("add", [self.vectors[0]], {"scale": 2.0}))
        self.table.set(0, {0: given})
        turn = 0
        thread.start()
        try:
            while not raised and (turn < 20 or self.engine.stats()["kernel_swaps"] < wanted_swaps):
                self.assertLess(time.monotonic(), until, "compiles that do not end")
                captured = self.captured(ROWS)
                values = rows_of(ROWS, HIDDEN, dtype=DTYPE, seed=turn)
                self.frame.step([0] * ROWS)
                found = self.replay(*captured, values)
                self.assertLessEqual(support.worst(values, found, wanted), 1)
                turn += 1
        finally:
            thread.join()
        self.assertEqual(raised, [])
        stats = self.engine.stats()
        self.assertEqual(stats["kernel_swaps"], wanted_swaps)
        self.assertEqual(stats["kernel_compiles"], 2 + wanted_swaps)
        print(f"# {turn} captures while {wanted_swaps} kernels compiled")


tap.main()
