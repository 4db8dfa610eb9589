"""Numbers of given structures: Gram sums and refitting, against plain least squares."""

import numpy as np
import pytest

from sjepa.errors import DataError
from sjepa.symbolic import Gram, Law, Library, refit
from sjepa.symbolic.gram import solve_normal


RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
Y = np.stack([X[:, 0] - 0.5 * X[:, 1] ** 2, np.sin(X[:, 0])], axis=1) + 0.1 * RNG.normal(
    size=(60, 2)
)
WEIGHTS = RNG.integers(0, 4, 60).astype(float)
LIBRARY = Library.from_terms(["1", "x", "y**2", "sin(x)"], ["x", "y"])
THETA = np.stack([np.ones(60), X[:, 0], X[:, 1] ** 2, np.sin(X[:, 0])], axis=1)


def weighted() -> Gram:
    return Gram.from_chunks(LIBRARY, [(X, Y, WEIGHTS)])


def test_weighted_sums_give_the_least_squares_of_rows_times_root_weight() -> None:
    gram, root = weighted(), np.sqrt(WEIGHTS)[:, None]
    expected = np.linalg.lstsq(THETA * root, Y * root, rcond=None)[0]
    found = np.stack([gram.solve(np.ones(4, dtype=bool), j) for j in range(2)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    residual = (THETA @ expected - Y) * root
    mean = np.average(Y, axis=0, weights=WEIGHTS)
    variance = np.average((Y - mean) ** 2, axis=0, weights=WEIGHTS)
    np.testing.assert_allclose(gram.variance, variance)
    np.testing.assert_allclose(
        gram.loss(expected), (residual**2).sum(axis=0) / WEIGHTS.sum() / variance, rtol=1e-8
    )


def test_a_weight_counts_a_row_that_often() -> None:
    times = WEIGHTS.astype(int)
    repeated = Gram.from_chunks(LIBRARY, [(X.repeat(times, 0), Y.repeat(times, 0))])
    gram = weighted()
    for part in ("xx", "xy", "yy", "y", "weight"):
        np.testing.assert_allclose(getattr(gram, part), getattr(repeated, part), rtol=1e-12)


def test_sums_of_parts_add_up_and_rows_without_weight_may_hold_anything() -> None:
    spoilt = X.copy()
    spoilt[WEIGHTS == 0] = np.nan
    parts = [(spoilt[:20], Y[:20], WEIGHTS[:20]), (spoilt[20:], Y[20:], WEIGHTS[20:])]
    joined = Gram.from_chunks(LIBRARY, parts)
    np.testing.assert_allclose(joined.xx, weighted().xx, rtol=1e-12)
    with pytest.raises(DataError, match="not finite in row"):
        Gram.from_chunks(LIBRARY, [(spoilt, Y)])


def test_a_support_leaves_the_other_coefficients_at_zero_and_ridge_shrinks() -> None:
    gram = weighted()
    by_index = gram.solve(np.array([1, 2]), 0)
    assert by_index[0] == by_index[3] == 0.0
    np.testing.assert_array_equal(by_index, gram.solve(np.array([False, True, True, False]), 0))
    # On columns of unit norm, ridge r solves (A + r I) c = b.
    norms = np.sqrt(np.diag(gram.xx))[[1, 2]]
    a = gram.xx[np.ix_([1, 2], [1, 2])] / np.outer(norms, norms)
    expected = np.linalg.solve(a + 0.5 * np.eye(2), gram.xy[[1, 2], 0] / norms) / norms
    np.testing.assert_allclose(gram.solve(np.array([1, 2]), 0, ridge=0.5)[[1, 2]], expected)


def test_refitting_solves_for_multipliers_exactly() -> None:
    law = Law.from_string(["0.1*x + 0.1*y**2 + 9", "sin(x)"], ["x", "y"])
    found = LIBRARY.coefficients(refit(law, X, Y, WEIGHTS))
    root = np.sqrt(WEIGHTS)[:, None]
    first = np.linalg.lstsq(THETA[:, :3] * root, Y[:, 0] * root[:, 0], rcond=None)[0]
    second = np.linalg.lstsq(THETA[:, 3:] * root, Y[:, 1] * root[:, 0], rcond=None)[0]
    np.testing.assert_allclose(found[:3, 0], first, rtol=1e-8)
    np.testing.assert_allclose(found[3, 1], second, rtol=1e-8)
    assert np.count_nonzero(found) == 4


def test_refitting_moves_numbers_inside_functions() -> None:
    y = 2.0 * np.sin(1.3 * X[:, 0]) + 0.5
    start = Law.from_string("sin(1.2*x) + 0.1", ["x", "y"], ["x"])
    moved = refit(start, X, y[:, None])
    np.testing.assert_allclose(moved.numpy()(X)[:, 0], y, atol=1e-8)
    np.testing.assert_allclose(sorted(moved.coefficients), [0.5, 1.3, 2.0], rtol=1e-7)


def test_refitting_never_makes_a_law_worse() -> None:
    exact = Law.from_string("2*sin(1.3*x) + 0.5", ["x", "y"], ["x"])
    y = exact.numpy()(X)
    np.testing.assert_allclose(refit(exact, X, y).numpy()(X), y, atol=1e-12)
    # Not defined on half of the rows: nothing better can be found, so it stays what it was.
    rooted = Law.from_string("0.25*log(x)", ["x", "y"], ["x"])
    assert refit(rooted, X, y) == rooted


def test_sums_of_two_halves_are_those_of_the_whole_for_laws_that_hardly_miss() -> None:
    """Each half has residuals of a law of its own; losses near rounding must survive adding."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, (400, 1))
    y = 3 * x - x**3 + 1e-7 * rng.normal(size=(400, 1))
    library = Library.from_terms(["x", "x**2", "x**3"], inputs=["x"])
    halves = [Gram.from_chunks(library, [(x[k::2], y[k::2])]) for k in (0, 1)]
    coefficients = np.array([[3.0], [0.0], [-1.0]])
    expected = ((y - 3 * x + x**3) ** 2).mean() / y.var()
    np.testing.assert_allclose((halves[0] + halves[1]).loss(coefficients), expected, rtol=1e-3)


@pytest.mark.parametrize("dependent", [False, True])
def test_normal_equations_have_the_solution_of_least_norm(dependent: bool) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(50, 3))
    if dependent:
        x[:, 2] = x[:, 0] + x[:, 1]
    x /= np.linalg.norm(x, axis=0)
    y = rng.normal(size=50)
    expected = np.linalg.pinv(x) @ y  # from the rows, not from their products
    np.testing.assert_allclose(solve_normal(x.T @ x, x.T @ y), expected, rtol=1e-6)


def test_more_numbers_than_rows_are_not_moved() -> None:
    law = Law.from_string("2*sin(3.5*x + 0.5)", ["x"], ["y"], "discrete")
    x = np.array([[0.1], [0.4]])
    again = refit(law, x, np.array([[1.0], [1.5]]))
    (was,), (now,) = law.expressions, again.expressions
    assert again.terms[0][0][1] == law.terms[0][0][1] and now != was  # the multiplier alone


def test_as_many_numbers_as_rows_are_moved() -> None:
    law = Law.from_string("2*sin(3.5*x + 0.5)", ["x"], ["y"], "discrete")
    x = np.array([[0.1], [0.4], [0.8]])
    y = 2.5 * np.sin(3.6 * x + 0.4)
    np.testing.assert_allclose(refit(law, x, y).numpy()(x), y, atol=1e-8)


def test_sums_of_whole_numbers_do_not_overflow() -> None:
    large = np.array([[3_000_000_000], [4_000_000_000]])
    assert Gram.from_features(large, large).xx[0, 0] == pytest.approx(25e18)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_losses_do_not_depend_on_the_unit_of_the_targets(unit: float) -> None:
    plain, other = (Gram.from_chunks(LIBRARY, [(X, Y * u, WEIGHTS)]) for u in (1.0, unit))
    np.testing.assert_allclose(other.variance, plain.variance * unit**2, rtol=1e-9)
    guess = np.ones((len(LIBRARY), 2))
    np.testing.assert_allclose(other.loss(guess * unit), plain.loss(guess), rtol=1e-9)
