"""What `discover` and `validate` believe: the chosen law, its adequacy and its rivals."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from benchmarks.budgets import beside
from sjepa import Law
from sjepa.data import SYSTEMS
from sjepa.data.synthetic.simulate import simulate
from sjepa.errors import FormatError, NumericalWarning
from sjepa.inference.constants import ODDS
from sjepa.inference.evidence import Simulation
from sjepa.inference.segments import Segments
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.verdict import Verdict
from tests.inference.test_shooting import law, pendulum


def terms(one: Law) -> list[set[str]]:
    return [{str(t) for _, t in row} for row in one.terms]


def verdict(front: Front) -> Verdict:
    assert front.verdict is not None
    return front.verdict


def test_validate_chooses_by_data_that_the_front_was_not_fitted_to() -> None:
    rows = [(law("p", "-q"), 0.1), (law("p", "-sin(q)"), 1e-3), (law("p", "-sin(q) - p/5"), 1e-9)]
    front = Front.of(Candidate.score(one, [loss]) for one, loss in rows)
    assert terms(front.best()) == [{"p"}, {"sin(q)", "p"}]
    judged = front.validate(pendulum(0.02, seed=5))
    assert terms(judged.best()) == [{"p"}, {"sin(q)"}]
    assert judged.best() == rows[1][0]  # as it was, not refitted
    assert verdict(judged).law == judged.best() and verdict(judged).adequate is True
    table = judged.to_frame()
    assert table["evidence"][1] == 0 and table["odds"][1] == 1
    assert (table["evidence"][[0, 2]] < -100).all()
    assert Front.from_dict(judged.to_dict()) == judged
    with pytest.raises(FormatError, match="place of the chosen"):
        Front.from_dict({**judged.to_dict(), "chosen": 7})


def test_validate_tells_that_no_law_of_a_front_is_adequate() -> None:
    front = Front.of([Candidate.score(law("p", "-q"), [0.1])])
    assert verdict(front.validate(pendulum(0.02))).adequate is False


@pytest.mark.parametrize(("noise", "seed"), [(0.05, 0), (0.1, 0)])
def test_a_small_term_that_the_knee_leaves_out_is_found(noise: float, seed: int) -> None:
    """The -y of Lorenz's second equation is a fiftieth of what moves y."""
    system = SYSTEMS["lorenz"]
    front = sjepa.discover(simulate("lorenz", seed=seed, noise=noise))
    assert terms(front.best()) == terms(Law.from_string(list(system.equations), system.inputs))
    assert verdict(front).adequate is True


def test_a_law_outside_the_library_is_not_adequate_and_one_inside_is() -> None:
    with pytest.warns(NumericalWarning) as caught:
        data = simulate("pendulum", seed=0, noise=0.02)[:3]
        front = sjepa.discover(data, library=["q", "p", "1"])
    assert verdict(front).adequate is False
    assert [str(w.message) for w in caught] == [verdict(front).reasons[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        for noise in (0.0, 0.05):
            front = sjepa.discover(simulate("pendulum", seed=0, noise=noise))
            assert verdict(front).adequate is True


def test_a_quotient_outside_the_library_of_clean_data_is_warned_of() -> None:
    with pytest.warns(NumericalWarning):
        sjepa.discover(simulate("michaelis_menten", seed=0)[:2], backend="subset")


def test_a_column_that_does_not_move_makes_no_law_inadequate() -> None:
    t = np.arange(0, 10, 0.02)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t), np.full(len(t), 0.3)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        front = sjepa.discover(x, t, library=["x1", "x2", "x3"])
    assert verdict(front).adequate is True


def test_no_more_laws_are_simulated_when_the_time_is_over() -> None:
    """The knee of what was found is believed then, and not the first law: that nothing moves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        front = sjepa.discover(pendulum(0.05), budget=1e-9)
    assert verdict(front).figures["laws_compared"] == 1
    assert any(front.best().terms)
    assert verdict(sjepa.discover(pendulum(0.05))).figures["laws_compared"] > 1


def test_a_fit_that_had_no_time_is_not_held_against_the_law() -> None:
    data = pendulum(0.02, seed=5)
    segments, right = Segments.of(data), law("p", "-1.3*sin(q)")  # far from its coefficients
    hasty = Simulation(segments, lambda one: 0.0, time_left=lambda: False)
    assert hasty.adequacy(right).adequate is None
    assert Simulation(segments, lambda one: 0.0).adequacy(right).adequate is True
    wrong = Simulation(segments, lambda one: 0.0).adequacy(law("p", "-1.3*q"))
    assert wrong.adequate is False


def test_as_many_coefficients_as_rows_tell_nothing() -> None:
    x = np.random.default_rng(0).uniform(1, 2, (2, 2))
    model = sjepa.SymbolicRegressor(random_state=0).fit(x, 3 * x[:, 0] - x[:, 1])
    assert model.verdict_.adequate is None


def test_a_budget_leaves_time_for_the_test_of_four_states() -> None:
    """The test followed a fit that had begun when the time was nearly over: a second too many."""
    data = beside(simulate("brusselator", seed=1, noise=0.01), np.random.default_rng(1))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        front = sjepa.discover(data, budget=1.0)
    assert time.process_time() - start < 2.0
    assert verdict(front).adequate is not None


def test_a_missing_term_of_second_order_is_warned_of() -> None:
    t = np.arange(0, 20, 0.04)
    x = solve_ivp(
        lambda t, z: [z[1], -np.sin(z[0]) - 0.4 * z[1] * abs(z[1])], (0, 20), [2.2, 0.3],
        t_eval=t, rtol=1e-10, atol=1e-12,
    ).y[:1].T  # fmt: skip
    x = x + 0.01 * x.std() * np.random.default_rng(4).normal(size=x.shape)
    with pytest.warns(NumericalWarning):
        sjepa.discover(x, t, order=2, feature_names=["q"], library=["q", "sin(q)"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        given = ["sin(q)", "q_dot*abs(q_dot)"]
        front = sjepa.discover(x, t, order=2, feature_names=["q"], library=given)
    assert terms(front.best()) == [{"sin(q)", "q_dot*Abs(q_dot)"}]


def test_rivals_are_other_laws_within_the_odds() -> None:
    """In small swings a sine and a line are the same."""
    t = np.arange(0, 12, 0.05)
    rng = np.random.default_rng(0)
    x = []
    for start in ([0.3, 0.0], [0.1, 0.2], [-0.2, 0.1]):
        path = solve_ivp(lambda _, s: [s[1], -np.sin(s[0])], (0, 12), start, t_eval=t, rtol=1e-9)
        x.append(path.y.T + 0.06 * rng.normal(size=(len(t), 2)))
    front = sjepa.discover(x, t, feature_names=["q", "p"], library=["q", "p", "sin(q)"])
    found = verdict(front)
    assert found.rivals, found
    for rival in found.rivals:
        assert terms(rival.law) != terms(front.best()) and 1 <= rival.odds < math.exp(ODDS)
    assert {"q", "sin(q)"} == {
        *(t for one in (found.law, *(r.law for r in found.rivals)) for t in terms(one)[1])
    }
    odds = [r.odds for r in found.rivals]
    assert odds == sorted(odds)


def test_the_chosen_law_has_the_highest_evidence_and_none_dominates_the_front() -> None:
    front = sjepa.discover(simulate("van_der_pol", seed=1, noise=0.02))
    compared = [c.evidence for c in front if c.evidence is not None]
    assert front.best_candidate().evidence == 0 == max(compared)
    assert verdict(front).law == front.best()
    losses = [c.loss for c in front if c is not front.best_candidate()]
    assert losses == sorted(losses, reverse=True)


def test_free_fall_has_a_constant_rate_and_is_adequate() -> None:
    """A constant target has no variance, and more data must not make g worse."""
    for n in (100, 300):
        t = np.linspace(0, 2, n)
        x = 20 - 4.905 * t**2 + 0.05 * np.random.default_rng(n).normal(size=n)
        front = sjepa.discover(x[:, None], t, order=2, feature_names=["x"], library=["1"])
        ((g, _),) = front.best().terms[0]
        parabola = 2 * np.polyfit(t, x, 2)[0]
        assert g == pytest.approx(parabola, rel=0.02)
        assert verdict(front).adequate is not False


@pytest.mark.parametrize(("unit", "time"), [(1e-6, 1.0), (1e3, 1.0), (1.0, 1e6), (1.0, 1e-3)])
def test_units_do_not_change_a_verdict(unit: float, time: float) -> None:
    t = np.arange(0, 10, 0.05)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    x = x + 0.02 * np.random.default_rng(0).normal(size=x.shape)
    options = {"feature_names": ["q", "p"], "library": ["q", "p", "q**2", "q**3"]}
    one = sjepa.discover(x, t, **options)
    other = sjepa.discover(unit * x, time * t, **options)
    assert terms(one.best()) == terms(other.best()) == [{"p"}, {"q"}]
    np.testing.assert_allclose(other.best().coefficients * time, one.best().coefficients, rtol=1e-3)
    assert verdict(one).adequate is verdict(other).adequate is True
