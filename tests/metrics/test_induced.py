"""C_dyn of encoders of the same data, with proof."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.metrics.induced import induced_complexity
from sjepa.symbolic import Grammar, Library
from tests.training.joint.shortcut_data import pendulum_states


NAMES = ["z1", "z2"]
LIBRARY = Library.paper(NAMES) + Library.polynomial(NAMES, 3)


@pytest.fixture(scope="module")
def pendulum() -> Trajectories:
    return Trajectories(list(pendulum_states(12, 120, 0.05)), 0.05)


def rotated_and_warped(s: np.ndarray) -> np.ndarray:
    turn = np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    y = s @ turn
    return np.stack([y[:, 0] + 0.15 * y[:, 1] ** 2, y[:, 1]], axis=1)


def random_projection(s: np.ndarray) -> np.ndarray:
    q, p = s.T
    features = np.stack([q, p, np.sin(2 * q), q * p, p**2, np.cos(q), np.tanh(p)], axis=1)
    return features @ np.random.default_rng(0).normal(size=(7, 2)) / math.sqrt(7)


def test_the_true_state_is_simpler_than_a_warped_one_than_a_random_projection(
    pendulum: Trajectories,
) -> None:
    delta = 0.02
    found = [
        induced_complexity(e, pendulum, LIBRARY, delta)
        for e in (None, rotated_and_warped, random_projection)
    ]
    assert all(f.certificate == "exact" for f in found)
    assert found[0].value == 3.0 < found[1].value < found[2].value
    assert math.isfinite(found[1].value)
    assert found[0].law is not None and "sin(z1)" in str(found[0].law)


def test_the_curve_falls_and_answers_for_other_tolerances(pendulum: Trajectories) -> None:
    found = induced_complexity(rotated_and_warped, pendulum, LIBRARY, 0.02)
    curve = found.curve
    assert curve["delta"].is_monotonic_decreasing and curve["complexity"].is_monotonic_increasing
    assert found.at(0.02) == found.value and found.at(0.5) < found.value
    assert found.at(1e-9) == math.inf


def test_auto_finds_the_exact_law_of_the_state(pendulum: Trajectories) -> None:
    found = induced_complexity(None, pendulum, LIBRARY)
    assert found.value == 3.0 and found.delta < 1e-3
    np.testing.assert_allclose(np.abs(found.law.coefficients), 1.0, rtol=1e-3)


def test_a_frozen_module_is_an_encoder(pendulum: Trajectories) -> None:
    module = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    found = induced_complexity(module, pendulum, LIBRARY, 1e-4)
    assert found.value == 3.0 and "sin(z2)" in str(found.law)


def test_a_grammar_gives_an_upper_bound(pendulum: Trajectories) -> None:
    grammar = Grammar(["+", "-", "*", "sin"], NAMES)
    found = induced_complexity(None, pendulum, grammar, 1e-4)
    assert found.certificate == "upper bound" and math.isfinite(found.value)


def test_what_does_not_fit_is_refused(pendulum: Trajectories) -> None:
    with pytest.raises(DataError, match="2 coordinates"):
        induced_complexity(lambda x: x[:, :1], pendulum, LIBRARY)
    with pytest.raises(ConfigError, match="positive"):
        induced_complexity(None, pendulum, LIBRARY, -1.0)
