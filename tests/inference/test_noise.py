"""The noise model: scales of the highest likelihood, correlation times and grids of readings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from sjepa.inference.constants import DEGREES_OF_FREEDOM, PRIOR_VALUES
from sjepa.inference.noise import correlation_time, profile, resolution


ONE = np.zeros(1, dtype=int)  # a single group


@pytest.mark.parametrize("kind", ["normal", "heavy", "outliers"])
def test_the_scale_is_that_of_the_highest_likelihood(kind: str) -> None:
    rng = np.random.default_rng(2)
    r = rng.standard_t(2, size=400) if kind == "heavy" else rng.normal(size=400)
    if kind == "outliers":
        r[:8] *= 50
    r = 0.37 * r
    found = profile(r[:, None, None], ONE)
    _, _, expected = stats.t.fit(r, f0=DEGREES_OF_FREEDOM, floc=0)
    assert found.scale[0, 0] == pytest.approx(expected, rel=2e-3)
    density = stats.t.logpdf(r, DEGREES_OF_FREEDOM, scale=found.scale[0, 0])
    assert found.total == pytest.approx(density.sum(), rel=1e-10)
    # The weights are those with which the score in the location is linear.
    ratio = r / found.scale[0, 0]
    by = 1e-5
    slope = (
        stats.t.logpdf(ratio + by, DEGREES_OF_FREEDOM)
        - stats.t.logpdf(ratio - by, DEGREES_OF_FREEDOM)
    ) / (2 * by)
    np.testing.assert_allclose(found.weight[:, 0, 0] * ratio, -slope, rtol=1e-5, atol=1e-8)


def test_every_channel_and_trajectory_has_a_scale_of_its_own() -> None:
    rng = np.random.default_rng(0)
    levels = np.array([[0.5, 3.0], [2.0, 1.0]])
    group = np.repeat([0, 1], 20)
    r = levels[group] * rng.normal(size=(400, 40, 2))
    found = profile(r, group)
    unit = profile(rng.normal(size=(1000, 40, 1)), np.zeros(40, dtype=int)).scale[0, 0]
    np.testing.assert_allclose(found.scale / unit, levels, rtol=0.06)
    each = stats.t.logpdf(r, DEGREES_OF_FREEDOM, scale=found.scale[group])
    np.testing.assert_allclose(found.log_likelihood, each.sum(axis=(0, 2)), rtol=1e-10)


def test_a_short_trajectory_borrows_its_level_from_the_others() -> None:
    """Three values at rest do not make a trajectory noiseless; thirty times as many do."""
    rng = np.random.default_rng(1)
    group = np.array([0] * 40 + [1])
    r = rng.normal(size=(3, 41, 1))
    r[:, -1] *= 1e-6
    short = profile(r, group).scale[:, 0]
    assert 0.3 < short[1] / short[0] < 1.0
    # The fixed point: variances average own values with as many of all as the prior counts.
    squares = profile(r, group)
    weighted = (squares.weight * r**2).sum(axis=(0, 2))
    own, pooled = weighted[-1], weighted.sum() / (3 * 41)
    assert short[1] ** 2 == pytest.approx(
        (own + PRIOR_VALUES * pooled) / (3 + PRIOR_VALUES), rel=1e-3
    )
    long = rng.normal(size=(900, 2, 1)) * np.array([1.0, 1e-2])[:, None]
    assert profile(long, np.array([0, 1])).scale[1, 0] < 0.2


def test_no_scale_goes_below_the_floor() -> None:
    assert profile(np.zeros((50, 1, 2)), ONE, np.array([1e-3, 2e-3])).scale.tolist() == [
        [1e-3, 2e-3]
    ]
    exact = profile(np.zeros((50, 1, 1)), ONE)
    assert np.isfinite(exact.total) and exact.scale[0, 0] > 0


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_scales_follow_the_unit_of_the_residuals(unit: float) -> None:
    r = np.random.default_rng(5).normal(size=(50, 4, 2))
    group = np.array([0, 0, 1, 1])
    one, other = profile(r, group), profile(unit * r, group)
    np.testing.assert_allclose(other.scale, unit * one.scale, rtol=1e-9)
    assert other.total == pytest.approx(one.total - r.size * np.log(unit), rel=1e-9)


def test_scales_are_maxima_where_most_residuals_are_nearly_zero() -> None:
    """A start at the median would be far away: the fixed point must still be reached."""
    rng = np.random.default_rng(7)
    r = np.where(rng.uniform(size=600) < 0.55, 1e-6, 1.0) * rng.normal(size=600)
    found = profile(r[:, None, None], ONE)
    best = minimize_scalar(
        lambda s: -stats.t.logpdf(r, DEGREES_OF_FREEDOM, scale=np.exp(s)).sum(),
        bracket=(-15, -5), tol=1e-10,
    )  # fmt: skip
    assert found.total == pytest.approx(-best.fun, abs=0.5)


def ar1(rho: float, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=shape)
    for k in range(1, shape[0]):
        z[k] = rho * z[k - 1] + np.sqrt(1 - rho**2) * z[k]
    return z[..., None]


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.9])
def test_the_correlation_time_of_an_autoregression(rho: float) -> None:
    times = [correlation_time(ar1(rho, (400, 20), seed)) for seed in range(5)]
    assert np.mean(times) == pytest.approx((1 + rho) / (1 - rho), rel=0.15)


def test_outliers_do_not_hide_a_correlation_and_alternation_is_no_gain() -> None:
    r = ar1(0.8, (400, 20))
    r[np.random.default_rng(1).uniform(size=r.shape) < 0.005] = 1e6
    assert correlation_time(r) == pytest.approx(9.0, rel=0.3)
    assert correlation_time(ar1(-0.6, (400, 20))) == 1.0
    assert correlation_time(np.zeros((50, 3, 1))) == 1.0
    assert correlation_time(np.ones((3, 3, 1))) == 1.0


def test_the_last_digit_of_rounded_readings() -> None:
    x = np.random.default_rng(0).normal(size=(800, 2))
    x[:, 0] = np.round(x[:, 0] / 0.05) * 0.05
    np.testing.assert_allclose(resolution([x[:500], x[500:]]), [0.05, 0.0], atol=1e-12)
    assert resolution([np.full((50, 1), 3.0)]).tolist() == [0.0]  # constant: no grid to tell
