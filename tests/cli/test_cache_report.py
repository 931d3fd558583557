#!/usr/bin/env python3
"""`steergraph cache report`: the page as a file: what is in it, that it is well-formed, and what is refused."""
import html.parser
import os
import re
import resource
import signal

import tap
from built import Built
from cli import FAILED, ROOT, WRONG, Case, strict_json
from forged import HOSTILE, PRELUDE, SOURCE, Forged, signature_of

VOID = {"meta", "input", "br", "link", "img", "hr"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class Page(html.parser.HTMLParser):
    """A page, read strictly: every element is closed in its order, no id is there twice."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.metas = [], [], [], []
        self.texts = {}  # of elements with an id, all that is in them
        self.scripts, self.tags, self.handlers = [], {}, []
        self.feed(text)
        self.close()
        self.texts = {name: "".join(pieces) for name, pieces in self.texts.items()}
        if self.open:
            raise ValueError(f"never closed: {self.open}")
        if len(self.ids) != len(set(self.ids)):
            raise ValueError("an id is there twice")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.handlers += [name for name in attributes if name.startswith("on")]
        if "id" in attributes:
            self.ids.append(attributes["id"])
            self.texts[attributes["id"]] = []
        if "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "meta":
            self.metas.append(attributes)
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            raise ValueError(f"</{tag}> where {self.open[-3:]} is open")
        self.open.pop()

    def handle_data(self, data):
        for tag, name in self.open:
            if name is not None:
                self.texts[name].append(data)
            if tag == "script":
                self.scripts[-1] += data

    def data(self):
        return strict_json(self.texts["data"])


class Pages(Forged):
    def page(self, *words, **where):
        self.said, self.text = self.report(*words, **where)
        self.assertEqual(self.said["page_bytes"], len(self.text.encode()))
        return Page(self.text)

    def says(self, text):
        """Without printing the page when it does not."""
        self.assertTrue(text in self.text, text)

    def test_every_entry_has_a_row_and_its_facts(self):
        self.forge(*(self.entry(signature_of(i), ms=10 * i + 1) for i in range(20)))
        page = self.page()
        listed = self.succeed("cache", "ls", "--json", "--sort", "size", "--cache", self.cache).json()["entries"]
        facts = page.data()["entries"]
        self.assertEqual([{k: v for k, v in fact.items() if k != "occupancy_percent"} for fact in facts], listed)
        self.assertEqual((self.said["entries"], self.said["in_cache"], self.said["bad"]), (20, 20, 0))
        for number, entry in enumerate(listed):
            row = page.texts[f"e{number}"]
            for text in (entry["signature"], entry["key"], entry["path"], "--define-macro=STG_X=1", "stg_steer"):
                self.assertIn(text, row)
            shown = self.succeed("cache", "show", "--json", entry["key"], "--cache", self.cache).json()
            self.assertEqual(facts[number]["occupancy_percent"], shown["occupancy"]["percent"])

    def test_the_page_is_alone(self):
        self.forge(self.entry(signature_of(0)), self.graph(signature_of(0)))
        page = self.page()
        self.assertIn({"http-equiv": "Content-Security-Policy", "content": POLICY}, page.metas)
        self.assertEqual(page.handlers, [])
        for link in page.links:
            self.assertIn(link.removeprefix("#"), page.ids)
            self.assertTrue(link.startswith("#"))
        self.assertNotRegex(self.text, r"https?://|url\(|@import|\bsrc=")
        for tag in ("link", "img", "iframe", "object", "form"):
            self.assertNotIn(tag, page.tags)

    def test_each_text_stands_once(self):
        source = "// of two\n" + "line\n" * 200
        self.forge(
            self.entry(signature_of(0), source=source), self.entry(signature_of(1), source=source),
            self.entry(signature_of(2), source="// alone\n"),
        )  # fmt: skip
        page = self.page()
        self.assertEqual((self.text.count("// of two"), self.text.count("// alone"), self.text.count("#define STG_P7 ")),
                         (1, 1, 1))  # fmt: skip
        texts = [page.texts[name] for name in page.ids if re.fullmatch(r"t\d+", name)]
        # HTML has a line feed before a text that is none of it
        self.assertEqual(sorted(texts), sorted("\n" + text for text in (source, "// alone\n", PRELUDE)))

    def test_hostile_text_is_text(self):
        source = b"</pre></script>\xff\xfe \xc3 \xed\xa0\x80 \x00".rstrip(b"\0") + b"\x1b[0m <b>&lt;\ttab\r\n"
        self.forge(self.entry(HOSTILE, source=source), self.graph(HOSTILE, slot="<i>\"slot'"))
        page = self.page()
        self.assertEqual((len(page.scripts), page.tags.get("b"), page.tags.get("title")), (2, None, 6))
        seen = HOSTILE.replace("\x01", "\u2401").replace("\x1b", "\u241b").replace("\x7f", "\u2421").replace("\u202e", "\ufffd")
        self.assertIn(seen, page.texts["e0"])
        self.assertIn("<i>\"slot'", page.texts["e0"])
        self.assertEqual(page.data()["entries"][0]["signature"], HOSTILE)
        self.assertEqual(page.texts["t0"], "\n</pre></script>\ufffd\ufffd \ufffd \ufffd\ufffd\ufffd \u241b[0m <b>&lt;\ttab\u240d\n")

    def test_a_hostile_folder_is_text(self):
        folder = os.fsencode(self.folder) + b"/<script>alert(1)<script>\"'\xff\n"
        self.forge(self.entry(signature_of(0)), folder=folder)
        (self.folder / os.fsdecode(folder) / "v1" / "00").mkdir(exist_ok=True)
        bad = self.folder / os.fsdecode(folder) / "v1" / "00" / ("0" * 32 + "-nvrtc-13.sgc")
        bad.write_bytes(b"<b>")
        self.succeed("cache", "report", "-o", "p.html", "--cache", os.fsdecode(folder))
        page = Page((self.folder / "p.html").read_bytes().decode())
        self.assertEqual(len(page.scripts), 2)
        self.assertIn("<script>alert(1)<script>\"'\ufffd\u240a", page.texts["e0"])

    def test_filters_choose(self):
        self.forge(
            self.entry(signature_of(0)), self.entry(signature_of(1, "sm_80"), arch="sm_80"),
            self.entry(signature_of(2), compiler="nvrtc-12.4.127"), self.entry("gram v1 | hidden=8 | sm_90"),
        )  # fmt: skip
        for words, count in (
            ((), 4), (("--arch", "sm_80"), 1), (("--family", "gram"), 1), (("--compiler", "nvrtc-12"), 1),
            (("--match", "tile=decode"), 2), (("--older-than", "1d"), 0), (("--arch", "sm_90", "--family", "steer"), 2),
        ):  # fmt: skip
            with self.subTest(words=words):
                page = self.page(*words)
                self.assertEqual(len([name for name in page.ids if re.fullmatch(r"e\d+", name)]), count)
                self.assertEqual((len(page.data()["entries"]), self.said["entries"], self.said["in_cache"]), (count, count, 4))
                self.says(" ".join(words))
        self.page("--arch", "sm_100")
        self.says("No entry fits")

    def test_a_bad_entry_says_why(self):
        self.forge(*(self.entry(signature_of(i)) for i in range(3)))
        first, second, third = sorted(self.cache.rglob("*.sgc"))
        first.write_bytes(b"no entry")
        data = bytearray(second.read_bytes())
        data[-100] ^= 1  # behind its head: a look does not see it
        second.write_bytes(data)
        page = self.page()
        self.assertEqual((self.said["entries"], self.said["bad"]), (3, 2))
        facts = page.data()["entries"]
        problems = {fact["path"]: fact["problem"] for fact in facts if not fact["ok"]}
        self.assertEqual(set(problems), {str(first), str(second)})
        self.assertIn("checksum", problems[str(second)])
        for number, fact in enumerate(facts):
            if not fact["ok"]:
                self.assertIn(fact["problem"], page.texts[f"e{number}"])
                self.assertIn("verify --repair", page.texts[f"e{number}"])
        self.says("2 bad")
        self.says(str(third))
        self.run_command("cache", "verify", "--repair", "--cache", self.cache)
        text = self.report()[1]
        self.assertIn("none bad", text)
        self.assertIn('<span class="pill">2</span>', text)  # in quarantine
        self.assertEqual(self.succeed("cache", "report", "-o", "x.html", "--cache", self.cache).out.count("bad"), 0)

    def test_an_empty_cache_is_greeted(self):
        self.cache.mkdir()
        page = self.page()
        self.assertEqual((page.data()["entries"], page.data()["totals"]), ([], None))
        self.says("Nothing here yet")
        self.says(f"steergraph build --arch sm_90 --cache {self.cache}")
        self.assertNotIn("table", page.ids)

    def test_a_pack_is_reported_as_a_folder(self):
        self.forge(*(self.entry(signature_of(i)) for i in range(3)))
        self.succeed("cache", "export", "k.sgp", "--cache", self.cache)
        page = self.page(cache=self.folder / "k.sgp")
        self.assertEqual(len(page.data()["entries"]), 3)
        self.says("pack, read")

    def test_graphs_are_drawn_under_their_kernels(self):
        self.forge(self.entry(signature_of(0)), self.entry(signature_of(1)),
                   self.graph(signature_of(1), rows=32), self.graph(signature_of(1), rows=64, slot="hidden"),
                   self.entry(signature_of(2)))  # fmt: skip
        page = self.page()
        self.assertEqual(self.said["graphs"], 2)
        rows = {fact["signature"]: page.texts[f"e{i}"] for i, fact in enumerate(page.data()["entries"])}
        for number in (0, 1):
            row = rows[signature_of(number)]
            self.assertEqual(row.count("Set by each launch"), 1, "graphs of one form are drawn once")
            self.assertEqual(row.count("a graph of 3 launches"), 1)
            self.assertIn("elsewhere", row)
            self.assertIn("not in this cache", row)
            for graph in self.succeed("cache", "ls", "--graphs", "--json", "--cache", self.cache).json()["graphs"]:
                self.assertIn(graph["key"][:12], row)
        self.assertIn("No recipe of a graph", rows[signature_of(2)])
        (path, _) = sorted((self.cache / "v1" / "graphs").glob("*"))
        path.write_bytes(b"")
        page = self.page()
        self.assertEqual(self.said["graphs"], 1)
        self.assertRegex(self.text, rf"bad graph</span> <code>{path}</code>: \S")

    def test_charts_have_bars_for_all(self):
        def labels():
            return [re.sub("<[^>]+>", "", label) for label in re.findall(r'class="label"[^>]*>(.*?)</text>', self.text)]

        self.forge(*(self.entry(signature_of(i), ms=100 + i) for i in range(16)))
        self.page()
        self.assertEqual(len(labels()), 32)
        self.says("by entry")
        self.assertEqual(re.findall(r'class="value"[^>]*>([^<]*ms)<', self.text), [f"{ms} ms" for ms in range(115, 99, -1)])
        self.forge(*(self.entry(signature_of(i), ms=100 + i) for i in range(16, 60)))
        self.page()
        self.says("by shape and architecture")
        self.assertEqual(len(labels()), 20)
        self.assertIn("steer decode 256 bf16 sm_90 \N{MULTIPLICATION SIGN}6", labels())
        self.forge(*(self.entry(f"f{i} v1 | hidden={i}", compiler=f"c-{i % 20}") for i in range(40)))
        self.page()
        self.says("by family, architecture and compiler")
        self.assertEqual((len(labels()), labels()[15]), (32, "all others \N{MULTIPLICATION SIGN}26"))

    def test_many_entries_make_a_light_page(self):
        self.many(300)
        self.page()
        per_entry = self.said["page_bytes"] / 300
        print(f"# 300 entries: {per_entry / 1024:.1f} KiB each, half of a source of {len(SOURCE) / 1024:.1f} KiB among it")
        self.assertLess(per_entry, 9000)


class Refusals(Forged):
    def setUp(self):
        super().setUp()
        self.forge(self.entry(signature_of(0)), self.graph(signature_of(0)))

    def refuse_output(self, code, *words, **popen):
        return self.refuse(code, "cache", "report", *words, "--cache", self.cache, **popen)

    def test_the_page_must_be_named(self):
        self.assertIn("-o FILE is missing: the page to write, as cache.html", self.refuse_output(WRONG))
        self.assertIn("-o needs a value (FILE)", self.refuse_output(WRONG, "-o"))
        self.assertIn("'more' is one word too many", self.refuse_output(WRONG, "-o", "x.html", "more"))
        self.assertIn("'hopper'", self.refuse_output(WRONG, "-o", "x.html", "--arch", "hopper"))
        self.assertEqual(list(self.folder.glob("*.html")), [])

    def test_where_no_page_can_be(self):
        (self.folder / "sub").mkdir()
        for output, why in (
            ("-", "files are not written to standard output"), ("nowhere/x.html", "nowhere"), ("sub", "sub"),
            ("/dev/full", "/dev/full"), ("/dev/null", "/dev/null"),
        ):  # fmt: skip
            with self.subTest(output=output):
                self.assertIn(why, self.refuse_output(FAILED, "-o", output))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["home", "kernels", "sub"])

    def test_nothing_of_the_cache_is_replaced(self):
        self.succeed("cache", "export", "k.sgp", "--cache", self.cache)
        (entry,) = self.cache.rglob("*.sgc")
        (graph,) = self.cache.rglob("*.sgr")
        link = self.folder / "link.html"
        link.hardlink_to(entry)
        pack = self.folder / "k.sgp"
        before = [path.read_bytes() for path in (entry, graph, pack)]
        for output in (entry, graph, link):
            with self.subTest(output=output):
                self.assertIn("would replace", self.refuse_output(FAILED, "-o", output))
        line = self.refuse(FAILED, "cache", "report", "-o", pack, "--cache", f"{pack}:{self.cache}")
        self.assertIn("would replace", line)
        self.assertEqual([path.read_bytes() for path in (entry, graph, pack)], before)

    def test_a_write_that_fails_leaves_the_page_as_it_was(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

        old = self.write("cache.html", "old")
        line = self.refuse_output(FAILED, "-o", old, preexec_fn=small_files)
        self.assertIn("cache.html", line)
        self.assertEqual(old.read_text(), "old")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["cache.html", "home", "kernels"])
        self.succeed("cache", "report", "-o", old, "--cache", self.cache)
        self.assertTrue(old.read_text().endswith("</html>\n"))

    def test_a_folder_that_is_not_there_gives_no_page(self):
        self.assertIn("'nowhere'", self.refuse(FAILED, "cache", "report", "-o", "x.html", "--cache", "nowhere"))
        self.assertFalse((self.folder / "x.html").exists())


class Totals(Built):
    def test_hits_and_what_they_saved_stand_at_the_top(self):
        words = ("build", "--arch", "sm_80,sm_90", "--cache", self.cache, self.spec)
        self.succeed(*words)
        self.succeed(*words)
        totals = self.succeed("cache", "stats", "--json", "--cache", self.cache).json()["totals"]
        self.assertGreaterEqual(totals["disk_hits"], 8)
        out = self.succeed("cache", "report", "-o", "c.html", "--cache", self.cache).out
        self.assertRegex(out, r"^c\.html: 4 entries; [0-9.]+ KiB\n$")
        text = (self.folder / "c.html").read_text()
        page = Page(text)
        self.assertEqual(page.data()["totals"], totals)
        self.assertRegex(text, rf'>Hits</h2><p class="figure">{totals["disk_hits"]}</p>')
        self.assertRegex(text, rf"{totals['disk_hits']} hits \N{{MULTIPLICATION SIGN}} \d+ ms a compile")
        # the text that was compiled, in its two parts
        source = self.succeed("cache", "show", "--source", "--json", page.data()["entries"][0]["key"], "--cache", self.cache)
        self.assertEqual(page.texts["t1"][1:] + page.texts["t0"][1:], source.json()["source"])


class Files(Case):
    def test_style_and_script_keep_to_what_they_are(self):
        for name in ("style.css", "script.js"):
            text = (ROOT / "tools/cache/page" / name).read_text()
            self.assertNotRegex(text.lower(), r"</(style|script)|<!--|https?:|eval\(|innerhtml")


if __name__ == "__main__":
    tap.main()
