"""A real headless Chromium, spoken to through its DevTools pipe: needs no other package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


PROGRAM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
# Seconds until a browser counts as dead: far more than a busy machine needs.
PATIENCE = 600.0


class Browser:
    """One page; `problems` collects console errors, exceptions and requests for anything."""

    def __init__(self) -> None:
        assert PROGRAM is not None
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self.commands = os.pipe()
        self.answers, write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4; Python puts them there.
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (read, write)]
        place = f"import os, sys; os.dup2({high[0]}, 3); os.dup2({high[1]}, 4); "
        words = [PROGRAM, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", place + "os.execv(sys.argv[1], sys.argv[1:])", *words],
            pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for one in (read, write, *high):
            os.close(one)
        self.buffer, self.count, self.session = b"", 0, ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], deadline - time.monotonic())
            assert ready, "Chromium does not answer"
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has ended"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(given["exceptionDetails"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.problems.append(str(given["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def show(self, path: Path, width: int = 1100, scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="", features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState + location.protocol === 'completefile:'")

    def until(self, condition: str) -> None:
        """Wait for a JavaScript expression to become true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < deadline, f"never: {condition}"
            time.sleep(0.02)

    def pasted(self) -> str:
        """What a user would paste now, without the end of line that copying a field may add."""
        self.run(
            "(a => {a.id = 'pasted'; document.body.append(a); a.focus()})"
            "(document.createElement('textarea')), 0"
        )
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", key="v", code="KeyV", modifiers=2,
            commands=["paste"],
        )  # fmt: skip
        text = self.run("document.getElementById('pasted').value")
        self.run("document.getElementById('pasted').remove()")
        return str(text)

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def move(self, selector: str) -> tuple[float, float]:
        """Move the mouse to the middle of an element."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
        return box[0], box[1]

    def click(self, selector: str) -> None:
        x, y = self.move(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )  # fmt: skip

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self) -> bytes:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=self._whole())
        return base64.b64decode(shot["data"])

    def _whole(self) -> dict[str, float]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def pdf(self) -> bytes:
        made = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(made["data"])

    def close(self) -> None:
        os.close(self.commands)
        os.close(self.answers)
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        self.folder.cleanup()
