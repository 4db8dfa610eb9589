"""Actions as inputs of the law that a search of coordinates finds."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import sjepa
from sjepa import SJEPA
from sjepa.data import Trajectories
from sjepa.metrics.diagnostics import diagnose_hidden
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.symbolic import Library
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.context import prepare
from sjepa.training.joint.initial_subspaces import holds_actions
from sjepa.training.joint.whitened_trajectories import Observed, pieces, sampling_grid
from sjepa.training.whitening import fit_whitening


STEP, POINTS = 0.1, 120
FIELD = np.array([[0.0, 1.0], [-1.0, -0.2]])
MIXING = np.random.default_rng(5).normal(size=(2, 5))
SMALL = {"structures": 6, "restarts": 2, "effort": 0.2, "grow": False, "rollout": 10}


def driven(kind: str, count: int = 12) -> Trajectories:
    """x'' = -x - 0.2 x' + 1.5 u through five mixtures, solved exactly."""
    rng = np.random.default_rng(0)
    t = np.arange(POINTS) * STEP
    states, actions = [], []
    fine = 1 if kind == "held" else 200  # a smooth action is a staircase of tiny steps
    step = expm(FIELD * STEP / fine)
    push = np.linalg.solve(FIELD, (step - np.eye(2)) @ np.array([0.0, 1.5]))
    for _ in range(count):
        rates, phases = rng.uniform(0.5, 2.0, 3), rng.uniform(0, 6, 3)
        if kind == "held":
            u = np.repeat(rng.normal(size=POINTS), 6)[:POINTS]
            drive = u
        else:
            middle = (np.arange(POINTS * fine) + 0.5) * STEP / fine
            u, drive = (np.sin(s[:, None] * rates + phases).sum(1) for s in (t, middle))
        z = [rng.normal(size=2)]
        for value in drive[: (POINTS - 1) * fine]:
            z.append(step @ z[-1] + push * value)
        states.append(np.array(z)[::fine])
        actions.append(u[:, None])
    return Trajectories([z @ MIXING for z in states], STEP, actions, state=states)


@pytest.mark.parametrize("kind", ["held", "smooth"])
def test_integrals_under_actions_are_those_of_the_exact_solution(kind: str) -> None:
    data = driven(kind, 3)
    grid = sampling_grid(data)
    z = torch.tensor(np.stack(data.state))
    grid = Observed(z, grid, z).with_zoh(kind == "held").grid

    def law(inputs: torch.Tensor) -> torch.Tensor:
        q, p, u = inputs.unbind(-1)
        return torch.stack([p, -q - 0.2 * p + 1.5 * u])

    change = z.movedim(-1, 0) - z.movedim(-1, 0)[..., :1]
    torch.testing.assert_close(grid.integrals(law, z, 1), change, atol=5e-3, rtol=0)
    twice = grid.integrals(lambda v: law(v)[1:], z, 2)[0]
    fall = z[..., 0] - z[:, :1, 0] - z[:, :1, 1] * grid.times
    torch.testing.assert_close(twice, fall, atol=1e-2, rtol=0)


@pytest.mark.parametrize("kind", ["held", "smooth"])
def test_whether_actions_are_held_is_read_off_the_data(kind: str) -> None:
    data = driven(kind)
    observed = Observed.of(data, fit_whitening(data))
    assert holds_actions(observed, 1) == (kind == "held")
    positions = Trajectories([s[:, :1] for s in data.state], STEP, data.u)
    observed = Observed.of(positions, fit_whitening(positions))
    assert holds_actions(observed, 2) == (kind == "held")  # though friction is no part of it


def test_pieces_keep_the_actions_of_their_samples() -> None:
    data = driven("held", 2)
    cut = pieces(data, 50)
    assert cut.u is not None
    np.testing.assert_array_equal(cut.u[1], data.u[0][50:100])


@pytest.mark.parametrize("order", [1, 2])
def test_a_driven_law_is_found_in_coordinates(order: int, tmp_path: Path) -> None:
    data = driven("held")
    # Second order sees positions only: their mixture is one coordinate.
    seen = data if order == 1 else Trajectories([s[:, :1] for s in data.state], STEP, data.u)
    library = None if order == 1 else ["z1", "z1_dot", "sin(z1)", "u1"]
    model = SJEPA(3 - order, search=sjepa.Joint(**SMALL), order=order, library=library, random_state=0).fit(seen)  # fmt: skip
    assert model.figures_["adequate"] == 1.0
    assert "u1" in model.law_.inputs
    assert model.score(seen) > 0.999
    z = np.concatenate(model.encode(seen))
    states = np.concatenate(data.state)[:, : z.shape[1]]
    matrix = np.linalg.lstsq(z - z.mean(0), states - states.mean(0), rcond=None)[0]
    push = np.asarray(
        model.law_.numpy()(np.eye(3)[[2]] * 1.0) - model.law_.numpy()(np.zeros((1, 3)))
    )
    np.testing.assert_allclose((push @ matrix)[0, -1], 1.5, rtol=0.02)
    model.save(tmp_path / "m")
    again = sjepa.load(tmp_path / "m")
    assert again.action_names_ == ("u1",) and again.score(seen) == model.score(seen)


@pytest.mark.parametrize("kind", ["held", "smooth"])
def test_a_hidden_velocity_is_seen_though_actions_change_what_comes_next(kind: str) -> None:
    data = driven(kind)
    states, u = np.stack(data.state or []), np.stack(data.u or [])
    mask = np.ones(states.shape[:2])
    assert diagnose_hidden(states[..., :1], mask, 20, u)[0].value > 0.6
    assert diagnose_hidden(states, mask, 20, u) == []


def test_a_speed_that_pushes_alone_decide_hides_nothing() -> None:
    """v' = -0.5 v + u: what comes next looks random unless actions are looked at."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.normal(size=(12, 20)), 6, axis=1)[..., None]
    v = [rng.normal(size=(12, 1))]
    for i in range(119):
        v.append(np.exp(-0.05) * v[-1] + (1 - np.exp(-0.05)) / 0.5 * u[:, i])
    speeds, mask = np.stack(v, axis=1), np.ones((12, 120))
    assert diagnose_hidden(speeds, mask, 10) != []
    assert diagnose_hidden(speeds, mask, 10, u) == []


def test_a_driven_search_names_the_hidden_state() -> None:
    data = driven("held")
    seen = Trajectories([s[:, :1] for s in data.state or []], STEP, data.u)
    model = SJEPA(1, search=sjepa.Joint(**SMALL), random_state=0).fit(seen)
    assert model.figures_["adequate"] == 0.0
    assert any("A state is hidden" in warning for warning in model.warnings_)


def test_under_actions_less_motion_tells_a_state_from_a_constant() -> None:
    """Where a cart comes to rest is a constant of its motion, but for the pushes."""
    data = driven("held")
    names = ["z1", "z2", "u1"]
    library = Library.from_terms(["z2", "u1", "z1"], names)
    free = Library.from_terms(["z2", "z1"], names[:2])
    pushed, left = (
        prepare(one, terms, 2, 1, 0, SearchBudget(), None, CollapseChecks(), None, None).checks
        for one, terms in ((data, library), (Trajectories(data.x, data.t), free))
    )
    assert left.within == CollapseChecks().within
    assert pushed.within == pytest.approx(left.within / 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_driven_pendulum_through_eight_linear_sensors_is_found_at_any_seed(seed: int) -> None:
    rng, step = np.random.default_rng(5), 0.05
    force = 0.3 * np.repeat(rng.normal(size=(40, 16, 1)), 10, axis=1)  # held for half a second
    path = [0.7 * rng.normal(size=(40, 2))]
    for k in range(159):
        s = path[-1]
        for _ in range(10):
            q, p = s.T
            slope = np.stack([p, -np.sin(q) - 0.1 * p + force[:, k, 0]], axis=1)
            q, p = (s + step / 20 * slope).T
            slope = np.stack([p, -np.sin(q) - 0.1 * p + force[:, k, 0]], axis=1)
            s = s + step / 10 * slope
        path.append(s)
    states = np.stack(path, axis=1)
    x = states @ rng.normal(size=(2, 8))
    x += 0.005 * x.std((0, 1)) * rng.normal(size=x.shape)
    model = SJEPA(2, random_state=seed).fit(list(x), step, list(force))
    rows = sorted(len(row) for row in model.law_.terms)
    assert rows == [1, 3] and model.law_.complexity("terms") <= 5
    assert model.verdict_ is not None and model.verdict_.adequate is not False
