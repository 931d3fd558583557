#!/usr/bin/env python3
"""Every call that reaches the cache folder fails in turn, in libc's place, in `run`, `build` and `cache`:
`gc`, `export`, `import` and `stats`.

`run` goes on without the folder, and says so in one line; `build`, which is asked to fill it, says
why it cannot. Nothing torn is left, and the next process is as good as new.
"""
import errno
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2]) / "tests" / "cli"))
import tap
from cli import DONE, FAILED, QUICK, ROOT
from stubs import FAULT, StubCase

ERRNOS = ("ENOSPC", "EROFS", "EACCES", "EEXIST", "ENOENT", "EIO", "ENOLCK", "EINTR", "EMFILE")


class Calls(StubCase):
    def setUp(self):
        super().setUp()
        self.number = 0

    def new_folder(self):
        self.number += 1
        cache = self.folder / f"cache{self.number}"
        self.environment["STEERGRAPH_CACHE_DIR"] = str(cache)
        return cache

    def faulty(self, cache, fault, *words):
        environment = self.environment | {
            "LD_PRELOAD": str(FAULT),
            "STG_FAULT_UNDER": str(cache),
            "STG_FAULT_COUNT": str(self.folder / "counts"),
        }
        if fault is not None:
            environment["STG_FAULT"] = fault
        return self.run_command(*words, env=environment)

    def counts(self, cache, *words):
        """{call: how often} of the command without a fault."""
        outcome = self.faulty(cache, None, *words)
        self.assertEqual(outcome.code, DONE, outcome)
        lines = (self.folder / "counts").read_text().split("\n")
        return {call: int(count) for call, count in (line.split() for line in lines if line)}

    def faults(self, counts):
        """STG_FAULT of each call that is made, with each errno; and of all of a kind.

        Quick: of each call one errno, which go round, so that each call fails and each errno is met.
        """
        at = 0
        for call, count in counts.items():
            for k, name in enumerate(ERRNOS):
                number = getattr(errno, name)
                for nth in range(1, count + 1):
                    if not QUICK or (at + nth) % len(ERRNOS) == k:
                        yield f"{call}:{nth}:{number}"
                # EINTR says: ask again
                if count > 0 and name != "EINTR" and (not QUICK or at % len(ERRNOS) == k):
                    yield f"{call}:1+:{number}"
            at += count

    def expect_sound(self, cache, said):
        """Nothing torn, nothing set aside, and a process without faults has all it needs."""
        outcome = self.run_command("cache", "verify", "--cache", cache)
        if cache.is_dir():
            self.assertEqual(outcome.code, DONE, f"{said}: {outcome}")
        quarantine = cache / "v1" / "quarantine"
        self.assertEqual(list(quarantine.iterdir()) if quarantine.is_dir() else [], [], said)
        outcome = self.succeed("run", self.spec)
        self.assertEqual(outcome.err, "", f"{said}: {outcome}")

    def each_fault_of_a_run(self, warm):
        words = ("run", self.spec)
        counts = self.counts(self.new_folder(), *words)
        if warm:
            counts = self.counts(pathlib.Path(self.environment["STEERGRAPH_CACHE_DIR"]), *words)
        self.assertGreater(sum(counts.values()), 1)
        for fault in self.faults(counts):
            cache = self.new_folder()
            if warm:
                self.succeed(*words)
            outcome = self.faulty(cache, fault, *words)
            self.assertEqual(outcome.code, DONE, f"{fault}: {outcome}")
            self.assertTrue(outcome.out.endswith("ok\n"), f"{fault}: {outcome}")
            lines = outcome.err.splitlines()  # one of what is not read, one of what is not stored
            self.assertLessEqual(len(lines), 2 if warm else 1, f"{fault}: {outcome}")
            self.assertEqual(len({"stays in memory" in line for line in lines}), len(lines))
            self.expect_sound(cache, f"{fault}: {outcome.err}")

    def test_each_call_of_a_cold_run_fails(self):
        self.each_fault_of_a_run(warm=False)

    def test_each_call_of_a_warm_run_fails(self):
        self.each_fault_of_a_run(warm=True)

    def test_each_call_of_a_build_fails(self):
        words = ("build", "--arch", "sm_90", self.spec)
        for fault in self.faults(self.counts(self.new_folder(), *words)):
            cache = self.new_folder()
            outcome = self.faulty(cache, fault, *words)
            self.assertIn(outcome.code, (DONE, FAILED), f"{fault}: {outcome}")
            said = [line for line in outcome.err.splitlines() if not line.startswith("[")]
            if outcome.code == FAILED:
                # a folder that is said to exist, and does not, is missed by the next call
                numbers = {int(fault.split(":")[2]), errno.ENOENT if fault.startswith("mkdir") else 0}
                reasons = [os.strerror(number) for number in numbers - {0}]
                self.assertEqual(outcome.out, "", f"{fault}: {outcome}")
                self.assertIn(len(said), (1, 2), f"{fault}: {outcome}")  # a warning, and the end
                self.assertTrue(all(any(reason in line for reason in reasons) for line in said), f"{fault}: {outcome}")
            else:
                self.assertEqual(said, [], f"{fault}: {outcome}")
            self.expect_sound(cache, f"{fault}: {outcome.err}")

    def test_each_call_of_a_collection_fails(self):
        words = ("cache", "gc", "--max-entries", "1", "--cache")
        cache = self.new_folder()
        self.succeed("run", self.spec)
        for fault in self.faults(self.counts(cache, *words, cache)):
            cache = self.new_folder()
            self.succeed("run", self.spec)
            outcome = self.faulty(cache, fault, *words, cache)
            self.assertIn(outcome.code, (DONE, FAILED), f"{fault}: {outcome}")
            if outcome.code == FAILED:
                self.assertIn(os.strerror(int(fault.split(":")[2])), outcome.out + outcome.err, fault)
            self.expect_sound(cache, f"{fault}: {outcome.err}")

    def small_pack(self):
        pack = self.folder / "small.sgp"
        pack.write_bytes((ROOT / "tests" / "data" / "packs" / "small.sgp").read_bytes())
        pack.chmod(0o644)
        return pack

    def expect_reason(self, fault, outcome):
        """The work is done, or one line says why it is not."""
        self.assertIn(outcome.code, (DONE, FAILED), f"{fault}: {outcome}")
        if outcome.code == FAILED:
            numbers = {int(fault.split(":")[2]), errno.ENOENT if fault.startswith("mkdir") else 0}
            reasons = [os.strerror(number) for number in numbers - {0}]
            self.assertEqual((outcome.out, outcome.err.count("\n")), ("", 1), f"{fault}: {outcome}")
            self.assertTrue(any(reason in outcome.err for reason in reasons), f"{fault}: {outcome}")

    def test_each_call_of_statistics_fails(self):
        cache = self.new_folder()
        self.succeed("run", self.spec)
        words = ("cache", "stats", "--json", "--cache", cache)
        whole = self.succeed(*words).json()
        counts = self.counts(cache, *words)
        self.assertGreater(sum(counts.values()), 0)
        for fault in self.faults(counts):
            outcome = self.faulty(cache, fault, *words)
            self.assertEqual((outcome.code, outcome.err), (DONE, ""), f"{fault}: {outcome}")
            report = outcome.json()  # what can be counted is, and what is not read says why
            self.assertEqual(report["layers"], whole["layers"], fault)
            if report["totals"] != whole["totals"]:
                self.assertIsNone(report["totals"], fault)
                reason = os.strerror(int(fault.split(":")[2]))
                self.assertTrue(reason in report["problem"] or "ENOENT" in fault, f"{fault}: {outcome}")
            self.assertEqual(self.succeed(*words).json(), whole, fault)

    def test_each_call_of_an_import_fails(self):
        words = ("cache", "import", self.small_pack(), "--cache")
        cache = self.new_folder()
        for fault in self.faults(self.counts(cache, *words, cache)):
            cache = self.new_folder()
            outcome = self.faulty(cache, fault, *words, cache)
            self.expect_reason(fault, outcome)
            if cache.is_dir():
                self.succeed("cache", "verify", "--cache", cache)
            again = self.succeed(*words, cache)
            if outcome.code == DONE:
                self.assertEqual(again.out, "imported 0, 3 already there, 0 bad\n", fault)
            report = self.succeed("cache", "verify", "--json", "--cache", cache).json()
            self.assertEqual((report["entries"], report["good"]), (3, 3), fault)

    def test_each_call_of_an_export_fails(self):
        cache = self.new_folder()
        self.succeed("cache", "import", self.small_pack(), "--cache", cache)
        pack = cache / "out.sgp"
        words = ("cache", "export", pack, "--cache", cache)
        counts = self.counts(cache, *words)
        self.assertGreater(sum(counts.values()), 3)
        whole = pack.read_bytes()
        for fault in self.faults(counts):
            pack.unlink(missing_ok=True)
            outcome = self.faulty(cache, fault, *words)
            self.expect_reason(fault, outcome)
            self.assertEqual(pack.exists(), outcome.code == DONE, f"{fault}: {outcome}")
            self.assertTrue(outcome.code == FAILED or pack.read_bytes() == whole, f"{fault}: {outcome}")


if __name__ == "__main__":
    tap.main()
