"""One PySR worker process, as seen from outside: start it, ask it, listen to it, stop it.

It runs in a session of its own: Ctrl-C reaches only this process, which then stops it. Whatever
the worker does wrong becomes one exception with one line that says what happened.
"""

from __future__ import annotations

import json
import math
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from sjepa.backend.budget import count_cpu_time
from sjepa.errors import BackendError, BackendTimeout, BackendUnavailable, ConfigError


PROTOCOL = 1
# Longest line that is read as one; a front of a thousand equations has about 200,000 characters.
MAX_CHARACTERS = 16_000_000

INSTALL = (
    "Fix: pip install pysr and run once with a network connection (PySR then downloads Julia by "
    "itself), or install Julia 1.10 or 1.11 so that `julia` is on the PATH. "
    "Until then, 'operon' searches expression trees without Julia."
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")

Report = Callable[[str], None]


class Worker:
    """One running worker process, as seen from outside."""

    def __init__(self, command: Sequence[str]) -> None:
        self.directory = tempfile.mkdtemp(prefix="sjepa-pysr-")
        self.command = tuple(command)
        self.token = secrets.token_hex(16)
        self.ready = False
        self.busy = False
        self.last_line = ""
        self.versions: dict[str, str] = {}
        self._inbox: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        try:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise BackendError(f"pysr: {command[0]!r} cannot be started: {error}.") from None
        self._threads = [
            threading.Thread(target=self._pump, args=(stream, name), daemon=True)
            for stream, name in ((self.process.stdout, "answer"), (self.process.stderr, "log"))
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._send({"protocol": PROTOCOL, "token": self.token, "directory": self.directory})
        except BackendError:
            pass  # dead already: waiting for it to be ready says so

    def start(self, timeout: float, report: Report) -> None:
        """Wait until PySR is imported; the first time that installs and compiles Julia packages."""
        message = self._receive(timeout, report, f"was not ready after {timeout:g} s")
        if message["type"] == "error":
            raise _unavailable(message)
        if message["type"] != "hello":
            raise BackendError(f"pysr: the worker said {message['type']!r} instead of hello.")
        self.versions = {k: str(message.get(k, "")) for k in ("pysr", "julia")}
        self.ready = True
        report(f"PySR {self.versions['pysr']} with Julia {self.versions['julia']} is ready")

    def search(
        self, request: dict[str, Any], outputs: int, timeout: float, report: Report
    ) -> list[list[str]]:
        """The equations that one search found, for each output."""
        self._send(request)
        overstayed = f"was still searching after {timeout:g} s and was stopped"
        message = self._receive(timeout, report, overstayed)
        if message["type"] == "error":
            raise _failure(message)
        cpu = message.get("cpu")
        if isinstance(cpu, float) and 0 <= cpu < math.inf:
            count_cpu_time(cpu)
        found = _equations(message.get("outputs"))
        if message["type"] != "result" or found is None or len(found) != outputs:
            self.busy = True  # never to be used again
            raise BackendError(
                f"pysr: the worker sent {message['type']!r} without {outputs} list(s) of equations."
            )
        return found

    def stop(self) -> None:
        """End the process and whatever it started, at once, and remove its files."""
        if hasattr(os, "killpg"):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        else:  # pragma: no cover
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(1.0)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def _send(self, message: dict[str, Any]) -> None:
        self.busy = True
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self._death() from None

    def _pump(self, stream: IO[bytes], name: str) -> None:
        """Runs in a thread: hand on what the worker writes, line by line."""
        with stream:
            while raw := stream.readline(MAX_CHARACTERS):
                line = _ANSI.sub("", raw.decode("utf-8", "replace")).rstrip()
                line = line.rsplit("\r", 1)[-1]
                if name == "log" and line != self.token:
                    self.last_line = line.strip() or self.last_line
                if name == "answer" or self.busy:
                    self._inbox.put((name, line))
        self._inbox.put((name, None))

    def _receive(self, timeout: float, report: Report, overstayed: str) -> dict[str, Any]:
        """The next answer; log lines on the way are reported."""
        deadline = time.monotonic() + timeout
        marked = False
        while True:
            left = deadline - time.monotonic()  # possibly infinite, which queues do not accept
            try:
                name, line = self._inbox.get(timeout=min(max(left, 0.0), 3600.0))
            except queue.Empty:
                if left > 3600.0:
                    continue
                raise BackendTimeout(f"pysr: the worker {overstayed}.{self._heard()}") from None
            if line is None:
                if name == "answer":
                    raise self._death()
            elif name == "log":
                marked = self._is_mark(line, report)
            elif line.startswith(self.token):
                message = self._decode(line[len(self.token) :])
                if not marked:
                    self._finish_log(report)
                self.busy = False
                return message
            elif self.ready:
                raise BackendError(
                    f"pysr: the worker sent rubbish instead of an answer: {line:.80}"
                )
            else:  # printed while the channel was still standard output
                self.last_line = line.strip() or self.last_line
                report(line)

    def _is_mark(self, line: str, report: Report) -> bool:
        """Before an answer the worker writes the token to its log as well, after all the rest."""
        if line == self.token:
            return True
        if line.strip():
            report(line)
        return False

    def _finish_log(self, report: Report) -> None:
        """The log has a pipe of its own and may be read a little later than the answer."""
        deadline = time.monotonic() + 1.0
        while (left := deadline - time.monotonic()) > 0:
            try:
                name, line = self._inbox.get(timeout=left)
            except queue.Empty:
                return
            if name != "log" or line is None or self._is_mark(line, report):
                return

    def _decode(self, text: str) -> dict[str, Any]:
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise BackendError(f"pysr: the worker sent malformed JSON: {text.strip():.80}")
        return message

    def _death(self) -> BackendError:
        try:
            code: int | None = self.process.wait(5.0)
            self._threads[1].join(1.0)
        except subprocess.TimeoutExpired:
            code = None
        when = "during the search" if self.ready else "before it was ready"
        if code is None:
            how = "closed its channel"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        elif code == 130:
            how = "was interrupted"
        else:
            how = f"ended with code {code}"
        return BackendError(f"pysr: the worker {how} {when}.{self._heard()}")

    def _heard(self) -> str:
        return f" Its last line was: {self.last_line:.200}" if self.last_line else ""


def _equations(answer: Any) -> list[list[str]] | None:
    """The texts of rows (complexity, loss, equation), or None if that is not what they are."""
    try:
        found = [[row[2] for row in rows] for rows in answer]
    except (TypeError, IndexError, KeyError):
        return None
    return found if all(isinstance(text, str) for texts in found for text in texts) else None


def _unavailable(message: dict[str, Any]) -> BackendUnavailable:
    text = str(message.get("message", "")).rstrip(".")
    if message.get("kind") == "import":
        return BackendUnavailable(f"Backend 'pysr' cannot import PySR: {text}. {INSTALL}")
    error = message.get("error", "")
    return BackendUnavailable(f"Backend 'pysr' cannot start Julia: {error}: {text}. {INSTALL}")


def _failure(message: dict[str, Any]) -> Exception:
    text = message.get("message", "")
    if message.get("kind") == "settings":
        return ConfigError(f"pysr: {text}")
    return BackendError(f"pysr: the search failed with {message.get('error', '')}: {text}")
