"""How a run is stopped, and its log."""

from __future__ import annotations

import logging
import signal
import threading
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, Self

from rich.console import Console

from sjepa.callbacks import Callback, Step
from sjepa.storage import open_kept


class GracefulInterrupt(Callback):
    """Ctrl-C, or a polite request to end, stops a fit at its next step; twice stops at once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.pressed = False
        self._before: dict[int, Any] = {}

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        self.console.print("Stopping at the next checkpoint; press Ctrl-C again to stop at once.")

    def on_step(self, step: Step) -> None:
        if self.pressed:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._press)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class RunLog(logging.FileHandler):
    """The log of a run. A full disk ends the run by itself; no line of the log need say so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def _open(self) -> TextIOWrapper:
        """A link there would lead the lines into a file elsewhere: it is refused."""
        return TextIOWrapper(open_kept(Path(self.baseFilename)), encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing can be said where nothing can be written."""

    def __enter__(self) -> Self:
        logger = logging.getLogger("sjepa")
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logger = logging.getLogger("sjepa")
        logger.removeHandler(self)
        logger.setLevel(self._level)
        try:
            self.close()
        except OSError:
            pass
