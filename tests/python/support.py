"""What the tests of tools/python share: the library, numpy, bf16, the exit where numpy is missing.

Every test program is called with the path of the library, and prints TAP (tests/cli/tap.py).
"""
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP numpy is not installed")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("tools/python", "tests/cli"):
    sys.path.insert(0, str(ROOT / folder))

import steergraph  # noqa: E402

LIBRARY = sys.argv[1]
steergraph.load(LIBRARY)

UNIT_ROUNDOFF = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}


def stored(values, dtype):
    """Values as an array of a table's type: nearest, ties to even. bf16 is bits in uint16."""
    values = np.asarray(values)
    if dtype == "f32":
        return values.astype(np.float32)
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def exact(array):
    """The numbers of a stored array in float64."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def refusal(function, *arguments, **named):
    """(class, text) of what a call raises; fails when it raises nothing."""
    try:
        function(*arguments, **named)
    except Exception as error:  # the caller compares the class
        return type(error), str(error)
    raise AssertionError(f"{function} refused nothing")
