"""Quotients q(x)/p(x) from p(x) x' = q(x): a second way to what parametric terms find."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

import sjepa
from sjepa.errors import NumericalWarning
from sjepa.search import ladder
from sjepa.search.parametric import Columns, Placed, placed_sets, projected
from sjepa.search.quotients import quotient_sets
from sjepa.symbolic import Law, Library
from sjepa.symbolic.term_templates import extended_templates as wide


FLOOR = 1e-11
Field = Callable[[np.ndarray, np.ndarray], np.ndarray]


def samples(low: float = 0.1, high: float = 4.0, n: int = 300) -> np.ndarray:
    return np.random.default_rng(3).uniform(low, high, (n, 2))


def grid_of(x: np.ndarray, shapes: bool = False) -> Columns:
    names = ["x", "y"]
    return Columns(
        Library.default(names), wide(names, [], names) if shapes else [], lambda f: f(x), x
    )


def values(grid: Columns, one: Placed, target: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What a set says at points, with the coefficients that it has on the rows of a grid."""
    columns = grid.fixed[:, list(one.base)]
    _, c, _ = projected(grid.of, columns, one.shapes, target, 1e-12)
    terms = [*(grid.base.terms[i] for i in one.base), *(s.expr_at(v) for s, v in one.shapes)]
    return Library(terms, ["x", "y"], canonical=False).numpy()(x) @ c


LAWS: dict[str, Field] = {
    "two states below": lambda x, y: 1 - x * y / (1 + x + 2 * y),
    "two saturations": lambda x, y: 2 * x * y / ((0.5 + x) * (1.5 + y)) - 0.4 * y,
    "ratio of two states": lambda x, y: x - 0.2 * x**2 - 1.2 * x * y / (x + 0.6 * y),
    "inhibition by much": lambda x, y: 3 * x / (0.5 + x + 0.25 * x**2) - 0.3 * x * y,
}


@pytest.mark.parametrize("name", LAWS)
def test_a_quotient_is_found_off_the_rows_too(name: str) -> None:
    x, elsewhere = samples(), samples(4.0, 6.0, 50)
    target, grid = LAWS[name](*x.T), grid_of(x)
    (found, *_) = quotient_sets(grid, target, FLOOR)
    assert found.loss < FLOOR and len(found.shapes) == 1
    np.testing.assert_allclose(
        values(grid, found, target, elsewhere), LAWS[name](*elsewhere.T), rtol=1e-6
    )


@pytest.mark.parametrize(
    "law",
    [
        lambda x, y: 0.4 * y - 1.5 * x / (0.6 + x),
        lambda x, y: 3 * x**2 / (1.5 + x**2) - 0.8 * x * y,
        lambda x, y: 6 / (1.2 + y**3) - x,
    ],
    ids=["Michaelis-Menten", "Hill 2", "Hill 3"],
)
def test_both_ways_agree_where_both_can_write_the_law(law: Field) -> None:
    x, elsewhere = samples(), samples(0.05, 6.0, 50)
    target, grid = law(*x.T), grid_of(x, shapes=True)
    placed = placed_sets(grid, target, FLOOR, True)
    first = min((s for s in placed if s.loss <= FLOOR), key=lambda s: s.cost)
    second = min(quotient_sets(grid, target, FLOOR), key=lambda s: s.cost)
    assert second.cost == first.cost
    one, two = (values(grid, s, target, elsewhere) for s in (first, second))
    np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-8)


def test_a_polynomial_beyond_the_library_is_not_turned_into_a_quotient() -> None:
    x = samples()
    target = 0.5 * x[:, 0] ** 4 - x[:, 0] * x[:, 1] ** 3
    assert quotient_sets(grid_of(x), target, FLOOR) == []


def test_what_is_no_quotient_is_not_imitated_by_a_heavy_one() -> None:
    x = samples()
    assert quotient_sets(grid_of(x), np.exp(-0.4 * x[:, 0]) * x[:, 1], FLOOR) == []


def test_a_denominator_with_a_zero_among_the_data_is_refused() -> None:
    """1 + x - y is positive at the points seen, and 0 at others between their extremes."""
    x, below = samples(), np.array([1.0, 1.0, -1.0])
    beside = x[:, 0] - x[:, 1] > -0.8
    for rows, expected in ((x[beside], 0), (x[beside] / [1.0, 5.0], 1)):
        target = rows[:, 1] / (np.column_stack([np.ones(len(rows)), rows]) @ below)
        found = [
            s
            for s in quotient_sets(grid_of(rows), target, FLOOR)
            if sympy.fraction(s.shapes[0][0].expr)[1].free_symbols
            >= {*sympy.symbols("x y", real=True)}
        ]
        assert len(found) == expected


@pytest.mark.parametrize("unit", [1e-3, 1e4, 1e40])
def test_quotients_do_not_depend_on_the_unit(unit: float) -> None:
    x = unit * samples()
    target = x[:, 0] - 0.2 * x[:, 0] ** 2 / unit - 1.2 * x[:, 0] * x[:, 1] / (x @ [1.0, 0.6])
    grid = grid_of(x)
    (found, *_) = quotient_sets(grid, target, FLOOR)
    assert [str(grid.base.terms[i]) for i in found.base] == ["x", "x**2"]
    np.testing.assert_allclose(found.shapes[0][1], [0.6], rtol=1e-6)


def test_many_inputs_have_no_quotients_and_no_error() -> None:
    names = [f"x{i}" for i in range(8)]
    x = np.random.default_rng(0).uniform(1, 2, (60, 8))
    grid = Columns(Library.polynomial(names, 1), [], lambda f: f(x), x)
    assert quotient_sets(grid, 1 / (1 + x[:, 0] + x[:, 1]), FLOOR) == []


@pytest.mark.parametrize("rows", [20, 40])
def test_few_rows_have_no_quotients_and_no_error(rows: int) -> None:
    x = samples(n=rows)
    assert quotient_sets(grid_of(x), LAWS["two states below"](*x.T), FLOOR) == []


def test_no_time_means_no_quotients() -> None:
    x = samples()
    target = LAWS["two states below"](*x.T)
    assert quotient_sets(grid_of(x), target, FLOOR, lambda: False) == []


T = np.arange(0, 10, 0.05)


def predator() -> np.ndarray:
    """Predators that get in each other's way: both states stand below the line."""

    def field(t: float, z: np.ndarray) -> list[float]:
        eaten = z[0] * z[1] / (0.4 + z[0] + 0.3 * z[1])
        return [z[0] - 0.2 * z[0] ** 2 - 1.2 * eaten, 0.9 * eaten - 0.4 * z[1]]

    return solve_ivp(field, (0, 10), [2.0, 0.6], t_eval=T, rtol=1e-11, atol=1e-12).y.T


def decay(noise: float = 0.0) -> np.ndarray:
    start = ((0, 10), [6.0])
    path = solve_ivp(lambda t, s: -1.5 * s / (0.6 + s), *start, t_eval=T, rtol=1e-11, atol=1e-12)
    return path.y.T + noise * np.random.default_rng(0).normal(size=(len(T), 1))


def test_the_default_call_finds_a_denominator_in_two_states() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        front = sjepa.discover(predator(), T, feature_names=["x", "y"])
    truth = Law.from_string(
        ["x - 0.2*x**2 - 1.2*x*y/(0.4 + x + 0.3*y)", "0.9*x*y/(0.4 + x + 0.3*y) - 0.4*y"],
        ["x", "y"],
    )
    z = samples()
    np.testing.assert_allclose(front.best().numpy()(z), truth.numpy()(z), rtol=1e-4, atol=1e-6)
    assert [len(row) for row in front.best().terms] == [3, 2]


def test_noisy_and_textbook_data_and_given_templates_are_left_to_other_rungs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*args: Any) -> list[Placed]:
        raise AssertionError("quotients were looked for")

    monkeypatch.setattr(ladder, "quotient_sets", never)
    turning = np.stack([np.cos(2 * T), -2 * np.sin(2 * T)], axis=1)
    sjepa.discover(turning, T)
    sjepa.discover(decay(), T, feature_names=["s"], library=["1", "s", "s/(c + s)"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        sjepa.discover(decay(0.05), T, library="wide")
    with pytest.raises(AssertionError, match="quotients"):
        sjepa.discover(decay(), T)


def test_a_law_that_only_other_starts_could_tell_apart_is_a_rival() -> None:
    """Along paths with x + y = 3 the rates 2 - x and y - 1 are one, elsewhere they are not."""
    x = np.linspace(0.0, 3.0, 300)
    rng = np.random.default_rng(0)
    for total, expected in ((np.full(300, 3.0), True), (3.0 + np.sin(7 * x), False)):
        rows = np.column_stack([x, total - x])
        slopes = np.column_stack([2 - x, x - 2]) + 1e-3 * rng.normal(size=rows.shape)
        front = sjepa.discover(rows, 0.01, x_dot=slopes, feature_names=["x", "y"], library=["1", "x", "y"])  # fmt: skip
        assert front.verdict is not None
        laws = [front.verdict.law, *(r.law for r in front.verdict.rivals)]
        forms = {frozenset(str(t) for _, t in law.terms[0]) for law in laws}
        assert ({frozenset({"1", "x"}), frozenset({"1", "y"})} <= forms) == expected
