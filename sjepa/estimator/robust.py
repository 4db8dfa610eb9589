"""Losses that do not square large errors, as weights of the rows (iteratively reweighted fits)."""

from __future__ import annotations

import numpy as np

from sjepa.symbolic import Law


LOSSES = ("squared", "huber", "absolute")
# Fits after the first; the weights hardly change from then on.
ROUNDS = 3
# Huber's threshold in standard deviations: 5 % of the information lost where noise is normal.
HUBER = 1.345
# Absolute errors below this share of the typical one weigh no more.
SMALL = 0.05


def row_weights(loss: str, law: Law, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Weights (n,), 1 on average at most, under which squared errors of a law are the loss.

    Errors are in units of their median absolute deviation, the largest of all targets.
    """
    with np.errstate(all="ignore"):
        error = np.abs(targets - law.numpy()(inputs))
    error = np.where(np.isfinite(error), error, np.inf)
    typical = 1.4826 * np.median(error, axis=0)
    # An exact law has no typical error: whatever it misses is an outlier.
    floor = 1e-9 * np.maximum(np.abs(targets).max(axis=0), 1e-300)
    z = (error / np.maximum(typical, floor)).max(axis=1)
    if loss == "huber":
        return np.asarray(np.minimum(1.0, HUBER / np.maximum(z, HUBER)))
    weights = 1.0 / np.maximum(z, SMALL)
    return np.asarray(weights / weights.mean())
