"""Free runs through data: what a right law leaves, what a wrong one does, and who is chosen."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law, Library
from sjepa.backend import Problem
from sjepa.backend.rivals import exchanges, extensions
from sjepa.data import SYSTEMS, Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.errors import DataError, FormatError, NumericalWarning
from sjepa.models.free_runs import better, free_run, judge
from sjepa.models.stretches import Stretches, _thirds
from sjepa.symbolic.front import Candidate, Front


NAMES = ["q", "p"]
T = np.arange(0, 30, 0.05)


def pendulum(noise: float, seed: int = 0) -> Trajectories:
    """By scipy, not by the code under test."""
    solved = solve_ivp(
        lambda _, s: [s[1], -np.sin(s[0])], (0, 30), [2.0, 0.3], "DOP853", T, rtol=1e-10
    )
    x = solved.y.T
    x = x + noise * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)
    return Trajectories([x], T, names=NAMES)


def law(*equations: str) -> Law:
    return Law.from_string(list(equations), NAMES)


def terms(one: Law) -> list[set[str]]:
    return [{str(t) for _, t in row} for row in one.terms]


def test_a_true_law_leaves_the_noise_and_finds_its_numbers() -> None:
    run = free_run(law("1.1*p", "-0.9*sin(q)"), Stretches.of(pendulum(0.05)))
    assert run.errors.mean() == pytest.approx(1.0, abs=0.2)
    np.testing.assert_allclose(run.law.with_free_terms().coefficients, [1, -1], rtol=0.02)


def test_a_wrong_law_leaves_more_and_the_knee_is_not_asked() -> None:
    stretches = Stretches.of(pendulum(0.05))
    laws = [law("p", "-q"), law("p", "-sin(q)"), law("p", "-sin(q) - 0.001*p")]
    chosen, runs = judge(laws, stretches)
    assert chosen == 1
    assert runs[0].errors.mean() > 2 * runs[1].errors.mean()


def test_what_a_law_lacks_varies_slowly_and_noise_does_not() -> None:
    """Runs that a wrong law leaves no more than a few percent above the noise give it away."""
    chances = [
        free_run(law("p", "-sin(q)"), Stretches.of(pendulum(0.05, seed), long=6.0), 1).chance
        for seed in range(8)
    ]
    assert sum(c < 0.05 for c in chances) <= 2 and sum(c < 0.5 for c in chances) >= 2
    short = law("p", "-0.97*q + 0.13*q**3")  # the series that fits best
    wrong = free_run(short, Stretches.of(pendulum(0.01), long=6.0), 1)
    assert wrong.fitted < 1.3 and wrong.chance < 0.01


def test_no_more_laws_are_run_when_the_time_is_over() -> None:
    laws = [law("p", "-q"), law("p", "-sin(q)")]
    chosen, runs = judge(laws, Stretches.of(pendulum(0.05)), time_left=lambda: False)
    assert (chosen, len(runs)) == (0, 1)


def test_what_moves_between_two_observations_is_not_integrated() -> None:
    """Two samples that differ at nearly the same time: half a million steps between the rest."""
    t = 0.1 * np.arange(40) + 0.0999999 * (np.arange(40) % 2)
    x = np.exp(4 * np.arange(40.0))[:, None]
    with pytest.raises(DataError, match="faster than they were observed"):
        Stretches.of(Trajectories([x], t, names=["x"]))


def test_single_precision_data_at_rest_have_stretches() -> None:
    """The least spread that is told from none, 1e-300, is 0 in single precision."""
    stretches = Stretches.of(Trajectories([np.zeros((60, 1), dtype=np.float32)], 0.1, names=["x"]))
    assert (stretches.spread > 0).all() and stretches.substeps == 1


def test_actions_between_observations_do_not_depend_on_those_far_away() -> None:
    """A spline through all of a long drive, once for each stretch, took most of the time."""
    t = 0.01 * np.arange(3000)
    u = np.sin(t)[:, None]
    nodes = slice(1000, 1041, 10)
    found = _thirds(t, u, nodes, held=False)
    np.testing.assert_allclose(
        found[:, 1, 0], np.sin((t[nodes][:-1] + t[nodes][1:]) / 2), atol=1e-9
    )
    np.testing.assert_allclose(_thirds(1e200 * t, u, nodes, held=False), found, atol=1e-12)
    far = u.copy()
    far[[0, -1]] = np.nan
    np.testing.assert_array_equal(_thirds(t, far, nodes, held=False), found)


def test_a_difference_is_real_if_it_is_larger_than_its_standard_error() -> None:
    scatter = np.array([0.9, 1.1, 1.0, 0.95, 1.05, 1.0, 1.02, 0.98])
    assert better(scatter, scatter + 0.05)  # the same on every stretch
    assert not better(scatter, scatter + 0.005)  # too little to pay for a term
    assert not better(scatter, scatter + np.array([0.4, -0.4, 0.3, -0.3, 0.3, -0.2, 0.2, 0.1]))


@pytest.mark.parametrize("held", [True, False])
def test_second_order_with_actions_between_samples(held: bool) -> None:
    step, n = 0.1, 400
    t = step * np.arange(n)
    u = np.repeat(np.random.default_rng(1).normal(size=n // 8), 8) if held else np.sin(1.3 * t)
    states = [np.array([0.5, 0.0])]
    for k in range(n - 1):
        drive = (lambda s, k=k: u[k]) if held else (lambda s: np.sin(1.3 * s))
        states.append(
            solve_ivp(
                lambda s, z, d=drive: [z[1], -2 * z[0] - 0.3 * z[1] + d(s)],
                t[k : k + 2], states[-1], "DOP853", rtol=1e-10, atol=1e-12,
            ).y[:, -1]
        )  # fmt: skip
    x = np.array(states)[:, :1] + 0.005 * np.random.default_rng(0).normal(size=(n, 1))
    data = Trajectories([x], t, [u[:, None]], names=["x"])
    true = Law.from_string(["-2*x - 0.3*x_dot + u1"], ["x", "x_dot", "u1"], outputs=["x_dot"])
    run = free_run(true, Stretches.of(data, order=2, held=held))
    assert run.errors.mean() == pytest.approx(1.0, abs=0.25)
    numbers = {str(t): c for c, t in run.law.terms[0]}
    assert numbers["x"] == pytest.approx(-2, rel=0.03)
    assert numbers["u1"] == pytest.approx(1, rel=0.03)
    other = free_run(true, Stretches.of(data, order=2, held=not held))
    assert other.errors.mean() > run.errors.mean()


def test_validate_chooses_by_data_that_the_front_was_not_fitted_to() -> None:
    rows = [(law("p", "-q"), 0.1), (law("p", "-sin(q)"), 1e-3), (law("p", "-sin(q) - p/5"), 1e-9)]
    front = Front.of(Candidate.score(one, [loss]) for one, loss in rows)
    assert terms(front.best()) == [{"p"}, {"sin(q)", "p"}]
    judged = front.validate(pendulum(0.02, seed=5))
    assert terms(judged.best()) == [{"p"}, {"sin(q)"}]
    errors = judged.to_frame()["free_run"]
    assert errors[1] == pytest.approx(1.0, abs=0.2)
    assert (errors[[0, 2]] > 2).all()
    assert Front.from_dict(judged.to_dict()) == judged
    with pytest.raises(FormatError, match="place of the chosen"):
        Front.from_dict({**judged.to_dict(), "chosen": 7})


def test_neighbours_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 2))
    y = np.sin(x[:, :1]) + 0.3 * x[:, 1:] + 0.2 * rng.normal(size=(300, 1))
    library = Library.from_terms(["q", "p", "q**3", "sin(q)", "sin(p)"], NAMES)
    problem = Problem(x, y, NAMES, ["q"], library=library)
    one = Law.from_string(["sin(q) + 0.3*p"], NAMES, outputs=["q"])
    features = library.numpy()(x)

    def loss(support: list[int]) -> float:
        left = y[:, 0] - features[:, support] @ np.linalg.lstsq(features[:, support], y[:, 0])[0]
        return float((left**2).mean() / y.var())

    own = [library.names.index(n) for n in ("sin(q)", "p")]
    now = problem.losses(one)[0]
    swaps = {
        frozenset({library.names[i], library.names[keep]})
        for keep, i in product(own, range(5))
        if i not in own
        and library.weights[i] <= library.weights[next(k for k in own if k != keep)]
        and loss([keep, i]) <= 1.25 * now
    }
    assert swaps
    assert {frozenset(terms(n)[0]) for n in exchanges(problem, one)} == swaps
    wider = [terms(n)[0] for n in extensions(problem, one)]
    falls = {library.names[i]: loss([*own, i]) for i in range(5) if i not in own}
    assert [(w - {"sin(q)", "p"}).pop() for w in wider] == sorted(falls, key=falls.__getitem__)


@pytest.mark.parametrize(("noise", "seed"), [(0.05, 0), (0.1, 0)])
def test_a_small_term_that_the_knee_leaves_out_is_found(noise: float, seed: int) -> None:
    """The -y of Lorenz's second equation is a fiftieth of what moves y."""
    system = SYSTEMS["lorenz"]
    front = sjepa.discover(simulate("lorenz", seed=seed, noise=noise))
    assert terms(front.best()) == terms(Law.from_string(list(system.equations), system.inputs))
    assert front.best_candidate().free_run == pytest.approx(1.0, abs=0.15)


def test_a_law_outside_the_library_is_named_and_one_inside_is_not() -> None:
    with pytest.warns(NumericalWarning, match="Free runs of the chosen law miss the data"):
        sjepa.discover(simulate("michaelis_menten", seed=0), backend="subset")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        for noise in (0.0, 0.05):
            sjepa.discover(simulate("pendulum", seed=0, noise=noise))


def test_a_column_that_does_not_move_casts_no_doubt() -> None:
    t = np.arange(0, 10, 0.02)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t), np.full(len(t), 0.3)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        sjepa.discover(x, t, library=["x1", "x2", "x3"])


def test_small_libraries_are_searched_exactly_by_default() -> None:
    data = pendulum(0.0)
    assert sjepa.discover(data).backend == "subset"
    many = Library.polynomial(NAMES, 11)
    assert len(many) > 64
    assert sjepa.discover(data, library=many, budget=1.0).backend == "stlsq"
    assert sjepa.discover(data, backend="stlsq").backend == "stlsq"
