"""How far encoded trajectories are from a law, with the law's coefficients solved for.

The integral form compares the change of z over some horizon with the integral of the law along
the encoded trajectory. There is no rollout, so every horizon costs the same, noise is not
differentiated, and for a law that is linear in its coefficients these are least squares: solved
in closed form inside the loss (variable projection). By the envelope theorem the gradient with
respect to z needs no derivative of that solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sjepa.symbolic import Law, Library
from sjepa.training.joint.quadrature import cumulative, difference
from sjepa.training.joint.structures import Support


# Relative ridge on the normal equations: nearly collinear terms stay solvable.
RIDGE = {torch.float32: 1e-5, torch.float64: 1e-10}


@dataclass(frozen=True)
class Grid:
    """Where trajectories were sampled: times (B, T), quadrature weights (B, T - 1, 4), mask.

    Actions u (B, T, m) are held from one sample to the next, or sampled from something smooth.
    """

    times: Tensor
    weights: Tensor
    mask: Tensor
    u: Tensor | None = None
    zoh: bool = True

    @property
    def actions(self) -> int:
        return 0 if self.u is None else self.u.shape[-1]

    def pick(self, rows: Tensor) -> Grid:
        u = None if self.u is None else self.u[rows]
        return Grid(self.times[rows], self.weights[rows], self.mask[rows], u, self.zoh)

    def to(self, dtype: torch.dtype) -> Grid:
        u = None if self.u is None else self.u.to(dtype)
        return Grid(self.times.to(dtype), self.weights.to(dtype), self.mask, u, self.zoh)

    def integrals(self, terms: Callable[[Tensor], Tensor], inputs: Tensor, order: int) -> Tensor:
        """Terms (..., B, T) of inputs (..., B, T, n) and actions, integrated `order` times.

        Under a held action nothing jumps within a step, but everything may at a sample, so each
        step is integrated with its own action from its two ends.
        """
        if self.u is None or not self.zoh:
            values = terms(self.with_actions(inputs))
            for _ in range(order):
                values = cumulative(values, self.weights)
            return values
        before = torch.cat([self.u[:, :1], self.u[:, :-1]], dim=1)
        first, last = terms(self.with_actions(inputs)), terms(self.with_actions(inputs, before))
        first, last, step = first[..., :-1], last[..., 1:], self.times.diff(dim=-1)
        once = nn.functional.pad((step / 2 * (first + last)).cumsum(-1), (1, 0))
        if order == 1:
            return once
        parts = step * once[..., :-1] + step.square() * (first / 3 + last / 6)
        return nn.functional.pad(parts.cumsum(-1), (1, 0))

    def with_actions(self, inputs: Tensor, u: Tensor | None = None) -> Tensor:
        """Inputs with the actions after them, or with others."""
        u = self.u if u is None else u
        if u is None:
            return inputs
        return torch.cat([inputs, u.expand(*inputs.shape[:-1], -1)], dim=-1)


@dataclass(frozen=True)
class IntegralFit:
    """Loss (R, d) in units of the variance of what is predicted, coefficients (R, d, S)."""

    losses: Tensor
    coefficients: Tensor

    @property
    def risk(self) -> Tensor:
        """(R,)"""
        return self.losses.mean(-1)


def integral_fit(
    features: ActiveFeatures,
    z: Tensor,
    grid: Grid,
    horizons: Sequence[int],
    *,
    order: int = 1,
    inputs: Tensor | None = None,
    coefficients: Tensor | None = None,
    stride: int = 1,
) -> IntegralFit:
    """Fit the integral form on latents z (R, B, T, d).

    `inputs` are what the terms see, if that is more than z (velocities). Given `coefficients`
    are used as they are: that is how a law is judged on data it was not fitted to. With a
    `stride` only every k-th sample starts or ends a horizon.
    """
    values = grid.integrals(features.evaluate, z if inputs is None else inputs, order)
    columns = features.arranged(values[..., ::stride])  # (R, d, S, B, T')
    states = z.movedim(-1, 1)[..., ::stride]  # (R, d, B, T')
    times, mask = grid.times[:, ::stride], grid.mask[:, ::stride]
    targets, designs = [], []
    for k in coarse(horizons, stride, times.shape[1], order):
        valid = valid_starts(mask, k, order)
        targets.append(rows_of(difference(states, times, k, order), valid))
        designs.append(rows_of(difference(columns, times, k, order), valid))
    return least_squares(targets, designs, features.active, coefficients)


def least_squares(
    targets: Sequence[Tensor],
    designs: Sequence[Tensor],
    active: Tensor,
    coefficients: Tensor | None = None,
) -> IntegralFit:
    """Groups of targets (R, d, n) and columns (R, d, S, n), each group in units of its variance.

    Every group counts the same however long its horizon is.
    """
    variances = [y.var(-1, correction=0).clamp_min(1e-12) for y in targets]  # (R, d)
    if coefficients is None:
        with torch.no_grad():
            coefficients = _solve(targets, designs, variances, active)
    losses = [
        (y - torch.einsum("rds,rdsn->rdn", coefficients, g)).square().mean(-1) / v
        for y, g, v in zip(targets, designs, variances, strict=True)
    ]
    return IntegralFit(torch.stack(losses).mean(0), coefficients)


def _solve(
    targets: Sequence[Tensor],
    designs: Sequence[Tensor],
    variances: Sequence[Tensor],
    active: Tensor,
) -> Tensor:
    gram, moment = torch.zeros(()), torch.zeros(())
    for y, g, v in zip(targets, designs, variances, strict=True):
        scale = 1.0 / (v * y.shape[-1])
        gram = gram + torch.einsum("rdsn,rdqn->rdsq", g, g) * scale[..., None, None]
        moment = moment + torch.einsum("rdsn,rdn->rds", g, y) * scale[..., None]
    size = gram.diagonal(dim1=-2, dim2=-1)
    size = torch.where(active & (size > 0), size, torch.ones_like(size)).sqrt()
    gram = gram / (size[..., :, None] * size[..., None, :])
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype)
    gram = gram + eye * torch.where(active, RIDGE[gram.dtype], 1.0)[..., None]
    return torch.linalg.solve(gram, moment / size) / size * active


def coarse(horizons: Sequence[int], stride: int, length: int, order: int) -> list[int]:
    """Horizons in units of the stride, no longer than the trajectories allow."""
    longest = max(1, (length - 1) // order)
    return sorted({min(max(1, round(k / stride)), longest) for k in horizons})


def valid_starts(mask: Tensor, k: int, order: int) -> Tensor | None:
    """Starts (B, T') whose whole horizon was observed; None when that is all of them."""
    return None if bool(mask.all()) else mask[:, order * k :]


def rows_of(values: Tensor, valid: Tensor | None) -> Tensor:
    """Values (..., B, T') of the valid starts, in one row."""
    return values.flatten(-2) if valid is None else values[..., valid]


class ActiveFeatures:
    """The terms of R supports, evaluated on states (R, B, T, inputs).

    A term that a restart uses in several equations is computed once; terms it does not use
    are not computed at all.
    """

    def __init__(self, library: Library, supports: Sequence[Support]) -> None:
        self.restarts, self.outputs = len(supports), len(supports[0])
        self.modules = _modules(library)
        used: dict[int, list[int]] = {}
        for r, support in enumerate(supports):
            for p in sorted({p for row in support for p in row}):
                used.setdefault(p, []).append(r)
        self.users = {p: torch.tensor(used[p]) for p in sorted(used)}
        slot: dict[tuple[int, int], int] = {}
        for p, users in self.users.items():
            for r in users.tolist():
                slot[r, p] = len(slot)
        width = max(len(row) for support in supports for row in support)
        # (R, d, S): the slot of each term of each equation, and whether there is one.
        self.slots = torch.zeros(self.restarts, self.outputs, width, dtype=torch.long)
        self.active = torch.zeros(self.restarts, self.outputs, width, dtype=torch.bool)
        for r, support in enumerate(supports):
            for j, row in enumerate(support):
                for s, p in enumerate(row):
                    self.slots[r, j, s] = slot[r, p]
                    self.active[r, j, s] = True

    def evaluate(self, z: Tensor) -> Tensor:
        """(R, B, T, inputs) -> (slots, B, T)."""
        whole = torch.arange(self.restarts)
        parts = []
        for p, users in self.users.items():
            own = z if len(users) == len(whole) else z[users]
            parts.append(self.modules[p](own)[..., 0])
        return torch.cat(parts)

    def arranged(self, values: Tensor) -> Tensor:
        """(slots, ...) -> (R, d, S, ...), zero where an equation has fewer terms."""
        picked = values[self.slots]
        if bool(self.active.all()):
            return picked
        return picked * self.active.reshape(*self.active.shape, *[1] * (values.ndim - 1))


_BUILT: WeakKeyDictionary[Library, list[nn.Module]] = WeakKeyDictionary()


def _modules(library: Library) -> list[nn.Module]:
    """One module for each term, built once for a library."""
    if library not in _BUILT:
        _BUILT[library] = [
            Law([t], library.inputs, ["f"], "discrete", canonical=False).torch(trainable=False)
            for t in library.terms
        ]
    return _BUILT[library]
