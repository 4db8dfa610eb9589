"""Planning with what a posterior leaves open: coherent draws inside a task."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from sjepa.bayes import Posterior, posterior
from sjepa.control import CEM, CVaR, Task, expected
from sjepa.errors import ConfigError
from sjepa.symbolic import Law


DT = 0.2
LAWS = [
    Law.from_string(["w", "-sin(q) - 0.3*w + 0.8*u"], ["q", "w", "u"]),
    Law.from_string(["w", "-sin(q) + 0.8*u"], ["q", "w", "u"]),
]


def follow(z: np.ndarray, u: float) -> np.ndarray:
    """The true pendulum for one step under a held torque."""

    def field(_: float, s: np.ndarray) -> list[float]:
        return [s[1], -np.sin(s[0]) - 0.15 * s[1] + u]

    return solve_ivp(field, (0, DT), z, rtol=1e-9, atol=1e-9).y[:, -1]


@pytest.fixture(scope="module")
def driven() -> Posterior:
    """Few and noisy data, so that drag stays in doubt."""
    rng = np.random.default_rng(0)
    x, t, u = [], [], []
    for _ in range(2):
        z, pushes = [rng.normal(size=2)], rng.uniform(-1, 1, (16, 1))
        for push in pushes[:-1, 0]:
            z.append(follow(z[-1], push) + 0.05 * rng.normal(size=2))
        x.append(np.array(z))
        t.append(DT * np.arange(16))
        u.append(pushes)
    return posterior(x, t, u=u, candidates=LAWS, feature_names=["q", "w"])


def upright(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return (z[..., 0] - 1.0) ** 2 + 0.01 * u[..., 0] ** 2


def make(model: object, **changes: object) -> Task:
    options = {"low": [-1.5], "high": [1.5], "dt": DT, "horizon": 6, "dtype": torch.float64}
    return Task.of(model, upright, **(options | changes))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_each_draw_is_followed_with_its_own_law_and_numbers(
    driven: Posterior, dtype: torch.dtype
) -> None:
    draws = driven.draws(12)
    assert len(draws.groups) == 2
    z, u = torch.randn(3, 2, dtype=dtype), torch.rand(3, 6, 1, dtype=dtype)
    states = make(draws, dtype=dtype).states(z, u)
    assert states.shape == (12, 3, 7, 2) and states.dtype == dtype
    for group, members in zip(draws.groups, draws.members, strict=True):
        for numbers, b in zip(group.coefficients, members.tolist(), strict=True):
            law, x = group.structure.law_at(numbers).numpy(), z.double().numpy()
            for push in u.double().numpy().swapaxes(0, 1):

                def field(s: np.ndarray, push: np.ndarray = push, law=law) -> np.ndarray:
                    return law(np.concatenate([s, push], axis=1))

                k1 = field(x)
                k2 = field(x + DT / 2 * k1)
                k3 = field(x + DT / 2 * k2)
                k4 = field(x + DT * k3)
                x = x + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            close = 1e-10 if dtype == torch.float64 else 1e-4
            np.testing.assert_allclose(states[b, :, -1], x, rtol=close, atol=close)


def test_a_posterior_is_drawn_as_often_as_asked(driven: Posterior) -> None:
    z, u = torch.zeros(1, 2).double(), torch.ones(1, 6, 1).double()
    drawn = make(driven.draws(12)).cost(z, u)
    torch.testing.assert_close(make(driven, draws=12).cost(z, u), drawn)
    assert make(driven).draws == 100
    averse = make(driven, draws=12, risk=CVaR(0.9)).cost(z, u)
    assert float(averse) > float(drawn)


@pytest.mark.parametrize("risk", [expected, CVaR(0.8)])
def test_its_plan_moves_the_true_system(driven: Posterior, risk: object) -> None:
    task = make(driven, draws=20, risk=risk, horizon=10)
    start = np.zeros(2)
    plan = CEM(samples=64, iterations=4).plan(
        task, torch.as_tensor(start)[None], generator=torch.Generator().manual_seed(0)
    )
    costs = []
    for actions in (plan.actions[0, :, 0].tolist(), [0.0] * 10):
        z, total = start, 0.0
        for u in actions:
            total += (z[0] - 1.0) ** 2 + 0.01 * u**2
            z = follow(z, u)
        costs.append(total)
    assert costs[0] < 0.6 * costs[1]


def test_what_cannot_be_planned_is_refused(driven: Posterior) -> None:
    free = Law.from_string(["w", "-sin(q)"], ["q", "w"])
    quiet = posterior(np.random.default_rng(0).normal(size=(20, 2)).cumsum(0), DT,
                      candidates=free, feature_names=["q", "w"])  # fmt: skip
    for model in (quiet, quiet.draws(5), free):
        with pytest.raises(ConfigError, match=r"takes 0 actions \(inputs q, w\).* have 1"):
            make(model)
    with pytest.raises(ConfigError, match="takes 1 actions"):
        make(driven, low=[-1, -1], high=[1, 1])
    with pytest.raises(ConfigError, match="pass dt"):
        make(driven, dt=None)
    with pytest.raises(ConfigError, match="drawn 5 times, not 6"):
        make(driven.draws(5), draws=6)
    with pytest.raises(ConfigError, match="omit integrator"):
        make(driven, integrator="euler")
