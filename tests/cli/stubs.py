"""Cases on the stubs of the driver and of NVRTC (tests/stub), which STG_TEST_STUBS names.

A GPU of sm_90 is then there, on which chains of `add` over float32 rows run, and a compiler, which
counts its compiles in a file.
"""
import subprocess

from cli import COMMAND, STUBS, Case, small_workload

FAULT = STUBS / "libstg_fault.so"


class StubCase(Case):
    def setUp(self):
        super().setUp()
        self.spec = self.write("add.json", small_workload())
        self.log = self.folder / "compiles"
        self.use("nvrtc13")

    def use(self, nvrtc, driver="cuda"):
        """Which stubs the command finds: folders of tests/stub, or of this case; None: none."""
        folders = [str(STUBS / name) for name in (driver, nvrtc) if name is not None]
        self.environment["LD_LIBRARY_PATH"] = ":".join(folders)
        self.environment["STG_STUB_NVRTC_LOG"] = str(self.log)

    def compiles(self):
        """[(pid, hash, architecture)] of all compiles so far."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.is_file() else []

    def run_spec(self, **environment):
        """`run` on the stub GPU: the report, after a successful end."""
        report = self.succeed("run", self.spec, "--json", env=self.environment | environment)
        return report.json()


def command(words, environment, folder):
    """Run the command, without a case's checks: (exit status, stdout, stderr)."""
    done = subprocess.run(
        [str(COMMAND), *map(str, words)], env=environment, cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=600, check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")
