"""Calibration of the stated uncertainties on held-out trajectories, by horizon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from sjepa.bayes.draws import Draws
from sjepa.bayes.prediction import log_mixture
from sjepa.data import Trajectories
from sjepa.errors import DataError
from sjepa.models.transition import schedule


if TYPE_CHECKING:
    from matplotlib.axes import Axes

# States of all draws and starts that are moved at once.
_CHUNK = 200_000


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictive quality for each horizon.

    ``pit`` maps a horizon to (starts, d): the predictive probability of values up to the true
    one, uniform if the prediction is calibrated. ``table`` has one row a horizon: mean log
    predictive density, coverage of the central 50, 90 and 95 % intervals, calibration error
    (mean distance between stated and actual coverage over all levels), sharpness (mean width of
    the 90 % interval in standard deviations of the held-out states) and the number of starts.
    """

    pit: dict[int, np.ndarray]
    log_density: dict[int, np.ndarray]
    width: dict[int, np.ndarray]
    levels: tuple[float, ...] = tuple(np.round(np.arange(0.05, 1.0, 0.05), 2).tolist())

    def coverage(self, horizon: int, level: float = 0.9) -> float:
        """Share of true values inside the central interval of this level."""
        return float((np.abs(self.pit[horizon] - 0.5) <= level / 2).mean())

    def error(self, horizon: int) -> float:
        """Mean over levels of |actual - stated coverage|."""
        return float(np.mean([abs(self.coverage(horizon, v) - v) for v in self.levels]))

    @property
    def table(self) -> pd.DataFrame:
        rows = [
            {
                "horizon": h,
                "log_density": self.log_density[h].mean(),
                "coverage_50": self.coverage(h, 0.5),
                "coverage_90": self.coverage(h, 0.9),
                "coverage_95": self.coverage(h, 0.95),
                "calibration_error": self.error(h),
                "sharpness": self.width[h].mean(),
                "starts": len(self.pit[h]),
            }
            for h in self.pit
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda v: f"{v:.3f}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Actual against stated coverage, one line a horizon."""
        from sjepa.bayes.plots import plot_coverage

        return plot_coverage(self, ax)

    def plot_horizons(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Log density, 90 % coverage, calibration error and sharpness against the horizon."""
        from sjepa.bayes.plots import plot_horizons

        return plot_horizons(self, axes)


def calibrate(
    draws: Draws,
    trajectories: Trajectories,
    horizons: Sequence[int],
    starts: int,
    generator: torch.Generator,
) -> Calibration:
    """Roll out from points of the trajectories and compare with what came.

    At most `starts` starting points, spread evenly over all points that have the longest
    horizon before them.
    """
    horizons = sorted({int(h) for h in horizons})
    if not horizons or horizons[0] < 1:
        raise DataError(f"Horizons are whole numbers from 1, got {horizons}.")
    z, dt, u = _windows(trajectories, horizons[-1], starts)
    spread = torch.as_tensor(np.concatenate(trajectories.x).std(axis=0)).clamp_min(1e-300)
    pit: dict[int, list[Tensor]] = {h: [] for h in horizons}
    density: dict[int, list[Tensor]] = {h: [] for h in horizons}
    width: dict[int, list[Tensor]] = {h: [] for h in horizons}
    size = max(1, _CHUNK // len(draws))
    for i in range(0, len(z), size):
        part = slice(i, i + size)
        begin = draws.expand(z[part, 0])
        actions = None if u is None else u[part]
        walk = draws.walk(begin, schedule(dt[part], actions, None), generator)
        for h, (mean, state) in enumerate(walk, start=1):
            if h not in pit:
                continue
            truth = z[part, h]
            scale = torch.as_tensor(draws.step.spread(dt[part, h - 1, None, None]))
            roots = scale * draws.root.unsqueeze(1).expand(*mean.shape, mean.shape[-1])
            deviation = roots.square().sum(-1).sqrt()
            pit[h].append(_cdf((truth - mean) / deviation))
            density[h].append(log_mixture(truth, mean, roots))
            low, high = np.nanquantile(state.numpy(), [0.05, 0.95], axis=0)
            width[h].append(torch.as_tensor(high - low) / spread)
    return Calibration(_joined(pit), _joined(density), _joined(width))


def _joined(parts: dict[int, list[Tensor]]) -> dict[int, np.ndarray]:
    return {h: torch.cat(v).numpy() for h, v in parts.items()}


def _cdf(standardized: Tensor) -> Tensor:
    """Mean over draws of the normal distribution function; diverged draws count half each way."""
    return torch.special.ndtr(standardized).nan_to_num(nan=0.5).mean(0)


def _windows(
    trajectories: Trajectories, horizon: int, max_windows: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """States (S, K + 1, d), step sizes (S, K) and actions (S, K, m) of the chosen windows."""
    places = [(i, j) for i, n in enumerate(trajectories.lengths) for j in range(n - horizon)]
    if not places:
        raise DataError(
            f"No trajectory is longer than the horizon of {horizon} steps; "
            f"the longest has {trajectories.lengths.max()} points."
        )
    chosen = np.unique(np.linspace(0, len(places) - 1, min(max_windows, len(places))).astype(int))

    def cut(series: list[np.ndarray], length: int) -> Tensor:
        parts = [series[i][j : j + length] for i, j in (places[k] for k in chosen)]
        return torch.as_tensor(np.stack(parts), dtype=torch.float64)

    u = None if trajectories.u is None else cut(trajectories.u, horizon)
    return cut(trajectories.x, horizon + 1), cut(trajectories.steps, horizon), u
