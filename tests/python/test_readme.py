"""The Python of the READMEs runs and prints what they say."""
import contextlib
import io
import re
import sys
import unittest

import support
import tap

EXAMPLE = re.compile(r"^```python\n(.*?)^```\n.*?^```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


class Readme(unittest.TestCase):
    def check(self, path):
        examples = EXAMPLE.findall((support.ROOT / path).read_text())
        self.assertTrue(examples)
        for program, expected in examples:
            if "import torch" in program and "torch" not in sys.modules:
                continue  # tests/python/gpu runs those
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(program, path, "exec"), {"__name__": "__main__"})
            self.assertEqual(printed.getvalue(), expected)

    def test_of_the_project(self):
        self.check("README.md")

    def test_of_the_package(self):
        self.check("tools/python/README.md")


tap.main()
