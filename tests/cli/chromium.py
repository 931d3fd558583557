"""A headless Chromium, told what to do through two pipes: messages of JSON that end with a NUL.

Nothing but the standard library. `find()` is None where there is no Chromium.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60  # for one answer
# it shows nothing, keeps nothing, and asks nobody for anything of its own
WORDS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--no-default-browser-check", "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip


def find():
    return next((path for path in map(shutil.which, (os.environ.get("CHROMIUM", ""), *NAMES)) if path), None)


class Browser:
    """A page of a process of its own; to be closed. What the page says and asks for is collected in
    `console` and `requests`, but for the page itself."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stg-chromium-")
        self.console, self.requests, self.loaded = [], [], False
        self.count, self.unread = 0, b""
        its_in, self.to_it = os.pipe()
        self.from_it, its_out = os.pipe()
        # it reads descriptor 3 and writes 4, whatever numbers the pipes have here
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" 3</dev/fd/{its_in} 4>/dev/fd/{its_out}', "sh", find(), *WORDS,
             f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(its_in, its_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(its_in)
        os.close(its_out)
        self.session = None
        try:
            self.attach()
        except BaseException:  # nobody has it, to close it
            self.close()
            raise

    def attach(self):
        (target,) = [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        answer = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def close(self):
        os.close(self.to_it)  # the end of its input is the end of it
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_it)
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, until):
        """The next message."""
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.from_it], [], [], max(0, until - time.monotonic()))
            piece = os.read(self.from_it, 1 << 16) if ready else b""
            if not piece:
                raise TimeoutError("Chromium says nothing" if not ready else "Chromium has ended")
            self.unread += piece
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        """Something happened."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(params["args"])
        elif method == "Log.entryAdded":
            self.console.append(params["entry"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def ask(self, method, **params):
        """Call a method of the protocol; its result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_it, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self.read(until)
            if answer.get("id") == self.count:
                break
            self.note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def size(self, width, height, phone=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def prefer(self, scheme):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def scripts(self, run):
        self.ask("Emulation.setScriptExecutionDisabled", value=not run)

    def open(self, url):
        self.console, self.requests, self.loaded = [], [], False
        self.ask("Page.navigate", url=url)
        until = time.monotonic() + SECONDS
        while not self.loaded:
            self.note(self.read(until))
        self.requests.remove(url)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, selector):
        """As a hand does: in the middle of the first element that fits."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def picture(self, whole=False):
        """A PNG of the window, or of the whole page."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])
