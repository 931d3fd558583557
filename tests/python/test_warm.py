"""Manifests from Python: saving traffic, warming from a path, text and a dict, progress, refusals."""
import json
import os
import pathlib
import tempfile
import unittest

import support
import tap
from support import refusal, steergraph

NUDGE = {"op": "nudge", "vectors": ["v"], "body": ["h += 0.25 * v"]}
STEER = "steer v1 | ops=add chain<=16 | hidden=4 dtype=f32 bank=f32 state=hidden | tile=decode"
REST = " epilogue=none windows=0 counters=0 probes=0 | batch<=8 seq<=1 rows<="


def manifest(count):
    entries = [{"signature": f"{STEER}{REST}{k + 1}", "count": count - k} for k in range(count)]
    return {"steergraph": 1, "manifest": entries}


class Warm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steergraph-warm-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.engine = steergraph.Engine("cpu")
        self.addCleanup(self.engine.close)

    def test_what_was_stepped_is_saved_and_warmed(self):
        self.engine.register_op(NUDGE)
        table = steergraph.Steering(self.engine, 4, dtype="f32", ops=["add", "nudge"])
        frame = table.frame()
        for rows in (1, 2, 2, 2):
            frame.step([steergraph.UNSTEERED] * rows)
        self.engine.save_traffic(self.folder / "t.json")
        saved = json.loads((self.folder / "t.json").read_text())
        self.assertEqual([entry["count"] for entry in saved["manifest"]], [3, 1])
        ((key, op),) = saved["user_ops"].items()
        self.assertEqual((op["op"], op["body"]), ("nudge", NUDGE["body"]))
        self.assertIn(f"ops=add,user:{key} ", saved["manifest"][0]["signature"])
        with steergraph.Engine("cpu") as later:
            report = later.warm(self.folder / "t.json")
            self.assertEqual((report["total"], report["done"], report["left"]), (2, 2, 0))
            self.assertEqual(later.stats()["plans_live"], 2)

    def test_takes_a_path_text_and_a_dict(self):
        path = self.folder / "m.json"
        path.write_text(json.dumps(manifest(3)))
        for given in (path, str(path), path.read_text(), "\n " + path.read_text(), manifest(3)):
            self.assertEqual(self.engine.warm(given)["done"], 3)

    def test_tells_how_far_it_is(self):
        told = []
        self.engine.warm(manifest(3), threads=2, progress=lambda *what: told.append(what))
        self.assertEqual([(done, total) for done, total, _, _ in told], [(0, 3), (1, 3), (2, 3), (3, 3)])
        self.assertEqual([current for _, _, current, _ in told], [*(f"{STEER}{REST}{k}" for k in (1, 2, 3)), None])
        self.assertEqual((told[0][3], told[3][3]), (None, 0))
        self.assertGreaterEqual(told[1][3], 0)

    def test_a_function_that_says_false_or_raises_ends_it(self):
        report = self.engine.warm(manifest(3), progress=lambda done, *_: done < 2)
        self.assertEqual((report["done"], report["left"]), (2, 1))

        def interrupt(done, *_):
            if done == 1:
                raise KeyboardInterrupt("stop")

        kind = None
        try:
            self.engine.warm(manifest(3), progress=interrupt)
        except KeyboardInterrupt as error:
            kind = str(error)
        self.assertEqual(kind, "stop")

    def test_a_deadline_leaves_the_rest(self):
        report = self.engine.warm(manifest(5000), deadline=0.001)
        self.assertGreater(report["left"], 0)
        self.assertEqual(report["done"] + report["left"], 5000)

    def test_a_file_longer_than_a_manifest_may_be(self):
        path = self.folder / "long.json"
        with open(path, "wb") as file:
            file.truncate(1 << 40)  # of which most is never read
        found = refusal(self.engine.warm, path)
        self.assertIs(found[0], steergraph.FormatError)

    def test_refusals(self):
        for deadline in (0, -1, float("nan"), float("inf"), 1e9):
            kind, text = refusal(self.engine.warm, manifest(1), deadline=deadline)
            self.assertIs(kind, steergraph.InvalidError)
            self.assertEqual(text, f"deadline is {deadline!r}, not seconds above 0 and up to 4000000")
        self.assertIs(refusal(self.engine.warm, manifest(1), threads=-1)[0], steergraph.InvalidError)
        self.assertIs(refusal(self.engine.warm, manifest(1), progress=1)[0], TypeError)
        for given, kind in ((3, "int"), (json.dumps(manifest(9)).encode(), "bytes"), ([], "list")):
            self.assertEqual(
                refusal(self.engine.warm, given),
                (TypeError, f"manifest is {kind}, neither a path nor the text or dict of a manifest"),
            )
        self.assertIs(refusal(self.engine.warm, self.folder / "none.json")[0], FileNotFoundError)
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)  # nobody writes
        for path in (fifo, self.folder, "/dev/zero"):
            said = (steergraph.IoError, f"cannot read '{path}': it is not a file")
            self.assertEqual(refusal(self.engine.warm, path), said)
        kind, text = refusal(self.engine.warm, '{"steergraph": 1}')
        self.assertIs(kind, steergraph.FormatError)
        self.assertEqual(text, "<manifest>: 'manifest' is missing")
        path = self.folder / "m.json"
        path.write_text(json.dumps({"steergraph": 1, "manifest": [{"signature": "x", "count": 1}]}))
        text = refusal(self.engine.warm, path)[1]
        self.assertIn(f"{path}: manifest[0].signature: column 1: ", text)
        self.assertIs(refusal(self.engine.save_traffic, self.folder / "no" / "t")[0], steergraph.IoError)
        self.engine.close()
        self.assertIs(refusal(self.engine.warm, manifest(1))[0], steergraph.ClosedError)
        self.assertIs(refusal(self.engine.save_traffic, path)[0], steergraph.ClosedError)


tap.main()
