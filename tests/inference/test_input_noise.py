"""Noise of measured inputs is no missing term, and a missing term is no noise of inputs."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import sjepa
from sjepa import Front, Law, Library
from sjepa.data import Trajectories
from sjepa.errors import NumericalWarning
from sjepa.inference.input_noise import weighed
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import shoot


STEP, NAMES = 0.05, ["x", "v"]
MATRIX = np.array([[0.0, 1.0, 0.0], [-1.0, -0.2, 1.0], [0.0, 0.0, 0.0]])  # of x, v and a constant u
ONE = expm(STEP * MATRIX)
LAW = Law.from_string(["v", "u1 - x - 0.2*v"], [*NAMES, "u1"], NAMES)


def driven(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """States of an oscillator under a zero-order hold, exactly, and its inputs with noise."""
    rng = np.random.default_rng(5)
    u = np.repeat(rng.normal(size=80), 10)
    x = [np.array([1.0, 0.0])]
    for value in u[:-1]:
        x.append((ONE @ [*x[-1], value])[:2])
    return np.array(x), u + noise * u.std() * rng.normal(size=len(u))


def segments(noise: float) -> tuple[Segments, Trajectories]:
    x, u = driven(noise)
    data = Trajectories.of(x, STEP, u, names=NAMES, states=True)
    return Segments.of(data, zoh=True), data


def found(x: np.ndarray, u: np.ndarray, library: list[str]) -> Front:
    terms = Library.from_terms(library, [*NAMES, "u1"])
    return sjepa.discover(x, STEP, u=u, feature_names=NAMES, library=terms)


def test_weights_are_those_of_what_noise_of_inputs_leaves() -> None:
    """Whitened by them, the covariance that the exact solution gives is that of equal noise."""
    plain, data = segments(0.02)
    weighted = weighed(plain, data, LAW, zoh=True)
    assert weighted.weights is not None
    steps = weighted.x.shape[1] - 1
    response = np.zeros((steps + 1, 2, steps))
    for h in range(steps):
        for k in range(h + 1, steps + 1):
            response[k, :, h] = ONE[:2, 2] if k == h + 1 else ONE[:2, :2] @ response[k - 1, :, h]
    deviation = 0.02 * driven(0.0)[1].std()
    b = deviation * (response / weighted.unit[:, None]).reshape(2 * (steps + 1), steps)
    white = weighted.weights[0] @ (b @ b.T + np.eye(len(b))) @ weighted.weights[0].T
    np.testing.assert_allclose(white, np.eye(len(b)), atol=0.25)  # its level is estimated
    assert (shoot(LAW, plain).residual ** 2).mean() > 20
    assert (shoot(LAW, weighted).residual ** 2).mean() < 1.1


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_clean_inputs_and_those_that_are_nothing_but_rough_have_no_weights(noise: float) -> None:
    plain, data = segments(noise)
    assert weighed(plain, data, LAW, zoh=True) is plain


def test_noise_that_states_have_more_of_changes_nothing() -> None:
    plain, data = segments(0.02)
    plain = replace(plain, unit=np.array([0.1, 0.1]))
    assert weighed(plain, data, LAW, zoh=True) is plain


def test_a_true_law_under_noisy_inputs_is_adequate() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        front = found(*driven(0.02), ["x", "v", "u1", "x**2", "x**3", "u1**2", "x*v"])
    assert [{str(t) for _, t in row} for row in front.best().terms] == [{"v"}, {"x", "v", "u1"}]
    assert front.verdict is not None and front.verdict.adequate is not False


def test_a_law_that_lacks_a_term_under_noisy_inputs_is_not() -> None:
    with pytest.warns(NumericalWarning):
        front = found(*driven(0.02), ["v", "u1", "x**3"])
    assert front.verdict is not None and front.verdict.adequate is False
