"""How much a search may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sjepa.backend.executors import check_executor
from sjepa.errors import ConfigError
from sjepa.training.joint.successive_halving import HalvingRound


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """The size of a search. The defaults take well under a minute on one core.

    Parameters
    ----------
    structures : int, default=100
        How many structures to try, the cheapest first.
    max_terms : int, default=2
        Most terms of one equation.
    restarts : int, default=4
        Starts of each structure, for an effort of 1.
    effort : float, default=1.0
        Multiplies the starts and the optimizer steps.
    finalists : int, default=10
        Structures that are refined and put on the front.
    horizon : int, optional
        Longest segment, in samples, over which a law is compared with the data; by default
        four tenths of the period of the slowest motion.
    refinement, rollout : int
        Quasi-Newton iterations on the integral form, and on rollouts of the chosen law.
    grow : bool, default=True
        Whether a nonlinear part may be added to the encoder where a linear one is not enough.
    executor, workers : "local", "dask", "ray" or a client, and how many processes
        Where restarts are trained and encoders refined; by default here. The result is the same
        for any number of workers.
    """

    structures: int = 100
    max_terms: int = 2
    restarts: int = 4
    effort: float = 1.0
    finalists: int = 10
    horizon: int | None = None
    refinement: int = 150
    rollout: int = 60
    grow: bool = True
    executor: Any = None
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("structures", "max_terms", "restarts", "finalists", "workers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.effort > 0:
            raise ConfigError(f"effort must be positive, got {self.effort}.")
        if self.executor is not None:
            check_executor(self.executor)

    @property
    def starts(self) -> int:
        """Starts of each structure."""
        return max(1, round(self.effort * self.restarts))

    def rounds(self, horizon: int, restarts: int, samples: int) -> list[HalvingRound]:
        """Three rounds: all restarts for few steps and short horizons, then fewer and longer."""

        def round_(steps: int, rows: int, share: float, keep: int, leniency: float) -> HalvingRound:
            far = max(4, round(share * horizon))
            return HalvingRound(
                steps=max(5, round(self.effort * steps)),
                batch=max(2, round(rows / samples)),
                horizon=far,
                keep=keep,
                leniency=leniency,
                stride=max(1, far // 8),
            )

        return [
            round_(50, 1200, 0.27, max(30, restarts // 4), 2.2),
            round_(80, 1600, 0.55, 3 * self.finalists, 1.5),
            round_(120, 3200, 1.0, 2 * self.finalists, 1.0),
        ]
