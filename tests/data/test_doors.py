"""What happens to data on their way in: gaps, missing values, rows, names, errors, angles."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa import Law, SymbolicRegressor, Trajectories, discover
from sjepa.errors import DataError, DataWarning


T = np.arange(0, 20, 0.05)
FREQUENCY = 2.0


def oscillator(t: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(FREQUENCY * t), -FREQUENCY * np.sin(FREQUENCY * t)], axis=1)


def without(start: int, stop: int) -> np.ndarray:
    return np.delete(T, slice(start, stop))


# Gaps ------------------------------------------------------------------------------------------


def test_a_law_across_a_pause_is_that_of_the_two_pieces() -> None:
    t = without(200, 275)
    with pytest.warns(DataWarning, match="1 gap.*gaps='keep'") as said:
        law = discover(oscillator(t), t, feature_names=["q", "p"], budget=20).best()
    assert len(said) == 1, "one line, and nothing on noise or missing terms"
    np.testing.assert_allclose(
        law(np.array([[1.0, 0.0], [0.0, 1.0]])), [[0, -4], [1, 0]], atol=1e-4
    )
    assert law.complexity("terms") == 2


def test_a_pause_cuts_and_keep_does_not() -> None:
    t = without(200, 275)
    with pytest.warns(DataWarning):
        cut = Trajectories(oscillator(t), t, np.sin(t), state=t, ids=["a"])
    assert cut.lengths.tolist() == [200, 125] and cut.ids == ("a", "a part 2")
    for name in ("x", "t", "u", "state"):
        assert [len(a) for a in getattr(cut, name)] == [200, 125], name
    assert Trajectories(oscillator(t), t, gaps="keep").lengths.tolist() == [325]


RNG = np.random.default_rng(7)
SAMPLING = {
    "even": T,
    "jitter": np.cumsum(0.05 * RNG.uniform(0.1, 1.9, 2000)),
    "dense Poisson": np.cumsum(RNG.exponential(0.02, 3000)),
    "sparse Poisson": np.cumsum(RNG.exponential(1.0, 3000)),
    "alternating": np.cumsum(np.tile([0.02, 1.0], 300)),
    "two rates in turn": np.cumsum(np.repeat(np.tile([0.02, 0.3], 5), 100)),
    "rows missing at random": 0.05 * np.sort(RNG.choice(2000, 1400, replace=False)),
    "a pause the signal hardly notices": np.r_[T[:200], T[200:] + 0.1] / 10,
    "a slow stretch that resolves": np.cumsum(np.repeat([0.005, 0.1, 0.005], [1000, 40, 1000])),
}


@pytest.mark.parametrize("t", SAMPLING.values(), ids=SAMPLING.keys())
def test_irregular_sampling_is_not_cut(t: np.ndarray) -> None:
    assert len(Trajectories(oscillator(t), t)) == 1


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("rows", [10, 63, 126])  # 63 rows are one period: the ends look the same
def test_a_pause_is_found_in_noise_and_over_whole_periods(rows: int, noise: float) -> None:
    t = without(150, 150 + rows)
    x = oscillator(t) + noise * np.random.default_rng(0).normal(size=(len(t), 2))
    with pytest.warns(DataWarning, match="1 gap"):
        assert Trajectories(x, t).lengths[0] == 150


def test_a_pause_in_which_a_slow_signal_moved_on_is_a_gap() -> None:
    t = np.r_[np.arange(0, 1, 0.01), np.arange(50, 51, 0.01)]
    with pytest.warns(DataWarning, match="1 gap"):
        assert len(Trajectories(np.exp(-t / 30), t)) == 2


def test_scraps_between_pauses_are_left_out() -> None:
    t = np.r_[T[:200], 15.0, 15.05, T[200:] + 20]
    with pytest.warns(DataWarning, match="2 rows in pieces"):
        assert Trajectories(oscillator(t), t).lengths.tolist() == [200, 200]


# Missing values --------------------------------------------------------------------------------


def with_holes(rows: Any) -> np.ndarray:
    x = oscillator(T)
    x[rows, 1] = np.nan
    return x


@pytest.mark.filterwarnings("ignore::sjepa.errors.DataWarning")  # the data are to be odd
def test_rows_without_a_value_are_dropped_and_no_step_leads_across() -> None:
    with pytest.warns(DataWarning, match="3 rows with missing") as said:
        data = Trajectories(with_holes([100, 101, 250]), T, missing="drop")
    assert len(said) == 2
    assert data.lengths.tolist() == [100, 148, 149]
    assert max(step.max() for step in data.steps) < 0.06
    np.testing.assert_array_equal(
        np.concatenate(data.x), np.delete(oscillator(T), [100, 101, 250], 0)
    )


def test_many_missing_rows_make_irregular_data_and_no_scraps() -> None:
    rows = np.random.default_rng(0).choice(len(T), 120, replace=False)
    with pytest.warns(DataWarning, match="120 rows"):
        data = Trajectories(with_holes(rows), T, missing="drop")
    assert data.lengths.tolist() == [280]


def test_tables_drop_missing_values_too() -> None:
    table = pd.DataFrame(with_holes([200]), columns=["q", "p"]).assign(t=T)
    with pytest.warns(DataWarning):
        data = Trajectories.from_frame(table, time="t", missing="drop")
    assert data.lengths.tolist() == [200, 199]
    with pytest.raises(DataError, match="row 200 of the table.*missing='drop'"):
        Trajectories.from_frame(table, time="t")


def test_masked_values_are_missing_values() -> None:
    x = np.ma.masked_array(oscillator(T), mask=False)
    x[200] = -999.0
    x[200] = np.ma.masked
    with pytest.raises(DataError, match="trajectory 0, row 200"):
        Trajectories(x, T)
    with pytest.warns(DataWarning):
        assert np.concatenate(Trajectories(x, T, missing="drop").x).min() > -3
    whole = np.ma.masked_array([1, 2, -999], mask=[0, 0, 1])
    with pytest.raises(DataError, match="row 2"):
        Trajectories(whole, 1.0)


def test_what_is_under_a_mask_is_read_by_no_other_door() -> None:
    """Numpy drops a mask where it makes an array, and -999 was data."""
    x = np.ma.masked_array(oscillator(T), mask=False)
    x[200] = -999.0
    x[200] = np.ma.masked
    with pytest.raises(DataError, match="x_dot is NaN.*row 200"):
        discover(oscillator(T), T, x_dot=x)
    for table, y in ((x, T), (oscillator(T), x[:, 0])):
        with pytest.raises(DataError, match="contains NaN"):
            SymbolicRegressor(backend="subset").fit(table, y)
    values = Law.from_string(["y", "-x"], ["x", "y"])(x)
    assert np.isnan(values[200]).all() and np.isfinite(np.delete(values, 200, axis=0)).all()


# Lists of rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_rows_that_a_loop_collects_are_one_trajectory_where_the_times_say_so(kind: Any) -> None:
    rows = [kind(row) for row in oscillator(T).tolist()]
    for times in (T, T.tolist()):
        np.testing.assert_array_equal(Trajectories(rows, times).x[0], oscillator(T))
    with pytest.raises(DataError, match=r"np\.array\(x\)"):
        discover(rows, 0.05)


def test_lists_of_series_stay_lists_of_trajectories() -> None:
    series = list(oscillator(T).T)
    assert len(Trajectories(series, 0.05)) == 2
    assert len(Trajectories([a[:, None] for a in np.ones((9, 3))], 0.05)) == 9
    assert Trajectories([[1.0], [2.0], [3.0]], 0.1).lengths.tolist() == [3]


# Standard errors -------------------------------------------------------------------------------


def test_standard_errors_are_those_of_every_value() -> None:
    x = [oscillator(T)[:4], oscillator(T)[:6]]
    each = [np.full((4, 2), 0.1), np.full((6, 2), 0.3)]
    for sigma, want in {
        "number": (0.2, [np.full((4, 2), 0.2), np.full((6, 2), 0.2)]),
        "column": (np.array([0.1, 0.5]), [np.tile([0.1, 0.5], (n, 1)) for n in (4, 6)]),
        "trajectory": ([0.1, 0.3], each),
        "value": (each, each),
    }.values():
        found = Trajectories(x, 0.05, sigma=sigma).sigma
        assert found is not None
        for a, b in zip(found, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_standard_errors_go_where_the_rows_go() -> None:
    t = without(200, 275)
    sigma = np.linspace(0.1, 0.2, len(t))[:, None] * [1.0, 2.0]
    with pytest.warns(DataWarning):
        data = Trajectories(oscillator(t), t, sigma=sigma)
    first, second = data.split((0.5, 0.5))
    for part in (data, data[::-1], Trajectories.concat([first, second])):
        assert part.sigma is not None
        for x, s, times in zip(part.x, part.sigma, part.t, strict=True):
            assert s.shape == x.shape
            np.testing.assert_allclose(s[:, 0], np.interp(times, t, sigma[:, 0]))


def test_standard_errors_are_columns_of_tables_and_files(tmp_path: Any) -> None:
    from sjepa.data import read, write

    table = pd.DataFrame(oscillator(T), columns=["q", "p"]).assign(t=T, dq=0.1, dp=np.abs(T) + 1)
    data = Trajectories.from_frame(table, time="t", sigma=["dq", "dp"])
    assert data.names == ("q", "p") and data.sigma is not None
    np.testing.assert_array_equal(data.sigma[0], table[["dq", "dp"]])
    for ending in ("csv", "npz", "parquet"):
        again = read(write(data, tmp_path / f"a.{ending}"))
        assert again.names == ("q", "p") and again.sigma is not None
        np.testing.assert_allclose(again.sigma[0], data.sigma[0])


# Names -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_names_that_no_equation_can_hold_get_symbols_and_are_kept() -> None:
    x = np.stack([np.cos(T), np.sin(T), 2 + np.cos(2 * T)], axis=1)
    labels = ["Level 1 (cm)", "lambda", "Level 1 (mm)"]
    with pytest.warns(DataWarning, match="'Level 1 \\(cm\\)' is Level_1") as said:
        data = Trajectories(x, T, np.sin(T), names=labels, input_names=["flow rate"])
    assert len(said) == 1
    assert len({*data.names, *data.input_names}) == 4  # type: ignore[misc]
    assert all(name.isidentifier() for name in data.labels)
    assert [*data.labels.values()] == [*labels, "flow rate"]
    assert discover(data, library=["1", *data.names], budget=1).best().inputs == (  # type: ignore[misc]
        *data.names, *data.input_names,  # type: ignore[misc]
    )  # fmt: skip


# Wrapped angles --------------------------------------------------------------------------------


def test_an_angle_that_wraps_is_unwrapped() -> None:
    turns = 1.3 * T + 0.3 * np.sin(T)
    for wrapped in ((turns + np.pi) % (2 * np.pi) - np.pi, turns % (2 * np.pi)):
        with pytest.warns(DataWarning, match="th jumps by 2\\*pi"):
            data = Trajectories.of(np.stack([wrapped, np.cos(T)], 1), T, names=["th", "c"])
        np.testing.assert_allclose(np.diff(data.x[0][:, 0]), np.diff(turns), atol=1e-9)
        np.testing.assert_array_equal(data.x[0][:, 1], np.cos(T))
    with pytest.warns(DataWarning, match="360"):
        data = Trajectories.of(np.degrees(turns) % 360, T)
    np.testing.assert_allclose(np.diff(data.x[0][:, 0]), np.degrees(np.diff(turns)), atol=1e-9)


@pytest.mark.parametrize("x", [
    np.pi * np.sin(3 * T), np.pi * np.sign(np.sin(T)), 7 * (T % 1), 3 * (T % 1), np.pi * np.cos(40 * T),
])  # fmt: skip
def test_other_signals_are_no_angles(x: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        np.testing.assert_array_equal(Trajectories.of(x, T, gaps="keep").x[0][:, 0], x)
