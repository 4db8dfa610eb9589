"""Random data and settings: an answer or our own error, in bounded time and memory.

The same few calls every time here; many more, and others every time, in the slow suite.
"""

from __future__ import annotations

import random
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest

from sjepa import SJEPA, Joint, Smooth, discover
from sjepa.backend import Problem
from sjepa.data import Trajectories
from sjepa.data.forms import continuous_rows
from sjepa.errors import DataError
from sjepa.symbolic import Library
from tests.robustness.torture import BACKENDS, discover_call, fit_call
from tests.runs.fuzzing import only_our_errors, peak_memory


SECONDS = 20.0  # of CPU time, for one call


@pytest.mark.parametrize("backend", BACKENDS)
def test_discover_answers_or_refuses(backend: str) -> None:
    answered = [
        only_our_errors(partial(discover_call, seed, backend), SECONDS) for seed in range(12)
    ]
    assert any(answered) and not all(answered)


def test_a_fit_answers_or_refuses() -> None:
    for seed in range(8):
        only_our_errors(partial(fit_call, seed), SECONDS)


@pytest.mark.slow
def test_a_law_that_has_no_sparse_coordinates_does_not_take_a_minute() -> None:
    """Thirty coefficients in three dimensions, and a polynomial fitted to each for each move."""
    only_our_errors(partial(fit_call, 310371), SECONDS)


@pytest.mark.slow
def test_many_more_calls_answer_or_refuse() -> None:
    first = random.SystemRandom().randrange(10**9)
    before = peak_memory()
    for seed in range(first, first + 800):
        print(f"discover_call({seed})")
        only_our_errors(partial(discover_call, seed), SECONDS)
    for seed in range(first, first + 80):
        print(f"fit_call({seed})")
        only_our_errors(partial(fit_call, seed), SECONDS)
    assert peak_memory() - before < 1000


T = np.arange(60) * 0.1
OSCILLATION = np.stack([np.cos(T), -np.sin(T)], axis=1)


@pytest.mark.parametrize("form", ["smooth", "weak", "zoh", "auto", "discrete"])
@pytest.mark.parametrize("size", [1e60, 1e120, 1e200, 1e300])
def test_numbers_whose_squares_overflow_are_refused_by_name(form: str, size: float) -> None:
    """Least squares works with squares of terms; LAPACK answers infinities with LinAlgError."""
    u = np.sign(np.sin(3 * T))[:, None] if form == "zoh" else None
    with pytest.raises(DataError, match="rescale the data"):
        discover(OSCILLATION * size, 0.1, u=u, derivatives=form)


def test_steps_so_short_that_velocities_overflow_are_refused() -> None:
    with pytest.raises(DataError, match="derivative reaches .*rescale the data or their times"):
        discover(OSCILLATION, 1e-200)


def test_single_precision_gives_the_same_law_without_a_warning() -> None:
    """Bounds beyond the range of float32 were compared in float32."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        single = discover(OSCILLATION.astype(np.float32), 0.1, library=["x1", "x2"]).best()
    assert (
        single.terms[0][0][1]
        == discover(OSCILLATION, 0.1, library=["x1", "x2"]).best().terms[0][0][1]
    )


def test_motion_whose_squares_are_nothing_is_refused() -> None:
    with pytest.raises(DataError):
        discover(OSCILLATION * 1e-160, 0.1, derivatives="weak", library=["x1", "x2"])


@pytest.mark.parametrize("unit", [1e-10, 1e10, 1e60])
def test_a_spline_does_not_depend_on_the_unit_of_time(unit: float) -> None:
    """SciPy looks for its penalty between fixed bounds and gives up on times far from 1."""
    law = discover(
        OSCILLATION, T * unit, library=["x1", "x2"], derivatives=Smooth(method="spline")
    ).best()
    (coefficient, _), *rest = law.terms[0]
    assert not rest
    np.testing.assert_allclose(float(coefficient) * unit, 1.0, rtol=1e-3)


def test_one_short_trajectory_with_a_polynomial_library_gets_an_answer() -> None:
    """Nothing is left to validate on, so no risk is finite and no law the best of none."""
    x = np.stack([np.exp(-T), 2 * np.exp(-T) + 1e-3 * np.cos(9 * T)], axis=1)[:24]
    small = Joint(structures=2, restarts=1, effort=0.02, finalists=1, refinement=4)
    for degree in (1, 2):
        model = SJEPA(1, search=small, library=Library.polynomial(["z1"], degree))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert only_our_errors(partial(model.set_params(random_state=0).fit, x, 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.01], ids=["derivative", "weak"])
def test_memory_stays_in_proportion_to_the_data(noise: float) -> None:
    """From data to the sums of a regression: 31 times the data before, 4 are allowed.

    Counted are allocations; pieces of fixed size come on top, which is what the megabytes are for.
    """
    t = 0.01 * np.arange(110_000)[:, None]
    x = np.cos(t * [1, 1, 2.3, 2.3, 0.7] - [0, 1.5, 0, 1.5, 0])
    x += noise * np.random.default_rng(0).normal(size=x.shape)
    data = Trajectories(x, 0.01)
    library = Library.polynomial([f"x{i}" for i in range(1, 6)], 1)
    tracemalloc.start()
    try:
        rows = continuous_rows(data, library)
        problem = Problem(rows.inputs, rows.targets, library=library, features=rows.features)
        assert problem.sums.rows and problem.variance.min() > 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows.form == ("weak" if noise else "derivative")
    assert peak + x.nbytes < 4 * x.nbytes + 40e6, peak / x.nbytes
