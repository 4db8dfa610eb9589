"""What a fit reports while it runs: one step, four hooks, and the callbacks that use them."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from sjepa.backend import Progress
from sjepa.errors import ConfigError, MissingDependency
from sjepa.settings import callable_of, path_of


logger = logging.getLogger(__name__)
# Seconds between two pictures of a bar in a notebook.
REFRESH = 0.2


@dataclass(frozen=True)
class Step:
    """Progress of a fit.

    Attributes
    ----------
    text : str
        One human-readable line.
    share : float
        Finished share of the work, 0 to 1.
    stage : str
        Current stage; for the alternating search the name of the phase.
    cycle, cycles, epoch, epochs : int
        0 if the search has none.
    loss : float, optional
        Training loss of the last epoch.
    risk, complexity, objective, min_std : float, optional
        Validation figures of this epoch; None without validation.
    noise_floor : float, optional
        The noise floor of the risk, where known.
    law : str, optional
        The equations with this risk, in one line.
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
    noise_floor: float | None = None
    law: str | None = None


@runtime_checkable
class Callback(Protocol):
    """Base class of callbacks. Exceptions raised in a hook stop the fit.

    Every hook does nothing by default: subclass to override some of them. A class with
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


class Reporter(Callback):
    """Hands every report to a function of a line of text and the finished share."""

    def __init__(self, function: Progress) -> None:
        self.function = function

    def on_step(self, step: Step) -> None:
        self.function(step.text, step.share)


class Log(Callback):
    """Writes progress to the standard library's logger ``sjepa``."""

    def on_start(self, model: Any) -> None:
        settings = model.get_params(deep=False)
        shown = {k: v for k, v in settings.items() if k != "verbose"}
        logger.info("fit starts: %s", " ".join(f"{k}={v!r}" for k, v in shown.items()))

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
        Folder of the event files; view them with ``tensorboard --logdir folder``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = path_of(folder, "folder")
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


class ProgressBar(Callback):
    """A bar with the time left, and below it the present equations, their complexity and risk.

    Only one is shown at a time: a search inside another one stays silent.

    Parameters
    ----------
    verbose : bool, callable, Callback, or list of these, optional
        By default a bar is shown in terminals and notebooks and nothing elsewhere. True
        writes lines where no bar can be drawn, False shows nothing. Functions of a line of text
        and the finished share, and callbacks, get the reports instead; with True in a list a bar
        is shown beside them.
    first : str
        What is being done until the first report.
    """

    _busy: ClassVar[bool] = False

    def __init__(self, verbose: Any = None, first: str = "starting") -> None:
        self.verbose, self.listeners = read_verbose(verbose)
        self.first = first
        self.share = 0.0
        self.law = ""
        self._view: Any = None

    def show(self, line: str, share: float) -> None:
        """As a ``progress`` function; lines after the first are the laws so far."""
        line, _, table = line.partition("\n")
        self.share, self.law = share, table or self.law
        for callback in self.listeners:
            callback.on_step(Step(line, share))
        if self._view is not None:
            self._view.draw(line, share, self.law)

    @property
    def listener(self) -> Progress | None:
        """`show`, or None where nobody listens."""
        return None if self._view is None and not self.listeners else self.show

    def on_step(self, step: Step) -> None:
        if step.risk is not None:
            omega = "" if step.law is None else f"complexity {step.complexity:g}, "
            law = "" if step.law is None else "".join(f"\n  {e}" for e in step.law.split("; "))
            self.law = f"  {omega}risk {step.risk:.3g}{law}"
        self.show(step.text, step.share)

    def __enter__(self) -> Self:
        # Several workers would draw over each other.
        alone = multiprocessing.current_process().name == "MainProcess"
        if self.verbose is not False and alone and not ProgressBar._busy:
            if _in_notebook():
                self._view = _NotebookBar(self.first)
            elif sys.stderr is not None and sys.stderr.isatty():
                self._view = _TerminalBar(self.first)
            elif self.verbose:
                self._view = _Lines()
            ProgressBar._busy = self._view is not None
        return self

    def __exit__(self, *error: object) -> None:
        if self._view is not None:
            self._view.close()
            self._view, ProgressBar._busy = None, False


class _TerminalBar:
    """Drawn over itself on standard error, and gone when the work is done."""

    def __init__(self, first: str) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            Progress as Bar,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        self.bar = Bar(
            BarColumn(bar_width=20), TaskProgressColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )  # fmt: skip
        self.task = self.bar.add_task(first, total=1.0)
        self.law = Text(no_wrap=True, overflow="ellipsis")
        console = Console(stderr=True)
        self.live = Live(Group(self.bar, self.law), console=console, transient=True)
        self.live.start()

    def draw(self, line: str, share: float, law: str) -> None:
        self.bar.update(self.task, description=line[:70], completed=share)
        self.law.plain = law

    def close(self) -> None:
        self.live.stop()


class _NotebookBar:
    """One output of the cell, replaced as the work advances and emptied at the end."""

    def __init__(self, first: str) -> None:
        from IPython.display import HTML, display

        self.html = HTML
        self.handle: Any = display(HTML(escape(first)), display_id=True)
        self.drawn = -REFRESH

    def draw(self, line: str, share: float, law: str) -> None:
        if time.monotonic() - self.drawn >= REFRESH:
            self.drawn = time.monotonic()
            text = f"<progress value='{share:.3f}'></progress> {escape(line)}"
            self.handle.update(self.html(f"{text}<pre>{escape(law)}</pre>" if law else text))

    def close(self) -> None:
        self.handle.update(self.html(""))


class _Lines:
    """A line for each thing that is done, for logs of batch jobs."""

    def __init__(self) -> None:
        self.last = ""

    def draw(self, line: str, share: float, law: str) -> None:
        if line != self.last:
            self.last = line
            print(f"{100 * share:3.0f} % {line}", file=sys.stderr, flush=True)

    def close(self) -> None:
        return


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def read_verbose(verbose: Any) -> tuple[bool | None, list[Callback]]:
    """Whether to show a bar (None: where one can be drawn), and who else gets the reports."""
    if verbose is None or isinstance(verbose, bool):
        return verbose, []
    listeners: list[Callback] = []
    parts = verbose if isinstance(verbose, list | tuple) else [verbose]
    for part in parts:
        if isinstance(part, bool):
            continue
        if isinstance(part, Callback) and not isinstance(part, type):
            listeners.append(part)
        elif callable(part) and not isinstance(part, type):
            called = callable_of(part, "verbose", "verbose(text, share)", 2)
            listeners.append(Reporter(called))
        else:
            raise ConfigError(
                "verbose is None, True, False, a function of a text and a share, a Callback "
                f"(on_start, on_step, on_cycle, on_end), or a list of them; got {part!r:.60}.",
                "verbose",
            )
    return any(part is True for part in parts), listeners
