"""Is the representation informative? Spread, motion along trajectories, and neighbors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from sjepa.errors import DataError
from sjepa.metrics.arrays import as_array, as_rows


# Neighbors among which one with similar actions is looked for, and segments of time over which
# actions are averaged.
AMONG, SEGMENTS = 10, 8


@dataclass(frozen=True)
class LatentSpread:
    """min_j Std(z_j), Tr Cov z, and the effective number of directions in use."""

    min_std: float
    covariance_trace: float
    effective_rank: float

    def collapsed(self, min_std: float = 0.20, covariance_trace: float = 0.10) -> bool:
        """The paper's rule for checkpoints. Effective rank does not enter: it ignores scale."""
        return not (self.min_std >= min_std and self.covariance_trace >= covariance_trace)


def latent_spread(z: Any) -> LatentSpread:
    """How much, and in how many directions, latents (..., d) vary.

    The effective rank is exp of the entropy of the normalized covariance eigenvalues: 2 for two
    equal directions, 1 for a line, 0 for a constant.
    """
    z = as_rows(z)
    centered = z - z.mean(0)
    eigenvalues = np.linalg.eigvalsh(centered.T @ centered / len(z)).clip(min=0.0)
    trace = eigenvalues.sum()
    if trace <= 1e-14 * np.mean(z**2):  # what rounding leaves of a constant
        effective_rank = 0.0
    else:
        share = eigenvalues[eigenvalues > 0] / trace
        effective_rank = float(np.exp(-(share * np.log(share)).sum()))
    return LatentSpread(float(centered.std(0).min()), float(trace), effective_rank)


@dataclass(frozen=True)
class WithinShare:
    """Share of latent variance that is motion along trajectories: on average and at worst."""

    mean: float
    worst: float


def within_trajectory_share(z: Any, mask: Any | None = None) -> WithinShare:
    """Detects conserved quantities posing as states. z is (B, T, d), mask (B, T).

    ``worst`` is the direction of latent space with the smallest share, whatever the mixing of
    coordinates. Near 0 something is constant along every trajectory; informative coordinates
    of a pendulum have 0.6 to 0.75.
    """
    flags = None if mask is None else torch.as_tensor(as_array(mask) > 0)
    shares = within_shares(torch.from_numpy(as_array(z)), flags, ridge=1e-9)
    return WithinShare(float(shares.mean()), float(shares[0]))


def neighbor_test(
    z: Any,
    observations: Any,
    mask: Any | None = None,
    *,
    ahead: int = 0,
    actions: Any | None = None,
    max_points: int = 4000,
    seed: int = 0,
) -> float:
    """Do points that are neighbors in z look alike? About 0 if z is the state, 1 if constant.

    The mean squared distance of the observations of nearest neighbors in z, divided by that of
    random pairs. Needs no labels and no reconstruction, and sees every shortcut at once:
    measured on the pendulum 0.0013 for the true state, 0.43 with one coordinate missing, 0.63
    folded, 0.76 for functions of the energy, 0.98 for a constant.

    z is (B, T, d), observations (B, T, ...), mask (B, T). With nuisance variation in the
    observations compare what is seen ``ahead`` steps later. Coordinates are standardized first,
    since their scale is a gauge. At most ``max_points`` points are used; beyond about six
    latent dimensions their neighbors are no longer near, and the value says little.

    Under ``actions`` (B, T, m) what is seen ahead is compared with that of the neighbor, of the
    nearest few on other trajectories, under the most similar actions. Similar is what does the
    same to a linear model of what is seen ahead, and what it does is taken off.
    """
    z, x = as_array(z), as_array(observations)
    if z.ndim != 3 or z.shape[:2] != x.shape[:2]:
        raise DataError(f"Needs z (B, T, d), observations (B, T, ...); got {z.shape}, {x.shape}.")
    valid = np.ones(z.shape[:2], bool) if mask is None else as_array(mask) > 0
    steps = max(z.shape[1] - ahead, 0)
    valid = valid[:, :steps] & valid[:, ahead:]
    inputs_ahead = None
    if actions is not None and ahead and steps:
        inputs_ahead, trajectory = (
            _input_means(as_array(actions), ahead)[valid],
            np.nonzero(valid)[0],
        )
    z, x = z[:, :steps][valid], x[:, ahead:][valid]
    if len(z) < 3:
        raise DataError(f"The neighbor test needs at least 3 valid points, got {len(z)}.")
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(z), size=min(max_points, len(z)), replace=False)
    z, x = z[chosen], x[chosen].reshape(len(chosen), -1)
    # Identical points have no nearest neighbor among them; a touch of noise draws one.
    jitter = 1e-6 * z.std(0) + 1e-12 * (1.0 + np.abs(z.mean(0)))
    z = z + jitter * rng.standard_normal(z.shape)
    among = 1 if inputs_ahead is None else min(AMONG, len(z) - 1)
    _, index = cKDTree(z / z.std(0)).query(z / z.std(0), k=1 + among)
    nearest = index[:, 1]
    if inputs_ahead is not None:
        effect = _input_effect(z, inputs_ahead[chosen], x)
        x = x - effect
        apart = ((effect[:, None] - effect[index[:, 1:]]) ** 2).sum(-1)
        # Points of one trajectory share what is hidden, and their actions if they are close.
        apart[trajectory[chosen][index[:, 1:]] == trajectory[chosen][:, None]] = np.inf
        nearest = np.take_along_axis(index[:, 1:], apart.argmin(1)[:, None], 1)[:, 0]
    near = ((x - x[nearest]) ** 2).sum(1).mean()
    random = 2.0 * x.var(0, ddof=1).sum()  # expected squared distance of two different points
    return float(near / random) if random > 0 else float("nan")


def _input_means(u: np.ndarray, ahead: int) -> np.ndarray:
    """Means (B, T - ahead, values) of the actions over segments of the next `ahead` steps."""
    sums = np.pad(u.cumsum(1), ((0, 0), (1, 0), (0, 0)))
    ends = np.unique(np.linspace(0, ahead, SEGMENTS + 1).round().astype(int))
    steps = u.shape[1] - ahead
    upto = [sums[:, end : end + steps] for end in ends]
    parts = [(b - a) / k for a, b, k in zip(upto, upto[1:], np.diff(ends), strict=False)]
    return np.concatenate(parts, axis=-1)


def _input_effect(z: np.ndarray, inputs_ahead: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What actions do to x (n, values) in its best linear model of z and the actions."""
    rows = np.column_stack([np.ones(len(z)), z, inputs_ahead])
    return np.asarray(inputs_ahead @ np.linalg.lstsq(rows, x, rcond=None)[0][1 + z.shape[1] :])


def within_shares(z: Tensor, mask: Tensor | None = None, ridge: float = 1e-5) -> Tensor:
    """Share of variance that lies within trajectories, for d directions, ascending: (d,).

    The directions are those in which the share is extreme (generalized eigenvectors of the
    within against the total covariance), so mixing a conserved coordinate into a moving one
    does not hide it. ``ridge``, a fraction of the mean variance, gives a direction without any
    variation the share 0.
    """
    if z.ndim < 3:
        raise DataError(f"Needs trajectories (..., T, d), got {tuple(z.shape)}.")
    if mask is None:
        mask = torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
    weight = mask.unsqueeze(-1).to(z.dtype)  # (..., T, 1)
    z = torch.where(mask.unsqueeze(-1), z, 0.0)
    count = weight.sum().clamp(min=1)
    own_mean = z.sum(-2, keepdim=True) / weight.sum(-2, keepdim=True).clamp(min=1)
    within = ((z - own_mean) * weight).flatten(0, -2)
    overall = ((z - z.flatten(0, -2).sum(0) / count) * weight).flatten(0, -2)
    total = overall.T @ overall / count
    floor = ridge * total.diagonal().mean() + 1e-12
    factor = torch.linalg.cholesky(total + floor * torch.eye(len(total)).to(total))
    scaled = torch.linalg.solve_triangular(factor, within.T, upper=False)  # (d, n)
    return torch.linalg.eigvalsh(scaled @ scaled.T / count)
