"""Where restarts begin: subspaces that a linear model of the observations leaves invariant."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from sjepa.training.joint.quadrature import cumulative, difference
from sjepa.training.joint.whitened_trajectories import Observed


# Modes that move less than this share along trajectories are conserved quantities.
MOVING = 0.2


@dataclass(frozen=True, eq=False)
class LinearMode:
    """A real invariant direction (rank, 1) or plane (rank, 2), its rate, and how linear it is.

    `error` is the share of the change of the mode's coordinates that the linear model misses.
    """

    basis: np.ndarray
    frequency: float
    error: float
    moving: float


def linear_modes(
    observed: Observed, order: int = 1, horizon: int = 10, moving: float = MOVING
) -> list[LinearMode]:
    """Modes of the best linear model, the slowest and most linear first.

    Those that move less than a share of `moving` are left out, if there are others.

    Harmonics of a motion (products of its coordinates) also form invariant subspaces, at
    multiples of its frequency: starting from the slowest is what keeps a search from folding.
    """
    change, total = _linear_rows(observed, order, horizon)
    matrix = _solved(change, total).numpy()
    # z = x w moves as dz/dt = x (matrix w): right eigenvectors are the invariant read-outs.
    values, vectors = np.linalg.eig(matrix)
    share = moving_share(observed)
    modes = []
    for value, vector in zip(values, vectors.T, strict=True):
        if value.imag < -1e-12:
            continue
        parts = [vector.real] if abs(value.imag) <= 1e-12 else [vector.real, vector.imag]
        basis = np.linalg.qr(np.stack(parts, axis=1))[0]
        seen = change.numpy() @ basis
        missed = seen - total.numpy() @ (matrix @ basis)
        error = float((missed**2).sum() / max((seen**2).sum(), 1e-300))
        moves = float(np.linalg.eigvalsh(basis.T @ share @ basis).min())
        rate = np.sqrt(abs(value)) if order == 2 else abs(value)
        modes.append(LinearMode(basis, float(rate), error, moves))
    usable = [m for m in modes if m.moving > moving] or modes
    return sorted(usable, key=lambda m: m.frequency / max(1.0 - m.error, 1e-3))


def _linear_rows(observed: Observed, order: int, horizon: int) -> tuple[Tensor, Tensor]:
    """Changes (n, rank) and integrals (n, rank) of observations, less what actions explain."""
    grid = observed.grid
    x = observed.x.movedim(-1, 0)  # (rank, N, T)
    integral = x
    for _ in range(order):
        integral = cumulative(integral, grid.weights)
    k = max(1, min(horizon, (observed.length - 1) // order))
    valid = grid.mask[:, order * k :]
    change = difference(x, grid.times, k, order)[:, valid].T
    total = difference(integral, grid.times, k, order)[:, valid].T
    if grid.u is None:
        return change, total
    push = grid.integrals(_actions_alone, observed.x[..., :0], order)
    drive = difference(push, grid.times, k, order)[:, valid].T
    inverse = torch.linalg.pinv(drive)
    return change - drive @ (inverse @ change), total - drive @ (inverse @ total)


def _solved(change: Tensor, total: Tensor) -> Tensor:
    ridge = 1e-6 * total.square().sum(0).mean() * torch.eye(total.shape[1], dtype=total.dtype)
    return torch.linalg.solve(total.T @ total + ridge, total.T @ change)


def holds_actions(observed: Observed, order: int, horizon: int = 3) -> bool:
    """Whether a linear model that holds actions between samples misses less than a smooth one.

    Over a few samples: half a step counts there, and what is not linear hardly does.
    """
    if observed.grid.u is None:
        return True
    missed = []
    for zoh in (True, False):
        change, total = _linear_rows(observed.with_zoh(zoh), order, horizon)
        missed.append(float((change - total @ _solved(change, total)).square().sum()))
    return missed[0] <= missed[1]


def _actions_alone(u: Tensor) -> Tensor:
    return u.movedim(-1, 0)


def moving_share(observed: Observed) -> np.ndarray:
    """Covariance (rank, rank) of the motion along trajectories; the total one is the identity."""
    mask = observed.grid.mask.unsqueeze(-1).to(observed.x)
    own = (observed.x * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
    motion = ((observed.x - own) * mask).flatten(0, 1)
    return (motion.T @ motion / mask.sum()).numpy()


def starting_readouts(
    modes: list[LinearMode], rank: int, latent_dim: int, count: int, generator: torch.Generator
) -> Tensor:
    """Read-outs (count, rank, d) of unit-variance coordinates.

    Three in four are random mixtures inside one of the slowest subspaces, the very slowest most
    often, with a touch of everything else; the others are random directions.
    """
    noise = torch.randn(count, rank, latent_dim, generator=generator, dtype=torch.float64)
    result = noise.clone()
    spaces = slowest_subspaces(modes, latent_dim)
    for i in range(count):
        if i % 4 == 3 or not spaces:
            continue
        space = spaces[0 if i % 4 != 1 else (1 + i // 4) % len(spaces)]
        mixing = torch.randn(latent_dim, latent_dim, generator=generator, dtype=torch.float64)
        result[i] = space @ torch.linalg.qr(mixing).Q + 0.1 * noise[i] / rank**0.5
    return result / result.norm(dim=1, keepdim=True)


def slowest_subspaces(
    modes: list[LinearMode], latent_dim: int, max_subspaces: int = 4
) -> list[Tensor]:
    """Bases (rank, d) of sets of modes with exactly d directions, the slowest sets first."""
    found: list[tuple[float, np.ndarray]] = []
    nearest = modes[: 3 * latent_dim]
    for size in range(1, latent_dim + 1):
        for group in combinations(nearest, size):
            if sum(m.basis.shape[1] for m in group) == latent_dim:
                basis = np.linalg.qr(np.concatenate([m.basis for m in group], axis=1))[0]
                rank = sum(nearest.index(m) for m in group) / size
                found.append((rank, basis))
    found.sort(key=lambda pair: pair[0])
    return [torch.tensor(basis) for _, basis in found[:max_subspaces]]
