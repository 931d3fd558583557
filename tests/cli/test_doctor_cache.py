#!/usr/bin/env python3
"""`steergraph doctor` on cache folders: whose they are, where, how full, what is wrong, what to do."""
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import tap
from built import Built
from cli import FAILED, Case

PACK = pathlib.Path(__file__).resolve().parent.parent / "data" / "packs" / "small.sgp"
NAMES = {"ef53": "ext4", "58465342": "xfs", "9123683e": "btrfs", "794c7630": "overlay", "1021994": "tmpfs"}
NAMES |= {"6969": "nfs", "1021997": "9p", "65735546": "fuse", "2fc12fc1": "zfs"}
COMPILER = "nvrtc-13.0.88"


class Folders(Case):
    def setUp(self):
        super().setUp()
        self.use_stub_compiler()
        self.cache = self.folder / "kernels"
        self.cache.mkdir(mode=0o700)
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "1M"

    def entry(self, number, size=100):
        path = self.cache / "v1/ab" / f"ab{number:030x}-{COMPILER}.sgc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))

    def look(self):
        return self.succeed("doctor", "--json").json()["cache"]

    def only_folder(self):
        folders = self.look()["folders"]
        self.assertEqual(len(folders), 1)
        return folders[0]

    def test_every_fact_of_a_folder(self):
        for number in range(3):
            self.entry(number)
        (self.cache / "v1/quarantine").mkdir()
        (self.cache / "v1/quarantine/bad").write_bytes(bytes(7))
        for path in (self.cache, self.cache / "v1"):
            path.chmod(0o750)
        found = self.only_folder()
        magic = subprocess.run(
            ["stat", "-f", "-c", "%t", self.cache], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        facts = os.statvfs(self.cache)
        free = facts.f_bavail * facts.f_frsize
        self.assertLess(abs(found.pop("free_bytes") - free), 4 << 30)
        advice = [row for row in found.pop("advice") if "tmpfs" not in row["problem"]]
        self.assertEqual([row for row in advice if "locks" not in row["problem"]], [])
        self.assertEqual(
            found,
            {
                "path": str(self.cache),
                "kind": "folder",
                "use": "write",
                "there": True,
                "owner": os.geteuid(),
                "owner_name": pwd.getpwuid(os.geteuid()).pw_name,
                "mode": "0750",
                "file_system": NAMES.get(magic, f"0x{magic}"),
                "entries": 3,
                "quarantined": 1,
                "files": 4,
                "bytes": 307,
                "max_bytes": 1 << 20,
                "max_entries": 32768,
            },
        )
        text = self.succeed("doctor").out
        self.assertRegex(
            text,
            rf"\n +cache folder +write +{self.cache}: folder of user {found['owner_name']}\(\d+\), mode 0750, \w+, "
            r".* free, 3 entries, 307 B of 1\.0 MiB, 4 of 32768 files, 1 in quarantine\n",
        )

    def test_folders_stand_in_their_order(self):
        pack = self.folder / "k.sgp"
        shutil.copy(PACK, pack)
        pack.chmod(0o644)
        self.environment["STEERGRAPH_CACHE_DIR"] = f"{pack}::{self.cache}:{self.folder}/not/yet:"
        folders = self.look()["folders"]
        self.assertEqual(
            [(row["path"], row["kind"], row["use"], row["there"], row["entries"]) for row in folders],
            [
                (str(pack), "pack", "read", True, 3),
                (str(self.cache), "folder", "read", True, 0),
                (f"{self.folder}/not/yet", "folder", "write", False, 0),
            ],
        )
        self.assertEqual([row["max_entries"] for row in folders], [None, None, 32768])
        self.assertEqual([row["mode"] for row in folders], ["0644", "0700", None])
        self.assertEqual(folders[2]["file_system"], folders[1]["file_system"])
        self.assertRegex(self.succeed("doctor").out, rf"\n +cache folder +write +{self.folder}/not/yet: is not there yet, ")

    def test_what_others_can_write_is_wrong_wherever_it_stands(self):
        (self.cache / "v1").mkdir()
        (self.cache / "v1").chmod(0o777)
        self.environment["STEERGRAPH_CACHE_DIR"] = f"{self.cache}:{self.folder / 'rw'}"
        outcome = self.run_command("doctor")
        self.assertEqual(outcome.code, FAILED, outcome)
        self.assertRegex(
            outcome.out,
            rf"\n +wrong +'{self.cache}/v1' has mode 0777, so that others can write it\n"
            rf" +remedy +chmod go-w '{self.cache}/v1'\n",
        )
        subprocess.run(["chmod", "go-w", self.cache / "v1"], check=True)
        self.assertNotIn(" wrong ", self.succeed("doctor").out)

    def test_a_folder_of_somebody_else_is_wrong(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives folders away")
        os.chown(self.cache, 65534, -1)
        report = self.run_command("doctor", "--json").json()["cache"]
        self.assertFalse(report["ok"])
        folder = report["folders"][0]
        self.assertEqual((folder["owner"], folder["advice"][0]["wrong"]), (65534, True))
        self.assertIn("is owned by user 65534, not by user 0", folder["advice"][0]["problem"])
        self.assertIn("a folder of your own", folder["advice"][0]["remedy"])

    def test_a_folder_above_its_limits_is_noted(self):
        for number in range(5):
            self.entry(number)
        self.environment["STEERGRAPH_CACHE_MAX_ENTRIES"] = "4"
        self.assertRegex(
            self.succeed("doctor").out,
            r"\n +note +it is above its limits; the next store makes room, or 'steergraph cache gc'\n",
        )
        self.succeed("cache", "gc")
        self.assertNotIn("above its limits", self.succeed("doctor").out)

    def test_a_disk_with_less_than_the_limit_is_noted(self):
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "8000000000G"
        self.assertIn(" are free, less than it may grow by: ", self.succeed("doctor").out)
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "none"
        self.assertNotIn(" are free, less", self.succeed("doctor").out)
        self.assertIsNone(self.only_folder()["max_bytes"])

    def test_memory_is_noted(self):
        shared = pathlib.Path("/dev/shm")
        if not os.access(shared, os.W_OK):
            self.skipTest("no /dev/shm")
        kind = subprocess.run(["stat", "-f", "-c", "%t", shared], stdout=subprocess.PIPE, text=True, check=True)
        if kind.stdout.strip() != "1021994":
            self.skipTest("/dev/shm is no tmpfs")
        with tempfile.TemporaryDirectory(dir=shared) as folder:
            self.environment["STEERGRAPH_CACHE_DIR"] = folder
            self.assertRegex(self.succeed("doctor").out, r"\n +note +on tmpfs it is gone at the next boot; ")

    def test_of_many_entries_a_sample_is_read(self):
        for number in range(1000):
            self.entry(number, 1)
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "none"
        report = self.look()
        self.assertEqual(report["entries"], 1000)
        self.assertTrue(0 < report["checked"] <= 200, report["checked"])
        self.assertEqual(report["bad"], report["checked"])
        self.assertRegex(
            self.succeed("doctor").out,
            r"\n +cache +bad +.*, writable, 1000 entries, checked \d+ of them, some damaged: "
            "'steergraph cache verify --repair'\n",
        )

    def test_the_switch_in_force_is_said(self):
        self.entry(1)
        for word, ok, line in (
            ("read-only", "bad", rf"{self.cache}, read only, 1 entries, some damaged: .* \(STEERGRAPH_CACHE=read-only\)"),
            ("refresh", "bad", rf"{self.cache}, writable, 1 entries, .* \(STEERGRAPH_CACHE=refresh\)"),
            ("off", "off", "STEERGRAPH_CACHE=off: no folder and no pack is used"),
        ):
            with self.subTest(word=word):
                self.environment["STEERGRAPH_CACHE"] = word
                self.assertEqual(self.look()["mode"], word)
                self.assertRegex(self.succeed("doctor").out, rf"\n +cache +{ok} +{line}\n")

    def test_switched_off_no_folder_is_a_problem(self):
        self.cache.chmod(0o777)
        self.environment["STEERGRAPH_CACHE"] = "off"
        report = self.look()
        self.assertEqual((report["ok"], report["entries"]), (True, 0))

    def test_a_pack_in_the_last_place_serves_who_only_reads(self):
        pack = self.folder / "k.sgp"
        shutil.copy(PACK, pack)
        pack.chmod(0o644)
        self.environment["STEERGRAPH_CACHE_DIR"] = str(pack)
        self.environment["STEERGRAPH_CACHE"] = "read-only"
        report = self.look()
        self.assertEqual((report["ok"], report["entries"], report["folders"][0]["use"]), (True, 3, "read"))


class Builds(Built):
    def test_what_another_user_made_is_not_called_damaged(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        as_other = {}
        if os.geteuid() == 0:
            for path in (self.folder, self.cache, *self.cache.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o600)
            as_other = {"user": 65534, "group": 65534, "extra_groups": []}
        else:
            for path in self.cache.glob("v1/??/*"):
                path.chmod(0)
        try:
            report = self.run_command("doctor", "--json", **as_other).json()["cache"]
        except PermissionError:
            self.skipTest("the build folder is not open to other users")
        self.assertEqual((report["entries"], report["bad"], report["unreadable"]), (4, 4, 4))
        said = self.run_command("doctor", **as_other).out
        self.assertRegex(said, r"\n  cache +bad .*, 4 entries, some for their owner alone: have them as a pack, "
                               r"'steergraph cache export'\n")  # fmt: skip
        self.assertNotIn("damaged", said)

    def test_what_a_folder_was_used_for_is_said(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.succeed("build", "--arch", "sm_80,sm_90", self.spec)
        report = self.succeed("doctor", "--json").json()["cache"]
        self.assertEqual((report["entries"], report["checked"], report["bad"]), (4, 4, 0))
        self.assertEqual((report["totals"]["runs"], report["totals"]["disk_hits"]), (2, 4))
        self.assertRegex(
            self.succeed("doctor").out,
            r"\n +cache use +50\.0 % +4 kernels found, 4 missed, 4 compiled in \d+ ms, 0 quarantined, since \d{4}-",
        )


tap.main()
