#!/usr/bin/env python3
"""The picture of a cache's page in README.md: cache_picture.py COMMAND OUT.png

The kernels of specs/steer_*.json for sm_90 are compiled into a new folder, and asked for once more, so that
the page has hits to tell of. Needs NVRTC and Chromium; times are those of this machine.
"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))

import chromium  # noqa: E402

FOLDER = pathlib.Path("/tmp/kernels")  # stands in the picture


def write_page(command: str) -> pathlib.Path:
    page = FOLDER / "cache.html"
    specs = sorted(map(str, (ROOT / "specs").glob("steer_*.json")))
    build = [command, "build", "--arch", "sm_90", "--cache", str(FOLDER), *specs]
    for words in (build, build, [command, "cache", "report", "-o", str(page), "--cache", str(FOLDER)]):
        subprocess.run(words, check=True)
    return page


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    if chromium.find() is None:
        sys.exit("cache_picture: no Chromium is on PATH")
    FOLDER.mkdir()  # nobody's but ours
    try:
        page = write_page(sys.argv[1])
        browser = chromium.Browser()
        browser.size(1120, 1150)
        browser.open(page.as_uri())
        pathlib.Path(sys.argv[2]).write_bytes(browser.picture())
        browser.close()
    finally:
        shutil.rmtree(FOLDER)


main()
