#!/usr/bin/env python3
"""`steergraph cache ls`: what is listed, in which order, and of which folder."""
import json
import os
import struct
import time

import tap
from built import Built
from cli import FAILED, WRONG, Case
from terminal import lines_on_terminal


def head_of(key, meta):
    """The bytes of an entry that has nothing but its head and its metadata."""
    text = json.dumps(meta).encode()
    sizes = struct.pack("<4Q", 0, len(text), 0, 0)
    return b"STGCACHE" + struct.pack("<II", 2, 0) + bytes.fromhex(key) + sizes + text + bytes(16)


META = {
    "signature": "steer v1 | ops=add chain<=16 | hidden=8 dtype=f32 bank=f32 state=hidden | tile=decode | sm_90",
    "family": "steer", "kernel": "stg_steer", "arch": "sm_90", "compiler": "nvrtc-13.0.88", "creator": "0.1.0",
    "compile_ms": 10.5, "created": 1700000000, "threads": 256, "rows_per_block": 1, "stage_bytes": 0,
    "wide_stage_bytes": 0, "registers": 32, "shared_bytes": 0, "local_bytes": 0, "constant_bytes": 0,
    "param_bytes": 64, "code_bytes": 1024, "max_threads": 256,
}  # fmt: skip


class Heads(Case):
    """Entries that are listed by their heads alone; no compiler is needed."""

    def add(self, number, used=None, **meta):
        meta = {**META, **meta}
        key = f"{number:032x}"[::-1]
        path = self.folder / "kernels" / "v1" / key[:2] / f"{key}-{meta['compiler']}.sgc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(head_of(key, meta))
        if used is not None:
            os.utime(path, (used, used))
        return key

    def list(self, *words):
        return [entry["key"] for entry in self.report(*words)["entries"]]

    def report(self, *words):
        return self.succeed("cache", "ls", "--json", *words, "--cache", "kernels").json()

    def test_ten_thousand_entries_are_listed(self):
        for number in range(10000):
            self.add(number, compile_ms=number / 2)
        report = self.report("--sort", "compile")
        self.assertEqual((report["count"], report["in_cache"], report["verified"]), (10000, 10000, False))
        self.assertEqual([entry["compile_ms"] for entry in report["entries"]], [i / 2 for i in range(9999, -1, -1)])
        text = self.succeed("cache", "ls", "--cache", "kernels").out
        self.assertEqual(text.count("\n"), 10002)
        self.assertRegex(text, r"\n10000 entries, [0-9.]+ MiB\n$")

    def test_each_filter_takes_its_own(self):
        now = int(time.time())
        old = self.add(1, used=now - 3 * 86400)
        other_arch = self.add(2, arch="sm_80")
        other_compiler = self.add(3, compiler="nvrtc-12.4.127")
        other_family = self.add(4, family="gram", signature="gram v1 | hidden=8")
        ahead = self.add(5, used=now + 3600)
        everything = {old, other_arch, other_compiler, other_family, ahead}
        for words, expected in (
            ((), everything),
            (("--arch", "sm_80"), {other_arch}),
            (("--arch", "sm_80,sm_90"), everything),
            (("--arch", "sm_100"), set()),
            (("--family", "steer"), everything - {other_family}),
            (("--family", "ste"), set()),
            (("--compiler", "nvrtc-12"), {other_compiler}),
            (("--compiler", "nvrtc-12.4.127"), {other_compiler}),
            (("--compiler", "nvrtc-1"), set()),
            (("--compiler", "nvrtc"), everything),
            (("--match", "gram v1"), {other_family}),
            (("--match", "ops=add"), everything - {other_family}),
            (("--older-than", "2d"), {old}),
            (("--older-than", "4d"), set()),
            (("--older-than", "0s"), everything),  # one that is ahead too, which gc would take
            (("--arch", "sm_90", "--compiler", "nvrtc-13", "--match", "tile=decode", "--older-than", "1h"), {old}),
        ):
            with self.subTest(words=words):
                self.assertEqual(set(self.list(*words)), expected)
        self.assertRegex(self.succeed("cache", "ls", "--arch", "sm_80", "--cache", "kernels").out,
                         r"\n1 of 5 entries, [0-9.]+ K?i?B\n$")  # fmt: skip

    def test_each_order_is_by_its_own(self):
        orders = {
            "path": (0, 1, 2, 3), "size": (2, 0, 3, 1), "age": (3, 1, 0, 2), "used": (1, 3, 2, 0),
            "compile": (0, 2, 1, 3), "family": (3, 2, 1, 0), "arch": (1, 0, 3, 2),
        }  # fmt: skip
        keys = []
        for number in range(4):
            at = {order: numbers.index(number) for order, numbers in orders.items()}
            family = f"f{at['family']}"
            keys.append(self.add(
                number, used=1700000000 - at["used"], created=1600000000 - at["age"], compile_ms=100.5 - at["compile"],
                family=family, signature=f"{family} v1 {'x' * 100 * (4 - at['size'])}", arch=f"sm_{80 + at['arch']}",
            ))  # fmt: skip
        for order, numbers in orders.items():
            with self.subTest(order=order):
                self.assertEqual(self.list("--sort", order), [keys[number] for number in numbers])

    def test_orders_can_be_reversed_and_cut(self):
        keys = [self.add(n, used=1700000000 + n, family=f"f{9 - n}", signature=f"f{9 - n} v1") for n in range(6)]
        self.assertEqual(self.list("--sort", "used"), keys[::-1])
        self.assertEqual(self.list("--sort", "used", "--reverse"), keys)
        self.assertEqual(self.list("--sort", "family"), keys[::-1])
        self.assertEqual(self.list("--sort", "used", "--limit", "2"), keys[:3:-1])
        self.assertEqual(self.list("--limit", "0"), [])
        self.assertEqual(self.list("--limit", "6", "--reverse"), sorted(keys, reverse=True))

    def test_rows_show_the_time_that_the_order_or_the_choice_is_by(self):
        self.add(1, used=1600000000)
        for words, head, when in (
            ((), "created", "2023-11-14T22:13:20Z"),
            (("--sort", "age"), "created", "2023-11-14T22:13:20Z"),
            (("--sort", "used"), "used", "2020-09-13T12:26:40Z"),
            (("--older-than", "30d"), "used", "2020-09-13T12:26:40Z"),
        ):
            with self.subTest(words=words):
                lines = self.succeed("cache", "ls", *words, "--wide", "--cache", "kernels").out.splitlines()
                self.assertEqual((lines[0].split()[4], lines[1].split()[5]), (head, when))

    def test_words_that_mean_nothing_are_refused(self):
        self.add(1)
        for words, named in (
            (("--arch", "hopper"), "'hopper'"),
            (("--older-than", "30"), "30 is no time; write a number with s, m, h or d, as 30d"),
            (("--older-than", "9999999999999d"), "is no time"),
            *((("--compiler", word), f"--compiler '{word}': expected a name such as nvrtc-13 or nvrtc-13.0.88")
              for word in ("13", "nvrtc13", "nvrtc-", "nvrtc-13.", "nvrtc-13..0", "nvrtc-13.x", "NVRTC-13", "nvrtc.13")),
            (("--limit", "-1"), "'-1'"),
            (("--limit", "1k"), "--limit '1k'"),
            (("--sort", "name"), "name"),
        ):
            with self.subTest(words=words):
                self.assertIn(named, self.refuse(WRONG, "cache", "ls", *words, "--cache", "kernels"))

    def test_what_is_bad_has_no_properties_to_be_found_by(self):
        self.add(1)
        path = next((self.folder / "kernels").rglob("*.sgc"))
        path.write_bytes(b"no entry")
        os.utime(path, (1700000000, 1700000000))
        self.assertFalse(self.report()["entries"][0]["ok"])
        self.assertEqual(self.report("--arch", "sm_90")["count"], 0)
        self.assertEqual(self.report("--older-than", "1d")["count"], 1)
        self.assertIn("bad: ", self.succeed("cache", "ls", "--cache", "kernels").out)

    def test_a_name_does_nothing_to_the_terminal(self):
        self.add(1)
        path = next((self.folder / "kernels").rglob("*.sgc"))
        path.with_name(path.name[:33] + "\x1b[31mred.sgc").write_bytes(b"no entry")
        for command in (["ls"], ["verify"], ["verify", "--repair", "--dry-run"]):
            outcome = self.run_command("cache", *command, "--cache", "kernels")
            self.assertIn("bad: ", outcome.out)
            self.assertIn(r"\x1b[31mred.sgc: ", outcome.out)
            self.assertNotIn("\x1b", outcome.out)

    def on_a_terminal(self, columns, *words, **environment):
        """What a terminal so wide gets to see."""
        return lines_on_terminal(self, columns, "cache", "ls", "--cache", "kernels", *words, **environment)

    def test_rows_fit_the_terminal(self):
        for number in range(3):
            self.add(number, compile_ms=10.0**number)
        for columns in (200, 120, 100, 80, 60, 40, 20):
            with self.subTest(columns=columns):
                lines = self.on_a_terminal(columns)
                self.assertEqual(len(lines), 5)
                if columns > 24:
                    self.assertLessEqual(max(map(len, lines)), columns, lines)
                self.assertIn("key", lines[0])
                if columns in (40, 60, 80):
                    self.assertIn("\N{HORIZONTAL ELLIPSIS}", lines[1])
        self.assertIn(META["signature"], self.on_a_terminal(200)[1])
        self.assertIn(META["signature"], self.on_a_terminal(80, "--wide")[1])
        self.assertNotIn("nvrtc", "".join(self.on_a_terminal(80)))
        self.assertEqual(self.on_a_terminal(0, COLUMNS="60"), self.on_a_terminal(60, COLUMNS="200"))
        self.assertEqual(self.on_a_terminal(0, COLUMNS="many"), self.on_a_terminal(80))

    def test_a_pipe_gets_whole_rows(self):
        self.add(1)
        self.environment["COLUMNS"] = "40"
        self.assertIn(META["signature"], self.succeed("cache", "ls", "--cache", "kernels").out)


class Empty(Case):
    def test_a_folder_that_is_not_there_has_no_entries(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = "nowhere"
        report = self.succeed("cache", "ls", "--json").json()
        nothing = {"entries": [], "count": 0, "in_cache": 0, "graphs": 0, "size_bytes": 0, "left_out": [], "verified": False}
        self.assertEqual(report, nothing)
        self.assertEqual(self.succeed("cache", "verify", "--json").json()["entries"], 0)
        self.assertFalse((self.folder / "nowhere").exists())

    def test_a_named_folder_that_is_not_there_is_refused(self):
        for words in (("ls",), ("show", "abcd"), ("verify",)):
            for folders in ("nowhere", f"{self.folder}:nowhere", f"nowhere:{self.folder}"):
                with self.subTest(words=words, folders=folders):
                    self.assertIn("'nowhere'", self.refuse(FAILED, "cache", *words, "--cache", folders))
        self.assertFalse((self.folder / "nowhere").exists())

    def test_without_a_folder_the_variable_is_named(self):
        for name in ("HOME", "STEERGRAPH_CACHE_DIR", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        outcome = self.run_command("cache", "ls")
        if outcome.code != 0:  # a passwd entry may still give a home
            self.assertIn("STEERGRAPH_CACHE_DIR", outcome.err)


class Lists(Built):
    def test_ls_lists_what_build_built(self):
        entries = self.entries()
        built = {kernel["kernel_key"]: kernel for kernel in self.report["kernels"]}
        self.assertEqual({entry["key"] for entry in entries}, set(built))
        for entry in entries:
            self.assertTrue(entry["ok"])
            self.assertEqual(entry["signature"], built[entry["key"]]["signature"])
            self.assertEqual(entry["arch"], built[entry["key"]]["arch"])
            self.assertGreater(entry["registers"], 0)
            self.assertRegex(entry["compiler"], r"^nvrtc-\d+\.\d+")
            self.assertRegex(entry["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_the_environment_names_the_folder(self):
        self.environment["STEERGRAPH_CACHE_DIR"] = str(self.cache)
        self.assertEqual(self.succeed("cache", "ls", "--json").json()["count"], 4)

    def test_the_text_list_has_one_row_per_entry(self):
        text = self.succeed("cache", "ls", "--cache", self.cache).out
        self.assertEqual(text.count("nvrtc-"), 4)
        self.assertRegex(text, r"(?m)^4 entries, ")

    def test_a_bad_entry_shows_in_the_list_and_is_not_shown(self):
        entry = self.entries()[0]
        self.damage(entry["path"], self.flip(0))
        bad = [e for e in self.entries() if not e["ok"]]
        self.assertEqual([e["path"] for e in bad], [entry["path"]])
        self.assertEqual(list(bad[0]), ["path", "ok", "size_bytes", "other_format", "problem"])
        self.refuse(FAILED, "cache", "show", entry["key"], "--cache", self.cache)

    def test_what_is_damaged_behind_its_head_is_listed_and_not_shown(self):
        entry = self.entries()[0]
        self.damage(entry["path"], self.flip(1))
        self.assertEqual(self.entries()[0], {**entry, "used": self.entries()[0]["used"]})
        self.refuse(FAILED, "cache", "show", entry["key"], "--cache", self.cache)

    def test_entries_of_a_pack_are_listed_as_those_of_a_folder(self):
        words = ("build", "--arch", "sm_80,sm_90", "--cache", self.cache, "--pack", "k.sgp", self.spec)
        self.succeed(*words)
        rows = self.succeed("cache", "ls", "--json", "--cache", "k.sgp").json()["entries"]
        apart = ("path", "used")
        strip = lambda entries: [{k: v for k, v in entry.items() if k not in apart} for entry in entries]
        self.assertEqual(strip(rows), strip(self.entries()))


tap.main()
