"""Acting on positions alone: velocities come from the law and from what is seen next."""

import numpy as np
import pytest
import torch

from sjepa import SJEPA
from sjepa.control import CEM, Controller, Observer, Task
from sjepa.errors import ConfigError
from tests.training.joint.test_angle import STEP, T, rotor, video


@pytest.fixture(scope="module")
def model() -> SJEPA:
    angles, _, u = rotor(1.0, 4.0, 0)
    library = ["sin(z1)", "u1", "z1", "1"]
    model = SJEPA(1, encoder="identity", order=2, library=library, random_state=0, verbose=False)
    return model.fit([q[:, None] for q in angles], T, list(u))


def controller(model: SJEPA) -> Controller:
    task = Task.of(
        model, lambda z, u: z[..., 0] ** 2 + 0.1 * z[..., 1] ** 2, low=[-2], high=[2], horizon=10
    )
    return Controller(task, CEM(samples=32, iterations=2))


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_the_velocity_is_known_after_a_few_positions(model: SJEPA) -> None:
    policy, step = Observer(model, controller(model)), model.transition_
    state = torch.tensor([[0.8, 2.0], [-0.5, -1.0]], dtype=torch.float64)
    for _ in range(25):
        action = policy(state[:, :1].numpy())
        assert action.shape == (2, 1)
        state = step(state, STEP, torch.as_tensor(action)).detach()
    policy(state[:, :1].numpy())
    np.testing.assert_allclose(policy.state, state.numpy(), atol=0.02)
    policy.reset()
    assert policy(np.array([0.3])).shape == (1,)
    np.testing.assert_array_equal(policy.state, [[0.3, 0.0]])


def test_an_angle_that_jumps_by_a_turn_is_no_surprise() -> None:
    angles, _, u = rotor(np.pi, 3.0, 0)
    seen = SJEPA(1, order=2, random_state=0, verbose=False).fit(
        [video(q) for q in angles], T, list(u)
    )
    policy = Observer(seen, controller(seen), gains=(0.5, 0.2))
    fast = angles[np.abs(np.diff(angles)).mean(axis=1).argmax()]
    speeds = []
    for frame in video(fast):
        policy(frame)
        speeds.append(policy.state[0, 1])
    # Turned by nothing but what is seen: the planner's own torques are not those of the video.
    true = np.gradient(fast, STEP)
    sign = np.sign(np.corrcoef(speeds[30:], true[30:])[0, 1])
    assert np.abs(sign * np.array(speeds[30:]) - true[30:]).mean() < 0.2 * np.abs(true).mean()


def test_what_an_observer_cannot_do_is_refused(model: SJEPA) -> None:
    with pytest.raises(ConfigError, match="gains are shares"):
        Observer(model, controller(model), gains=(0.5, 0.0))
    first = SJEPA(encoder="identity", verbose=False, random_state=0)
    angles, speeds, u = rotor(1.0, 4.0, 0)
    first.fit([np.stack(z, axis=1) for z in zip(angles, speeds, strict=True)], T, list(u))
    with pytest.raises(ConfigError, match="order=2"):
        Observer(first, controller(model))
