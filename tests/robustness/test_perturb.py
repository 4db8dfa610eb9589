"""Rounding decides nothing: a law stays what it is when solvers err in their last digits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa.data import simulate
from tests.robustness.perturb import install, perturb


def test_noise_has_its_size_and_is_repeatable() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    x[0] = 0.0
    noise = perturb(x, 1e-6)[1:] / x[1:] - 1
    assert 0.5e-6 < np.abs(noise).max() <= 1.001e-6
    assert 0.5e-6 < noise.std() < 0.9e-6  # a sine at random places has 0.71
    assert np.array_equal(perturb(x, 1e-6), perturb(x, 1e-6)) and perturb(x, 1e-6)[0] == 0


@pytest.mark.parametrize(
    "system, noise", [("lorenz", 0.0), ("damped_pendulum", 0.0), ("damped_pendulum", 0.02)]
)
def test_a_law_survives_noise_in_every_least_squares_solution(
    system: str, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = simulate(system, seed=0, noise=noise)
    law = sjepa.discover(data).best()
    asked: list[str] = []

    def put(module: Any, name: str, solver: Callable[..., Any]) -> None:
        def counted(*args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return solver(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    install(1e-12, put)
    perturbed = sjepa.discover(data).best()
    assert str(perturbed.round(4)) == str(law.round(4))
    assert asked  # noise came in
