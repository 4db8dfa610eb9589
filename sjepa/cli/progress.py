"""How a run is stopped."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

from rich.console import Console

from sjepa.callbacks import Callback, Step


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
