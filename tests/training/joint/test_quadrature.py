"""Integrals along irregular samples, and differences that forget where a trajectory began."""

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories
from sjepa.training.joint.quadrature import cumulative, difference, interval_weights
from sjepa.training.joint.whitened_trajectories import pieces, sampling_grid


def irregular(n: int, seed: int = 0) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).uniform(0.02, 0.08, n))


@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_cubics_are_integrated_exactly_on_any_grid(power: int) -> None:
    t = irregular(30)
    weights = torch.tensor(interval_weights(t))[None]
    integral = cumulative(torch.tensor(t**power)[None], weights)[0].numpy()
    exact = (t ** (power + 1) - t[0] ** (power + 1)) / (power + 1)
    np.testing.assert_allclose(integral, exact, rtol=1e-10, atol=1e-13)


def test_the_rule_is_of_fourth_order() -> None:
    def error(n: int) -> float:
        t = np.linspace(0.0, 3.0, n)
        weights = torch.tensor(interval_weights(t))[None]
        found = cumulative(torch.tensor(np.cos(t))[None], weights)[0].numpy()
        return float(np.abs(found - np.sin(t)).max())

    # Halving the step divides a fourth-order error by 16.
    assert error(41) / error(81) == pytest.approx(16, rel=0.2)


def test_three_points_fall_back_to_the_trapezium() -> None:
    t = np.array([0.0, 1.0, 3.0])
    integral = cumulative(torch.tensor(t)[None], torch.tensor(interval_weights(t))[None])
    np.testing.assert_allclose(integral[0], t**2 / 2)


def test_padding_does_not_enter_the_integral_of_a_short_trajectory() -> None:
    t = irregular(12)
    both = Trajectories([np.exp(t)[:, None], np.exp(t[:7])[:, None]], [t, t[:7]])
    grid = sampling_grid(both)
    x = torch.tensor(both.padded()["x"][..., 0])
    integral = cumulative(x, grid.weights)
    exact = np.exp(t) - np.exp(t[0])
    # Fifth-order error of steps of at most 0.08 over a total of 1.
    np.testing.assert_allclose(integral[0], exact, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(integral[1, :6], exact[:6], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(integral[1, 6], exact[6], rtol=1e-3)


@pytest.mark.parametrize("order", [1, 2])
def test_differences_ignore_start_and_velocity(order: int) -> None:
    t = torch.tensor(irregular(20))[None]
    values = torch.sin(t)
    start = 3.0 + (2.0 * t if order == 2 else 0.0)
    torch.testing.assert_close(
        difference(values + start, t, 4, order), difference(values, t, 4, order)
    )


def test_pieces_keep_every_sample_of_long_trajectories_once() -> None:
    data = Trajectories([np.arange(23.0)[:, None]], 0.1)
    cut = pieces(data, 8)
    assert [len(x) for x in cut.x] == [8, 8, 7]
    np.testing.assert_array_equal(np.concatenate(cut.x)[:, 0], np.arange(23.0))
    assert len(pieces(data, 8, every=3).x[0]) == 8
