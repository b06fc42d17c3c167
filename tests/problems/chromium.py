"""Headless Chromium, driven through pipes by its DevTools protocol; it needs no library."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio"),
    *("--disable-sync", "--metrics-recording-only", "--remote-debugging-pipe"),
)
# The protocol reads from the descriptor 3 and writes to 4.
START = """
import os, sys
from fcntl import F_DUPFD, fcntl
theirs = [fcntl(int(number), F_DUPFD, 10) for number in sys.argv[1:3]]
for place, descriptor in enumerate(theirs, start=3):
    os.dup2(descriptor, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60.0  # seconds for one answer


def find_chromium():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A running Chromium with one page."""

    def __init__(self, program, folder):
        """Start it with a profile in a folder."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [sys.executable, "-c", START, str(theirs_in), str(theirs_out), program]
        self._process = subprocess.Popen(
            [*command, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._unread, self._session = itertools.count(1), b"", None
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        (target,) = [entry["targetId"] for entry in targets if entry["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self):
        """End the browser."""
        self._session = None
        try:
            self.call("Browser.close")
        finally:
            os.close(self._out)  # which ends it, too
            os.close(self._in)
            self._process.wait(PATIENCE)

    def call(self, method, **params):
        """The result of a method of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1280, height=900, dark=False):
        """Open a file in a window of this size; forget earlier events."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, calm])
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.settle()

    def resize(self, width, height=900):
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def settle(self):
        """Wait until the page has been drawn."""
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.call("Runtime.evaluate", expression=frames, awaitPromise=True)

    def run(self, expression):
        """The value of an expression of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key, text=""):
        """Press and release a key."""
        code = KEY_CODES[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def point(self, x, y, click=False):
        """Move the mouse to a place, and perhaps click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, whole=True):
        """Write a picture of the page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(found["data"]))

    def problems(self):
        """What the console shows as warnings or errors, and what was thrown."""
        levels = {"Log.entryAdded": ("entry", "level"), "Runtime.consoleAPICalled": (None, "type")}
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params)
            elif method in levels:
                inner, name = levels[method]
                entry = params[inner] if inner else params
                found += [entry] if entry[name] in ("warning", "error", "assert") else []
        return found

    def requests(self):
        """The addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def _next(self):
        """The next message from the browser."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            assert ready, "Chromium did not answer"
            piece = os.read(self._in, 2**20)
            assert piece, "Chromium has ended"
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


KEY_CODES = {
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "End": 35,
    "Enter": 13,
    "Escape": 27,
    "Home": 36,
    "Tab": 9,
}
