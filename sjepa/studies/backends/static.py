"""Data of the static problems, and how a formula found for one is scored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sjepa.studies.backends.problems import StaticProblem
from sjepa.symbolic import Law


ROWS = 500
# How far a recovered formula may be from the true one, as a share of its spread: rounding, or the
# noise that its numbers were fitted to.
EXACT, MAX_TOLERANCE = 1e-6, 0.01


def noisy_sample(problem: StaticProblem, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the search; `noise` is a share of the spread of y."""
    x, y = problem.sample(ROWS, seed)
    return x, y + noise * y.std() * np.random.default_rng([seed, 1]).normal(size=len(y))


def noise_floor(noise: float, rows: int) -> float:
    """The loss that the true formula reaches on so many noisy rows, in 39 of 40 draws."""
    return noise**2 / (1 + noise**2) * (1 + 2 * math.sqrt(2 / rows))


def recovered(law: Law, truth: Law, boxes: list[np.ndarray], tolerance: float = EXACT) -> bool:
    """SRBench's rule: not a constant, and equal to the truth up to a constant sum or factor.

    Compared by canonical form, otherwise by value in every one of the `boxes`, so that what only
    imitates the truth where the data are does not pass.
    """
    if law == truth:
        return True
    if not law.expressions[0].free_symbols:
        return False
    x = np.concatenate(boxes)
    values, true_values = law.numpy()(x)[:, 0], truth.numpy()(x)[:, 0]
    if not np.isfinite(values).all():
        return False
    offset = np.mean(true_values - values)
    factor = float(values @ true_values / max(values @ values, 1e-300))
    limits = []
    for box in boxes:
        f, t = law.numpy()(box)[:, 0], truth.numpy()(box)[:, 0]
        worst = tolerance * max(float(t.std()), 1e-300)
        limits.append([np.sqrt(np.mean(e**2)) <= worst for e in (t - f - offset, t - factor * f)])
    return bool(np.all(limits, axis=0).any())


def static_scores(law: Law, problem: StaticProblem, noise: float, seed: int) -> dict[str, Any]:
    """Recovery, and R² on exact values inside the box and in the shell around it."""
    (x, y), (far, beyond) = problem.sample(ROWS, seed), problem.sample(ROWS, seed + 1, beyond=True)
    tolerance = min(max(noise, EXACT), MAX_TOLERANCE)
    return {
        "recovered": recovered(law, problem.law, [x, far], tolerance),
        "r2": _r2(law, x, y),
        "r2_beyond": _r2(law, far, beyond),
    }


def _r2(law: Law, x: np.ndarray, y: np.ndarray) -> float:
    """Minus infinity where the formula is not defined on every row."""
    error = np.mean((law.numpy()(x)[:, 0] - y) ** 2)
    return float(1.0 - error / y.var()) if np.isfinite(error) else float("-inf")
