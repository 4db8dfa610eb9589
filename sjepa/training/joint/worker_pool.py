"""Where restarts are trained and encoders refined: here, or on the workers of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sjepa.backend.executors import run_on
from sjepa.models.devices import one_thread


# Restarts are divided into so many parts, whatever the number of workers: sums of a batch are
# rounded by its size, and the answer must not depend on who computed it.
PARTS = 4


@dataclass(frozen=True)
class Pool:
    """An executor as in :func:`sjepa.backend.executors.run_on`, or none."""

    executor: Any = None
    workers: int = 1

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Results in the order of the items; `function` and items travel."""
        if self.executor is None:
            return map(function, items)
        return run_on(self.executor, _OneThread(function), items, self.workers)

    def parts(self, count: int) -> list[list[int]]:
        """Numbers up to `count` in parts of like cost: neighbors are alike."""
        many = min(1 if self.executor is None else PARTS, count)
        return [list(range(k, count, many)) for k in range(many)]


@dataclass(frozen=True)
class _OneThread:
    function: Callable[[Any], Any]

    def __call__(self, number: int, item: Any) -> Any:
        with one_thread():
            return self.function(item)
