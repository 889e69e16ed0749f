"""browser.py -- a headless Chromium, told what to do over its debugging pipe; the standard library only.

    with browser.Browser() as b:
        tab = b.open("http://127.0.0.1:6082/", width=390, dark=True)
        tab.wait("document.title != ''")
        png = tab.screenshot()

The protocol is Chrome's DevTools protocol: JSON messages that end in NUL, out through descriptor 3
of the browser, in through 4 (--remote-debugging-pipe).
"""
import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "headless_shell")
PATIENCE_S = 60


def find():
    """The program, or None."""
    for name in (os.environ.get("TARN_BROWSER", ""), *NAMES):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    def __init__(self, *more):
        """`more`: options."""
        self.profile = tempfile.mkdtemp(prefix="tarn-browser.")
        to_child, self.to = os.pipe()
        self.come, from_child = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update",
                   "--disable-dev-shm-usage", "--disable-sync", "--no-default-browser-check",
                   "--force-color-profile=srgb", f"--user-data-dir={self.profile}"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")

        def place():  # in the child: the pipes become 3 and 4, by way of numbers that are neither
            a, b = os.dup2(to_child, 200), os.dup2(from_child, 201)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find(), *options, *more, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=place, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.ids = itertools.count(1)
        self.answers, self.tabs = {}, {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        rest = b""
        while piece := os.read(self.come, 65536):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self.answers[message["id"]].put(message)
                elif message.get("sessionId") in self.tabs:
                    self.tabs[message["sessionId"]].events.append(message)
        for waiting in list(self.answers.values()):
            waiting.put({"error": {"message": "the browser has ended"}})

    def call(self, method, session=None, **params):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        waiting = self.answers[number] = queue.Queue()
        os.write(self.to, json.dumps(message).encode() + b"\0")
        answer = waiting.get(timeout=PATIENCE_S)
        del self.answers[number]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url, width=1280, height=900, scale=1, dark=False, before=""):
        """A tab of its own; `before` is a script that runs before the page's."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self.tabs[session] = Tab(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        tab.look(width, height, scale, dark)
        if before:
            tab.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        tab.call("Page.navigate", url=url)
        return tab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError, queue.Empty):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        shutil.rmtree(self.profile, ignore_errors=True)


class Tab:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session, self.events = browser, target, session, []

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def look(self, width, height, scale=1, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, script):
        deadline = time.monotonic() + PATIENCE_S
        while not self.holds(script):
            if time.monotonic() > deadline:
                raise AssertionError(f"in vain: {script}; the page says {self.text('body')[:1000]!r}")
            time.sleep(0.1)

    def holds(self, script):
        try:
            return self.run(script)
        except RuntimeError:  # between two documents
            return False

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def type_into(self, selector, text):
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                      windowsVirtualKeyCode=13)

    def of(self, method):
        return [e["params"] for e in list(self.events) if e["method"] == method]

    def complaints(self):
        """Exceptions, and what stands in the console as an error or a warning."""
        said = [e["exceptionDetails"]["text"] for e in self.of("Runtime.exceptionThrown")]
        said += [str(e["args"]) for e in self.of("Runtime.consoleAPICalled")
                 if e["type"] in ("error", "warning", "assert")]
        said += [f"{e['entry']['text']} {e['entry'].get('url', '')}" for e in self.of("Log.entryAdded")
                 if e["entry"]["level"] in ("error", "warning")]
        return said

    def asked(self):
        return [e["request"]["url"] for e in self.of("Network.requestWillBeSent")]

    def screenshot(self, whole=True):
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": self.whole()} if whole else {}))
        return base64.b64decode(done["data"])

    def whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        self.browser.tabs.pop(self.session)
