"""A headless Chromium driven over the DevTools protocol through a pipe: no driver, no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Tab": ("Tab", 9, ""),
}


def find() -> str | None:
    """Return the path of an installed Chromium or Chrome."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A browser with one page."""

    def __init__(self, binary: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        commands, self.send_fd = os.pipe()
        self.receive_fd, answers = os.pipe()

        def wire() -> None:
            # Chromium reads commands from descriptor 3 and writes answers to 4; neither end may sit there already.
            source, sink = os.dup(commands), os.dup(answers)
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate((source, sink))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [
                binary, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars",
                f"--user-data-dir={self.profile}", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=wire,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self.buffer, self.next, self.events = b"", 1, []
        self.session: str | None = None
        self.frame_session: str | None = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._take(target["targetId"])

    def _take(self, target: str) -> None:
        """Speak to this tab from now on, as if its window were in front."""
        self.session = None
        self.call("Target.activateTarget", targetId=target)
        self.target = target
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number, self.next = self.next, self.next + 1
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.send_fd, data) :]
        deadline = time.monotonic() + 120
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.receive_fd], [], [], left)[0]:
                raise TimeoutError("chromium does not answer")
            data = os.read(self.receive_fd, 1 << 20)
            if not data:
                raise RuntimeError("chromium ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, url: str) -> None:
        """Load a page from scratch."""
        # A tab of its own: a load that follows another one too soon can stay without an answer.
        self.frame_session, old, self.session = None, self.target, None
        self._take(self.call("Target.createTarget", url="about:blank")["targetId"])
        page, self.session = self.session, None
        self.call("Target.closeTarget", targetId=old)
        self.session = page
        if url != "about:blank":
            self.call("Page.navigate", url=url)

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "error in page"))
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 90) -> Any:
        """Wait until an expression is true and return it."""
        wait = (
            f"new Promise((done, fail) => {{ const end = performance.now() + {seconds * 1000}; const look = () => {{ "
            f"let value = null; try {{ value = ({expression}); }} catch (error) {{ value = null; }} "
            "if (value) done(value); else if (performance.now() > end) fail(new Error('never true')); "
            "else setTimeout(look, 5); }; look(); })"
        )
        return self.run(wait)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Speak to the page's sandboxed frame, a target of its own, while the context lasts."""
        page, self.session = self.session, None
        try:
            self.session = self.frame_session = self.frame_session or self._attach_to_frame()
            yield
        finally:
            self.session = page

    def _attach_to_frame(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            frame = next((t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "iframe"), None)
            if frame:
                return str(self.call("Target.attachToTarget", targetId=frame["targetId"], flatten=True)["sessionId"])
        raise TimeoutError("the page has no sandboxed frame")

    def press(self, key: str) -> None:
        """Press and release a key as a person does."""
        name, code, text = KEYS[key] if key in KEYS else (key, ord(key.upper()), key)
        shared = {"key": name, "windowsVirtualKeyCode": code, "code": f"Key{key.upper()}" if key.isalpha() else name}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def focus(self, selector: str) -> None:
        """Give an element the focus, as if its window were in front."""
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")

    def type(self, text: str) -> None:
        """Type text into the focused field."""
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        """Set the size of the window and the colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Write a picture of what is seen."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        self.run("1")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return what the browser's console complains about: errors, refused loads, uncaught exceptions."""
        self.run("1")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        return found

    def close(self) -> None:
        """End the browser."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.send_fd)
        os.close(self.receive_fd)
        shutil.rmtree(self.profile, ignore_errors=True)
