"""Noisy states: integrals along the path, and sets of terms and templates by their code length."""

from __future__ import annotations

import math
import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa.backend import Problem
from sjepa.data import Trajectories
from sjepa.data.integrals import integral_rows, smoothed
from sjepa.errors import NumericalWarning
from sjepa.search.parametric import Columns
from sjepa.search.supports import Describer
from sjepa.symbolic import Library
from sjepa.symbolic.term_templates import TermTemplate as Shape


T = np.arange(0, 12, 0.03)


def test_integrals_of_the_true_velocity_leave_the_noise_of_the_states() -> None:
    rng = np.random.default_rng(3)
    x = np.stack([np.cos(T), np.sin(T)], axis=1) + 0.01 * rng.normal(size=(len(T), 2))
    of, targets, points = integral_rows(Trajectories([x], [T]))
    left = targets - of(lambda z: np.stack([-z[:, 1], z[:, 0]], axis=1))
    assert points.shape == (len(T), 2)
    assert left.std(axis=0) == pytest.approx([0.01, 0.01], rel=0.15)
    # Half the velocity is far off: the rows tell.
    assert (targets - of(lambda z: 0.5 * z[:, ::-1])).std() > 0.1


def test_a_number_that_puts_a_pole_on_a_row_is_no_candidate() -> None:
    x = np.linspace(0, 1, 21)[:, None]
    shape = Shape.read("x/(c + x)", ["x"])
    grid = Columns(Library.polynomial(["x"], 1), [shape], lambda f: f(x), x)
    describer = Describer(grid, x[:, 0] / (0.4 + x[:, 0]) + 0.01 * np.cos(40 * x[:, 0]))
    assert describer.of((0,), [(shape, (-0.5,))], frozenset({0})) is None
    assert describer.of((0,), [(shape, (0.4,))], frozenset({0})) is not None


def test_a_spike_is_not_smoothed_away() -> None:
    rng = np.random.default_rng(0)
    clean = 1 / (1 + (T - 6) ** 2 / 0.02)
    x = (clean + 0.005 * rng.normal(size=len(T)))[:, None]
    found = smoothed(Trajectories([x], [T])).x[0][:, 0]
    assert np.abs(found - clean).max() < 0.1


def test_the_shortest_code_is_that_of_brute_force() -> None:
    """Among all sets of up to three plain terms, by least squares and its code length."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(200, 2))
    y = 2 * x[:, 0] - x[:, 0] * x[:, 1] + 0.3 * x[:, 1] ** 2 + 0.2 * rng.normal(size=200)
    library = Library.polynomial(["x", "y"], 3)
    grid = Columns(library, [], lambda f: f(x), x)
    features = library.numpy()(x)

    def total(base: tuple[int, ...]) -> float:
        columns = features[:, list(base)]
        c, *_ = np.linalg.lstsq(columns, y, rcond=None)
        error = np.mean((y - columns @ c) ** 2)
        parts = np.abs(c) * np.linalg.norm(columns, axis=0) / np.linalg.norm(y)
        numbers = 0.5 * math.log(200) * len(c) + np.log(np.maximum(parts, 1)).sum()
        return float(2.5 * library.weights[list(base)].sum() + numbers + 100 * math.log(error))

    sets = [b for k in (1, 2, 3) for b in combinations(range(len(library)), k)]
    best = min(sets, key=total)
    found = Describer(grid, y).found()
    assert found[0].base == best
    assert found[0].total == pytest.approx(total(best), rel=1e-9)
    for one in found:
        assert one.total == pytest.approx(total(one.base), rel=1e-9)
    assert [one.total for one in found] == sorted(one.total for one in found)


@pytest.mark.slow
def test_a_saturating_exchange_is_found_in_noise() -> None:
    def field(t: float, z: np.ndarray) -> list[float]:
        s, p = z
        return [0.8 - 1.5 * s / (0.6 + s), 1.5 * s / (0.6 + s) - 0.5 * p]

    t = 0.03 * np.arange(512)
    path = solve_ivp(field, (0, t[-1]), [4.2, 0.3], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    noise = np.random.default_rng(11).normal(size=path.shape)
    x = path + 0.01 * path.std(axis=0) * noise
    law = sjepa.discover(x, t, feature_names=["s", "p"], verbose=False).best()
    assert [len(row) for row in law.terms] == [2, 2]
    f = law.numpy()
    one, two = f(np.array([[1.0, 0.0], [2.0, 0.0]]))[:, 1]
    assert 2 * (one - two) / (two - 2 * one) == pytest.approx(0.6, rel=0.05)


def circle(points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, 9, points) + 0.3 * np.sin(np.linspace(0, 20, points))
    z = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return z, 1.0 + 0.5 * z[:, :1] ** 2


def test_the_heavier_spelling_of_a_circle_is_left_out_and_named() -> None:
    z, y = circle()
    terms = ["1", "c", "s", "c**2", "c*s", "s**2"]
    library = Library.from_terms(terms, ["c", "s"])
    problem = Problem(z, y, library=library)
    assert np.flatnonzero(~problem.usable[:, 0]).tolist() == [terms.index("s**2")]
    assert any("s**2 is a sum of 1 and c**2" in note for note in problem.copies)


def test_shares_that_add_up_to_one_stay() -> None:
    rng = np.random.default_rng(0)
    x = rng.dirichlet([1, 1, 1], size=80)
    library = Library.from_terms(["1", "a", "b", "c", "a*b"], ["a", "b", "c"])
    assert Problem(x, x[:, :1] * x[:, 1:2], library=library).usable.all()


def test_noise_of_inputs_alone_adds_no_term_to_the_equation_of_a_velocity() -> None:
    rng = np.random.default_rng(5)
    t = 0.05 * np.arange(500)

    def drive(s: np.ndarray | float) -> np.ndarray:
        return 0.8 * np.sin(0.9 * np.asarray(s)) + 0.4 * np.cos(2.1 * np.asarray(s))

    x = solve_ivp(
        lambda s, z: [z[1], -np.sin(z[0]) - 0.2 * z[1] + drive(s)], (0, t[-1]), [1.0, 0.0],
        t_eval=t, rtol=1e-9, atol=1e-10,
    ).y.T  # fmt: skip
    u = drive(t) + 0.02 * drive(t).std() * rng.normal(size=len(t))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        law = sjepa.discover(x, t, u=u, feature_names=["x", "v"], verbose=False).best()
    assert {str(term) for _, term in law.terms[0]} == {"v"}
