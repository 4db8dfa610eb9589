"""Derivatives against closed forms: order of accuracy, irregular time, noise, and edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.interpolate import make_smoothing_spline
from scipy.signal import savgol_coeffs

from sjepa.data import Trajectories, differentiate, noise_level
from sjepa.data.derivatives import slope_error
from sjepa.data.local_fit import local_polynomial
from sjepa.errors import DataError


def times(kind: str, n: int, span: float = 20.0, seed: int = 0) -> np.ndarray:
    steps = np.ones(n - 1)
    if kind == "irregular":
        steps = np.random.default_rng(seed).choice([0.025, 0.04, 0.06], size=n - 1)
    t = np.concatenate([[0.0], np.cumsum(steps)])
    return span * t / t[-1]


def waves(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = np.stack([np.sin(t), 3 * np.cos(1.7 * t) + 0.5 * np.sin(3.1 * t)], axis=1)
    dx = np.stack([np.cos(t), -5.1 * np.sin(1.7 * t) + 1.55 * np.cos(3.1 * t)], axis=1)
    return x, dx


GRIDS = ["regular", "irregular"]


@settings(deadline=None, max_examples=50)
@given(
    degree=st.integers(1, 6),
    half=st.integers(1, 6),
    n=st.integers(2, 30),
    seed=st.integers(0, 1000),
    regular=st.booleans(),
)
def test_polynomials_are_differentiated_exactly_on_any_grid(
    degree: int, half: int, n: int, seed: int, regular: bool
) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(n) * 0.3 if regular else np.cumsum(rng.uniform(0.2, 1.0, size=n))
    degree = min(degree, 2 * half, n - 1)
    p = np.polynomial.Polynomial(rng.normal(size=degree + 1), domain=[t[0], t[-1]])
    fit = local_polynomial(t, p(t)[:, None], half, degree)
    # Rounding, amplified by windows that had to be shifted.
    np.testing.assert_allclose(fit.value[:, 0], p(t), atol=1e-8)
    np.testing.assert_allclose(fit.slope[:, 0], p.deriv()(t), atol=1e-7)


def test_long_trajectories_are_differentiated_piece_by_piece_without_seams() -> None:
    t = 0.01 * np.arange(9_000)
    fit = local_polynomial(t, np.sin(t)[:, None], 3, 6)
    np.testing.assert_allclose(fit.value[:, 0], np.sin(t), atol=1e-12)
    np.testing.assert_allclose(fit.slope[:, 0], np.cos(t), atol=1e-10)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("order", [2, 4, 6])
def test_finite_differences_have_the_order_they_promise(grid: str, order: int) -> None:
    errors = []
    for n in (201, 401):
        t = times(grid, n)
        x, dx = waves(t)
        got = differentiate(Trajectories(x, t), "finite_difference", order=order)
        assert all(v.all() for v in got.valid)
        errors.append(np.sqrt(((got.x_dot[0] - dx)[5:-5] ** 2).mean()))
    # Half the step: the error falls by 2**order; irregular grids differ between the two runs.
    assert np.log2(errors[0] / errors[1]) > order - (0.2 if grid == "regular" else 0.8)


def test_the_gain_is_the_noise_that_comes_out() -> None:
    t = times("irregular", 101)
    noise = np.random.default_rng(0).normal(size=(101, 4000))
    fit = local_polynomial(t, noise, 6, 4)
    # 4,000 draws: the standard deviation is known to about one percent.
    np.testing.assert_allclose(fit.slope.std(axis=1), fit.slope_gain, rtol=0.06)


def test_an_unweighted_window_through_all_points_is_scipys() -> None:
    t = np.arange(20.0)
    impulse = np.zeros((20, 1))
    impulse[10] = 1.0
    fit = local_polynomial(t, impulse, 2, 4)
    weights = savgol_coeffs(5, 4, deriv=1, use="dot")
    np.testing.assert_allclose(fit.slope[8:13, 0], weights[::-1], atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    sigma=st.floats(1e-5, 0.3),
    grid=st.sampled_from(GRIDS),
    seed=st.integers(0, 10_000),
)
def test_the_noise_level_is_found_without_knowing_the_signal(
    sigma: float, grid: str, seed: int
) -> None:
    t = times(grid, 600)
    x, _ = waves(t)
    x = x + sigma * np.random.default_rng(seed).normal(size=x.shape)
    # 600 points and a median: a standard error of about five percent, and the smallest of six.
    np.testing.assert_allclose(noise_level(x, t), sigma, rtol=0.3)


def test_clean_signals_have_almost_no_noise_and_outliers_do_not_count() -> None:
    t = times("regular", 400)
    x, _ = waves(t)
    assert (noise_level(x, t) < 1e-8).all()
    noisy = x + 0.01 * np.random.default_rng(0).normal(size=x.shape)
    noisy[::40] += 5.0
    np.testing.assert_allclose(noise_level(noisy, t), 0.01, rtol=0.6)


def test_uneven_noise_is_judged_by_its_mean_square_where_that_is_asked_for() -> None:
    t = times("regular", 4000)
    x, _ = waves(t)
    size = 0.01 * np.where(np.arange(4000) % 400 < 80, 5.0, 0.2)[:, None]  # a fifth of the time
    noisy = x + size * np.random.default_rng(0).normal(size=x.shape)
    true = np.sqrt(np.square(size).mean())
    np.testing.assert_allclose(noise_level(noisy, t, mean_square=True), true, rtol=0.1)
    assert (noise_level(noisy, t) < 0.2 * true).all()


def test_rounded_readings_are_noisy_even_if_most_neighbors_are_equal() -> None:
    t = times("regular", 400)
    coarse = np.round(np.sin(0.2 * t), 1)[:, None]
    # The textbook value for a resolution of 0.1.
    np.testing.assert_allclose(noise_level(coarse, t), 0.1 / np.sqrt(12))


def test_too_few_points_tell_nothing_about_noise() -> None:
    assert noise_level(np.zeros((4, 2)), np.arange(4.0)).tolist() == [0.0, 0.0]


# Relative error of the derivative (root mean square over its spread) that "auto" reaches with 400
# points over 20 time units. Measured: 2e-10, 2.9e-4, 2e-3, 1.5e-2, 4.4e-2 on the regular grid
# and up to 1.3 times that on the irregular one; finite differences at the last three: 0.025,
# 0.25, 1.2.
ACCURACY = {0.0: 1e-8, 1e-4: 1e-3, 1e-3: 5e-3, 1e-2: 0.03, 0.05: 0.09}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("noise", ACCURACY)
def test_auto_reaches_the_accuracy_the_noise_allows(
    grid: str, noise: float, record_property: pytest.RecordProperty
) -> None:
    rng = np.random.default_rng(1)
    t = times(grid, 400)
    x, dx = waves(t)
    data = Trajectories([x + noise * x.std(axis=0) * rng.normal(size=x.shape) for _ in range(4)], t)
    got = differentiate(data)
    assert np.mean(got.valid) > 0.9

    def error(result: list[np.ndarray]) -> float:
        parts = [(a - dx)[v] / dx.std(axis=0) for a, v in zip(result, got.valid, strict=True)]
        return float(np.sqrt((np.concatenate(parts) ** 2).mean()))

    record_property("relative_error", error(got.x_dot))
    assert error(got.x_dot) < ACCURACY[noise]
    if noise:
        plain = differentiate(data, "finite_difference", order=4)
        assert error(got.x_dot) < 0.5 * error(plain.x_dot)
        left = np.concatenate([a - x for a in got.trajectories.x]).std(axis=0)
        assert (left < 0.7 * noise * x.std(axis=0)).all()
    else:
        assert set(got.method) == {"differences of order 8"}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("method", ["savgol", "spline"])
def test_smoothing_methods_beat_differences_on_noisy_data(grid: str, method: str) -> None:
    t = times(grid, 300)
    x, dx = waves(t)
    data = Trajectories(x + 0.02 * np.random.default_rng(0).normal(size=x.shape), t)
    got = differentiate(data, method)
    inside = got.valid[0]
    error = np.sqrt(((got.x_dot[0] - dx)[inside] ** 2).mean())
    plain = differentiate(data, "finite_difference").x_dot[0]
    assert error < 0.2 * np.sqrt(((plain - dx)[inside] ** 2).mean())
    assert error < 0.05 * dx.std()


def test_a_window_by_hand_is_used() -> None:
    t = times("irregular", 100)
    got = differentiate(Trajectories(waves(t)[0], t), "savgol", window=11, degree=3)
    assert set(got.method) == {"degree 3 over 11 points"}


def test_every_column_gets_the_window_it_needs() -> None:
    t = times("regular", 400)
    rng = np.random.default_rng(0)
    x = np.stack([np.sin(t), np.sin(t) + 0.05 * rng.normal(size=400)], axis=1)
    got = differentiate(Trajectories(x, t))
    assert got.method[0].startswith("differences")
    assert got.method[1].startswith("degree 4 over")
    np.testing.assert_allclose(got.x_dot[0][:, 0], np.cos(t), atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("method", ["auto", "finite_difference"])
def test_short_trajectories_work(n: int, method: str) -> None:
    t = 0.1 * np.arange(n)
    got = differentiate(Trajectories([2 * t, 3 * t[:2]], [t, t[:2]]), method)
    np.testing.assert_allclose(got.x_dot[0], 2, rtol=1e-9)
    np.testing.assert_allclose(got.x_dot[1], 3, rtol=1e-9)
    assert got.valid[0].any()


def test_constant_columns_have_slope_zero() -> None:
    got = differentiate(Trajectories(np.ones((50, 2)), 0.1))
    np.testing.assert_allclose(got.x_dot[0], 0, atol=1e-12)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"method": "magic"}, "no method 'magic'"),
        ({"method": "finite_difference", "order": 3}, "even"),
        ({"method": "savgol", "window": 8}, "odd"),
        ({"method": "savgol", "window": 5, "degree": 5}, "larger than degree"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        differentiate(Trajectories(np.zeros((9, 1)), 1), **settings)  # type: ignore[arg-type]


def test_pictures_and_short_splines_are_refused() -> None:
    with pytest.raises(DataError, match="encode them first"):
        differentiate(Trajectories(np.zeros((9, 4, 4)), 1))
    with pytest.raises(DataError, match="a spline needs 5"):
        differentiate(Trajectories(np.zeros((4, 1)), 1), "spline")


def test_ends_are_used_where_differences_are_exact_and_left_out_where_windows_are_shifted() -> None:
    t = np.arange(0, 6, 0.02)
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    exact = differentiate(Trajectories(x, t), method="finite_difference")
    assert exact.valid[0].all()
    noisy = x + np.random.default_rng(0).normal(0, 0.02, x.shape)
    smooth = differentiate(Trajectories(noisy, t), method="savgol").valid[0]
    assert not smooth[0] and not smooth[-1] and smooth[30:-30].all()


def test_windows_of_other_data_are_used_again_and_their_shifted_ends_left_out() -> None:
    t = np.arange(0, 6, 0.02)
    rng = np.random.default_rng(1)
    wave, noise = np.stack([np.sin(t), np.cos(t)], axis=1), rng.normal(0, 0.02, (2, len(t), 2))
    first = differentiate(Trajectories(wave + noise[0], t))
    # Clean data would choose narrow windows by themselves.
    again = differentiate(Trajectories(wave, t), like=first)
    assert again.method == first.method
    assert not again.valid[0][0] and not again.valid[0][-1] and again.valid[0][30:-30].all()


def test_a_spline_smooths_each_column_by_itself() -> None:
    t = np.arange(0, 6, 0.02)
    x = np.stack([np.sin(t), 3 + np.cos(2 * t)], axis=1)
    noisy = x + np.random.default_rng(2).normal(0, 0.02, x.shape)
    smooth = differentiate(Trajectories(noisy, t), "spline").trajectories.x[0]
    assert smooth.shape == x.shape
    assert np.abs(smooth - x)[20:-20].max() < 0.02
    k = np.arange(len(t))  # steps, so that the smoothing does not hang on the unit of time
    columns = [make_smoothing_spline(k, c)(k) for c in noisy.T]
    np.testing.assert_allclose(smooth, np.stack(columns, axis=1), atol=1e-6)


@pytest.mark.parametrize("step", [0.1, 0.2, 0.3])
def test_the_error_to_expect_of_clean_slopes_is_an_upper_bound_and_no_wild_one(step: float) -> None:
    """In clean data differences of order eight are off by their next term, step^8 over 630."""
    t = np.arange(0, 30, step)
    expected = slope_error(Trajectories(np.sin(t)[:, None], t))[0]
    true = np.mean((step**8 / 630 * np.cos(t)) ** 2)
    assert true < expected < 1e5 * true


def test_the_error_to_expect_of_one_column_does_not_hang_on_the_others() -> None:
    t = np.arange(0, 30, 0.1)
    x = np.stack([np.sin(t), 50 * np.sin(4 * t)], axis=1)
    alone = [slope_error(Trajectories(x[:, [j]], t))[0] for j in (0, 1)]
    np.testing.assert_allclose(slope_error(Trajectories(x, t)), alone, rtol=1e-9)


@pytest.mark.parametrize("kind", GRIDS)
def test_states_that_are_not_smoothed_are_not_copied(kind: str) -> None:
    """Millions of rows: a copy of the data would be a quarter of the memory."""
    t = times(kind, 400)
    data = Trajectories(waves(t)[0], t)
    found = differentiate(data)
    assert found.smoothing.leaves_states and np.shares_memory(found.trajectories.x[0], data.x[0])
    rough = differentiate(data.map(lambda x: x + np.random.default_rng(0).normal(size=x.shape)))
    assert not rough.smoothing.leaves_states
