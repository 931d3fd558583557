#!/usr/bin/env python3
"""`steergraph cache import`: what of a pack comes into a folder, and what a hostile one may not do."""
import os
import random
import struct
import subprocess
import time

import tap
from built import Built
from cli import FAILED, WRONG, Case
from pack_file import GOLDEN, read_pack

ROUNDS = 30


class Imports(Case):
    def setUp(self):
        super().setUp()
        self.entries = read_pack(GOLDEN)
        self.pack = self.write("small.sgp", GOLDEN.read_bytes())
        self.pack.chmod(0o644)
        self.target = self.folder / "rw"

    def found(self):
        return {path.name: path.read_bytes() for path in self.target.rglob("v1/??/*.sgc")}

    def report(self, imported, there=0, bad=(), dry_run=False):
        size = sum(len(data) for data in self.entries.values()) if imported == 3 else None
        return {
            "folders": str(self.target),
            "imported": imported,
            "imported_bytes": 0 if imported == 0 else size,
            "already_there": there,
            "bad": list(bad),
            "dry_run": dry_run,
        }

    def test_a_new_folder_gets_all_of_it(self):
        words = ("cache", "import", self.pack, "--cache", self.target, "--json")
        self.assertEqual(self.succeed(*words, "--dry-run").json(), self.report(3, dry_run=True))
        self.assertFalse(self.target.exists())
        self.assertEqual(self.succeed(*words).json(), self.report(3))
        self.assertEqual(self.found(), self.entries)
        self.assertEqual(self.succeed(*words).json(), self.report(0, 3))
        self.assertEqual(self.succeed("cache", "verify", "--json", "--cache", self.target).json()["good"], 3)
        self.assertEqual(list((self.target / "v1" / "tmp").iterdir()), [])

    def test_it_says_so_in_a_line(self):
        words = ("cache", "import", self.pack, "--cache", self.target)
        self.assertEqual(self.succeed(*words, "--dry-run").out, "would import 3, 0 already there, 0 bad\n")
        self.assertEqual(self.succeed(*words).out, "imported 3, 0 already there, 0 bad\n")
        self.assertEqual(self.succeed(*words).out, "imported 0, 3 already there, 0 bad\n")

    def test_the_environment_s_last_folder_is_the_target(self):
        (self.folder / "ro").mkdir()
        self.environment["STEERGRAPH_CACHE_DIR"] = f"{self.folder / 'ro'}:{self.target}"
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        self.succeed("cache", "import", self.pack)
        self.assertEqual(self.found(), self.entries)
        self.assertEqual(list((self.folder / "ro").iterdir()), [])
        del self.environment["STEERGRAPH_CACHE_DIR"]
        self.succeed("cache", "import", self.pack)
        self.assertEqual(len(list((self.folder / "home" / ".cache" / "steergraph").rglob("*.sgc"))), 3)
        del self.environment["HOME"]
        self.assertIn("STEERGRAPH_CACHE_DIR", self.refuse(FAILED, "cache", "import", self.pack))

    def test_several_packs_are_one_import(self):
        self.succeed("cache", "import", self.pack, "--cache", "a")
        self.succeed("cache", "export", "sm_80.sgp", "--arch", "sm_80", "--cache", "a")
        self.succeed("cache", "export", "sm_90.sgp", "--arch", "sm_90", "--cache", "a")
        outcome = self.succeed("cache", "import", "sm_80.sgp", "sm_90.sgp", self.pack, "--cache", self.target)
        self.assertEqual(outcome.out, "imported 3, 3 already there, 0 bad\n")
        self.assertEqual(self.found(), self.entries)

    def test_a_pack_that_cannot_be_used_keeps_all_of_them_out(self):
        torn = self.write("torn.sgp", GOLDEN.read_bytes()[:-1])
        torn.chmod(0o644)
        line = self.refuse(FAILED, "cache", "import", self.pack, torn, "--cache", self.target)
        self.assertIn(f"cache pack '{torn}': ", line)
        for name in ("none.sgp", self.folder, "/dev/null"):
            line = self.refuse(FAILED, "cache", "import", self.pack, name, "--cache", self.target)
            self.assertIn(f"cache pack '{name}' is not ", line)
        self.assertFalse(self.target.exists())

    def test_a_pack_of_others_is_refused(self):
        self.pack.chmod(0o666)
        line = self.refuse(FAILED, "cache", "import", self.pack, "--cache", self.target)
        self.assertIn("has mode 0666, so that others can write it; chmod go-w it", line)
        if os.geteuid() == 0:
            self.pack.chmod(0o644)
            os.chown(self.pack, 12345, 12345)
            line = self.refuse(FAILED, "cache", "import", self.pack, "--cache", self.target)
            self.assertIn("is owned by user 12345, not by user 0 or root", line)
        self.assertFalse(self.target.exists())

    def test_a_damaged_entry_is_named_and_the_others_come(self):
        data = bytearray(GOLDEN.read_bytes())
        (index,) = struct.unpack("<Q", data[24:32])
        data[index - 1] ^= 1
        self.pack.write_bytes(bytes(data))
        words = ("cache", "import", self.pack, "--cache", self.target)
        for dry, verb in ((("--dry-run",), "would import"), ((), "imported")):
            outcome = self.run_command(*words, *dry)
            self.assertEqual(outcome.code, FAILED, outcome)
            self.assertRegex(outcome.out, rf"^bad: {self.pack}/\S+\.sgc: checksum does not match its bytes\n{verb} 2, ")
            self.assertIn("2, 0 already there, 1 bad\n", outcome.out)
        report = self.run_command(*words, "--json").json()
        self.assertEqual((report["imported"], report["already_there"], len(report["bad"])), (0, 2, 1))
        (name,) = set(self.entries) - set(self.found())
        self.assertEqual(report["bad"][0]["path"], f"{self.pack}/{name}")

    def test_what_is_there_stays_and_what_is_damaged_there_is_replaced(self):
        self.succeed("cache", "import", self.pack, "--cache", self.target)
        paths = sorted(self.target.rglob("v1/??/*.sgc"))
        stamps = [path.stat().st_mtime_ns for path in paths]
        paths[1].write_bytes(b"torn")
        outcome = self.succeed("cache", "import", self.pack, "--cache", self.target)
        self.assertEqual(outcome.out, "imported 1, 2 already there, 0 bad\n")
        self.assertEqual(self.found(), self.entries)
        self.assertEqual([path.stat().st_mtime_ns for path in paths[::2]], stamps[::2])
        self.assertEqual([p.read_bytes() for p in self.target.rglob("quarantine/*")], [b"torn"])

    def test_a_folder_that_cannot_be_written_is_named(self):
        self.assertIn("/proc/none", self.refuse(FAILED, "cache", "import", self.pack, "--cache", "/proc/none"))
        self.target.mkdir()
        self.target.chmod(0o777)
        line = self.refuse(FAILED, "cache", "import", self.pack, "--cache", self.target)
        self.assertIn("so that others can write it", line)
        line = self.refuse(FAILED, "cache", "import", self.pack, "--cache", self.pack)
        self.assertIn("put a folder after a pack", line)
        if os.geteuid() != 0:
            self.target.chmod(0o500)
            line = self.refuse(FAILED, "cache", "import", self.pack, "--cache", self.target)
            self.assertIn(str(self.target), line)

    def end_some(self, end):
        """Imports that are ended somewhere, each of which has something to do."""
        start = time.monotonic()
        self.succeed("cache", "import", self.pack, "--cache", self.folder / "timed")
        usual = time.monotonic() - start
        draw = random.Random(5)
        for _ in range(ROUNDS):
            for path in list(self.target.rglob("v1/??/*.sgc")):
                path.unlink()
            process = self.start("cache", "import", self.pack, "--cache", self.target)
            time.sleep(draw.uniform(0, usual))
            end(process)
            process.communicate()
            for name, data in self.found().items():
                self.assertEqual(data, self.entries[name])
            yield

    def test_a_kill_in_the_middle_leaves_whole_entries(self):
        for _ in self.end_some(subprocess.Popen.kill):
            pass
        self.succeed("cache", "import", self.pack, "--cache", self.target)
        self.assertEqual(self.found(), self.entries)

    def test_an_interrupt_leaves_no_temporary_file_either(self):
        for _ in self.end_some(subprocess.Popen.terminate):
            self.assertEqual(list(self.target.rglob("v1/tmp/*")), [])

    def test_words_that_are_wrong(self):
        self.assertIn("FILE.sgp", self.refuse(WRONG, "cache", "import"))
        self.assertIn("--repair", self.refuse(WRONG, "cache", "import", self.pack, "--repair"))


class Ships(Built):
    def test_an_imported_folder_serves_where_nothing_may_compile(self):
        self.succeed("cache", "export", "k.sgp", "--arch", "sm_90", "--cache", self.cache)
        self.succeed("cache", "import", "k.sgp", "--cache", "rw")
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        for arch, hit in (("sm_90", True), ("sm_80", False)):
            words = ("explain", "--json", "--why-miss", "--arch", arch, "--cache", "rw", self.spec)
            self.assertEqual(self.succeed(*words).json()["why_miss"]["hit"], hit)

    def test_out_and_in_again_is_the_same_folder(self):
        self.succeed("cache", "export", "k.sgp", "--cache", self.cache)
        self.succeed("cache", "import", "k.sgp", "--cache", "rw")
        for path in self.cache.rglob("*.sgc"):
            copy = self.folder / "rw" / path.relative_to(self.cache)
            self.assertEqual(copy.read_bytes(), path.read_bytes())
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", "rw", self.spec)
        self.assertEqual(self.succeed(*words).json()["already_there"], 4)


tap.main()
