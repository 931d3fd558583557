"""Applies inside torch.cuda.graph: replays follow steps and slots, sizes share a frame."""
import gc
import threading
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap
import torch
from steergraph import torch_op
from torch_support import DEVICE, chain, refusal, rows_of, steergraph, unit_vectors

if support.ON_CPU:
    support.skip("needs torch.cuda.graph")

HIDDEN, ROWS, LAYERS = 512, 8, 3
DTYPE = torch.bfloat16


class Graphs(unittest.TestCase):
    def setUp(self):
        self.engine = support.engine()
        self.addCleanup(self.engine.close)
        self.table = steergraph.Steering(
            self.engine, HIDDEN, layers=LAYERS, dtype=DTYPE, max_slots=16
        )
        self.frame = self.table.frame()
        self.vectors = unit_vectors(8, HIDDEN, DTYPE)

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
        gc.collect()
        for _ in range(100):  # each waits for a tenth of a second: CUDA says late that it is gone
            if self.table.closed:
                break
            try:
                self.table.close()
            except steergraph.BusyError:
                pass
        self.assertTrue(self.table.closed)

    def test_captures_while_other_threads_set_slots_and_make_tables(self):
        stop, raised = threading.Event(), []

        def disturb():
            try:
                turn = 0
                while not stop.is_set():
                    turn += 1
                    self.table.set(8 + turn % 8, {0: [("add", self.vectors[turn % 8], turn)]})
                    with steergraph.Steering(self.engine, 8 * turn, dtype="f32", ops=["add"]):
                        pass
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            given, wanted = chain(("add", [self.vectors[0]], {"scale": 2.0}))
            self.table.set(0, {0: given})
            for turn in range(20):
                captured = self.captured(ROWS)
                values = rows_of(ROWS, HIDDEN, dtype=DTYPE, seed=turn)
                self.frame.step([0] * ROWS)
                found = self.replay(*captured, values)
                self.assertLessEqual(support.worst(values, found, wanted), 1)
        finally:
            stop.set()
            thread.join()
        self.assertEqual(raised, [])


tap.main()
