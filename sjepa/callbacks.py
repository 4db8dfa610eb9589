"""What a fit reports while it runs: one step, four hooks, and the callbacks that use them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sjepa.backend import Progress
from sjepa.errors import ConfigError, MissingDependency


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """Where a fit is.

    Attributes
    ----------
    text : str
        One line for people.
    share : float
        Share of the work that is done, 0 to 1.
    stage : str
        What is being done; for the alternating search the name of the phase.
    cycle, cycles, epoch, epochs : int
        0 where the search has no such thing.
    loss : float, optional
        Training loss of the last epoch.
    risk, complexity, objective, min_std : float, optional
        What validation of this epoch gave; None where there was none.
    law : str, optional
        The best equations so far, in one line.
    """

    text: str
    share: float
    stage: str = ""
    cycle: int = 0
    cycles: int = 0
    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    risk: float | None = None
    complexity: float | None = None
    objective: float | None = None
    min_std: float | None = None
    law: str | None = None


@runtime_checkable
class Callback(Protocol):
    """Hears what a fit does. Exceptions raised in a hook stop the fit.

    Every hook does nothing by itself: inherit from this to write only some of them. A class with
    all four hooks need not inherit.

    >>> class Risks(Callback):
    ...     def __init__(self):
    ...         self.risks = []
    ...
    ...     def on_cycle(self, step):
    ...         self.risks.append(step.risk)
    >>> isinstance(Risks(), Callback)
    True
    """

    def on_start(self, model: Any) -> None:
        """Before the search; `model` is the estimator."""
        return

    def on_step(self, step: Step) -> None:
        """After every epoch, or whenever a search has something to report."""
        return

    def on_cycle(self, step: Step) -> None:
        """After every cycle of the alternating search."""
        return

    def on_end(self, model: Any) -> None:
        """When `model` is fitted."""
        return


class Log(Callback):
    """Writes what happens to the standard library's logger ``sjepa``."""

    def on_start(self, model: Any) -> None:
        settings = model.get_params(deep=False)
        given = {k: v for k, v in settings.items() if k not in ("callbacks", "progress")}
        logger.info("fit starts: %s", " ".join(f"{k}={v!r}" for k, v in given.items()))

    def on_step(self, step: Step) -> None:
        logger.debug("%3.0f %% %s", 100 * step.share, step.text)

    def on_cycle(self, step: Step) -> None:
        logger.info("cycle %d of %d: %s", step.cycle, step.cycles, step.law)

    def on_end(self, model: Any) -> None:
        logger.info("fit ends: %s", "; ".join(model.law_.lines(digits=6)))


class TensorBoard(Callback):
    """Writes loss, risk, complexity and the equations for TensorBoard.

    Parameters
    ----------
    folder : str or Path
        Where the event files go; look at them with ``tensorboard --logdir folder``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._writer: Any = None
        self._count = 0

    def on_start(self, model: Any) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingDependency(
                "The TensorBoard callback needs tensorboard: pip install tensorboard"
            ) from None
        self._writer, self._count = SummaryWriter(str(self.folder)), 0

    def on_step(self, step: Step) -> None:
        self._count += 1
        for name in ("share", "loss", "risk", "objective", "complexity", "min_std"):
            value = getattr(step, name)
            if value is not None:
                self._writer.add_scalar(name, value, self._count)

    def on_cycle(self, step: Step) -> None:
        if step.law is not None:
            self._writer.add_text("law", step.law, self._count)

    def on_end(self, model: Any) -> None:
        self._writer.add_text("law", "; ".join(model.law_.lines(digits=6)), self._count)
        self._writer.close()


class ProgressCallback(Callback):
    """Passes every step to a function of a line of text and the share of the work done."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step(self, step: Step) -> None:
        self.progress(step.text, step.share)


def check_callbacks(callbacks: Any) -> list[Callback]:
    """A list of callbacks from one, several or none."""
    if callbacks is None:
        return []
    found = [callbacks] if isinstance(callbacks, Callback) else callbacks
    if not isinstance(found, list | tuple) or not all(isinstance(c, Callback) for c in found):
        raise ConfigError(
            "callbacks is a list of objects with on_start, on_step, on_cycle and on_end; "
            f"got {callbacks!r:.60}."
        )
    return list(found)
