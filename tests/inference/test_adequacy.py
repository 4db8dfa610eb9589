"""Tests of adequacy: p-values uniform under the truth, and power where a term is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sjepa.inference.adequacy import Blocks, predictability, whiteness
from sjepa.inference.constants import MIN_BLOCKS
from sjepa.inference.corrections import bumps, covered


def regression(
    seed: int, missing: float = 0.0, noise: str = "white", count: int = 24, n: int = 30
) -> Blocks:
    """Blocks of y = 2 - x + noise, and of what a quadratic term would add to it.

    The law has an intercept and a slope; the correction is a sum of bumps of x.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(count, n))
    e = rng.standard_t(3, size=x.shape) if noise == "heavy" else rng.normal(size=x.shape)
    if noise == "correlated":
        for k in range(1, n):
            e[:, k] = 0.8 * e[:, k - 1] + 0.6 * e[:, k]
    if noise == "levels":
        e *= np.geomspace(0.3, 3, count)[:, None]
    if noise == "multiplicative":
        e *= np.abs(x)
    y = 2 - x + missing * x**2 + e
    law = np.stack([np.ones_like(x), x], axis=2)
    c = np.linalg.lstsq(law.reshape(-1, 2), y.ravel(), rcond=None)[0]
    columns = np.concatenate([law, bumps(x.reshape(-1, 1))(x[..., None])], axis=2)
    across = columns.transpose(0, 2, 1)
    score = (across @ (y - law @ c)[..., None])[..., 0]
    return Blocks(across @ columns, score, np.arange(count) % 2, 2)


NOISES = ["white", "heavy", "correlated", "levels", "multiplicative"]


def test_p_values_of_the_truth_are_uniform() -> None:
    """Whatever the noise, as long as blocks are independent."""
    found = [predictability(regression(s, noise=noise)) for noise in NOISES for s in range(100)]
    p = np.array(found, dtype=float)
    assert 0.002 <= (p < 0.01).mean() <= 0.03
    assert 0.06 <= (p < 0.1).mean() <= 0.15
    assert stats.kstest(p, "uniform").statistic < 0.1


@pytest.mark.parametrize("noise", NOISES)
def test_a_missing_smooth_term_is_predicted(noise: str) -> None:
    p = np.array([predictability(regression(s, 1.0, noise)) for s in range(10)], dtype=float)
    assert (p < 0.01).mean() >= 0.9


def test_a_missing_term_below_the_noise_is_found_with_more_data() -> None:
    few, many = (
        np.array([predictability(regression(s, 0.15, count=c)) for s in range(11)], dtype=float)
        for c in (12, 120)
    )
    assert np.median(many) < 1e-3 < np.median(few)


def test_units_of_the_residuals_do_not_matter() -> None:
    one = regression(3)
    units = np.concatenate([[1e-7, 1e5], np.ones(one.score.shape[1] - 2)])
    scaled = Blocks(one.information * np.outer(units, units), one.score * units, one.half, one.p)
    louder = Blocks(one.information, 1e9 * one.score, one.half, one.p)
    for other in (scaled, louder):
        assert predictability(other) == pytest.approx(predictability(one), rel=1e-5)


def test_too_few_blocks_are_no_answer() -> None:
    assert predictability(regression(0, count=2 * MIN_BLOCKS - 1)) is None
    assert predictability(regression(0, count=2 * MIN_BLOCKS)) is not None
    one = regression(0)
    assert predictability(one._replace(half=np.zeros(24, dtype=int))) is None


def autoregression(
    rho: float, shape: tuple[int, int], seed: int, heavy: bool = False
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    e = rng.standard_t(3, size=shape) if heavy else rng.normal(size=shape)
    for k in range(1, shape[0]):
        e[k] = rho * e[k - 1] + np.sqrt(1 - rho**2) * e[k]
    return e[..., None]


def fitted(residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals less a straight line for each segment, and the derivatives by its two numbers.

    Lines are of the highest likelihood of a Student's distribution, as simulations are.
    """
    n, count, _ = residual.shape
    line = np.stack([np.ones(n), np.linspace(-1, 1, n)], axis=1)
    y, weight = residual[..., 0].T, np.ones((count, n))
    for _ in range(15):
        across = line.T * weight[:, None]  # (S, 2, n)
        c = np.linalg.solve(across @ line, across @ y[..., None])
        left = y - (line @ c)[..., 0]
        scale = (weight * left**2).mean(axis=1, keepdims=True)
        weight = 5 / (4 + left**2 / scale)
    return left.T[..., None], np.repeat(line[:, None, None], count, axis=1)


@pytest.mark.parametrize(("rho", "heavy"), [(0.0, False), (0.5, False), (0.0, True), (0.5, True)])
def test_noise_with_a_memory_of_one_step_passes_as_white(rho: float, heavy: bool) -> None:
    p = np.array(
        [whiteness(*fitted(autoregression(rho, (60, 8), s, heavy))) for s in range(300)],
        dtype=float,
    )
    assert (p < 0.01).mean() <= 0.03
    assert 0.05 < (p < 0.1).mean() < 0.16


def test_levels_and_outliers_do_not_matter_to_signs() -> None:
    rng = np.random.default_rng(0)
    p = []
    for seed in range(100):
        r = autoregression(0.0, (60, 8), seed) * np.geomspace(0.1, 10, 8)[:, None]
        r[rng.uniform(size=r.shape) < 0.01] *= 10
        p.append(whiteness(*fitted(r)))
    assert (np.array(p, dtype=float) < 0.01).mean() <= 0.04


def test_slow_residuals_are_not_white() -> None:
    slow = 1.5 * np.sin(np.linspace(0, 9, 60))[:, None, None]
    p = [whiteness(*fitted(autoregression(0.0, (60, 8), s) + slow)) for s in range(30)]
    assert (np.array(p, dtype=float) < 0.01).mean() >= 0.9


def test_too_few_residuals_are_no_answer() -> None:
    assert whiteness(*fitted(autoregression(0.0, (12, 100), 0))) is None
    assert whiteness(*fitted(autoregression(0.0, (15, 2), 0))) is None


def test_bumps_are_gaussian_and_do_not_depend_on_units() -> None:
    points = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    units = np.array([1e6, 1e-6])
    one, other = bumps(points)(points), bumps(points * units)(points * units)
    np.testing.assert_allclose(other, one, rtol=1e-9)
    assert one.max() == 1.0 and one.min() >= 0.0  # 1 at a center, and centers are points
    # Any smooth function is a sum of them.
    y = np.sin(points[:, 0]) + points[:, 0] * points[:, 1]
    left = y - one @ np.linalg.lstsq(one, y, rcond=1e-6)[0]
    assert left.var() < 0.05 * y.var()


def test_halves_cover_each_other_where_the_path_returns() -> None:
    angle = np.linspace(0, 40, 800).reshape(20, 40).T  # (n, S): segments in turn
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=2)
    half = np.arange(20) % 2
    assert covered(circle, half)
    transient = np.stack([angle, np.exp(-angle)], axis=2)
    assert not covered(transient, (np.arange(20) >= 10).astype(int))
    assert not covered(circle, np.zeros(20, dtype=int))
    rows = circle.reshape(1, -1, 2)  # each its own group
    assert covered(rows, np.arange(rows.shape[1]) // 40 % 2)
