#!/usr/bin/env python3
"""The page of `steergraph cache report` in a browser: a headless Chromium, where there is one."""
import atexit
import os
import shutil
import tempfile
import time
from unittest import mock

import chromium
import tap
from cli import QUICK, Case
from forged import HOSTILE, Forged, signature_of

ORDER = "[...document.querySelectorAll('#entries > tbody')].map(e => +e.id.slice(1))"
SEEN = "[...document.querySelectorAll('#entries > tbody')].filter(e => e.offsetHeight > 0).length"
SORTED = (
    "[...document.querySelectorAll('#entries > thead [aria-sort]')].map(e => [e.dataset.by, e.getAttribute('aria-sort')])"
)
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def brightness(color):
    return sum(int(part) for part in color[4:-1].split(",")) / 3


def contrast(first, second):
    """Of two colours "rgb(r, g, b)", as WCAG 2 has it."""

    def luminance(color):
        parts = [int(part) / 255 for part in color[4:-1].split(",")]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class NoBrowser(Case):
    def test_one_that_does_not_start_leaves_nothing(self):
        for program in (shutil.which("false"), shutil.which("true")):
            with (
                self.subTest(program=program),
                mock.patch.dict(os.environ, CHROMIUM=program),
                mock.patch.object(tempfile, "tempdir", str(self.folder)),
            ):
                before = os.listdir("/proc/self/fd")
                with self.assertRaises((TimeoutError, BrokenPipeError)):
                    chromium.Browser()
                self.assertEqual(list(self.folder.glob("stg-chromium-*")), [])
                self.assertEqual(os.listdir("/proc/self/fd"), before)


class Pages(Forged):
    browser = None

    def setUp(self):
        if QUICK:
            self.skipTest("a page is the same, whoever built what wrote it")
        if chromium.find() is None:
            self.skipTest("no Chromium here")
        super().setUp()
        if Pages.browser is None:
            Pages.browser = chromium.Browser()
            atexit.register(Pages.browser.close)
        self.size(1280, 900)
        self.browser.prefer("light")
        self.addCleanup(self.browser.scripts, True)

    def size(self, width, height):
        self.browser.size(width, height, phone=width < 600)

    def show(self, *records):
        """Open the page of these records, which says nothing and asks for nothing."""
        self.forge(*records)
        self.open()

    def open(self, fragment=""):
        self.facts = self.report()
        self.browser.open((self.folder / "cache.html").as_uri() + fragment)
        self.quiet()

    def quiet(self):
        self.assertEqual((self.browser.console, self.browser.requests), ([], []))

    def run_script(self, script):
        return self.browser.run(script)

    def settle(self):
        """Events that were to come have come, and what is seen is drawn."""
        self.run_script("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")

    def few(self):
        return [self.entry(signature_of(i), ms=100 * (i * 7 % 5 + 1)) for i in range(5)]

    def test_a_click_on_a_head_sorts(self):
        self.show(*self.few())
        facts = self.run_script("JSON.parse(document.getElementById('data').textContent).entries")
        self.assertEqual((self.run_script(ORDER), self.run_script(SORTED)), ([0, 1, 2, 3, 4], [["size_bytes", "descending"]]))
        for by, first, then in (("compile_ms", "descending", "ascending"), ("key", "ascending", "descending")):
            for order in (first, then, first):
                self.browser.click(f"th[data-by={by}] button")
                values = [facts[i][by] for i in self.run_script(ORDER)]
                self.assertEqual(values, sorted(values, reverse=order == "descending"))
                self.assertEqual(self.run_script(SORTED), [[by, order]])
        self.assertEqual(self.run_script("document.querySelectorAll('#entries > thead button').length"), 9)
        self.quiet()

    def test_what_is_bad_is_sorted_last(self):
        self.forge(*self.few())
        bad = sorted(self.cache.rglob("*.sgc"))[0]
        bad.write_bytes(b"no entry")
        self.open()
        number = self.run_script("JSON.parse(document.getElementById('data').textContent).entries.findIndex(e => !e.ok)")
        for _ in range(2):
            self.browser.click("th[data-by=compile_ms] button")
            self.assertEqual(self.run_script(ORDER)[-1], number)
        self.assertIn("8 bytes, an entry has at least", self.run_script("document.querySelector('.bad').textContent"))
        self.assertEqual(self.run_script("document.querySelector('.bad .pill').textContent"), "bad")

    def test_a_source_unfolds(self):
        self.show(self.entry(signature_of(0), source="// alone one\n"), self.entry(signature_of(1), source="// alone two\n"))
        for row in (0, 1):
            source, prelude = (f"#e{row} details.text:nth-of-type({i})" for i in (1, 2))
            visible = f"document.querySelector('{source} pre').checkVisibility()"
            self.assertFalse(self.run_script(visible))
            self.browser.click(f"#e{row} .row td:nth-child(3)")  # anywhere in the row
            self.assertFalse(self.run_script(visible))
            self.browser.click(f"{source} summary")
            self.assertTrue(self.run_script(visible))
            self.assertIn("// alone", self.run_script(f"document.querySelector('{source} pre').textContent"))
            # the second row's stands in the first, and is put where it is asked for
            self.browser.click(f"{prelude} summary")
            self.settle()
            self.assertIn("#define STG_P59 59", self.run_script(f"document.querySelector('{prelude} pre').textContent"))
        self.browser.click("#e0 .row td:nth-child(3)")
        self.assertFalse(self.run_script("document.querySelector('#e0 details.text pre').checkVisibility()"))
        self.quiet()

    def test_a_bar_leads_to_its_row(self):
        self.show(*self.few())
        self.browser.click("a.bar[href='#e3'] .label")
        self.settle()
        self.assertTrue(self.run_script("document.querySelector('#e3 details').open"))
        self.assertEqual(self.run_script("document.querySelector('#e3').matches(':target')"), True)

    def test_finding_leaves_what_fits(self):
        self.show(*self.few())
        find = "(() => { const f = document.getElementById('find'); f.value = '%s'; f.dispatchEvent(new Event('input')); })()"
        for text, count in (("prefill", 2), ("PREFILL sm_90", 2), ("prefill nothing", 0), ("", 5)):
            self.run_script(find % text)
            self.assertEqual(self.run_script(SEEN), count)
            shown = self.run_script("document.getElementById('shown').textContent")
            self.assertEqual(shown, "5" if count == 5 else f"{count} of 5")

    def test_nothing_is_wider_than_a_phone(self):
        long = "steer v1 | ops=" + "x" * 300 + " | sm_90"
        self.forge(*self.few(), self.entry(long, source="x" * 500), self.graph(signature_of(0)))
        bad = sorted(self.cache.rglob("*.sgc"))[0]
        bad.write_bytes(b"no entry")
        for width in (390, 320, 800, 1280):
            with self.subTest(width=width):
                self.size(width, 800)
                self.open()
                self.run_script("document.querySelectorAll('details').forEach(d => d.open = true)")
                self.settle()
                found, there = self.run_script(WIDTHS)
                self.assertLessEqual(found, there)
                self.assertEqual(there, width)
                beyond = self.run_script(
                    "[...document.querySelectorAll('#entries .row td, dd, .tile, .legend li, th button, .sig')].filter(e =>"
                    f" e.getBoundingClientRect().right > {width}).map(e => e.outerHTML)"
                )
                self.assertEqual(beyond, [])
                cards = self.run_script("getComputedStyle(document.querySelector('.entry > .row')).display")
                self.assertEqual(cards, "grid" if width < 600 else cards)

    def test_dark_is_dark_and_light_is_light(self):
        self.show(*self.few())
        self.assertGreater(brightness(self.run_script(BACKGROUND)), 200)
        self.browser.prefer("dark")
        self.settle()
        self.assertLess(brightness(self.run_script(BACKGROUND)), 60)
        self.assertEqual(self.run_script("document.getElementById('theme').textContent"), "Light")
        self.browser.click("#theme")
        self.assertGreater(brightness(self.run_script(BACKGROUND)), 200)
        self.browser.click("#theme")
        self.assertLess(brightness(self.run_script(BACKGROUND)), 60)
        self.quiet()

    def test_text_stands_out_in_both(self):
        self.forge(*self.few())
        sorted(self.cache.rglob("*.sgc"))[0].write_bytes(b"no entry")
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            self.open()
            card = self.run_script("getComputedStyle(document.querySelector('.card')).backgroundColor")
            for selector in ("h2", ".muted", ".sig", ".why", "#entries th", ".row td", ".sig i"):
                color = self.run_script(f"getComputedStyle(document.querySelector('{selector}')).color")
                self.assertGreater(contrast(color, card), 4.5, (scheme, selector, color, card))
            for part in ("part1", "part2", "part3"):
                color = self.run_script(f"getComputedStyle(document.querySelector('.chart .{part}')).fill")
                self.assertGreater(contrast(color, card), 2.0, (scheme, part, color, card))

    def test_hostile_text_is_shown(self):
        self.show(self.entry(HOSTILE, source="</pre><img src=x onerror=alert(1)>\x1b\n"), self.graph(HOSTILE, slot="<i>'\""))
        self.run_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        self.assertIn("</script><script>alert(1)</script><!--'\"&amp;\\ \u2401\u241b[31m\u2421\ufffd]]>",
                      self.run_script("document.querySelector('#e0 .sig').textContent"))  # fmt: skip
        self.assertEqual(self.run_script("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.run_script("document.scripts.length"), 2)
        self.assertIn("onerror=alert(1)>\u241b", self.run_script("document.querySelector('#t0').textContent"))
        self.quiet()

    def test_an_empty_cache_is_greeted(self):
        self.cache.mkdir()
        self.open()
        self.assertIn("Nothing here yet", self.run_script("document.querySelector('main').textContent"))
        self.quiet()

    def test_without_the_script_all_can_be_read(self):
        self.browser.scripts(False)
        self.forge(*self.few())
        self.facts = self.report()
        self.browser.open((self.folder / "cache.html").as_uri())
        self.assertEqual(self.run_script(SEEN), 5)
        self.assertFalse(self.run_script("document.getElementById('find').checkVisibility()"))
        self.browser.click("#e0 summary")
        self.browser.click("#e0 details.text summary")
        self.assertIn("// steer v1", self.run_script("document.querySelector('#e0 details.text pre').textContent"))
        self.browser.click("#e1 summary")
        self.browser.click("#e1 details.text:nth-of-type(2) summary")
        self.browser.click("#e1 details.text:nth-of-type(2) a")  # to where the text stands
        self.assertTrue(self.run_script("document.querySelector('#e0 details.text:nth-of-type(2) pre').checkVisibility()"))

    def test_a_thousand_entries_open_and_sort_at_once(self):
        self.many(1000)
        said, _ = self.report()
        start = time.monotonic()
        self.browser.open((self.folder / "cache.html").as_uri())
        opened = time.monotonic() - start
        milliseconds = self.run_script(
            "(() => { const b = document.querySelector('th[data-by=compile_ms] button'); const t = performance.now();"
            " b.click(); document.body.offsetHeight; return performance.now() - t; })()"
        )
        print(f"# 1000 entries: a page of {said['page_bytes'] / 2**20:.1f} MiB, opened in {opened:.2f} s, "
              f"sorted in {milliseconds:.0f} ms")  # fmt: skip
        values = self.run_script(f"(() => {{ const f = JSON.parse(document.getElementById('data').textContent).entries;"
                                 f" return {ORDER}.map(i => f[i].compile_ms); }})()")  # fmt: skip
        self.assertEqual(values, sorted(values, reverse=True))
        self.assertLess(milliseconds, 5000)
        self.quiet()


if __name__ == "__main__":
    tap.main()
