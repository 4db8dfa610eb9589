"""Noisy states: integrals along the path, sets of terms by enumeration, and doubts about laws."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa.backend import Problem
from sjepa.backend.constants import Columns
from sjepa.backend.sets import Describer, _pairs
from sjepa.data import Trajectories
from sjepa.data.integrals import integral_rows, smoothed
from sjepa.errors import NumericalWarning
from sjepa.models.descriptions import Description, _forms, doubt_of, rival_of
from sjepa.models.free_runs import FreeRun
from sjepa.models.selection import imitates
from sjepa.models.widening import _settled
from sjepa.symbolic import Candidate, Front, Law, Library
from sjepa.symbolic.shapes import Shape


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


def test_spellings_of_one_fraction_are_one_law() -> None:
    names = ["x", "y"]
    one = Law.from_string(["0.8 - 1.5*x/(0.6 + x)", "y"], names)
    other = Law.from_string(["0.9/(0.6 + x) - 0.7", "1.01*y"], names)
    longer = Law.from_string(["0.8 - 1.5*x/(0.6 + x) + 0.1*y", "y"], names)
    assert _forms(one)[0] == _forms(other)[0]
    assert _forms(one)[0] != _forms(Law.from_string(["0.8 - tanh(0.5*x)", "y"], names))[0]
    assert _forms(one)[0] < _forms(longer)[0]


def described(equation: str, nats: float) -> Description:
    """A law whose run leaves the noise, 1 for each of 300 values."""
    law, none = Law.from_string([equation, "x"], ["x", "y"]), np.zeros((3, 0))
    normal = (none[..., None], none, np.full(3, 100.0), np.zeros(3), np.zeros((50, 3, 2)))
    return Description(law, FreeRun(law, np.ones(3), 300, lambda: normal), nats)


def test_rivals_are_other_laws_at_odds_below_ten_to_one() -> None:
    best = described("-0.5*y", 20.0)
    near, far = (described("-0.5*sin(y)", 20 + np.log(odds)) for odds in (9.0, 11.0))
    wider = described("-0.5*y + 0.01*x**2", 20.1)
    assert "cannot tell" in doubt_of([best, near])
    assert not doubt_of([best, far])
    assert not doubt_of([best, wider])
    assert "sin(y)" in doubt_of([best, wider, near])
    assert not rival_of(best.law, wider) and rival_of(wider.law, best)


def test_a_longer_law_does_not_win_over_an_exact_one_by_errors_of_integration() -> None:
    texts, losses = ("0.5*y", "y", "y - 0.001*x"), (0.1, 2e-9, 1.9e-9)
    laws = [Law.from_string([text, "x"], ["x", "y"]) for text in texts]
    front = Front(tuple(Candidate.score(a, [b]) for a, b in zip(laws, losses, strict=True)))
    chosen = replace(front, chosen=2)
    assert _settled(front, chosen, exact=1e-8) == 1
    assert _settled(front, replace(front, chosen=1), exact=1e-8) is None
    assert _settled(front, chosen, exact=1e-9) is None


def test_losses_of_pairs_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(60, 7))
    columns /= np.linalg.norm(columns, axis=0)
    y = rng.normal(size=60)
    y /= np.linalg.norm(y)
    losses = _pairs(columns.T @ columns, columns.T @ y, [2])
    for i, j in combinations([0, 1, 3, 4, 5, 6], 2):
        left = np.linalg.lstsq(columns[:, [2, i, j]], y, rcond=None)[1][0]
        assert losses[i, j] == pytest.approx(left, rel=1e-9)
        assert losses[j, i] == losses[i, j]
    assert losses[0, 0] == pytest.approx(
        np.linalg.lstsq(columns[:, [2, 0]], y, rcond=None)[1][0], rel=1e-9
    )


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


def test_a_long_sum_that_cancels_is_called_an_imitation() -> None:
    x = np.linspace(0.1, 1.4, 80)[:, None]
    terms = ["x", "x**2", "x**3", "x**4", "sin(x)", "cos(x)", "1"]
    problem = Problem(x, 1 / (1 + 4 * x**2), library=Library.from_terms(terms, ["x"]))
    series = Law.from_string("9*x - 8*x**2 + 3*x**3 - 9*sin(x) - 7*cos(x) + 8", ["x"])
    assert "x has 6 terms that nearly cancel" in imitates(series, problem)
    assert imitates(Law.from_string("0.9 - 0.5*x", ["x"]), problem) == ""


def test_a_missing_term_of_second_order_is_warned_of() -> None:
    t = np.arange(0, 20, 0.04)
    x = solve_ivp(
        lambda t, z: [z[1], -np.sin(z[0]) - 0.4 * z[1] * abs(z[1])], (0, 20), [2.2, 0.3],
        t_eval=t, rtol=1e-10, atol=1e-12,
    ).y[:1].T  # fmt: skip
    x = x + 0.01 * x.std() * np.random.default_rng(4).normal(size=x.shape)
    with pytest.warns(NumericalWarning, match="miss the data"):
        sjepa.discover(x, t, order=2, feature_names=["q"], library=["q", "sin(q)"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        terms = ["sin(q)", "q_dot*abs(q_dot)"]
        sjepa.discover(x, t, order=2, feature_names=["q"], library=terms)


def test_noise_of_actions_alone_does_not_bend_the_equation_of_a_velocity() -> None:
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
