"""How long a search may take."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from sjepa.backend.executors import check_executor
from sjepa.errors import ConfigError


# Expression trees can be searched for ever: most classic formulas are found in this time.
TREE_SECONDS = 30.0


def _is_positive(value: Any) -> bool:
    """Whether it is above 0, also as a double, which a large whole number is not."""
    return value > 0 and (value <= sys.float_info.max or value == math.inf)


_workers = 0.0  # processor seconds that worker processes have reported


def cpu_time() -> float:
    """Processor seconds of this process, and of the workers that have answered it."""
    return time.process_time() + _workers


def count_cpu_time(seconds: float) -> None:
    """Add what a worker process has spent on a search."""
    global _workers
    _workers += seconds


@dataclass(frozen=True)
class Budget:
    """How long a search may take; None leaves the backend's own default.

    Backends stop by themselves within about a tenth of `seconds` (at least one second) after it.
    With `cpu` they are seconds of processor time, so that a busy machine does not change the
    answer: of this process, and of workers that a backend starts, which are counted when they
    answer and held to the wall clock until then.

    `executor` ("local", "dask", "ray" or a client) and `workers`, a number of processes, say where
    `discover` and `posterior` do what can be done at once; the result is the same for any number.

    >>> Budget(seconds=30)
    Budget(seconds=30, iterations=None)
    """

    seconds: float | None = None
    iterations: int | None = None
    cpu: bool = field(default=False, repr=False)
    executor: Any = field(default="local", repr=False)
    workers: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        for value, kind, wanted in (
            (self.seconds, Real, "a positive number of seconds"),
            (self.iterations, Integral, "at least one iteration"),
            (self.workers, Integral, "at least one worker"),
        ):
            if value is not None and not (isinstance(value, kind) and _is_positive(value)):
                raise ConfigError(f"A budget needs {wanted}, got {value!r:.40}.", "budget")
        if not (isinstance(self.executor, str) and self.executor == "local"):
            check_executor(self.executor)

    @classmethod
    def of(cls, given: Budget | float | None) -> Budget:
        """A number is seconds of processor time."""
        return given if isinstance(given, Budget) else cls(given, cpu=given is not None)

    def for_backend(self, trees: bool, limited: bool, seconds: float = TREE_SECONDS) -> Budget:
        """A search of expression trees that nothing limits ends after some seconds."""
        budget = Budget(self.seconds, self.iterations, self.cpu)  # a backend is in one place
        return Budget(seconds, cpu=True) if budget == Budget() and trees and not limited else budget
