#!/usr/bin/env python3
"""Recipes of graphs as their users see them: `cache ls --graphs`, `cache show`, `cache dot`, `cache verify` and
`cache gc`. On the stub GPU, which makes graphs as a real one does."""
import pathlib
import re
import shutil
import subprocess

import tap
from cli import FAILED, WRONG
from stubs import StubCase

ARGUMENTS = ("hidden", "out", "residual", "row_map", "rows", "layer", "layers")


class Graphs(StubCase):
    """One graph of self.report, in self.cache."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "c"
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.report = self.run_spec()
        self.key = self.report["graph_key"]

    def ask(self, *words):
        return self.succeed("cache", *words, "--json").json()

    def files(self, folder="graphs"):
        return sorted((self.cache / "v1" / folder).glob("*"))

    def test_a_run_leaves_the_recipe_of_its_graph(self):
        (path,) = self.files()
        self.assertEqual(path.name, f"{self.key}-{self.report['kernel_key']}.sgr")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        before = path.stat().st_ino
        self.run_spec()
        self.assertEqual([file.stat().st_ino for file in self.files()], [before])

    def test_what_a_run_did_is_counted(self):
        """The spec's table has two kernels: one hit or one miss each."""
        names = ("runs", "disk_hits", "misses", "hit_percent", "compiles", "stores")
        cold = self.ask("stats")["totals"]
        self.assertEqual([cold[name] for name in names], [1, 0, 2, 0, 2, 2])
        self.assertGreater(cold["load_us"], 0)
        self.run_spec()
        warm = self.ask("stats")["totals"]
        self.assertEqual([warm[name] for name in names], [2, 2, 2, 50, 2, 2])
        self.assertGreater(warm["load_us"], cold["load_us"])
        self.assertRegex(self.succeed("cache", "stats").out, r"\n  hit rate +50\.0 %\n")

    def test_ls_lists_graphs(self):
        listed = self.ask("ls", "--graphs")
        self.assertEqual((listed["count"], listed["in_cache"], listed["verified"]), (1, 1, True))
        (graph,) = listed["graphs"]
        self.assertEqual((graph["key"], graph["signature"]), (self.key, self.report["signature"]))
        self.assertEqual((graph["rows"], graph["batch"], graph["arch"]), (4, 8, "sm_90"))
        self.assertEqual([node["key"] for node in graph["nodes"]], [self.report["kernel_key"]])
        text = self.succeed("cache", "ls", "--graphs").out
        self.assertRegex(text, rf"(?m)^key +rows +batch +seq +kernel +created +signature\n{self.key[:12]} +4 +8 +2 ")
        used = self.succeed("cache", "ls", "--graphs", "--sort", "used").out
        self.assertRegex(used, r"^key +rows +batch +seq +kernel +used +signature\n")
        self.assertRegex(text, r"\n1 graph, 2\.\d KiB\n$")

    def test_ls_of_entries_counts_graphs(self):
        listed = self.ask("ls")
        self.assertEqual((listed["count"] > 0, listed["graphs"]), (True, 1))
        self.assertRegex(self.succeed("cache", "ls").out, r"\n\d (entry|entries), [\d.]+ KiB; 1 graph\n$")

    def test_a_build_leaves_no_graph(self):
        built = self.folder / "built"
        self.succeed("build", "--arch", "sm_90", "--cache", built, self.spec)
        listed = self.ask("ls", "--cache", built)
        self.assertEqual((listed["count"] > 0, listed["graphs"]), (True, 0))
        self.assertRegex(self.succeed("cache", "ls", "--cache", built).out, r", [\d.]+ KiB\n$")

    def test_ls_filters_and_orders_graphs_as_entries(self):
        for words, count in (
            (["--arch", "sm_90"], 1), (["--arch", "sm_80"], 0), (["--match", "rows<=4"], 1), (["--match", "rows<=5"], 0),
            (["--older-than", "1h"], 0), (["--limit", "0"], 0), (["--sort", "used", "--reverse"], 1),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.assertEqual(self.ask("ls", "--graphs", *words)["count"], count)
        for words in (["--compiler", "nvrtc-13"], ["--family", "steer"], ["--sort", "compile"]):
            with self.subTest(words=words):
                self.assertIn("are of entries", self.refuse(WRONG, "cache", "ls", "--graphs", *words))

    def test_show_tells_what_a_graph_is_made_of(self):
        shown = self.ask("show", self.key[:8])
        (node,) = shown["nodes"]
        entry = self.ask("show", self.report["kernel_key"])
        for name in ("key", "kernel", "threads", "rows_per_block", "stage_bytes", "wide_stage_bytes", "parameters"):
            self.assertEqual(node[name], entry[name], name)
        self.assertTrue(node["in_cache"])
        self.assertEqual(shown["edges"], [])
        names = [slot["name"] for slot in shown["slots"]]
        self.assertLessEqual(set(ARGUMENTS), set(names))
        text = self.succeed("cache", "show", self.key).out
        self.assertTrue(text.startswith(f"graph {self.key}\n"), text)
        self.assertIn(f"rows/{node['rows_per_block']} blocks of {node['threads']} threads", text)
        for word in ("--source", "--sass"):
            self.assertIn("is a graph", self.refuse(FAILED, "cache", "show", self.key, word))

    def test_show_of_an_entry_names_its_graphs(self):
        self.assertEqual(
            self.ask("show", self.report["kernel_key"])["graphs"], [{"key": self.key, "batch": 8, "seq": 2, "rows": 4}]
        )
        self.assertIn(f"graphs that launch it\n", self.succeed("cache", "show", self.report["kernel_key"]).out)
        (other,) = [e for e in self.ask("ls")["entries"] if e["key"] != self.report["kernel_key"]]
        self.assertEqual(self.ask("show", other["key"])["graphs"], [])

    def test_dot_draws_a_graph_and_a_kernel(self):
        for key, slots in ((self.key, 1), (self.report["kernel_key"], 0)):
            with self.subTest(key=key):
                text = self.succeed("cache", "dot", key[:10]).out
                self.assertTrue(text.startswith(f'digraph "{key}" {{\n'), text)
                self.assertTrue(text.endswith("}\n"))
                self.assertIn(f'n0 [label="stg_steer\\n{self.report["kernel_key"][:12]} sm_90\\nrows/', text)
                self.assertEqual(text.count("s0 -> n0 [style=dashed"), slots)
                for name in ARGUMENTS:
                    self.assertEqual(len(re.findall(rf"\\l{name}: ", text)), slots)
                self.draw(text)

    def draw(self, text):
        """Graphviz takes it, where there is one."""
        if shutil.which("dot") is not None:
            drawn = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, timeout=60, check=False)
            self.assertEqual((drawn.returncode, drawn.stderr), (0, b""))
            self.assertIn(b"stg_steer", drawn.stdout)

    def test_a_key_of_nothing_is_named(self):
        for command in ("show", "dot"):
            said = self.refuse(FAILED, "cache", command, "abcdabcd")
            self.assertIn("no entry of 2 and no graph of 1 has a key that begins 'abcdabcd'", said)
            self.assertIn("'xyz' is no key", self.refuse(WRONG, "cache", command, "xyz"))

    def test_verify_finds_a_bad_recipe_and_moves_it(self):
        self.assertEqual(self.succeed("cache", "verify").out, "2 entries: 2 good, 0 bad; 1 graphs: 1 good, 0 bad\n")
        (path,) = self.files()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        outcome = self.run_command("cache", "verify")
        self.assertEqual(outcome.code, FAILED)
        self.assertIn(f"bad: {path}: checksum", outcome.out)
        self.assertIn("2 entries: 2 good, 0 bad; 1 graphs: 0 good, 1 bad", outcome.out)
        self.assertIn("bad: ", self.succeed("cache", "ls", "--graphs").out)
        self.assertIn("checksum", self.refuse(FAILED, "cache", "show", self.key))
        would = self.run_command("cache", "verify", "--repair", "--dry-run", "--json")
        self.assertEqual((would.code, would.json()["would_move"], len(self.files())), (FAILED, 1, 1))
        moved = self.ask("verify", "--repair")
        self.assertEqual((moved["entries"], moved["graphs"], moved["good_graphs"], moved["moved"]), (2, 1, 0, 1))
        self.assertEqual((self.files(), len(self.files("quarantine"))), ([], 1))
        self.run_spec()  # writes it again
        self.succeed("cache", "verify")
        self.assertEqual(len(self.files()), 1)

    def test_a_bad_recipe_is_in_nobodys_way(self):
        (path,) = self.files()
        path.write_bytes(b"")
        self.assertEqual(self.run_spec()["source"], "disk")
        self.assertGreater(path.stat().st_size, 1000)
        self.assertEqual(len(self.files("quarantine")), 1)

    def test_gc_takes_a_recipe_with_its_kernel(self):
        gone = self.ask("gc", "--max-entries", "1")
        # the recipe is the newest of the three files
        self.assertEqual(sorted((v["kind"], v["why"]) for v in gone["removed"]),
                         [("entry", "count"), ("entry", "count"), ("graph", "kernel")])  # fmt: skip
        self.assertEqual(self.files(), [])

    def test_a_kernel_that_is_gone_is_told(self):
        for path in pathlib.Path(self.cache).rglob(f"{self.report['kernel_key']}-*.sgc"):
            path.unlink()
        (node,) = self.ask("show", self.key)["nodes"]
        self.assertFalse(node["in_cache"])

    def test_where_nothing_may_be_compiled_it_is_written_too(self):
        self.files()[0].unlink()
        self.assertEqual(self.run_spec(STEERGRAPH_NO_JIT="1")["source"], "disk")
        self.assertEqual(len(self.files()), 1)

    def test_a_folder_that_is_only_read_gets_none(self):
        self.files()[0].unlink()
        for mode in ("read-only", "off", "memory"):
            self.run_spec(STEERGRAPH_CACHE=mode)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    tap.main()
