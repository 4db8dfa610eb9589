"""A known part of the law: subtracted in every form of the data, simulated, added to what is found."""

import warnings

import numpy as np
import pytest

import sjepa
from sjepa import Law
from sjepa.errors import ConfigError, NumericalWarning
from sjepa.symbolic.known import read_known


T = np.arange(0, 12, 0.05)
PENDULUM = Law.from_string(["p", "-sin(q) - 0.3*p*abs(p)"], ["q", "p"])
KNOWN = ["q' = p", "p' = -sin(q)"]


def swings(noise: float = 0.0, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    paths = [PENDULUM.simulate(rng.uniform(-2, 2, 2), T).z for _ in range(3)]
    spread = np.concatenate(paths).std(axis=0)
    return [x + noise * spread * rng.normal(size=x.shape) for x in paths]


def close(found: Law, true: Law, tolerance: float) -> bool:
    """Whether the terms are the same and every coefficient is within a share of its true value."""
    for row, wanted in zip(found.terms, true.terms, strict=True):
        numbers, true_numbers = ({t: c for c, t in r} for r in (row, wanted))
        if numbers.keys() != true_numbers.keys():
            return False
        if any(abs(numbers[t] - c) > tolerance * abs(c) for t, c in true_numbers.items()):
            return False
    return True


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"backend": "stlsq"},
        {"backend": "subset", "derivatives": "weak"},
        {"backend": "pysindy"},
        {"derivatives": "smooth"},
    ],
)
def test_the_law_is_the_known_part_plus_the_missing_term(settings: dict) -> None:
    front = sjepa.discover(swings(), T, feature_names=["q", "p"], known=KNOWN, **settings)
    assert close(front.best(), PENDULUM, 1e-3)
    assert front.verdict is not None and front.verdict.law == front.best()
    assert front.verdict.adequate


def test_with_noise_the_whole_law_is_simulated_and_the_known_numbers_stay() -> None:
    front = sjepa.discover(swings(0.01), T, feature_names=["q", "p"], known=KNOWN)
    assert front.form == "weak"
    assert close(front.best(), PENDULUM, 0.05)
    given = {str(t): c for row in front.best().terms for c, t in row if str(t) != "p*Abs(p)"}
    assert given == {"p": 1.0, "sin(q)": -1.0}
    assert front.verdict is not None and front.verdict.adequate


def test_expression_trees_are_grown_for_the_rest() -> None:
    front = sjepa.discover(
        swings(), T, feature_names=["q", "p"], known=KNOWN, backend="operon", budget=6
    )
    assert close(front.best(), PENDULUM, 1e-3)


def test_losses_and_complexities_are_those_of_the_whole_law() -> None:
    x = swings()
    front = sjepa.discover(x, T, feature_names=["q", "p"], known=KNOWN, backend="subset")
    same = sjepa.discover(x, T, feature_names=["q", "p"], backend="subset").best_candidate()
    assert front.best_candidate().terms == same.terms
    assert front.best_candidate().loss == pytest.approx(same.loss, rel=0.5)
    assert all(c.law.outputs == ("q", "p") and c.loss < 1 for c in front)


def test_accelerations_take_a_known_part() -> None:
    x = [path[:, :1] for path in swings()]
    front = sjepa.discover(x, T, order=2, feature_names=["q"], known="q_dot' = -sin(q)")
    true = Law.from_string("-sin(q) - 0.3*q_dot*abs(q_dot)", ["q", "q_dot"], ["q_dot"])
    assert close(front.best(), true, 0.05)


def test_held_inputs_take_a_known_part() -> None:
    law = Law.from_string(["p", "-sin(q) - 0.2*p + u"], ["q", "p", "u"])
    rng = np.random.default_rng(1)
    t = np.arange(0, 20, 0.1)
    u = np.repeat(rng.normal(size=(len(t) // 4, 1)), 4, axis=0)
    x = law.simulate([1.0, 0.0], t, u).z
    data = sjepa.Trajectories(x, t, u, names=["q", "p"], input_names=["u"])
    front = sjepa.discover(data, derivatives="zoh", known=["q' = p", "p' = u - sin(q)"])
    assert front.form == "zoh"
    assert close(front.best(), law, 0.02)


def test_maps_take_a_known_part() -> None:
    law = Law.from_string(["x + 0.1*y", "0.95*y - 0.1*sin(x)"], ["x", "y"], dynamics="discrete")
    x = law.simulate([2.0, 0.0], np.arange(200.0)).z
    front = sjepa.discover(
        x, 1.0, derivatives="discrete", feature_names=["x", "y"],
        known=["x[t+1] = x + 0.1*y", "y[t+1] = -0.1*sin(x)"],
    )  # fmt: skip
    assert close(front.best(), law, 1e-6)


def test_given_derivatives_and_time_take_a_known_part() -> None:
    t = np.arange(0, 10, 0.02)
    x = np.stack([np.cos(t)], axis=1)
    slopes = (-0.5 * x[:, 0] + np.sin(3 * t))[:, None]
    front = sjepa.discover(
        x, t, x_dot=slopes, feature_names=["x"], library=["x", "x**2"], known="x' = sin(3*t)"
    )
    assert close(front.best(), Law.from_string("sin(3*t) - 0.5*x", ["x", "t"], ["x"]), 1e-6)


def test_letters_of_a_known_part_are_numbers_to_be_found() -> None:
    x = swings()
    front = sjepa.discover(
        x, T, feature_names=["q", "p"], known=["q' = p", "p' = -k*sin(q)"],
        library=["p", "p*abs(p)"],
    )  # fmt: skip
    assert close(front.best(), PENDULUM, 1e-3)
    part = read_known("p' = x/(c + x) - 2*k*p - p**2", ["x", "p"], ["p"], "continuous")
    assert part is not None
    assert set(part.terms) == {("p", "x/(c + x)"), ("p", "p")}
    assert part.law == Law.from_string("-p**2", ["x", "p"], ["p"])


def test_a_table_takes_a_known_part() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    y = 3 * X[:, 0] * X[:, 1] + np.exp(0.7 * X[:, 1])
    model = sjepa.SymbolicRegressor(known="3*x1*x2", random_state=0).fit(X, y)
    assert str(model.law_.round(3)) == "y = 3*x1*x2 + exp(0.7*x2)"
    free = sjepa.SymbolicRegressor("subset", known="k*x1*x2", library=["x1", "x2**2"])
    free.fit(X, 3 * X[:, 0] * X[:, 1] - X[:, 0])
    assert str(free.law_.round(3)) == "y = 3*x1*x2 - x1"


def test_resampled_data_keep_the_known_numbers() -> None:
    front = sjepa.discover(swings(0.01), T, feature_names=["q", "p"], known=KNOWN, n_bootstrap=20)
    rows = {(row.output, row.term): row for row in front.intervals}
    assert rows["p", "sin(q)"].low == rows["p", "sin(q)"].high == -1.0
    drag = rows["p", "p*Abs(p)"]
    assert drag.low < drag.coefficient < drag.high


def test_more_data_join_a_front_with_a_known_part() -> None:
    x = swings()
    front = sjepa.discover(x[:1], T, feature_names=["q", "p"], known=KNOWN, backend="stlsq")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        more = front.update(x[1:], T)
    assert close(more.best(), PENDULUM, 1e-3)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ("r' = -q", "not one equation for one of q, p"),
        ("p' = -sin(velocity)", "velocity"),
        ("p' = __import__('os')", "known: p"),
        (["q' = k*p", "p' = -k*q"], "stands in two terms"),
        (3, "known is a Law or equations"),
        (Law.from_string(["q"], ["q"], ["q"], "discrete"), "discrete law"),
    ],
)
def test_what_cannot_be_known_is_refused_in_one_line(known: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        sjepa.discover(swings()[0], T, feature_names=["q", "p"], known=known)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_trees_do_not_search_numbers_of_a_known_part() -> None:
    with pytest.raises(ConfigError, match="give the number"):
        sjepa.discover(
            swings()[0], T, feature_names=["q", "p"], known="p' = -k*sin(q)", backend="operon"
        )


def test_data_that_are_not_in_memory_take_a_known_part() -> None:
    pieces = [sjepa.Trajectories(x, T, names=["q", "p"]) for x in swings()]
    front = sjepa.discover(iter(pieces), known=KNOWN, backend="stlsq")
    assert close(front.best(), PENDULUM, 1e-3)
