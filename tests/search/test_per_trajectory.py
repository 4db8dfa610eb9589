"""One structure for several trajectories; coefficients are shared where the data allow it."""

import numpy as np
import pytest

from sjepa import Law, discover, discover_per_trajectory
from sjepa.errors import ConfigError, DataError


T = np.arange(0, 15, 0.05)


def simulated(laws: list[Law], noise: float, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    paths = [law.simulate(rng.normal(size=2) + np.array([1.5, 0.0]), T).z for law in laws]
    return [x + noise * x.std(axis=0) * rng.standard_t(4, size=x.shape) for x in paths]


def pendulums(gravity: list[float]) -> list[Law]:
    return [Law.from_string(["p", f"-{g}*sin(q) - 0.1*p"], ["q", "p"]) for g in gravity]


def test_eleven_falling_bodies_share_gravity_and_differ_in_drag() -> None:
    rng = np.random.default_rng(17)
    t = np.arange(30) / 15
    drags = np.exp(rng.uniform(np.log(0.05), 0, 11))
    x = []
    for c in drags:
        body = Law.from_string(f"-9.81 + {c}*h_dot**2", ["h", "h_dot"], ["h_dot"])
        x.append(body.simulate([30.0, 0.0], t).z[:, :1] + 0.01 * rng.normal(size=(30, 1)))
    found = discover_per_trajectory(x, t, order=2, feature_names=["h"])
    assert found.verdict.adequate
    assert found.shared["value"].tolist() == pytest.approx([-9.81], rel=0.02)
    assert found.differing["value"].abs().to_numpy() == pytest.approx(drags, rel=0.1)
    assert len(found.laws) == 11 and found.table["evidence"].iloc[0] == 0


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_coefficient_differs_only_where_it_does(noise: float) -> None:
    gravity = [0.7, 1.0, 1.4, 2.0]
    found = discover_per_trajectory(
        simulated(pendulums(gravity), noise, 1), T, feature_names=["q", "p"]
    )
    assert set(found.differing.reset_index()["term"]) == {"p': sin(q)"}
    assert found.differing["value"].to_numpy() == pytest.approx(-np.array(gravity), rel=0.02)
    assert set(found.shared.index) == {"q': p", "p': p"}
    same = discover_per_trajectory(
        simulated(pendulums([1.0] * 4), noise, 2), T, feature_names=["q", "p"]
    )
    assert same.differing.empty and same.verdict.adequate
    law = discover(simulated(pendulums([1.0] * 4), noise, 2), T, feature_names=["q", "p"]).best()
    assert same.law.skeleton[0] == law.skeleton[0]


def test_terms_that_vary_can_be_named() -> None:
    x = simulated(pendulums([0.7, 1.0, 1.4]), 0.01, 3)
    found = discover_per_trajectory(x, T, feature_names=["q", "p"], vary=["sin(q)", "p"])
    terms = set(found.differing.reset_index()["term"])
    assert terms == {"q': p", "p': sin(q)", "p': p"}
    with pytest.raises(ConfigError):
        discover_per_trajectory(x, T, feature_names=["q", "p"], vary=["tan(q)"])


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    gravity, inside = [0.8, 1.2, 1.6], 0
    for seed in range(100, 112):
        x = simulated(pendulums(gravity), 0.05, seed)
        found = discover_per_trajectory(
            x, T, feature_names=["q", "p"], library=["p", "sin(q)"], vary=["sin(q)"]
        )
        own = found.differing
        inside += int(
            ((own["lower"] < -np.array(gravity)) & (own["upper"] > -np.array(gravity))).sum()
        )
    assert inside >= 27  # of 36, which fewer reach once in a thousand if each does with 0.9


def test_one_trajectory_and_one_that_is_too_short_are_refused() -> None:
    x = simulated(pendulums([1.0, 1.2]), 0.01, 4)
    with pytest.raises(DataError):
        discover_per_trajectory(x[:1], T)
    with pytest.raises(DataError):
        discover_per_trajectory([*x, x[0][:3]], [T, T, T[:3]])
