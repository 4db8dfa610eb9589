"""The paper's pendulum data, against what the paper says and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sjepa.data import Trajectories, observation_map, paper_data, pendulum_field
from sjepa.errors import DataError


@pytest.fixture(scope="module", params=["exp1", "exp2"])
def experiment(request: pytest.FixtureRequest) -> tuple[str, dict[str, Trajectories]]:
    return request.param, paper_data(request.param)


Experiment = tuple[str, dict[str, Trajectories]]
BOX = {"exp1": (1.8, 1.4), "exp2": (2.2, 2.4)}
OOD = {"exp1": (2.65, 2.0), "exp2": (2.9, 3.0)}


def test_sizes_steps_and_ranges_are_the_papers(experiment: Experiment) -> None:
    name, data = experiment
    assert {k: len(v) for k, v in data.items()} == {"train": 300, "val": 80, "test": 80, "ood": 80}
    for split, part in data.items():
        assert (part.lengths == 101).all()
        assert set(np.concatenate(part.steps).round(9)) == {0.025, 0.04, 0.06}
        assert part.state is not None
        start = np.abs([s[0] for s in part.state])
        half = np.array(OOD[name] if split == "ood" else BOX[name])
        assert (start <= half).all()
        assert (start.max(axis=0) > 0.9 * half).all()  # 80 draws reach near the border


def test_steps_are_drawn_for_every_transition(experiment: Experiment) -> None:
    steps = np.array(experiment[1]["train"].steps)
    assert len(np.unique(steps.round(9), axis=0)) == 300
    for size in (0.025, 0.04, 0.06):  # 30,000 draws: a standard error of 0.003
        assert abs(np.isclose(steps, size).mean() - 1 / 3) < 0.02


def test_states_solve_the_equation(experiment: Experiment) -> None:
    name, data = experiment
    drag = 0.4 if name == "exp2" else 0.0
    part = data["ood"]
    assert part.state is not None
    for i in (0, 40, 79):
        solution = solve_ivp(
            lambda _, s: pendulum_field(s, drag),
            (0, part.t[i][-1]),
            part.state[i][0],
            t_eval=part.t[i],
            method="DOP853",
            rtol=1e-10,
            atol=1e-12,
        )
        # RK4 at steps of up to 0.06 over four time units; p|p| costs it some smoothness.
        np.testing.assert_allclose(part.state[i], solution.y.T, atol=2e-5)


def test_energy_is_conserved_without_drag_and_lost_with_it(experiment: Experiment) -> None:
    name, data = experiment
    states = data["train"].state
    assert states is not None
    s = np.stack(states)
    energy = s[..., 1] ** 2 / 2 - np.cos(s[..., 0])
    if name == "exp1":
        assert np.ptp(energy, axis=1).max() < 2e-6  # the drift of RK4
    else:
        assert (np.diff(energy, axis=1) < 1e-6).all()


def test_observations_are_standardized_with_the_training_set_alone() -> None:
    data = paper_data("exp1")
    rows = np.concatenate(data["train"].x)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), 1, rtol=1e-12)
    assert abs(np.concatenate(data["ood"].x).std(axis=0) - 1).max() > 0.1


def test_the_state_is_linearly_recoverable_from_the_observations() -> None:
    train, test = (paper_data("exp1")[k] for k in ("train", "test"))
    assert train.state is not None and test.state is not None

    def features(part: Trajectories) -> np.ndarray:
        x = np.concatenate(part.x)
        return np.column_stack([x, np.ones(len(x))])

    weights = np.linalg.lstsq(features(train), np.concatenate(train.state), rcond=None)[0]
    error = features(test) @ weights - np.concatenate(test.state)
    assert np.sqrt((error**2).mean()) < 0.004  # the noise is 0.003 and the mixing orthogonal


def test_the_observation_map_keeps_lengths() -> None:
    # Orthogonal mixing: the features hold q and p themselves, so distances cannot shrink.
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, size=(2, 50, 2))
    observe = observation_map()
    assert observe(a).shape == (50, 32)
    far = np.linalg.norm(observe(a) - observe(b), axis=1)
    assert (far >= np.linalg.norm(a - b, axis=1)).all()


def test_in_experiment_2_the_state_is_what_is_observed() -> None:
    part = paper_data("exp2")["test"]
    assert part.names == ("q", "p")
    assert part.state is not None
    np.testing.assert_array_equal(part.x[0], part.state[0])


def test_the_same_call_gives_the_same_numbers() -> None:
    first, second = paper_data("exp1")["val"], paper_data("exp1")["val"]
    np.testing.assert_array_equal(np.stack(first.x), np.stack(second.x))


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(DataError, match="known are exp1, exp2"):
        paper_data("exp3")
