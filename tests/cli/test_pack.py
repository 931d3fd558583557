#!/usr/bin/env python3
"""Packs: `steergraph build --pack`, and looking into one."""
import pathlib
import re
import subprocess
import sys

import tap
from cli import FAILED, ROOT, Case, small_workload
from pack_file import GOLDEN, HEADER_BYTES, read_pack


class Golden(Case):
    """On the small pack of the tests: no compiler is needed."""

    def setUp(self):
        super().setUp()
        self.use_stub_compiler()
        self.pack = self.folder / "small.sgp"
        self.pack.write_bytes(GOLDEN.read_bytes())
        self.pack.chmod(0o644)

    def damage(self, at):
        data = bytearray(self.pack.read_bytes())
        data[at] ^= 1
        self.pack.write_bytes(bytes(data))

    def test_the_layout_is_as_described(self):
        entries = read_pack(GOLDEN)
        stored = sorted(path.read_bytes() for path in GOLDEN.parent.glob("*.sgc"))
        self.assertEqual(sorted(entries.values()), stored)

    def test_ls_lists_its_entries_alone_and_under_a_folder(self):
        for folders in (self.pack, f"{self.pack}:{self.folder}"):
            report = self.succeed("cache", "ls", "--json", "--cache", folders).json()
            self.assertEqual(report["count"], 3)
            self.assertEqual({pathlib.Path(e["path"]).name for e in report["entries"]}, set(read_pack(GOLDEN)))
            self.assertEqual({pathlib.Path(e["path"]).parent for e in report["entries"]}, {self.pack})
            self.assertTrue(all(entry["ok"] for entry in report["entries"]))

    def test_show_finds_an_entry_and_verify_passes(self):
        name = sorted(read_pack(GOLDEN))[0]
        shown = self.succeed("cache", "show", name[:8], "--json", "--cache", self.pack).json()
        self.assertEqual(shown["key"], name[:32])
        self.succeed("cache", "show", name[:8], "--cubin", "k.cubin", "--cache", self.pack)
        self.assertTrue((self.folder / "k.cubin").read_bytes().startswith(b"\x7fELF"))
        report = self.succeed("cache", "verify", "--json", "--cache", self.pack).json()
        self.assertEqual(report, {"entries": 3, "good": 3, "graphs": 0, "good_graphs": 0, "other_format": 0,
                                  "bad": [], "left_out": [], "dry_run": False, "moved": 0, "repaired": False})  # fmt: skip

    def test_a_damaged_entry_is_found_and_left_where_it_is(self):
        self.damage(HEADER_BYTES + 1500)
        before = self.pack.read_bytes()
        for words in (("verify",), ("verify", "--repair")):
            outcome = self.run_command("cache", *words, "--json", "--cache", self.pack)
            self.assertEqual(outcome.code, FAILED, outcome)
            report = outcome.json()
            self.assertEqual((report["good"], len(report["bad"]), report["repaired"]), (2, 1, False))
            self.assertTrue(report["bad"][0]["path"].startswith(f"{self.pack}/"))
        text = self.run_command("cache", "verify", "--repair", "--cache", self.pack).out
        self.assertIn("3 entries: 2 good, 1 bad, 0 moved to quarantine, 1 left in packs: make those again", text)
        self.assertEqual(self.pack.read_bytes(), before)
        self.assertEqual(list(self.folder.rglob("quarantine")), [])

    def test_a_file_that_is_no_pack_is_named(self):
        for data in (b"", b"x" * 10, b"x" * 100, GOLDEN.read_bytes()[:-1]):
            self.pack.write_bytes(data)
            for words in (("ls",), ("show", "abcd"), ("verify",)):
                line = self.refuse(FAILED, "cache", *words, "--cache", self.pack)
                self.assertIn(f"cache pack '{self.pack}': ", line)

    def test_others_warn_of_it_once_and_go_on(self):
        spec = self.write("w.json", small_workload())
        self.damage(HEADER_BYTES - 1)
        outcome = self.succeed("run", "--cache", f"{self.pack}:{self.folder / 'rw'}", spec)
        self.assertEqual(outcome.err.count("passed over"), 1, outcome)
        self.assertIn(f"cache pack '{self.pack}': checksum does not match", outcome.err)
        self.pack.write_bytes(GOLDEN.read_bytes())
        self.pack.chmod(0o666)
        outcome = self.succeed("run", "--cache", f"{self.pack}:{self.folder / 'rw'}", spec)
        self.assertIn("so that others can write it", outcome.err)

    def test_a_pack_cannot_be_the_folder_that_is_written_to(self):
        spec = self.write("w.json", small_workload())
        for folders in (self.pack, f"{self.folder}:{self.pack}", f"{self.pack}:"):
            line = self.refuse(FAILED, "run", "--cache", folders, spec)
            self.assertIn("is written to; put a folder after a pack", line)

    def test_why_miss_names_the_factors_of_an_entry_in_it(self):
        spec = self.write("w.json", small_workload())
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache", self.pack, spec)
        outcome = self.run_command(*words)
        if "CUDA headers" in outcome.err:
            self.skipTest("built without CUDA")
        miss = outcome.json()["why_miss"]
        self.assertFalse(miss["hit"])
        self.assertIn("kernel", [factor["factor"] for factor in miss["factors"]])

    def test_why_miss_passes_over_what_run_passes_over(self):
        spec = self.write("w.json", small_workload())
        words = ("explain", "--json", "--why-miss", "--arch", "sm_90", "--cache")
        if "CUDA headers" in self.run_command(*words, self.folder, spec).err:
            self.skipTest("built without CUDA")
        self.pack.chmod(0o666)
        torn = self.write("torn.sgp", GOLDEN.read_bytes()[:-1])
        torn.chmod(0o644)
        for folders in (self.pack, f"{self.pack}:rw", torn, f"{torn}:rw"):
            with self.subTest(folders=folders):
                outcome = self.succeed(*words, folders, spec)
                self.assertEqual(outcome.err.count("passed over"), 1, outcome)
                miss = outcome.json()["why_miss"]
                self.assertEqual((miss["hit"], miss["nearest"], miss["factors"]), (False, None, []))
        self.pack.chmod(0o644)
        outcome = self.succeed(*words, f"{self.pack}:rw", spec)
        self.assertEqual(outcome.err, "")
        self.assertTrue(outcome.json()["why_miss"]["nearest"].startswith(f"{self.pack}/"))
        self.assertFalse((self.folder / "rw").exists())

    def test_explain_refuses_a_list_that_ends_with_a_pack(self):
        spec = self.write("w.json", small_workload())
        for folders in (f"{self.folder}:{self.pack}", f"{self.pack}:"):
            for words in ((), ("--why-miss",)):
                line = self.refuse(FAILED, "explain", *words, "--arch", "sm_90", "--cache", folders, spec)
                self.assertIn("is written to; put a folder after a pack", line)


class Built(Case):
    def setUp(self):
        super().setUp()
        self.use_stub_compiler()
        if not self.has_compiler():
            self.skipTest("no NVRTC here")
        self.spec = self.write("w.json", small_workload())
        self.pack = self.folder / "kernels.sgp"
        self.words = ("build", "--json", "--arch", "sm_80,sm_90", "--pack", self.pack)

    def test_build_makes_a_pack_that_is_found_where_nothing_may_compile(self):
        report = self.succeed(*self.words, self.spec).json()
        self.assertEqual((report["compiled"], report["already_there"]), (4, 0))
        self.assertEqual((report["pack"], report["pack_bytes"]), (str(self.pack), self.pack.stat().st_size))
        self.assertEqual({name[:32] for name in read_pack(self.pack)}, {k["kernel_key"] for k in report["kernels"]})
        self.assertFalse((self.folder / "home" / ".cache").exists())
        self.environment["STEERGRAPH_NO_JIT"] = "1"
        for folders in (self.pack, f"{self.pack}:{self.folder / 'rw'}"):
            (self.folder / "rw").mkdir(exist_ok=True)
            for arch in ("sm_80", "sm_90"):
                words = ("explain", "--json", "--why-miss", "--arch", arch, "--cache", folders, self.spec)
                miss = self.succeed(*words).json()["why_miss"]
                self.assertEqual((miss["hit"], miss["factors"]), (True, []))
        self.assertEqual(list((self.folder / "rw").iterdir()), [])
        self.pack.chmod(0o664)
        outcome = self.succeed(*words[:-2], f"{self.pack}:rw", self.spec)
        self.assertFalse(outcome.json()["why_miss"]["hit"])
        self.pack.chmod(0o644)
        outcome = self.succeed("run", "--cache", f"{self.pack}:{self.folder / 'rw'}", self.spec)
        self.assertNotIn("warn", outcome.err)

    def test_a_pack_of_a_folder_has_its_bytes(self):
        self.succeed("build", "--arch", "sm_80,sm_90", "--cache", "k", self.spec)
        report = self.succeed(*self.words, "--cache", "k", self.spec).json()
        self.assertEqual((report["compiled"], report["already_there"]), (0, 4))
        folder = {path.name: path.read_bytes() for path in (self.folder / "k").rglob("*.sgc")}
        self.assertEqual(read_pack(self.pack), folder)
        self.assertLess(self.pack.stat().st_size, sum(map(len, folder.values())) / 2)
        again = self.folder / "again.sgp"
        self.succeed("build", "--arch", "sm_90,sm_80", "--cache", "k", "--pack", again, self.spec)
        self.assertEqual(again.read_bytes(), self.pack.read_bytes())

    def test_a_build_over_a_pack_compiles_only_what_it_lacks(self):
        self.succeed("build", "--arch", "sm_80", "--pack", self.pack, self.spec)
        words = ("build", "--json", "--arch", "sm_80,sm_90", "--cache", f"{self.pack}:rw", self.spec)
        report = self.succeed(*words).json()
        self.assertEqual((report["compiled"], report["already_there"]), (2, 2))
        self.assertEqual(len(list((self.folder / "rw").rglob("*.sgc"))), 2)

    def test_a_pack_that_is_there_is_replaced_as_a_whole(self):
        self.pack.write_text("something else")
        self.succeed("build", "--arch", "sm_80", "--pack", self.pack, self.spec)
        self.assertEqual(len(read_pack(self.pack)), 2)
        self.assertEqual(self.pack.stat().st_mode & 0o777, 0o644)
        self.assertEqual(list(self.folder.glob(".stg-*")), [])

    def test_a_pack_that_kernels_are_taken_from_is_not_replaced(self):
        self.succeed(*self.words, self.spec)
        before = self.pack.read_bytes()
        (self.folder / "link.sgp").symlink_to(self.pack)
        (self.folder / "rw").mkdir()
        for layers in (f"{self.pack}:rw", "link.sgp:rw"):
            with self.subTest(layers=layers):
                words = ("build", "--arch", "sm_80", "--cache", layers, "--pack", self.pack, self.spec)
                line = self.refuse(FAILED, *words)
                self.assertRegex(line, f"--pack '{self.pack}' would replace .*; name another file$")
                self.assertEqual(self.pack.read_bytes(), before)
        self.assertEqual(list((self.folder / "rw").iterdir()), [])

    def test_a_pack_that_cannot_be_written_is_refused_before_anything_is_compiled(self):
        for path in (self.folder, self.folder / "none" / "k.sgp", "/dev/null"):
            with self.subTest(path=path):
                line = self.refuse(FAILED, "build", "--arch", "sm_80", "--pack", path, self.spec)
                self.assertIn(f"--pack: cannot write '{path}'", line)


class Tier0Specs(Case):
    """tools/tier0_specs.py: what the pack of -Dtier0_pack holds."""

    STATES = {
        "hidden": "state=hidden | tile=decode epilogue=none ",
        "residual": "state=hidden+residual | tile=decode epilogue=none ",
        "norm": "state=hidden+residual | tile=decode epilogue=add_rmsnorm ",
    }

    def write_specs(self, *names):
        words = [sys.executable, str(ROOT / "tools" / "tier0_specs.py"), *names]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=60)

    def test_each_state_is_the_kernel_of_a_table_that_declares_nothing_more(self):
        for state, piece in self.STATES.items():
            for dtype in ("bf16", "f16"):
                with self.subTest(state=state, dtype=dtype):
                    name = f"tier0_2560_{dtype}_{state}.json"
                    self.assertEqual(self.write_specs(name).returncode, 0)
                    report = self.succeed("explain", "--json", "--arch", "cpu", name).json()
                    self.assertIn(f"hidden=2560 dtype={dtype} bank={dtype} {piece}", report["signature"])
                    self.assertIn(" windows=0 counters=0 probes=0 ", report["signature"])
                    ops = re.search(r"ops=(\S+)", report["signature"])[1].split(",")
                    listed = self.succeed("ops", "--json").json()["ops"]
                    built_in = [op["op"] for op in listed if op["output"] is None]
                    self.assertEqual(sorted(ops), sorted(built_in))

    def test_the_build_asks_for_every_state(self):
        lists = re.findall(r"foreach state : \[(.*)\]", (ROOT / "tools" / "meson.build").read_text())
        self.assertEqual(lists, [", ".join(f"'{state}'" for state in self.STATES)])

    def test_a_name_that_says_nothing_is_refused(self):
        for name in ("tier0_64_f32_hidden.json", "tier0_64_bf16_sum.json", "tier0_bf16_hidden.json", "x.json"):
            outcome = self.write_specs(name)
            self.assertEqual(outcome.returncode, 1)
            self.assertIn(f"'{name}': the name must be tier0_SIZE_DTYPE_STATE.json", outcome.stderr)
            self.assertFalse((self.folder / name).exists())


if __name__ == "__main__":
    tap.main()
