#!/usr/bin/env python3
"""`steergraph cache stats`: what folders hold, and what processes did with the last one."""
import pathlib
import re
import shutil

import tap
from built import Built
from cli import FAILED, Case

PACK = pathlib.Path(__file__).resolve().parent.parent / "data" / "packs" / "small.sgp"
TOTALS = {
    "runs": 0,
    "memory_hits": 0,
    "disk_hits": 0,
    "pack_hits": 0,
    "misses": 0,
    "hit_percent": None,
    "compiles": 0,
    "compile_us": 0,
    "load_us": 0,
    "stores": 0,
    "store_failures": 0,
    "evictions": 0,
    "evicted_bytes": 0,
    "quarantined": 0,
}


class Folders(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "kernels"
        (self.cache / "v1/ab").mkdir(parents=True)
        self.entry = self.cache / "v1/ab" / f"ab{'0' * 30}-nvrtc-13.0.88.sgc"
        self.entry.write_bytes(bytes(1000))

    def stats(self, folders):
        return self.succeed("cache", "stats", "--json", "--cache", folders).json()

    def test_a_folder_that_nobody_used_has_no_totals(self):
        report = self.stats(self.cache)
        self.assertEqual(list(report), ["layers", "totals", "problem"])
        self.assertIsNone(report["totals"])
        self.assertIn("v1/stats'", report["problem"])
        layer = report["layers"][0]
        self.assertRegex(layer.pop("unused_since"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(
            layer,
            {
                "path": str(self.cache),
                "kind": "folder",
                "use": "write",
                "entries": 1,
                "graphs": 0,
                "temporary": 0,
                "quarantined": 0,
                "entry_bytes": 1000,
                "bytes": 1000,
                "max_bytes": 2 << 30,
                "max_entries": 32768,
                "left_out": [],
            },
        )
        text = self.succeed("cache", "stats", "--cache", self.cache).out
        self.assertIn("limits of the last folder: 2.00 GiB, 32768 files\nno totals: ", text)

    def test_layers_stand_in_their_order_and_the_last_is_written(self):
        pack = self.folder / "k.sgp"
        shutil.copy(PACK, pack)
        report = self.stats(f"{pack}:{self.cache}")
        self.assertEqual([layer["path"] for layer in report["layers"]], [str(pack), str(self.cache)])
        first, last = report["layers"]
        self.assertEqual((first["kind"], first["use"], first["entries"]), ("pack", "read", 3))
        self.assertEqual((first["max_bytes"], first["unused_since"]), (None, None))
        self.assertEqual(first["bytes"], PACK.stat().st_size)
        self.assertEqual((last["kind"], last["use"]), ("folder", "write"))
        lines = self.succeed("cache", "stats", "--cache", f"{pack}:{self.cache}").out.splitlines()
        self.assertRegex(lines[0], r"^use +entries +graphs +quarantined +size +unused since +path$")
        self.assertRegex(lines[1], rf"^read pack +3 +0 +0 +[0-9.]+ KiB +- +{pack}$")
        self.assertRegex(lines[2], rf"^write folder +1 +0 +0 +1000 B +\S+Z +{self.cache}$")

    def test_a_pack_alone_is_read_and_has_no_totals(self):
        report = self.stats(PACK)
        self.assertEqual((report["layers"][0]["use"], report["totals"]), ("read", None))
        self.assertEqual(report["problem"], "a pack keeps no statistics")

    def test_the_limits_are_those_of_the_environment(self):
        self.environment["STEERGRAPH_CACHE_MAX_SIZE"] = "3M"
        self.environment["STEERGRAPH_CACHE_MAX_ENTRIES"] = "none"
        layer = self.stats(self.cache)["layers"][0]
        self.assertEqual((layer["max_bytes"], layer["max_entries"]), (3 << 20, None))
        text = self.succeed("cache", "stats", "--cache", self.cache).out
        self.assertIn("limits of the last folder: 3.0 MiB, any number of files\n", text)

    def test_damaged_totals_are_said_and_hide_nothing(self):
        (self.cache / "v1/stats").write_bytes(b"STGSTATS" + bytes(136))
        report = self.stats(self.cache)
        self.assertEqual((report["totals"], report["layers"][0]["entries"]), (None, 1))
        self.assertIn("checksum", report["problem"])
        self.assertIn("no totals: the checksum", self.succeed("cache", "stats", "--cache", self.cache).out)

    def test_a_folder_that_is_not_there_is_refused_when_it_is_named(self):
        self.assertIn("nowhere", self.refuse(FAILED, "cache", "stats", "--cache", "nowhere"))
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.folder / "nowhere")
        self.assertIn("write folder  ", self.succeed("cache", "stats").out)


class Builds(Built):
    def totals(self):
        report = self.succeed("cache", "stats", "--json", "--cache", self.cache).json()
        self.assertIsNone(report["problem"])
        return report["totals"]

    def build(self, *words):
        return self.succeed("build", "--json", "--arch", "sm_80,sm_90", "--cache", self.cache, *words, self.spec)

    def test_builds_add_what_they_did(self):
        (self.cache / "v1/stats").unlink()
        shutil.rmtree(self.cache / "v1/tmp")
        self.build()
        first = self.totals()
        self.assertRegex(first.pop("since"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(first, {**TOTALS, "runs": 1, "disk_hits": 4, "hit_percent": 100})
        for entry in self.entries()[:3]:
            pathlib.Path(entry["path"]).unlink()
        self.damage(self.entries()[0]["path"], self.flip(0.5))
        report = self.build().json()
        second = self.totals()
        self.assertEqual(report["compiled"], 4)
        self.assertAlmostEqual(second.pop("compile_us") / 1000, report["compile_ms"], delta=1)
        del second["since"]
        wanted = {"runs": 2, "disk_hits": 4, "hit_percent": 50, "misses": 4}
        wanted |= {"compiles": 4, "stores": 4, "quarantined": 1}
        usual = {key: value for key, value in TOTALS.items() if key != "compile_us"}
        self.assertEqual(second, {**usual, **wanted})

    def test_what_only_looks_adds_nothing(self):
        before = (self.cache / "v1/stats").read_bytes()
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.succeed("cache", "ls")
        self.succeed("cache", "verify")
        self.succeed("cache", "stats")
        self.succeed("cache", "gc", "--dry-run")
        self.succeed("doctor")
        self.succeed("explain", "--why-miss", "--arch", "sm_90", self.spec)
        self.assertEqual((self.cache / "v1/stats").read_bytes(), before)

    def test_evictions_are_summed_up(self):
        self.environment["STEERGRAPH_CACHE_MAX_ENTRIES"] = "3"
        self.environment["STEERGRAPH_CACHE"] = "refresh"
        self.environment["STEERGRAPH_LOG"] = "info"
        said = re.findall(r"evicted (\d+) entries", self.build().err)
        totals = self.totals()
        self.assertGreater(len(said), 0)
        self.assertEqual((totals["evictions"], totals["stores"]), (sum(map(int, said)), 8))
        self.assertGreater(totals["evicted_bytes"], 10000)
        text = self.succeed("cache", "stats", "--cache", self.cache).out
        self.assertRegex(text, r"\n  evicted +\d, \S+ KiB\n")
        self.assertRegex(text, r"\n  compiles +8 in \d+ ms\n")
        self.assertRegex(text, r"\n  hit rate +0\.0 %\n")


tap.main()
