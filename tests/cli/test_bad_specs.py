#!/usr/bin/env python3
"""Every file of specs/bad fails with the message that is written beside it, and writes nothing."""
import tap
from cli import FAILED, SPECS, Case

BAD = sorted((SPECS / "bad").glob("*.json"))


class BadSpecs(Case):
    def check(self, path):
        expected = path.with_suffix(".expect").read_text().splitlines()[0]
        before = sorted(p.name for p in path.parent.iterdir())
        out = self.folder / "out.st"
        # from within the folder, so that the paths of a message are those of the files
        words = ("run", "--backend", "cpu", "--output", out, path.name)
        line = self.refuse(FAILED, *words, cwd=path.parent)
        self.assertEqual(line, f"steergraph: {expected}")
        self.assertFalse(out.exists())
        self.assertEqual(sorted(p.name for p in path.parent.iterdir()), before)

    def test_there_are_enough_of_them(self):
        self.assertGreaterEqual(len(BAD), 25)


def add_case(path):
    name = "test_" + "".join(c if c.isalnum() else "_" for c in path.stem)
    setattr(BadSpecs, name, lambda self: self.check(path))


for bad in BAD:
    add_case(bad)
tap.main()
