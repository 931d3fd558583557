#!/usr/bin/env python3
"""bench show: rows of an earlier run, printed and drawn as that run did; no GPU is asked for."""
import json
import os
import xml.dom.minidom

import tap
from cli import DONE, FAILED, ROOT, WRONG, Case

RESULTS = sorted((ROOT / "tools" / "bench" / "results").glob("*.json"))


def row(**changes):
    value = {
        "suite": "steer", "name": "1 op", "series": "steergraph", "card": "Card 1", "driver": 13000,
        "cuda": "13.0.88", "median_us": 12.345678901234567, "min_us": 12.0, "max_us": 13.5,
        "wall_us": 20.25, "floor_us": 10.0, "ratio": 1.2345678901234567, "rows": 2048,
    }
    value.update(changes)
    return value


def without(key):
    value = row()
    del value[key]
    return value


class Show(Case):
    def show(self, data, *words):
        return self.succeed("bench", "show", self.write("run.json", data), *words)

    def test_rows_are_printed_as_the_run_printed_them(self):
        out = self.show([row(), row(series="copy", median_us=None, min_us=None, max_us=None,
                                    wall_us=None, floor_us=None, ratio=None)]).out.splitlines()
        self.assertEqual(out[0], "Card 1, driver 13.0, NVRTC 13.0.88")
        self.assertEqual(out[1].split("  "), [
            "steer", "1 op", "steergraph", "12.35 us", "wall 20.25 us", "floor 10.00 us", "x 1.23",
            "rows 2048"])
        self.assertEqual(len(out), 3)

    def test_json_is_the_rows_with_all_their_digits(self):
        rows = [row(), row(series="torch x", cuda="12.8", calls="inf", other="nan", less="-inf"),
                row(suite="numerics", name="x", median_us=None, min_us=None, max_us=None, ratio=None,
                    wall_us=None, floor_us=None)]
        for data in (rows, {"rows": rows}, {"commit": "abc", "date": None, "rows": rows}):
            found = self.show(data, "--json").json()
            self.assertEqual(found, rows)
            self.assertEqual([list(one) for one in found], [list(one) for one in rows])

    def test_the_release_of_the_driver_is_shown_where_rows_have_it(self):
        first = {}
        for key, value in row().items():
            first[key] = value
            if key == "ratio":
                first["driver_release"] = "580.159.04"
        rows = [first, row(series="copy")]  # the second of another program
        found = self.show(rows, "--json").json()
        self.assertEqual([list(one) for one in found], [list(one) for one in rows])
        self.assertEqual(found, rows)
        self.assertIn("driver 13.0 (580.159.04), NVRTC", self.show(rows).out)

    def test_what_it_prints_it_reads_again(self):
        once = self.show([row()], "--json").out
        self.assertEqual(self.show(once, "--json").out, once)

    def test_a_run_of_a_suite_is_given_out_again(self):
        for words in (("numerics", "--quick", "swap"), ("padding", "--quick")):
            with self.subTest(words=words):
                printed = self.succeed("bench", *words, "--json").out
                self.assertEqual(self.show(printed, "--json").out, printed)

    def test_rows_of_a_run_without_a_gpu_name_the_processor(self):
        data = [row(card="Some CPU", driver=0, cuda=None)]
        self.assertEqual(self.show(data).out.splitlines()[0], "no GPU, driver 0.0, NVRTC none")
        self.assertEqual(self.show(data, "--json").json(), data)

    def test_the_plot_is_xml_and_names_the_machine(self):
        path = self.folder / "x.svg"
        self.show([row()], "--plot", path)
        first = path.read_bytes()
        xml.dom.minidom.parseString(first)
        self.assertIn("steergraph on Card 1", first.decode())
        self.show([row()], "--plot", path)
        self.assertEqual(path.read_bytes(), first)

    def test_rows_of_attention_are_shown_and_drawn(self):
        token = {"lengths": 1024, "recompiles": 0, "cudagraphs": 1, "mae": 1.25e-8, "peak_bytes": 51380224}
        none = {"median_us": None, "min_us": None, "max_us": None, "floor_us": None, "ratio": None}
        rows = [row(suite="rope", name="2048, 32/8 heads of 128", moved_mb=50.3),
                row(suite="attend", name="32 x 512 to 4096, 32/8 heads of 128", series="torch SDPA with mask"),
                row(suite="attend", name="every length to 1024, 8 x 12 heads of 64, float32", **none, **token),
                row(suite="run", name="peers", **none)]  # fmt: skip
        self.assertEqual(self.show(rows, "--json").json(), rows)
        self.assertIn("recompiles 0, cudagraphs 1, mae 1.25e-08", self.show(rows).out)
        path = self.folder / "x.svg"
        self.show(rows, "--plot", path)
        for title in ("Split and rotate", "Attention over a cache", "every length of its cache"):
            self.assertIn(title, path.read_text())

    def test_rows_of_components_are_shown_and_drawn(self):
        none = {"median_us": None, "min_us": None, "max_us": None, "wall_us": None, "floor_us": None, "ratio": None}
        rows = [row(suite="components", name="128 to 128, tf32", gflop=10.1, tflops=200.5),
                row(suite="components", name="128 to 341, bf16, both ways", series="torch in a graph"),
                row(suite="components", name="4096 to 4096 by 4096, f16", **none, unsupported=1)]  # fmt: skip
        self.assertEqual(self.show(rows, "--json").json(), rows)
        self.assertIn("gflop 10.1, tflops 200.5", self.show(rows).out)
        self.assertIn("unsupported 1", self.show(rows).out)
        path = self.folder / "x.svg"
        self.show(rows, "--plot", path)
        for text in ("y alone", "y and all gradients", "torch in a graph"):
            self.assertIn(text, path.read_text())
        self.assertNotIn("4096", path.read_text())

    def test_rows_that_are_not_drawn_are_printed_and_said(self):
        path = self.write("run.json", [row(suite="rpc")])
        outcome = self.run_command("bench", "show", path, "--plot", "x.svg")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("rpc", outcome.out)
        self.assertIn("no row that is drawn", outcome.err)
        self.assertFalse((self.folder / "x.svg").exists())


class Refusals(Case):
    def refused(self, data, *words):
        return self.refuse(FAILED, "bench", "show", self.write("run.json", data), *words)

    def test_a_row_and_its_member_are_named(self):
        cases = [(without(key), f"run.json: [1]: '{key}' is missing")
                 for key in row() if key != "rows"]
        cases += [
            (row(suite=5), "[1].suite: expected a string, found 5"),
            (row(card=["x"]), "[1].card: expected a string"),
            (row(driver="13.0"), "[1].driver: expected an integer"),
            (row(driver_release=580), "[1].driver_release: expected a string, found 580"),
            (row(driver=12080), "[1]: driver 12080 after rows of driver 13000; a file is one run"),
            (row(median_us=-1), "[1].median_us: expected a number above 0, found -1"),
            (row(wall_us="20"), "[1].wall_us: expected a number, found \"20\""),
            (row(min_us=None), "[1]: 'median_us', 'min_us' and 'max_us' are measured together"),
            (row(ratio=2), "[1].ratio: expected median_us over floor_us, found 2"),
            (row(ratio=None), "[1].ratio: expected median_us over floor_us, found null"),
            (row(floor_us=None), "[1].ratio: expected median_us over floor_us"),
            (row(rows=None), "[1].rows: expected a number, found null"),
            (row(rows="many"), "[1].rows: expected a number, found \"many\""),
            (row(**{f"extra_{i}": i for i in range(20)}), "[1].extra_19: too many members"),
            (7, "[1]: expected an object, found 7"),
        ]
        for bad, expected in cases:
            with self.subTest(expected=expected):
                self.assertIn(expected, self.refused([row(), bad]))
                if expected.startswith("[1]"):
                    self.assertIn(f"rows{expected}", self.refused({"rows": [row(), bad]}))

    def test_what_is_no_run_is_refused(self):
        cases = (
            ([], "expected at least one row"),
            ({"rows": []}, "rows: expected at least one row"),
            ({}, "'rows' is missing"),
            ({"rows": [row()], "host": "x"}, "host: unknown member"),
            ({"rows": [row()], "commit": 5}, "commit: expected a string"),
            ({"rows": row()}, "rows: expected an array"),
            ("5", "expected rows of the bench"),
            ("", "run.json:1"),
        )
        for data, expected in cases:
            with self.subTest(expected=expected):
                line = self.refused(data)
                self.assertIn("run.json:", line)
                self.assertIn(expected, line)

    def test_a_torn_file_is_refused_wherever_it_ends(self):
        whole = json.dumps({"commit": "abc", "rows": [row()]})
        for size in range(0, len(whole), 7):
            with self.subTest(size=size):
                self.assertIn("run.json:1:", self.refused(whole[:size], "--plot", "x.svg"))
        self.assertFalse((self.folder / "x.svg").exists())

    def test_a_file_that_is_not_there_and_a_plot_that_cannot_be(self):
        self.assertIn("'absent.json'", self.refuse(FAILED, "bench", "show", "absent.json"))
        line = self.refused([row()], "--plot", "absent/x.svg")
        self.assertIn("cannot write a plot into 'absent'", line)

    def test_a_plot_does_not_replace_the_file_that_it_is_drawn_from(self):
        path = self.write("run.json", [row()])
        (self.folder / "link.svg").symlink_to(path)
        before = path.read_bytes()
        for plot in (path, self.folder / "link.svg"):
            line = self.refuse(FAILED, "bench", "show", path, "--plot", plot)
            self.assertIn(f"--plot '{plot}' would replace a file that is read (this file itself)", line)
        self.assertEqual(path.read_bytes(), before)

    def test_one_file_is_taken(self):
        self.assertIn("FILE.json is missing", self.refuse(WRONG, "bench", "show"))
        line = self.refuse(WRONG, "bench", "show", "a.json", "b.json")
        self.assertIn("'b.json' is one word too many", line)


class Recorded(Case):
    def test_every_recorded_run_can_be_shown(self):
        self.assertTrue(RESULTS)
        for path in RESULTS:
            with self.subTest(path=path.name):
                shown = self.succeed("bench", "show", path, "--json").json()
                self.assertEqual(shown, json.loads(path.read_text())["rows"])

    def test_every_recorded_plot_is_what_is_drawn_from_its_rows(self):
        for path in RESULTS:
            with self.subTest(path=path.name):
                plot = path.with_suffix(".svg")
                suites = {found["suite"] for found in json.loads(path.read_text())["rows"]}
                drawn = {"steer", "decode", "rope", "attend", "prove", "components", "warmup"}
                if not suites & drawn:
                    self.assertFalse(plot.exists())
                    continue
                drawn = self.folder / plot.name
                outcome = self.succeed("bench", "show", path, "--plot", drawn)
                self.assertEqual(outcome.code, DONE)
                place = os.path.relpath(path, ROOT)
                self.assertTrue(
                    plot.read_bytes() == drawn.read_bytes(),
                    f"draw it again: steergraph bench show {place} "
                    f"--plot {place.removesuffix('.json')}.svg")


if __name__ == "__main__":
    tap.main()
