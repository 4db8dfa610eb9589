"""What a posterior predicts: samples, summaries and densities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor


if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Prediction:
    """One step ahead of B states: a mixture of N Gaussians, one for each posterior draw.

    ``means`` (N, B, d) and ``roots`` (N, B, d, d), Cholesky factors, are the mixture;
    ``samples`` (N, B, d) holds one draw from each component.
    """

    means: np.ndarray
    roots: np.ndarray
    samples: np.ndarray

    def __repr__(self) -> str:
        n, b, d = self.means.shape
        return f"<Prediction: {b} states of {d} coordinates, {n} draws>"

    @property
    def mean(self) -> np.ndarray:
        """(B, d)."""
        return self.means.mean(axis=0)

    @property
    def std(self) -> np.ndarray:
        """Of the whole predictive distribution: laws, coefficients, correction and noise."""
        noise = np.square(self.roots).sum(axis=-1).mean(axis=0)
        return np.sqrt(self.means.var(axis=0) + noise)

    @property
    def epistemic_std(self) -> np.ndarray:
        """Of the mean alone: what more data would reduce."""
        return self.means.std(axis=0)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Central intervals of each coordinate, lower and upper (B, d)."""
        low, high = np.quantile(self.samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def log_density(self, target: np.ndarray) -> np.ndarray:
        """log p(z_T | z_C, D) of targets (B, d), averaged over structures and parameters."""
        mixture = torch.as_tensor(self.means), torch.as_tensor(self.roots)
        return log_mixture(torch.as_tensor(target), *mixture).numpy()


@dataclass(frozen=True, eq=False)
class Rollout:
    """N coherent futures: ``z`` (N, K + 1, d), or (N, B, K + 1, d) of B starts, at times ``t``.

    Rollouts that left the range of numbers are NaN from there on; ``diverged`` is their share.
    """

    z: np.ndarray
    t: np.ndarray
    names: tuple[str, ...]

    def __repr__(self) -> str:
        lost = f", {self.diverged:.0%} diverged" if self.diverged else ""
        names = ", ".join(self.names)
        return f"<Rollout: {len(self.z)} futures of {names}, {len(self.t)} times{lost}>"

    @property
    def diverged(self) -> float:
        return float((~np.isfinite(self.z)).any(axis=(-1, -2)).mean())

    @property
    def mean(self) -> np.ndarray:
        return np.nanmean(self.z, axis=0)

    def quantile(self, q: float | list[float]) -> np.ndarray:
        return np.nanquantile(self.z, q, axis=0)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def plot(self, truth: np.ndarray | None = None, axes: list[Axes] | None = None) -> list[Axes]:
        """Fan chart: median and central 50, 80 and 95 % of the futures, one panel a coordinate."""
        from sjepa.bayes.plots import plot_fan

        return plot_fan(self, truth, axes)


def log_mixture(target: Tensor, means: Tensor, roots: Tensor) -> Tensor:
    """log of the mean over draws of N(target; mean, root rootᵀ): (B,) from (N, B, d)."""
    error = (target - means).unsqueeze(-1)
    white = torch.linalg.solve_triangular(roots, error, upper=False).squeeze(-1)
    logs = roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    d = means.shape[-1]
    value = -0.5 * white.square().sum(-1) - logs - 0.5 * d * math.log(2 * math.pi)
    # A draw that diverged says nothing about where the state is.
    value = value.nan_to_num(nan=-math.inf)
    return value.logsumexp(0) - math.log(len(means))
