"""What a fit writes down while it runs: its history, and checkpoints to resume from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from sjepa.callbacks import Callback, Step
from sjepa.errors import FormatError
from sjepa.runs.best import NAME as BEST, BestLaw
from sjepa.storage.tensors import read_state, write_state
from sjepa.symbolic import Law


logger = logging.getLogger(__name__)

KIND, VERSION = "sjepa-checkpoint", 1
# Checkpoints may take this share of the time, and are this many seconds apart at least.
MAX_SHARE, MIN_SECONDS = 0.05, 0.2
_METRICS = ("loss", "risk", "objective", "complexity", "min_std")
_HISTORY = ("stage", "cycle", "epoch", *_METRICS, "law")


class RunRecorder:
    """Tells callbacks what happens, keeps the history and saves the state of a search.

    A recorder can be called like a ``progress`` function. Without a `path` nothing is saved.

    Parameters
    ----------
    callbacks : sequence of Callback
    path : Path, optional
        The checkpoint file; the best law so far is kept beside it.
    """

    def __init__(self, callbacks: Sequence[Callback] = (), path: Path | None = None) -> None:
        self.callbacks, self.path = list(callbacks), path
        self.rows: list[dict[str, Any]] = []
        self._stages: dict[str, Any] = {}
        self._last, self._cost = time.monotonic(), 0.0
        self.best = None if path is None else BestLaw(path.with_name(BEST))
        self.share = 0.0
        self._span = 0.0, 1.0

    def __call__(self, line: str, share: float) -> None:
        self.report(Step(line, share))

    def report(self, step: Step) -> None:
        begin, width = self._span
        self.share = begin + width * min(max(step.share, 0.0), 1.0)
        step = replace(step, share=self.share)
        if self.best is not None:
            self.best.offer(step)
        for callback in self.callbacks:
            callback.on_step(step)

    @contextmanager
    def part(self, number: int, count: int) -> Iterator[None]:
        """Inside, shares are those of one of several parts of the work; parts may have parts."""
        begin, width = outer = self._span
        self._span = begin + width * number / count, width / count
        try:
            yield
        finally:
            self._span = outer

    def conclude(self, law: Law, figures: Mapping[str, float]) -> None:
        """The search is over, and this is the law of the model, which need not leave least."""
        if self.share < 1.0:
            self("done", 1.0)
        if self.best is not None:
            self.best.write(law.lines(digits=6), figures, law.complexity("terms"), 1.0)

    def record(self, step: Step, state: Callable[[], dict[str, Any]], ended: bool = False) -> None:
        """Note an epoch; save a checkpoint if a cycle `ended` or it is cheap enough.

        A callback that stops the fit loses nothing: the state of this epoch is saved then too.
        """
        if step.risk is not None:
            row = asdict(step)
            self.rows.append({key: row[key] for key in _HISTORY})
        saved = ended or self._due()
        if saved:
            self.save(state)
        try:
            self.report(step)
            for callback in self.callbacks if ended else ():
                callback.on_cycle(step)
        except BaseException:
            if not saved:
                self.save(state)
            raise

    def _due(self) -> bool:
        since = time.monotonic() - self._last
        return since > max(MIN_SECONDS, self._cost / MAX_SHARE)

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint now."""
        if self.path is None:
            return
        start = time.monotonic()
        write_state(self.path, KIND, VERSION, {"rows": self.rows, **state()})
        self._last = time.monotonic()
        self._cost = self._last - start
        logger.debug("checkpoint written in %.3f s", self._cost)

    def restore(self) -> dict[str, Any]:
        """The state of the last checkpoint, with the history up to it; empty without one."""
        if self.path is None or not self.path.exists():
            return {}
        state = read_state(self.path, KIND, VERSION)
        rows = state.pop("rows", None) if isinstance(state, dict) else None
        if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
            raise FormatError(f"{self.path} is damaged: it holds no history.")
        self.rows = rows
        stages = state.get("stages", {})
        if not isinstance(stages, dict):
            raise FormatError(f"{self.path} is damaged: its stages are no table.")
        self._stages = stages
        return state

    def table(self) -> pd.DataFrame:
        """The history in long form: stage, cycle, epoch, metric, value."""
        rows = [
            (row["stage"], row["cycle"], row["epoch"], metric, float(row[metric]))
            for row in self.rows
            for metric in _METRICS
            if row.get(metric) is not None
        ]
        kinds = {"stage": str, "cycle": "int64", "epoch": "int64", "metric": str, "value": float}
        return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)

    def stage(self, name: str) -> Stage:
        """A place for what one stage of a search found, kept in the checkpoint."""
        return Stage(self, name)


class Stage:
    """One named stage of a recorder; see :class:`sjepa.training.joint.context.Memory`."""

    def __init__(self, recorder: RunRecorder, name: str) -> None:
        self.recorder, self.name = recorder, name

    def get(self) -> Any:
        return self.recorder._stages.get(self.name)

    def put(self, data: Any) -> None:
        self.recorder._stages[self.name] = data
        self.recorder.save(lambda: {"stages": self.recorder._stages})
