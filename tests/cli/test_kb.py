#!/usr/bin/env python3
"""`steergraph kb`: knowledge bases made up from a seed, and counted."""
import tap
from cli import FAILED, SPECS, WRONG, Case

BAD = SPECS / "bad" / "kb"
FACTS = "parent(ann,bob).\nparent(bob,cid).\nparent(bob,dan).\nmale(bob,bob).\n"
RULES = "r0:0.9:parent(a,h), parent(h,b) -> grandparent(a,b)\n"
QUERIES = "grandparent(ann,cid).\n"
FILES = ["facts.txt", "queries.txt", "rules.txt"]


class Stats(Case):
    def setUp(self):
        super().setUp()
        self.write("kb/facts.txt", FACTS)
        self.write("kb/rules.txt", RULES)
        self.write("kb/queries.txt", QUERIES)

    def test_a_folder_in_text(self):
        self.assertEqual(
            self.succeed("kb", "stats", "kb").out.splitlines(),
            [
                "kb",
                "  facts              4",
                "  predicates         3",
                "  entities           4",
                "  rules              1",
                "  queries            1",
                "  largest predicate  3: parent",
                "  largest (p, a, .)  2: parent(bob, .)",
                "  largest (p, ., b)  1: parent(., bob)",
                "  longest body       2",
                "  most rules         1: grandparent",
            ],
        )

    def test_a_folder_in_json(self):
        self.assertEqual(
            self.succeed("kb", "stats", "--json", "kb").json(),
            {
                "path": "kb",
                "facts": 4,
                "predicates": 3,
                "entities": 4,
                "rules": 1,
                "queries": 1,
                "largest_predicate": {"predicate": "parent", "facts": 3, "buckets": 2},
                "largest_arg0": {"predicate": "parent", "entity": "bob", "facts": 2, "buckets": 3},
                "largest_arg1": {"predicate": "parent", "entity": "bob", "facts": 1, "buckets": 4},
                "longest_body": 2,
                "most_rules": {"predicate": "grandparent", "rules": 1},
            },
        )

    def test_a_file_of_facts_alone(self):
        report = self.succeed("kb", "stats", "--json", "kb/facts.txt").json()
        self.assertEqual((report["rules"], report["queries"], report["most_rules"]), (0, 0, None))

    def test_rules_and_queries_of_other_places(self):
        self.write("more.txt", RULES + RULES)
        report = self.succeed("kb", "stats", "--json", "kb", "--rules", "more.txt").json()
        self.assertEqual((report["rules"], report["queries"]), (2, 1))
        words = ("kb/facts.txt", "--rules", "more.txt", "--queries", "kb/queries.txt")
        report = self.succeed("kb", "stats", "--json", *words).json()
        self.assertEqual((report["rules"], report["queries"]), (2, 1))

    def test_nothing_at_all(self):
        self.write("none.txt", "")
        report = self.succeed("kb", "stats", "--json", "none.txt").json()
        self.assertEqual((report["facts"], report["largest_arg0"]), (0, None))
        self.assertNotIn("largest", self.succeed("kb", "stats", "none.txt").out)

    def test_what_is_not_there(self):
        self.assertIn("'nowhere.txt'", self.refuse(FAILED, "kb", "stats", "nowhere.txt"))
        (self.folder / "empty").mkdir()
        self.assertIn("'empty/facts.txt'", self.refuse(FAILED, "kb", "stats", "empty"))
        self.assertIn("'no.txt'", self.refuse(FAILED, "kb", "stats", "kb", "--rules", "no.txt"))

    def test_names_are_harmless_on_a_terminal(self):
        self.write("odd.txt", "p('a\u202eb',c).\n")
        self.assertNotIn("\u202e", self.succeed("kb", "stats", "odd.txt").out)

    def test_every_bad_file_gives_its_message(self):
        files = [path for path in sorted(BAD.iterdir()) if path.suffix != ".expect" and path.stem != "base"]
        self.assertGreaterEqual(len(files), 30)
        for path in files:
            words = [path.name] if path.suffix == ".facts" else ["base.facts", "--" + path.suffix[1:], path.name]
            with self.subTest(path=path.name):
                line = self.refuse(FAILED, "kb", "stats", *words, cwd=BAD)
                self.assertEqual(line + "\n", "steergraph: " + path.with_suffix(".expect").read_text())


class Generate(Case):
    def generate(self, kind, folder, *words):
        return self.succeed("kb", "generate", "--json", kind, "-o", folder, *words).json()

    def test_writes_what_stats_counts(self):
        for kind in ("countries", "family"):
            report = self.generate(kind, kind, "--seed", "3")
            self.assertEqual(sorted(path.name for path in (self.folder / kind).iterdir()), FILES)
            counted = self.succeed("kb", "stats", "--json", kind).json()
            self.assertEqual([report.pop(name) for name in ("folder", "kind", "seed")], [kind, kind, 3])
            self.assertEqual(counted.pop("path"), kind)
            self.assertEqual(report, counted)

    def test_has_the_statistics_of_the_public_sets(self):
        for kind, facts, predicates, entities, rules, buckets in (
            ("countries", 983, 4, 271, 2, (16, 36)),
            ("family", 19845, 12, 2968, 87, (28, 17)),
        ):
            report = self.generate(kind, kind)
            self.assertEqual(
                (report["predicates"], report["entities"], report["rules"]), (predicates, entities, rules)
            )
            pairs = [(report["facts"], facts)]
            pairs += zip((report["largest_arg0"]["facts"], report["largest_arg1"]["facts"]), buckets)
            if kind == "family":
                pairs.append((report["largest_predicate"]["facts"], 2543))
            for count, wanted in pairs:
                self.assertLessEqual(abs(count - wanted), 0.2 * wanted, (kind, count, wanted))

    def test_a_seed_says_all_of_it(self):
        texts = []
        for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
            self.generate("family", folder, "--seed", seed, "--size", "300")
            texts.append([(self.folder / folder / name).read_bytes() for name in FILES])
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.generate("family", "d", "--size", "300")
        self.generate("family", "e", "--size", "300", "--seed", "0")
        self.assertEqual(*[(self.folder / name / "facts.txt").read_bytes() for name in "de"])

    def test_size_is_the_number_of_entities(self):
        for kind in ("countries", "family"):
            self.assertEqual(self.generate(kind, kind, "--size", "500")["entities"], 500)

    def test_in_text(self):
        lines = self.succeed("kb", "generate", "countries", "-o", "land", "--size", "50").out.splitlines()
        self.assertEqual(lines[0], "land: countries, seed 0")
        self.assertEqual(lines[3], "  entities           50")

    def test_wrong_words(self):
        for words, message in (
            (("contries", "-o", "x"), "unknown kind 'contries'; did you mean 'countries'?"),
            (("cars", "-o", "x"), "unknown kind 'cars': countries or family"),
            (("family",), "-o is missing: the folder to write to"),
            (("family", "-o", "x", "--seed", "-1"), "--seed '-1': expected a number of at most 18 digits"),
            (("family", "-o", "x", "--seed", "1" * 19), "expected a number of at most 18 digits"),
            (("family", "-o", "x", "--size", "many"), "--size 'many': expected a number of at most 18 digits"),
            (("family", "-o", "x", "--size", "0"), "--size '0': expected at least 1"),
        ):
            with self.subTest(words=words):
                self.assertIn(message, self.refuse(WRONG, "kb", "generate", *words))
        self.assertFalse((self.folder / "x").exists())

    def test_sizes_outside_the_limits(self):
        for size in ("19", "200001"):
            line = self.refuse(FAILED, "kb", "generate", "family", "-o", "x", "--size", size)
            self.assertIn(f"'family' of {size} constants, expected 20 to 200000", line)
        self.assertFalse((self.folder / "x").exists())

    def test_where_one_file_cannot_be_written_none_is(self):
        for name in FILES:
            with self.subTest(name=name):
                (self.folder / name / name).mkdir(parents=True)
                others = [self.folder / name / other for other in FILES if other != name]
                others[0].write_text("old")
                line = self.refuse(FAILED, "kb", "generate", "countries", "-o", name)
                self.assertEqual(line, f"steergraph: cannot write '{name}/{name}': it is a folder, not a file")
                self.assertEqual(others[0].read_text(), "old")
                self.assertEqual(len(list((self.folder / name).iterdir())), 2)

    def test_a_folder_that_cannot_be_made(self):
        self.write("file", "")
        self.assertIn("file", self.refuse(FAILED, "kb", "generate", "family", "-o", "file/x"))


tap.main()
