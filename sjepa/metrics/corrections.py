"""What the neural correction does, and whether it is what the law left out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.metrics.arrays import as_array, as_rows


def correction_ratio(correction: Any, total: Any, eta: float = 1e-12) -> float:
    """ρ_corr = E|c|² / (E|F + c|² + η): reliance on the correction.

    Both (..., d), at the same states and before the factor Δt. Not a fraction: the parts need
    not be orthogonal, so it can exceed 1. Low is good only if the prediction is good as well.
    """
    energy = (as_rows(correction) ** 2).sum(-1).mean()
    return float(energy / ((as_rows(total) ** 2).sum(-1).mean() + eta))


@dataclass(frozen=True)
class CorrectionRecovery:
    """The scale a* fitted on training data; correlation and calibrated R² on test data."""

    scale: float
    correlation: float
    r2: float


def correction_recovery(c_train: Any, r_train: Any, c_test: Any, r_test: Any) -> CorrectionRecovery:
    """Does one coordinate of the correction, up to a factor, equal the residual r of the law?

    a* = argmin E_train (r - a c)², without an offset; then R² of a* c_test against r_test. The
    correlation of a constant is NaN.
    """
    c_train, r_train, c_test, r_test = (
        as_array(x).ravel() for x in (c_train, r_train, c_test, r_test)
    )
    energy = c_train @ c_train
    scale = float(c_train @ r_train / energy) if energy > 0 else 0.0
    centred = r_test - r_test.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        score = 1.0 - ((r_test - scale * c_test) ** 2).sum() / (centred @ centred)
        correlation = np.corrcoef(c_test, r_test)[0, 1]
    return CorrectionRecovery(scale, float(correlation), float(score))
