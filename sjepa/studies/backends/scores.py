"""How close a found law is to the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from sjepa.data import Trajectories
from sjepa.models import integrate
from sjepa.symbolic import Law


# A prediction counts as valid while its error stays below this share of the states' spread.
VALID = 0.4
# Coefficients may be off by this share in a law that counts as recovered.
COEFFICIENTS = 0.1


@dataclass(frozen=True)
class Match:
    """Terms in common, counted as pairs of output and term."""

    recovered: bool
    precision: float
    recall: float


def match(law: Law, truth: Law, tolerance: float = COEFFICIENTS) -> Match:
    """Compare structures; `recovered` also asks for coefficients within `tolerance`."""
    found = {(j, term): c for j, pairs in enumerate(law.terms) for c, term in pairs}
    wanted = {(j, term): c for j, pairs in enumerate(truth.terms) for c, term in pairs}
    common = found.keys() & wanted.keys()
    close = all(abs(found[k] - wanted[k]) <= tolerance * abs(wanted[k]) for k in common)
    return Match(
        recovered=found.keys() == wanted.keys() and close,
        precision=len(common) / len(found) if found else 0.0,
        recall=len(common) / len(wanted),
    )


def field_error(law: Law, truth: Law, inputs: np.ndarray) -> float:
    """Root mean square error of the derivative over its own root mean square."""
    expected = truth.numpy()(inputs)
    error = law.numpy()(inputs) - expected
    if not np.isfinite(error).all():
        return float("inf")
    scale = np.sqrt(np.mean(expected**2, axis=0))
    return float(np.sqrt(np.mean((error / np.maximum(scale, 1e-300)) ** 2)))


def valid_time(law: Law, test: Trajectories, threshold: float = VALID) -> float:
    """Mean share of each test trajectory that a simulation from its start follows."""
    spread = np.concatenate(test.x).std(axis=0)
    run = law.numpy()
    shares = []
    for i, (x, t) in enumerate(zip(test.x, test.t, strict=True)):
        # Smooth between samples: a kink in the input would make the solver crawl.
        action = None if test.u is None else CubicSpline(t, test.u[i])

        def field(time: float, z: np.ndarray, action: CubicSpline | None = action) -> np.ndarray:
            return run(z if action is None else np.concatenate([z, action(time)]))

        path = integrate(field, x[0], t, max_seconds=5.0, max_evaluations=20_000).z
        error = np.sqrt(np.mean(((path - x) / spread) ** 2, axis=1))
        wrong = np.flatnonzero(~(error <= threshold))
        last = t[wrong[0] - 1] if len(wrong) and wrong[0] else t[0] if len(wrong) else t[-1]
        shares.append((last - t[0]) / (t[-1] - t[0]))
    return float(np.mean(shares))
