"""A page in a real browser, driven by the DevTools protocol over websocket-client, which Jupyter brings along."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
NAMES += ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
NAMES += (r"C:\Program Files\Google\Chrome\Application\chrome.exe",)
OPTIONS = ("--headless=new", "--no-first-run", "--disable-gpu", "--disable-background-networking", "--disable-sync")
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, " ": 32, "z": 90}
SEEDED = "{ let seed = 1; Math.random = () => (seed = (seed * 16807) % 2147483647) / 2147483647; }"


def find_browser() -> str | None:
    """Return Chromium or Chrome, or None if the machine has neither."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Run a headless browser with one page; keep the errors of its console, and the addresses that it asks for."""

    def __init__(self, profile: Path):
        assert find_browser(), "no Chromium and no Chrome found"
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        place = [f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        self.process = subprocess.Popen(
            [find_browser(), *OPTIONS, *sandbox, *place, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port = profile / "DevToolsActivePort"
        until(lambda: port.is_file() and len(port.read_text().split()) == 2)
        number, path = port.read_text().split()
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{number}{path}", suppress_origin=True, timeout=60)
        self.count, self.session, self.held, self.problems, self.requests, self.frames = 0, {}, False, [], [], {}
        target = self.ask("Target.getTargets")["targetInfos"][0]["targetId"]
        self.session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=SEEDED)

    def ask(self, method: str, **parameters) -> dict:
        """Call a method of the protocol; what the browser tells in the meantime is noted."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters} | self.session))
        while (told := json.loads(self.socket.recv())).get("id") != self.count:
            self.note(told.get("method"), told.get("params", {}))
        assert "error" not in told, told
        return told["result"]

    def note(self, event: str, about: dict) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        if event == "Runtime.executionContextsCleared":  # another page
            self.frames.clear()
        if event == "Runtime.executionContextCreated":
            self.frames[about["context"]["auxData"]["frameId"]] = about["context"]["id"]
        if event in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.problems.append(about)
        if event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(about)

    def open(self, address: str, width: int = 1200, height: int = 1000) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=address)
        until(lambda: self.run("document.readyState") == "complete")

    def run(self, script: str, frame: int = 0):
        """Return the value of a JavaScript expression in the page, or in a frame of it, counted from 1."""
        place = {"contextId": [*self.frames.values()][frame]} if frame else {}
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, **place)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def centre(self, selector: str) -> tuple[float, float]:
        """Scroll to an element, and return where its centre is."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{ block: 'center' }})")
        return tuple(self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({found}.getBoundingClientRect())"))

    def mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {"button": "left", "buttons": 1, "clickCount": 1} if kind != "mouseMoved" or self.held else {}
        self.held = kind == "mousePressed" or (self.held and kind != "mouseReleased")
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press at the first point, move along the others, let go at the last."""
        self.mouse("mousePressed", *points[0])
        for point in points[1:]:
            self.mouse("mouseMoved", *point)
        self.mouse("mouseReleased", *points[-1])

    def click(self, selector: str) -> None:
        self.drag([self.centre(selector)])

    def press(self, *keys: str, modifiers: int = 0) -> None:
        for key in keys:
            about = {"key": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
            text = {"Enter": "\r", " ": " "}.get(key, "")
            self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)


def until(true, seconds: float = 60) -> None:
    """Wait until `true()` is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "the browser takes too long"
        time.sleep(0.05)
