#!/usr/bin/env python3
"""The words of the command line: help, version, and every way to get them wrong."""
import re

import tap
from cli import DONE, FAILED, ROOT, WRONG, Case, small_workload

COMMANDS = {
    ("run",): "SPEC",
    ("explain",): "SPEC",
    ("build",): "SPEC|MANIFEST...",
    ("warm",): "MANIFEST...",
    ("prove",): "SPEC",
    ("ops",): "FILE",
    ("vectors", "ls"): "FILE",
    ("vectors", "show"): "FILE [TENSOR]",
    ("vectors", "convert"): "FILE [TENSOR...]",
    ("kb", "generate"): "countries|family",
    ("kb", "stats"): "FOLDER|FACTS",
    ("cache", "ls"): "",
    ("cache", "show"): "KEY",
    ("cache", "explain"): "KEY KEY|SPEC",
    ("cache", "verify"): "",
    ("cache", "gc"): "",
    ("cache", "stats"): "",
    ("cache", "dot"): "KEY",
    ("cache", "report"): "-o FILE",
    ("cache", "export"): "FILE.sgp [KEY...]",
    ("cache", "import"): "FILE.sgp...",
    ("doctor",): "",
    ("bench",): "SUITE [SPEC...]",
    ("bench", "show"): "FILE.json",
}
WITHOUT_JSON = {("cache", "dot")}  # whose output is another program's language


class Help(Case):
    def test_the_command_lists_every_subcommand(self):
        text = self.succeed("--help").out
        for words in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {words[0]} +\S")
        self.assertIn("exit status: 0 done, 1 the work failed, 2 the words were wrong", text)

    def test_every_subcommand_explains_itself(self):
        for words, word in COMMANDS.items():
            for flag in ("--help", "-h"):
                with self.subTest(words=words, flag=flag):
                    outcome = self.succeed(*words, flag)
                    self.assertTrue(outcome.out.startswith(f"usage: steergraph {' '.join(words)} "))
                    self.assertIn(word, outcome.out)
                    self.assertEqual("--json" in outcome.out, words not in WITHOUT_JSON)
                    self.assertEqual(outcome.err, "")

    def test_the_word_help_prints_the_same(self):
        self.assertEqual(self.succeed("help").out, self.succeed("--help").out)
        self.assertEqual(self.succeed("cache", "help").out, self.succeed("cache", "--help").out)

    def test_groups_list_their_subcommands(self):
        for group in ("cache", "kb", "vectors"):
            listed = re.findall(r"(?m)^  ([a-z]+) +\S", self.succeed(group, "--help").out)
            self.assertEqual({(group, word) for word in listed}, {words for words in COMMANDS if words[0] == group})
        self.assertIn("entries of a folder or pack", self.succeed("--help").out)
        self.assertIn("a cache folder or pack", self.succeed("cache", "ls", "--help").out)

    def test_help_wins_over_wrong_words(self):
        self.assertIn("usage:", self.succeed("run", "--nonsense", "--help").out)

    def test_the_version_is_the_headers_version(self):
        text = self.succeed("--version").out
        version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
        self.assertEqual(text, f"steergraph {version}\n")

    def test_the_manual_names_every_subcommand_and_option(self):
        manual = (ROOT / "tools/steergraph.1").read_text().replace("\\-", "-")
        for words in COMMANDS:
            text = self.succeed(*words, "--help").out
            self.assertRegex(manual, rf"(?m)^\.SS {' '.join(words)}( |$)")
            for option in re.findall(r"(?m)^  (--[a-z-]+)", text):
                with self.subTest(words=words, option=option):
                    self.assertTrue(option == "--help" or option in manual)


    def test_the_cache_option_reads_the_same_everywhere(self):
        for words in COMMANDS:
            text = self.succeed(*words, "--help").out
            with self.subTest(words=words):
                for line in re.findall(r"(?m)^  --cache.*$", text):
                    self.assertRegex(line, r"^  --cache FOLDERS +cache folders, RO:RO:RW$")

    def test_the_manual_writes_the_values_of_options_as_the_help_does(self):
        manual = re.sub(r'"|\\f.', "", (ROOT / "tools/steergraph.1").read_text().replace("\\-", "-"))
        for words in COMMANDS:
            text = self.succeed(*words, "--help").out
            for option, value in re.findall(r"(?m)^  (--[a-z-]+) (\S+)  ", text):
                with self.subTest(words=words, option=option):
                    self.assertRegex(manual, rf"(?m)^\.B. .*{option} +{re.escape(value)}")


class WrongWords(Case):
    def test_no_word_at_all(self):
        self.assertIn("a subcommand is missing", self.refuse(WRONG))

    def test_unknown_subcommand_suggests_the_nearest(self):
        self.assertIn("unknown subcommand 'rnu'; did you mean 'run'?", self.refuse(WRONG, "rnu"))
        self.assertIn("did you mean 'verify'?", self.refuse(WRONG, "cache", "verfy"))

    def test_unknown_subcommand_far_from_all_suggests_nothing(self):
        self.assertNotIn("did you mean", self.refuse(WRONG, "quantize"))

    def test_a_group_needs_a_subcommand(self):
        self.assertIn("a subcommand is missing", self.refuse(WRONG, "cache"))
        self.assertIn("a subcommand is missing", self.refuse(WRONG, "vectors"))

    def test_unknown_option_suggests_the_nearest(self):
        line = self.refuse(WRONG, "run", "--backedn", "cpu", "x.json")
        self.assertIn("unknown option '--backedn'; did you mean --backend?", line)

    def test_every_subcommand_refuses_an_unknown_option(self):
        for words in COMMANDS:
            with self.subTest(words=words):
                line = self.refuse(WRONG, *words, "--no-such-option-here")
                self.assertIn("unknown option '--no-such-option-here'", line)
                self.assertIn(f"steergraph {' '.join(words)}: ", line)

    def test_option_without_its_value(self):
        self.assertIn("--output needs a value (FILE)", self.refuse(WRONG, "run", "x.json", "--output"))

    def test_option_followed_by_an_option(self):
        line = self.refuse(WRONG, "run", "x.json", "--output", "--json")
        self.assertIn("--output needs a value", line)

    def test_empty_value(self):
        self.assertIn("not an empty word", self.refuse(WRONG, "run", "x.json", "--output="))

    def test_value_outside_the_list(self):
        line = self.refuse(WRONG, "run", "--backend", "tpu", "x.json")
        self.assertIn("--backend 'tpu': must be one of auto|cpu|cuda", line)

    def test_part_of_a_listed_value_is_not_enough(self):
        self.refuse(WRONG, "run", "--backend", "cp", "x.json")
        self.refuse(WRONG, "run", "--backend", "cpu|cuda", "x.json")

    def test_option_given_twice(self):
        line = self.refuse(WRONG, "run", "--backend", "cpu", "--backend=cuda", "x.json")
        self.assertIn("--backend is given twice ('cpu' and 'cuda')", line)
        self.assertIn("--json is given twice", self.refuse(WRONG, "run", "--json", "--json", "x.json"))

    def test_switch_with_a_value(self):
        self.assertIn("--json takes no value", self.refuse(WRONG, "run", "--json=yes", "x.json"))

    def test_too_few_words(self):
        for words, word in COMMANDS.items():
            if word != "" and words != ("ops",):
                with self.subTest(words=words):
                    self.assertIn("is missing", self.refuse(WRONG, *words))

    def test_too_many_words(self):
        self.assertIn("'y.json' is one word too many", self.refuse(WRONG, "run", "x.json", "y.json"))
        self.assertIn("'extra' is one word too many", self.refuse(WRONG, "doctor", "extra"))
        self.assertIn("'extra' is one word too many", self.refuse(WRONG, "cache", "ls", "extra"))

    def test_bench_names_a_suite_that_is_not_there(self):
        line = self.refuse(WRONG, "bench", "foo")
        self.assertIn("unknown suite 'foo'; there is steer, ", line)
        self.assertIn("cache, all, and show", line)

    def test_bench_takes_specs_for_one_suite_alone(self):
        line = self.refuse(WRONG, "bench", "all", "x.json")
        self.assertIn("'x.json' is one word too many for all", line)

    def test_options_do_not_stand_before_bench_show(self):
        line = self.refuse(WRONG, "bench", "--json", "show", "x.json")
        self.assertIn("options of bench show come after its name", line)

    def test_build_needs_architectures(self):
        self.assertIn("--arch is missing", self.refuse(WRONG, "build", "x.json"))

    def test_words_that_are_no_architecture(self):
        for arch in ("90", "sm90", "sm_", "sm_9", "sm_90x", "sm_90,", ",sm_90", "sm_80,,sm_90", "SM_90",
                     "sm_1234", "cpu", "sm_80,sm_80", "sm_080"):
            with self.subTest(arch=arch):
                self.assertIn("--arch", self.refuse(WRONG, "build", "--arch", arch, "x.json"))

    def test_explain_takes_one_architecture(self):
        self.assertIn("--arch 'sm_80,sm_90'", self.refuse(WRONG, "explain", "--arch", "sm_80,sm_90", "x.json"))

    def test_explain_refuses_a_gpu_that_is_too_old(self):
        path = self.write("w.json", small_workload())
        for arch in ("sm_50", "sm_75"):
            with self.subTest(arch=arch):
                line = self.refuse(WRONG, "explain", "--arch", arch, path)
                self.assertIn(f"--arch {arch}: steergraph needs sm_80 or newer", line)
        self.succeed("explain", "--arch", "sm_80", path)

    def test_words_that_are_no_key(self):
        for key in ("abc", "ABCDEF", "../../etc", "xyzw", "0" * 33, ""):
            with self.subTest(key=key):
                self.assertIn("is no key", self.refuse(WRONG, "cache", "show", key))

    def test_control_characters_do_not_reach_the_terminal(self):
        line = self.refuse(WRONG, "run\x1b[31m\nx")
        self.assertIn(r"\x1b[31m\x0ax", line)


class Environment(Case):
    def test_the_variable_of_hosts_is_not_the_commands(self):
        path = self.write("w.json", small_workload())
        self.environment["STEERLLM_COMPILE_STEERING"] = "2"
        (self.folder / "kernels").mkdir()
        for words in (
            ("run", "--backend", "cpu", "--json", path),
            ("explain", "--arch", "cpu", path),
            ("ops",),
            ("cache", "ls", "--cache", "kernels"),
            ("bench", "padding", "--json"),
            ("doctor",),
        ):
            with self.subTest(words=words):
                self.assertNotIn("STEERLLM", self.succeed(*words).err)
        self.environment["STEERGRAPH_CACHE_DIR"] = "kernels"
        self.succeed("cache", "ls")
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        line = self.refuse(FAILED, "build", "--arch", "sm_90", path)
        self.assertIn("STEERGRAPH_NO_JIT=1 forbids to compile", line)


class Order(Case):
    def test_options_may_stand_anywhere_and_two_dashes_end_them(self):
        self.write("--odd.json", small_workload())
        for words in (
            ("run", "--backend", "cpu", "--json", "--no-timing", "--", "--odd.json"),
            ("run", "./--odd.json", "--no-timing", "--json", "--backend=cpu"),
            ("run", "--json", "./--odd.json", "--backend", "cpu", "--no-timing"),
        ):
            with self.subTest(words=words):
                self.assertTrue(self.succeed(*words).json()["ok"])

    def test_exit_statuses_are_told_apart(self):
        path = self.write("w.json", small_workload())
        self.assertEqual(self.run_command("run", "--backend", "cpu", path).code, DONE)
        self.assertEqual(self.run_command("run", "--backend", "cpu", "missing.json").code, FAILED)
        self.assertEqual(self.run_command("run", "--backend", "cpu").code, WRONG)


tap.main()
