"""The Python of the package's README that needs torch runs and prints what it says."""
import contextlib
import io
import re
import unittest

import torch_support as support  # first: it finds torch, and the folders of the others

import tap

EXAMPLE = re.compile(r"^```python\n(.*?)^```\n.*?^```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


class Readme(unittest.TestCase):
    def test_of_the_package(self):
        text = (support.ROOT / "tools/python/README.md").read_text()
        examples = [example for example in EXAMPLE.findall(text) if "import torch" in example[0]]
        self.assertTrue(examples)
        for program, expected in examples:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
            self.assertEqual(printed.getvalue(), expected)


tap.main()
