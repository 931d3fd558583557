#!/usr/bin/env python3
"""`steergraph cache export`: which entries go into a pack, and when none is written."""
import pathlib

import tap
from cli import FAILED, ROOT, WRONG, Case
from pack_file import GOLDEN, read_pack

OTHER_FORMAT = ROOT / "tests" / "data" / "entry_format_1.sgc"


class Exports(Case):
    """Out of a folder with the three entries of the tests' small pack."""

    def setUp(self):
        super().setUp()
        small = self.write("small.sgp", GOLDEN.read_bytes())
        small.chmod(0o644)
        self.succeed("cache", "import", small, "--cache", "kernels")
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "kernels")
        self.names = sorted(read_pack(GOLDEN))
        self.pack = self.folder / "k.sgp"

    def stored(self, name):
        return next((self.folder / "kernels").rglob(name))

    def export(self, *words):
        """The names in the pack that these words give; its entries are those of the folder."""
        report = self.succeed("cache", "export", self.pack, *words, "--json").json()
        entries = read_pack(self.pack)
        self.assertEqual(
            report,
            {
                "pack": str(self.pack),
                "entries": len(entries),
                "pack_bytes": self.pack.stat().st_size,
                "other_format": 0,
            },
        )
        for name, data in entries.items():
            self.assertEqual(data, self.stored(name).read_bytes())
        self.pack.unlink()
        return sorted(entries)

    def refuse_export(self, *words, code=FAILED):
        line = self.refuse(code, "cache", "export", *words)
        self.assertEqual(list(self.folder.glob("k*.sgp")), [])
        self.assertEqual(list(self.folder.glob(".stg-*")), [])
        return line

    def test_without_words_it_takes_all(self):
        self.assertEqual(self.export(), self.names)
        outcome = self.succeed("cache", "export", "k.sgp")
        self.assertRegex(outcome.out, r"^k\.sgp: 3 entries, \d+\.\d KiB\n$")
        self.assertEqual(self.pack.read_bytes(), GOLDEN.read_bytes())

    def test_a_key_takes_the_entries_of_all_its_compilers(self):
        keys = sorted({name[:32] for name in self.names})
        for digits in (4, 8, 32):
            for key in keys:
                with self.subTest(key=key[:digits]):
                    self.assertEqual(self.export(key[:digits]), [n for n in self.names if n.startswith(key)])
        self.assertEqual(self.export(*(key[:6] for key in keys)), self.names)

    def test_options_leave_out_what_does_not_fit(self):
        newer = [name for name in self.names if "nvrtc-13" in name]
        for words, names in {
            ("--arch", "sm_80"): self.names[2:],
            ("--arch", "sm_80,sm_90"): self.names,
            ("--family", "steer"): self.names,
            ("--compiler", "nvrtc-13"): newer,
            ("--match", "ops=add"): self.names,
            ("--older-than", "0s"): self.names,
            (self.names[0][:8], "--compiler", "nvrtc-13.0.88"): newer[:1],
        }.items():
            with self.subTest(words=words):
                self.assertEqual(self.export(*words), names)

    def test_no_entry_is_no_pack(self):
        for words in (
            ("--arch", "sm_120"),
            ("--family", "rope"),
            ("--match", "nothing has this"),
            ("--older-than", "400d"),
            (self.names[2][:8], "--arch", "sm_90"),
        ):
            with self.subTest(words=words):
                line = self.refuse_export("k.sgp", *words)
                self.assertIn("no entry was chosen, so no pack is written", line)
        (self.folder / "empty").mkdir()
        self.assertIn("no entry was chosen", self.refuse_export("k.sgp", "--cache", "empty"))

    def test_a_key_that_is_not_there_or_is_several_is_named(self):
        self.assertIn("no entry of 3 has a key that begins '00000000'", self.refuse_export("k.sgp", "00000000"))
        data = self.stored(self.names[0]).read_bytes()
        (self.folder / "kernels" / "v1" / "28").joinpath(self.names[0][:8] + self.names[2][8:]).write_bytes(data)
        self.assertIn("is ambiguous", self.refuse_export("k.sgp", self.names[0][:8]))

    def test_a_bad_entry_is_named_and_nothing_is_written(self):
        path = self.stored(self.names[1])
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        for words in ((), (self.names[1][:8],), ("--compiler", "nvrtc-13")):
            line = self.refuse_export("k.sgp", *words)
            self.assertIn("1 cannot be shipped", line)
            self.assertIn(f"{path}: checksum does not match its bytes", line)
        self.pack.write_bytes(b"as it was")
        self.refuse(FAILED, "cache", "export", self.pack)
        self.assertEqual(self.pack.read_bytes(), b"as it was")
        self.pack.unlink()
        self.assertEqual(self.export("--arch", "sm_80"), self.names[2:], "the others can go")
        self.succeed("cache", "verify", "--repair")
        self.assertEqual(self.export(), [self.names[0], self.names[2]])

    def test_an_entry_of_another_format_is_left_out_unless_it_is_named(self):
        self.stored(self.names[1]).write_bytes(OTHER_FORMAT.read_bytes())
        outcome = self.succeed("cache", "export", "k.sgp")
        self.assertIn("k.sgp: 2 entries, ", outcome.out)
        self.assertIn("; 1 of another format left out\n", outcome.out)
        self.assertEqual(self.succeed("cache", "export", "k.sgp", "--json").json()["other_format"], 1)
        self.pack.unlink()
        self.assertIn("entry format 1, this version reads 2", self.refuse_export("k.sgp", self.names[1][:8]))

    def test_a_pack_is_made_of_packs_but_not_over_one(self):
        self.assertEqual(self.export("--cache", "small.sgp", "--arch", "sm_80"), self.names[2:])
        self.assertEqual(self.export("--cache", "small.sgp:kernels"), self.names)
        (self.folder / "link.sgp").symlink_to("small.sgp")
        for name in ("small.sgp", "./small.sgp", "link.sgp"):
            line = self.refuse_export(name, "--cache", "kernels:small.sgp")
            self.assertIn(f"the pack '{name}' would replace a file that is read", line)
        self.assertEqual((self.folder / "small.sgp").read_bytes(), GOLDEN.read_bytes())

    def test_words_that_are_wrong(self):
        self.assertIn("ends in .sgp", self.refuse_export(self.names[0][:8], code=WRONG))
        self.assertIn("ends in .sgp", self.refuse_export("-", code=WRONG))
        self.assertIn("ends in .sgp", self.refuse_export(".sgp", code=WRONG))
        for key in ("abc", "xyzw", "ABCD", "0" * 33, ""):
            self.assertIn("is no key", self.refuse_export("k.sgp", key, code=WRONG))
        self.assertIn("--arch", self.refuse_export("k.sgp", "--arch", "90", code=WRONG))

    def test_a_place_that_cannot_be_written_is_named(self):
        (self.folder / "folder.sgp").mkdir()
        for path in ("folder.sgp", "none/k.sgp", "/proc/k.sgp"):
            with self.subTest(path=path):
                self.assertIn(pathlib.Path(path).parts[0], self.refuse_export(path))

    def test_without_a_folder_it_says_which_variable_to_set(self):
        del self.environment["STEERGRAPH_CACHE_DIR"], self.environment["HOME"]
        self.assertIn("STEERGRAPH_CACHE_DIR", self.refuse_export("k.sgp"))
        self.assertIn("none", self.refuse_export("k.sgp", "--cache", "none"))


tap.main()
