#!/usr/bin/env python3
"""Kernels that are built on one machine and run on another: a pack, or a folder of an image, with
compile=never, an empty environment, as another user, and with nothing that can be written."""
import os
import pwd
import shutil
import unittest

import tap
from stubs import StubCase

NOBODY = 65534
UNKNOWN = next(uid for uid in range(54321, 65000) if uid not in {user.pw_uid for user in pwd.getpwall()})


class AsOther:
    """Once `become` is called, the command runs as another user."""

    user = None

    def become(self, user):
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.user = user
        try:
            self.run_command("--version")
        except PermissionError:
            self.skipTest("the build folder is not open to other users")

    def start(self, *words, **popen):
        if self.user is not None:
            popen |= {"user": self.user, "group": self.user, "extra_groups": []}
        return super().start(*words, **popen)

    def run_bare(self, **environment):
        """`run` with no variable but these and what finds the stubs."""
        bare = {name: self.environment[name] for name in ("LD_LIBRARY_PATH", "STG_STUB_NVRTC_LOG")}
        outcome = self.succeed("run", self.spec, "--json", env=bare | environment)
        return outcome.json(), outcome.err


class Container(AsOther, StubCase):
    """Built first, with a compiler that is not there afterwards."""

    left_behind = [".sgr"]

    def setUp(self):
        super().setUp()
        self.image = self.folder / "image"
        self.image.mkdir()
        self.pack = self.image / "kernels.sgp"
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "builder")
        self.succeed("build", "--arch", "sm_90", "--pack", self.pack, self.spec)
        self.succeed("build", "--arch", "sm_90", self.spec)
        self.built = self.compiles()
        self.use(None)

    def expect_from_disk(self, report):
        self.assertEqual((report["source"], report["ok"], report["rows_steered"]), ("disk", True, 3))
        self.assertEqual(self.compiles(), self.built)

    def test_a_pack_serves_where_nothing_may_be_compiled(self):
        report, said = self.run_bare(
            STEERGRAPH_CACHE_DIR=f"{self.pack}:{self.folder / 'rw'}", STEERGRAPH_NO_JIT="1"
        )
        self.expect_from_disk(report)
        self.assertEqual(said, "")
        # of the graph that was made, where it can be written; the kernel stays where it is
        self.assertEqual([path.suffix for path in (self.folder / "rw" / "v1").rglob("*.*")], self.left_behind)

    def test_a_copied_folder_serves_as_the_builders_own(self):
        copy = self.folder / "elsewhere" / "copy"
        shutil.copytree(self.folder / "builder", copy)
        for path in [copy, *copy.rglob("*")]:
            os.utime(path, (1, 1))
        report, said = self.run_bare(STEERGRAPH_CACHE_DIR=str(copy), STEERGRAPH_NO_JIT="1")
        self.expect_from_disk(report)
        self.assertEqual(said, "")

    def test_without_a_home_one_line_names_the_variable(self):
        self.use("nvrtc13")
        report, said = self.run_bare()
        self.assertEqual((report["source"], report["ok"]), ("compiled", True))
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("set STEERGRAPH_CACHE_DIR", said)


@unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
class OtherUser(Container):
    """The same as a user that owns nothing of it, in folders that root made."""

    left_behind = []

    def setUp(self):
        super().setUp()
        self.become(NOBODY)


class Nowhere(AsOther, StubCase):
    """Kernels that are compiled where there is no place to keep them, by a user without a home, and as
    root by one that no passwd file knows."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        if os.geteuid() == 0:
            self.become(UNKNOWN)
            os.chown(self.cache, UNKNOWN, UNKNOWN)
        self.cache.chmod(0o500)

    def expect_one_line(self, said, report):
        self.assertEqual((report["source"], report["ok"], report["rows_steered"]), ("compiled", True, 3))
        self.assertEqual(said.count("\n"), 1, said)

    def test_a_folder_that_cannot_be_written_costs_one_line(self):
        report, said = self.run_bare(STEERGRAPH_CACHE_DIR=str(self.cache))
        self.expect_one_line(said, report)
        self.assertIn("the kernel stays in memory only: cannot make folder", said)
        self.assertIn(str(self.cache), said)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_without_home_and_passwd_entry_one_line_names_the_variable(self):
        report, said = self.run_bare()
        self.expect_one_line(said, report)
        self.assertIn("set STEERGRAPH_CACHE_DIR", said)


if __name__ == "__main__":
    tap.main()
