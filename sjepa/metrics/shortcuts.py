"""Which coordinates are admissible: three floors that the known shortcuts cannot pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.metrics.arrays import as_array
from sjepa.metrics.latents import latent_spread, neighbor_test, within_trajectory_share


# Neighbors may differ by LOSS_FACTOR times what those in other coordinates of the same data do, and
# by NEGLIGIBLE_LOSS of what random pairs differ by in any case.
LOSS_FACTOR, NEGLIGIBLE_LOSS = 5.0, 0.004


@dataclass(frozen=True)
class CollapseReport:
    """What was measured on some coordinates, and the reasons to refuse them, if any."""

    min_std: float
    effective_rank: float
    within: float
    neighbor: float
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, kw_only=True)
class CollapseChecks:
    """The admissible class of representations.

    Parameters
    ----------
    variance : float, default=1e-3
        Smallest variance of any direction of the standardized coordinates: scale is a gauge.
    within : float, default=0.15
        Smallest share of variance, in any direction, that is motion along trajectories. Set it
        to 0 when the state truly contains constants of motion.
    neighbor : float, default=0.25
        Largest result of the neighbor test.
    ahead : int, default=0
        Compare the observations this many steps later, for observations with nuisance variation.
    """

    variance: float = 1e-3
    within: float = 0.15
    neighbor: float = 0.25
    ahead: int = 0

    def check(
        self,
        z: Any,
        observations: Any,
        mask: Any = None,
        points: int = 2000,
        actions: Any | None = None,
    ) -> CollapseReport:
        """Measure latents (B, T, d) against observations (B, T, ...), under actions (B, T, m)."""
        z = as_array(z)
        flags = np.ones(z.shape[:2], bool) if mask is None else as_array(mask) > 0
        valid = z[flags]
        spread = latent_spread(valid)
        within = within_trajectory_share(z, flags).worst if self.within > 0 else 1.0
        near = neighbor_test(
            z, observations, flags, ahead=self.ahead, actions=actions, max_points=points
        )
        reasons = []
        if narrowest(valid) < self.variance:
            reasons.append("variance")
        if within < self.within:
            reasons.append("within")
        if not near <= self.neighbor:
            reasons.append("neighbor")
        return CollapseReport(
            spread.min_std, spread.effective_rank, float(within), float(near), tuple(reasons)
        )


def max_information_loss(reports: Iterable[CollapseReport]) -> float:
    """The largest result of the neighbor test that is acceptable beside other coordinates.

    Where some coordinates keep nearly all information, others that lose far more take a shortcut:
    the phase on a limit cycle without the distance from it has a shorter law.
    """
    least = min((report.neighbor for report in reports), default=float("inf"))
    return max(NEGLIGIBLE_LOSS, LOSS_FACTOR * least)


def narrowest(rows: np.ndarray) -> float:
    """Smallest eigenvalue of the correlation matrix of (n, d); 0 if a coordinate is constant."""
    std = rows.std(0)
    if (std <= 1e-9 * (1e-9 + np.abs(rows).max())).any():
        return 0.0
    scaled = (rows - rows.mean(0)) / std
    return max(float(np.linalg.eigvalsh(scaled.T @ scaled / len(rows))[0]), 0.0)
