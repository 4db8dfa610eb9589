"""Noise of measured actions is no missing term, and a missing term is no noise of actions."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import sjepa
from sjepa import Law, Library
from sjepa.data import Trajectories
from sjepa.errors import NumericalWarning
from sjepa.models.free_runs import free_run
from sjepa.models.noisy_actions import weighed
from sjepa.models.stretches import Stretches


STEP, NAMES = 0.05, ["x", "v"]
MATRIX = np.array([[0.0, 1.0, 0.0], [-1.0, -0.2, 1.0], [0.0, 0.0, 0.0]])  # of x, v and a held u
ONE = expm(STEP * MATRIX)
LAW = Law.from_string(["v", "u1 - x - 0.2*v"], [*NAMES, "u1"], NAMES)


def held(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """States of a driven oscillator, exactly, and its actions with noise."""
    rng = np.random.default_rng(5)
    u = np.repeat(rng.normal(size=80), 10)
    x = [np.array([1.0, 0.0])]
    for value in u[:-1]:
        x.append((ONE @ [*x[-1], value])[:2])
    return np.array(x), u + noise * u.std() * rng.normal(size=len(u))


def doubts(x: np.ndarray, u: np.ndarray, library: list[str]) -> tuple[Law, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumericalWarning)
        terms = Library.from_terms(library, [*NAMES, "u1"])
        front = sjepa.discover(x, STEP, u=u, feature_names=NAMES, library=terms)
    return front.best(), [str(w.message) for w in caught]


def test_weights_are_those_of_what_noise_of_actions_leaves() -> None:
    """Whitened by them, the covariance that the exact solution gives is that of equal noise."""
    x, u = held(0.02)
    data = Trajectories.of(x, STEP, u, names=NAMES, states=True)
    plain = Stretches.of(data, held=True)
    found = weighed(plain, data, LAW, held=True)
    assert found.weights is not None
    steps = found.x.shape[1] - 1
    response = np.zeros((steps + 1, 2, steps))
    for h in range(steps):
        for k in range(h + 1, steps + 1):
            pushed = ONE[:2, 2] if k == h + 1 else ONE[:2, :2] @ response[k - 1, :, h]
            response[k, :, h] = pushed
    b = 0.02 * u.std() * (response / found.unit[:, None]).reshape(2 * (steps + 1), steps)
    white = found.weights[0] @ (b @ b.T + np.eye(len(b))) @ found.weights[0].T
    np.testing.assert_allclose(white, np.eye(len(b)), atol=0.25)  # its level is estimated
    assert free_run(LAW, plain).errors.mean() > 20
    assert free_run(LAW, found).errors.mean() < 1.1


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_clean_actions_and_those_that_are_nothing_but_rough_have_no_weights(noise: float) -> None:
    x, u = held(noise)
    data = Trajectories.of(x, STEP, u, names=NAMES, states=True)
    plain = Stretches.of(data, held=True)
    assert weighed(plain, data, LAW, held=True) is plain


def test_noise_that_states_have_more_of_changes_nothing() -> None:
    x, u = held(0.02)
    data = Trajectories.of(x, STEP, u, names=NAMES, states=True)
    plain = replace(Stretches.of(data, held=True), unit=np.array([0.1, 0.1]))
    assert weighed(plain, data, LAW, held=True) is plain


def test_a_true_law_under_noisy_actions_is_not_doubted_and_a_lacking_one_is() -> None:
    x, u = held(0.02)
    law, words = doubts(x, u, ["x", "v", "u1", "x**2", "x**3", "u1**2", "x*v"])
    assert [{str(t) for _, t in row} for row in law.terms] == [{"v"}, {"x", "v", "u1"}]
    assert not words
    assert any("miss the data" in w for w in doubts(x, u, ["v", "u1", "x**3"])[1])
