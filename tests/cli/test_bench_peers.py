#!/usr/bin/env python3
"""The words of `steergraph bench` for peers and plots, as far as they can be seen without a GPU."""
import tap
from cli import FAILED, ROOT, WRONG, Case

SCRIPTS = ROOT / "tools" / "bench" / "peers"


class Peers(Case):
    def test_a_folder_without_scripts_is_named_before_anything_is_measured(self):
        (self.folder / "empty").mkdir()
        said = self.refuse(FAILED, "bench", "steer", "--peers", "--peers-from", "empty")
        self.assertIn("no peer.py in 'empty'", said)
        self.assertIn("--peers-from", said)

    def test_a_suite_without_peers_is_said(self):
        said = self.refuse(FAILED, "bench", "numerics", "--peers", "--peers-from", SCRIPTS)
        self.assertIn("no peer does what this suite does; steer, decode, rope, attend, prove, components and warmup", said)

    def test_attention_and_components_have_peers_that_are_looked_for_first(self):
        (self.folder / "empty").mkdir()
        for suite in ("rope", "attend", "components"):
            said = self.refuse(FAILED, "bench", suite, "--peers", "--peers-from", "empty")
            self.assertIn("no peer.py in 'empty'", said)

    def test_peers_do_not_run_on_workloads_of_the_user(self):
        said = self.refuse(WRONG, "bench", "steer", "mine.json", "--peers")
        self.assertIn("not on 'mine.json'", said)

    def test_a_folder_for_peers_needs_peers(self):
        said = self.refuse(WRONG, "bench", "padding", "--peers-from", SCRIPTS)
        self.assertIn("--peers-from is of no use without --peers", said)


class Plot(Case):
    def test_rows_that_are_not_drawn_are_printed_and_said(self):
        path = self.folder / "plot.svg"
        outcome = self.run_command("bench", "padding", "--quick", "--plot", path)
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertIn("padding", outcome.out)
        self.assertIn("no row that is drawn; steer, decode, rope, attend, prove, components and warmup have some", outcome.err)
        self.assertFalse(path.exists())

    def test_a_place_where_no_file_can_be_is_said_before_anything_is_measured(self):
        (self.folder / "plots").mkdir()
        (self.folder / "file").write_text("")
        cases = (
            ("plots", "it is no file"),
            ("/dev/null", "it is no file"),
            ("absent/x.svg", "cannot write a plot into 'absent'"),
            ("file/x.svg", "cannot write a plot into 'file'"),
        )
        for path, expected in cases:
            with self.subTest(path=path):
                self.assertIn(expected, self.refuse(FAILED, "bench", "numerics", "--plot", path))


if __name__ == "__main__":
    tap.main()
