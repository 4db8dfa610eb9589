"""Bayesian SJEPA: uncertainty over laws, coefficients, noise and corrections, encoders fixed.

:func:`posterior` takes states, ``SJEPA.posterior`` takes observations; both return a
:class:`Posterior`.
"""

from sjepa.bayes.calibration import Calibration
from sjepa.bayes.draws import Draws
from sjepa.bayes.inference import posterior
from sjepa.bayes.prediction import Prediction, Rollout
from sjepa.bayes.prior import GP, Prior
from sjepa.bayes.result import Posterior


__all__ = [
    "GP",
    "Calibration",
    "Draws",
    "Posterior",
    "Prediction",
    "Prior",
    "Rollout",
    "posterior",
]
