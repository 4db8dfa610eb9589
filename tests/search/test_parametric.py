"""Parametric terms: written by the user, of the extended library, and found by the default call."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from scipy.optimize import curve_fit

import sjepa
from sjepa.backend import Problem
from sjepa.data import Trajectories
from sjepa.data.derivatives import differentiate, slope_error
from sjepa.data.rows import weak_functions, weak_rows
from sjepa.errors import ConfigError, LawError, NumericalWarning
from sjepa.search import extension
from sjepa.search.parametric import place_constants, projected, solve_open
from sjepa.symbolic import Library
from sjepa.symbolic.term_templates import (
    TermTemplate as Shape,
    nonlinear_parameters as open_numbers,
    weight,
)


T = np.arange(0, 12, 0.03)


def enzyme(noise: float = 0.0, seed: int = 0, t: np.ndarray = T) -> np.ndarray:
    def field(t: float, z: np.ndarray) -> list[float]:
        s, p = z
        return [0.4 * p - 1.5 * s / (0.6 + s), 0.3 * s - 0.8 * p]

    path = solve_ivp(field, (0, 12), [4.0, 0.2], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    return path + noise * path.std(axis=0) * np.random.default_rng(seed).normal(size=path.shape)


def saturation(law: sjepa.Law) -> float:
    """The constant K of V s/(K + s) in the first equation, by two values of the equation itself."""
    f = law.numpy()
    # V s/(K + s) beside 0.4 p: values at p = 0 for s = 1 and s = 2.
    one, two = f(np.array([[1.0, 0.0], [2.0, 0.0]]))[:, 0]
    return float(2 * (one - two) / (two - 2 * one))


@pytest.mark.parametrize("library", [["s", "p", "s/(c + s)", "p/(c + p)"], None])
def test_a_saturating_term_is_found_with_its_constant(library: list[str] | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        front = sjepa.discover(enzyme(), T, feature_names=["s", "p"], library=library)
    law = front.best()
    assert [len(row) for row in law.terms] == [2, 2]
    assert saturation(law) == pytest.approx(0.6, rel=1e-5)
    assert not any(c.certified for c in front)


def test_data_that_the_default_terms_explain_are_left_alone() -> None:
    t = np.arange(0, 10, 0.02)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    front = sjepa.discover(x, t, feature_names=["q", "p"])
    assert front.best().lines(5) == ["q' = p", "p' = -4*q"]
    assert front.best_candidate().certified


def test_a_wave_of_time_is_found_with_its_frequency() -> None:
    t = np.arange(0, 25, 0.05)
    x = solve_ivp(
        lambda t, z: [z[1], -z[0] - 0.2 * z[1] + 0.5 * np.sin(1.7 * t)], (0, 25), [1, 0.2],
        t_eval=t, rtol=1e-10, atol=1e-12,
    ).y.T  # fmt: skip
    law = sjepa.discover(
        x,
        t,
        u=t,
        feature_names=["x", "v"],
        library=["x", "v", "sin(w*u1)", "cos(w*u1)"],
        derivatives="smooth",
    ).best()
    (wave,) = law.expressions[1].atoms(sympy.sin)
    assert abs(float(wave.args[0].as_coeff_Mul()[0])) == pytest.approx(1.7, rel=1e-4)


def test_variable_projection_agrees_with_a_fit_of_all_numbers_at_once() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.1, 5, (200, 1))
    y = 2.0 * x[:, 0] / (0.7 + x[:, 0]) - 0.3 * x[:, 0] + 0.01 * rng.normal(size=200)
    shape = Shape.read("x/(c + x)", ["x"])
    ((c,),), coefficients, error = projected(lambda f: f(x), x, [(shape, (3.0,))], y, 1e-12)

    def whole(x: np.ndarray, a: float, v: float, c: float) -> np.ndarray:
        return a * x + v * x / (c + x)

    expected, _ = curve_fit(whole, x[:, 0], y, p0=[0.0, 1.0, 1.0])
    np.testing.assert_allclose([*coefficients, c], expected, rtol=1e-5)
    assert error == pytest.approx(np.mean((whole(x[:, 0], *expected) - y) ** 2), rel=1e-6)


def test_letters_that_are_no_inputs_are_open_numbers() -> None:
    assert open_numbers("x/(c + x)", ["x"]) == ("c",)
    assert open_numbers("exp(a*x + b2)", ["x"]) == ("a", "b2")
    assert open_numbers("a*sin(x)", ["x", "a"]) == ()
    with pytest.raises(LawError, match="every term has a coefficient|stands alone"):
        Shape.read("c*x", ["x"])


def test_places_of_a_number_follow_the_unit_of_the_data() -> None:
    shape, x = Shape.read("x/(c + x)", ["x"]), np.linspace(0.1, 3, 50)[:, None]
    np.testing.assert_allclose(shape.places(1e4 * x), 1e4 * shape.places(x))
    assert len(Shape.read("log(x)*x**p", ["x"]).places(x - 1)) == 0  # undefined on the data


def test_a_saturating_quotient_is_no_dearer_than_its_longer_spelling() -> None:
    s = sympy.Symbol("s", real=True)
    assert weight(s / (s + 0.5)) < weight(sympy.S.One) + weight(1 / (s + 0.5))


def test_open_numbers_are_refused_where_nobody_would_move_them() -> None:
    with pytest.raises(ConfigError, match="Parametric terms"):
        sjepa.discover(enzyme(), T, library=["x1", "x1/(c + x1)"], derivatives="discrete")


def test_integrals_of_functions_are_those_of_a_library() -> None:
    data = Trajectories.of(enzyme(), T, names=["s", "p"])
    library = Library.from_terms(["s", "s*p", "1/(1 + s)"], ["s", "p"])
    expected, _ = weak_rows(data, library, 40)
    np.testing.assert_array_equal(weak_functions(data, 40, len(library))(library.numpy()), expected)


@pytest.mark.parametrize("step", [0.1, 0.3])
def test_the_error_of_clean_derivatives_is_foreseen(step: float) -> None:
    t = np.arange(0, 40, step)
    data = Trajectories.of(np.stack([np.sin(t), np.cos(1.3 * t)], axis=1), t)
    truth = np.stack([np.cos(t), -1.3 * np.sin(1.3 * t)], axis=1)
    error = ((differentiate(data).x_dot[0] - truth)[4:-4] ** 2).mean(axis=0)
    # An upper bound but for a factor, and far below what a wrong law leaves.
    assert (error < 100 * slope_error(data)).all()
    assert (slope_error(data) < 1e-8).all()


def test_parameters_of_long_data_are_found_on_some_of_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds of columns of all rows would be many times the data; the law needs a few rows."""
    sizes: list[int] = []

    def noted(backend: Any, problem: Problem, *rest: Any) -> Any:
        assert problem.targets is not None
        sizes.append(len(problem.targets))
        return solve_open(backend, problem, *rest)

    monkeypatch.setattr(extension, "solve_open", noted)
    t, most = np.arange(0, 12, 0.002), extension.Effort().max_rows
    assert len(t) > most
    terms = ["s", "p", "s/(c + s)"]
    for noise in (0.0, 0.005):
        front = sjepa.discover(enzyme(noise, t=t), t, library=terms, feature_names=["s", "p"])
        assert sizes and max(sizes) <= most
        assert saturation(front.best()) == pytest.approx(0.6, rel=0.2 if noise else 1e-3)
        with pytest.raises(LawError, match="no sums"):
            front.update(enzyme(), T)


def test_a_parameter_that_runs_away_is_no_term_and_ends_no_search() -> None:
    """Exponents beyond 400 cannot be written down; variable projection may still go there."""
    x = np.linspace(1.0, 1.02, 80)[:, None]
    base, shape = Library.from_terms(["1"], ["x"]), Shape.read("x**p", ["x"])
    y = x**650
    (values,), _, _ = projected(
        lambda f: f(x), np.ones((80, 1)), [(shape, (300.0,))], y[:, 0], 1e-8
    )
    assert values[0] > 400
    found = place_constants(base, [shape], lambda f: f(x), x, y, np.array([1e-12]))
    assert "1" in found.names
