"""Cases on cache folders of kernels that nobody compiled: as many and as odd as a case wants.

STG_TEST_FORGE names the program that writes them (forge_cache.c).
"""
import os
import subprocess

from cli import Case

FORGE = os.environ["STG_TEST_FORGE"]
PRELUDE = "// prelude\n" + "".join(f"#define STG_P{i} {i}\n" for i in range(60))
SOURCE = "  x = a * b + c; // some line of a kernel\n" * 140

# Text that would be markup, or end a string, a script or a line, wherever it is not written with care.
HOSTILE = "steer v1 | ops=</script><script>alert(1)</script><!--'\"&amp;\\ \x01\x1b[31m\x7f\u202e]]> | hidden=8 | sm_90"


def signature_of(number, arch="sm_90"):
    """One of many."""
    size = 256 << number % 5
    tile = "prefill" if number % 2 else "decode"
    return (f"steer v1 | ops=ablation,add,swap,user:{number:032x} chain<=16 | hidden={size} dtype=bf16 bank=bf16 "
            f"state=hidden | tile={tile} epilogue=none | {arch}")  # fmt: skip


class Forged(Case):
    """self.cache is to be filled by forge()."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "kernels"

    @staticmethod
    def entry(signature, arch="sm_90", compiler="nvrtc-13.0.88", ms=100, source=None, prelude=PRELUDE):
        source = f"// {signature}\nvoid f();\n" if source is None else source
        return ("entry", signature, arch, compiler, str(ms), "stg_steer", prelude, source)

    @staticmethod
    def graph(signature, rows=32, slot="hidden", arch="sm_90"):
        return ("graph", signature, arch, str(rows), slot, "", "", "")

    def forge(self, *records, folder=None):
        def field(text):
            return (text if isinstance(text, bytes) else text.encode()) + b"\0"

        data = b"".join(field(text) for record in records for text in record)
        subprocess.run([FORGE, folder or self.cache], input=data, check=True, timeout=120)

    def many(self, count):
        """Two architectures and two compilers, half of the sources shared."""
        arch = lambda number: "sm_80" if number % 3 == 0 else "sm_90"
        self.forge(*(self.entry(signature_of(i, arch(i)), arch(i), f"nvrtc-1{2 + i % 2}.{i % 4}.{i % 10}", 500 + 7 * i % 1000,
                                f"// {i // 2}\n" + SOURCE)
                     for i in range(count)))  # fmt: skip

    def report(self, *words, name="cache.html", cache=None):
        """Write the page of self.cache; (what --json says, its text)."""
        said = self.succeed("cache", "report", "-o", name, "--json", "--cache", cache or self.cache, *words).json()
        return said, (self.folder / name).read_bytes().decode()
