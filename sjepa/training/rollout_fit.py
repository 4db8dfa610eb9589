"""Final fit of the coefficients of a law: an unpenalized fit to rollouts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sjepa.data import windows
from sjepa.models.transition import Transition
from sjepa.symbolic import Law
from sjepa.symbolic.law_methods import order_of


def refine(
    law: Law,
    z: Tensor,
    dt: Tensor,
    *,
    integrator: str = "rk4",
    horizon: int = 10,
    mask: Tensor | None = None,
    u: Tensor | None = None,
    max_windows: int = 2000,
    iterations: int = 20,
    free: Sequence[bool] | None = None,
    prune: float = 0.0,
) -> Law:
    """Gauss-Newton (Levenberg-Marquardt) on the errors of rollouts, without any penalty.

    The structure stays, apart from terms that end smaller than `prune`, which are left out and
    the others fitted again; every term gets a free multiplier, unless `free` says which of the
    law's coefficients may move. Works in double precision on up to `max_windows` segments of
    `horizon` steps, evenly spread over states z (B, T, d) with steps dt (B, T - 1); a state has
    velocities where the law is one of second order. Actions `u` (B, T, m) are held during each
    step. A law without numbers, or one that no step improves, comes back as it is.
    """
    start = law.with_free_terms() if free is None else law
    moving = torch.ones(len(start.coefficients), dtype=torch.bool)
    if free is not None:
        moving &= torch.tensor(free, dtype=torch.bool)
    if not moving.any():
        return law
    z, dt = z.detach().double().cpu(), dt.detach().double().cpu()
    horizon = min(horizon, dt.shape[1])
    actions = None if u is None else u.detach().double().cpu()
    cut = windows(z, dt, horizon, mask=None if mask is None else mask.cpu(), u=actions)
    every = max(1, int(cut.valid.sum()) // max_windows)
    paths, steps = cut.z[cut.valid][::every], cut.dt[cut.valid][::every]
    held = None if cut.u is None else cut.u[cut.valid][::every]
    module = start.torch(trainable=False, dtype=torch.float64)
    transition = Transition(module, None, law.dynamics, integrator, order_of(law))
    numbers = module.coefficients.detach().clone()
    where = moving.nonzero()[:, 0]

    def errors(coefficients: Tensor) -> Tensor:
        all_of_them = {"symbolic.coefficients": numbers.index_copy(0, where, coefficients)}
        state, out = paths[:, 0], []
        for h in range(horizon):
            given = (state, steps[:, h, None], None if held is None else held[:, h])
            state = torch.func.functional_call(transition, all_of_them, given)
            out.append(state - paths[:, h + 1])
        return torch.stack(out).flatten()

    jacobian = torch.func.jacfwd(errors)
    best = numbers[where]
    residual = errors(best)
    loss, damping = residual.square().mean(), 1e-3
    for _ in range(iterations):
        if not loss.isfinite():
            return law
        j = jacobian(best)
        normal, slope = j.T @ j, j.T @ residual
        improved = False
        for _ in range(8):
            scaled = normal + damping * torch.diag(normal.diagonal().clamp(min=1e-12))
            # Not the default driver: gelsy starts from memory that nobody has set, so that a
            # nearly singular matrix gives another answer every time (pytorch issue 71222).
            move = torch.linalg.lstsq(scaled, slope.unsqueeze(1), driver="gelsd").solution
            trial = best - move.squeeze(1)
            moved = errors(trial)
            if (value := moved.square().mean()) < loss:
                gain = 1.0 - float(value / loss)
                best, residual, loss, improved = trial, moved, value, True
                damping = max(damping / 10, 1e-12)
                break
            damping *= 10
        if not improved or gain < 1e-9:
            break
    found = start.with_coefficients(numbers.index_copy(0, where, best).numpy())
    fewer = found.threshold(prune)
    if not prune or len(fewer.with_free_terms().coefficients) == len(start.coefficients):
        return found
    return refine(
        fewer, z, dt, integrator=integrator, horizon=horizon, mask=mask, u=u,
        max_windows=max_windows, iterations=iterations, prune=prune,
    )  # fmt: skip
