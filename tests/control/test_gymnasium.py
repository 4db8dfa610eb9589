"""Data from environments, policies in them, and models as environments."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import sjepa
from sjepa.control import CEM, Controller, Task, collect, evaluate, linearize, lqr, make_env
from sjepa.errors import DataError
from sjepa.models import Transition


PENDULUM = sjepa.Law.from_string(["-s*w", "c*w", "15*s + 3*u1"], ["c", "s", "w", "u1"])


def pendulum_cost(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    angle = torch.atan2(z[..., 1], z[..., 0])
    return angle**2 + 0.1 * z[..., 2] ** 2 + 0.001 * u[..., 0] ** 2


def test_collected_steps_are_those_of_the_environment() -> None:
    data = collect("Pendulum-v1", 450, seed=3, dt=0.05, names=["c", "s", "w"], saturated=True)
    assert [len(x) for x in data.x] == [201, 201, 51] and data.input_names == ("u1",)
    x, u = data.x[1], data.u[1]
    speed = np.clip(x[:-1, 2] + 0.05 * (15 * x[:-1, 1] + 3 * u[:-1, 0]), -8, 8)
    np.testing.assert_allclose(x[1:, 2], speed, atol=1e-5)
    again = collect("Pendulum-v1", 450, seed=3, dt=0.05, saturated=True)
    np.testing.assert_array_equal(again.x[2], data.x[2])
    held = collect("Pendulum-v1", 60, seed=0, hold=10, saturated=True)
    assert len(np.unique(held.u[0][:-1])) == 6


def test_steps_that_end_at_a_limit_are_cut_out() -> None:
    data = collect("Pendulum-v1", 2000, seed=0, dt=0.05, names=["c", "s", "w"])
    ends = np.concatenate([x[1:, 2] for x in data.x])
    assert np.abs(ends).max() < 8
    everything = collect("Pendulum-v1", 2000, seed=0, dt=0.05, saturated=True)
    assert sum(len(x) - 1 for x in everything.x) == 2000
    assert 1900 < sum(len(x) - 1 for x in data.x) < 2000
    with pytest.raises(DataError, match="box"):
        collect("CartPole-v1", 10)


def test_the_law_of_the_pendulum_is_found_from_raw_observations() -> None:
    data = collect("Pendulum-v1", 500, seed=1, dt=0.05, names=["c", "s", "w"])
    library = sjepa.Library.polynomial(["c", "s", "w", "u1"], 2)
    front = sjepa.discover(data, library=library, budget=5)
    short = front.select(delta=0.01)
    assert [{str(t) for _, t in terms} for terms in short.terms] == [{"s*w"}, {"c*w"}, {"s", "u1"}]
    # The environment takes the torque of gravity at the start of its step: seen as a flow, w' lags
    # by half a step, 0.025 d(15 s)/dt = 0.375 c w.
    found = {str(t): c for c, t in front.select(delta=1e-3).terms[2]}
    assert set(found) == {"s", "u1", "c*w"}
    np.testing.assert_allclose([found[k] for k in ("s", "u1", "c*w")], [15, 3, -0.375], rtol=0.02)


def test_a_controller_swings_the_real_pendulum_up() -> None:
    task = Task.of(PENDULUM, pendulum_cost, low=[-2], high=[2], horizon=25, dt=0.05)
    policy = Controller(task, CEM(samples=96, iterations=2))
    table = evaluate("Pendulum-v1", policy, range(3))
    assert list(table.columns) == ["seed", "return", "steps"] and (table["steps"] == 200).all()
    assert table["return"].mean() > -200
    lazy = evaluate("Pendulum-v1", lambda x: np.zeros((len(x), 1)), range(3))
    assert table["return"].mean() > lazy["return"].mean() + 500


def test_a_regulator_is_a_policy_too() -> None:
    law = sjepa.Law.from_string(["w", "15*sin(q) + 3*u"], ["q", "w", "u"])
    around = linearize(Transition(law.torch(), integrator="rk4"), [0.0, 0.0], [0.0], dt=0.05)
    regulator = lqr(around, Q=[1.0, 0.1], R=0.001, low=-2, high=2)
    env = gymnasium.make("Pendulum-v1")
    seen, _ = env.reset(seed=0, options={"x_init": 0.08, "y_init": 0.08})
    total = 0.0
    for _ in range(100):
        seen, reward, *_ = env.step(
            regulator([np.arctan2(seen[1], seen[0]), seen[2]]).astype(np.float32)
        )
        total += reward
    assert total > -0.5


@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend")  # units are the task's
def test_a_model_is_a_gymnasium_environment() -> None:
    task = Task.of(PENDULUM, pendulum_cost, low=[-2], high=[2], horizon=20, dt=0.05)
    starts = np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    limits = ([-1.5, -1.5, -20], [1.5, 1.5, 20])
    env = make_env(task, starts, max_steps=50, state_limits=limits)
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=0, options={"state": [0.0, 1.0, 0.5]})
    following, reward, ended, cut, _ = env.step(np.array([1.0], dtype=np.float32))
    wanted = Transition(PENDULUM.torch(), integrator="rk4")(
        torch.tensor(seen), 0.05, torch.tensor([1.0])
    )
    np.testing.assert_allclose(following, wanted.detach(), rtol=1e-5)
    assert reward == pytest.approx(-((np.pi / 2) ** 2 + 0.025 + 0.001), rel=1e-5)
    assert not ended and not cut
    policy = Controller(task, CEM(samples=64, iterations=2))
    table = evaluate(
        lambda: make_env(task, starts, max_steps=50, state_limits=limits), policy, [0, 1]
    )
    assert (table["steps"] == 50).all()


def test_a_model_environment_ends_where_the_model_does() -> None:
    law = sjepa.Law.from_string(["x**2 + u"], ["x", "u"])
    task = Task.of(law, lambda z, u: z[..., 0] ** 2, low=[-1], high=[1], horizon=5, dt=0.5)
    env = make_env(task, [[3.0]], max_steps=50, state_limits=(-5, 5))
    env.reset(seed=0)
    seen, _, ended, _, _ = env.step(np.array([1.0], dtype=np.float32))
    assert ended and np.isfinite(seen).all()


def test_a_policy_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(DataError, match="policy gave"):
        evaluate("Pendulum-v1", lambda x: np.zeros(3), [0, 1])
