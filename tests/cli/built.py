"""A cache folder that `build` made once for all cases of a file; each case works on a copy.

The compiler is the stub where there is one, unless the file is about the kernels.
"""
import atexit
import pathlib
import shutil
import tempfile

from cli import Case, small_workload


class Built(Case):
    """Cases on self.cache: two kernels of self.spec for each of sm_80 and sm_90."""

    made = None
    report = None  # what `build --json` said
    real = False  # NVRTC itself

    def setUp(self):
        super().setUp()
        if not self.real:
            self.use_stub_compiler()
        self.cache = self.folder / "kernels"
        self.spec = self.write("w.json", small_workload())
        if Built.made is None:
            if not self.has_compiler():
                self.skipTest("no NVRTC here")
            Built.made = pathlib.Path(tempfile.mkdtemp(prefix="stg-cli-cache-"))
            atexit.register(shutil.rmtree, Built.made)
            outcome = self.succeed("build", "--json", "--arch", "sm_80,sm_90", "--cache", Built.made, self.spec)
            Built.report = outcome.json()
            self.assertIn("[4/4] sm_90", outcome.err)
        shutil.copytree(Built.made, self.cache)

    def entries(self):
        return self.succeed("cache", "ls", "--json", "--cache", self.cache).json()["entries"]

    def damage(self, path, change):
        path = pathlib.Path(path)
        data = bytearray(path.read_bytes())
        path.write_bytes(bytes(change(data)))

    @staticmethod
    def flip(at):
        def change(data):
            data[int(at * (len(data) - 1))] ^= 1
            return data

        return change
