#!/usr/bin/env python3
"""Workloads of families that the command only checks: every example is refused with what to use, and nothing is done."""
import json

import tap
from cli import EXAMPLES, FAILED, SPECS, Case

CHECKED = sorted(set(SPECS.glob("*.json")) - set(EXAMPLES))


class Families(Case):
    def test_there_is_an_example_of_each_family(self):
        families = {json.loads(path.read_text())["family"] for path in CHECKED}
        self.assertEqual(families, {"rope", "decode", "step"})

    def test_every_command_that_takes_a_workload_names_the_family_and_what_to_use(self):
        commands = (
            ("run", "--backend", "cpu", "--output", "out.st"),
            ("explain", "--arch", "sm_90"),
            ("build", "--arch", "sm_90", "--cache", "kernels"),
            ("cache", "explain", "--arch", "sm_90", "--cache", "kernels"),
        )
        for path in CHECKED:
            family = json.loads(path.read_text())["family"]
            for words in commands:
                with self.subTest(spec=path.name, command=words[0]):
                    line = self.refuse(FAILED, *words, path)
                    self.assertEqual(
                        line,
                        f"steergraph: {path}: family: a workload of '{family}' is checked, and nothing else is done "
                        "with it yet; use 'steer'",
                    )
        self.assertFalse((self.folder / "out.st").exists())
        self.assertFalse(list(self.folder.rglob("*.sgc")))

    def test_what_is_wrong_with_it_is_said_first(self):
        spec = json.loads((SPECS / "kv_decode.json").read_text())
        spec["attend"]["window"] = 0
        line = self.refuse(FAILED, "run", self.write("w.json", spec))
        self.assertEqual(
            line,
            f"steergraph: {self.folder}/w.json: attend.window: expected an integer from 1 to 1073741824, found 0",
        )


tap.main()
