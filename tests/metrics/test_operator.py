"""Γ and C_dyn by the paper's definition."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import sjepa
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.models import Correction, Transition
from sjepa.symbolic import Grammar, Law, Library


LIBRARY = Library.paper(["z1", "z2"])
DT = 0.05


def stepped(field: object, count: int = 8, points: int = 40) -> Trajectories:
    """Paths that follow a field by forward Euler exactly."""
    z = [np.random.default_rng(0).uniform(-1.5, 1.5, (count, 2))]
    for _ in range(points - 1):
        z.append(z[-1] + DT * field(z[-1]))  # type: ignore[operator]
    return Trajectories(list(np.stack(z, axis=1)), DT)


def pendulum(z: np.ndarray) -> np.ndarray:
    return np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)


def braked(z: np.ndarray) -> np.ndarray:
    return pendulum(z) - 0.4 * np.stack([0 * z[:, 0], z[:, 1] * np.abs(z[:, 1])], axis=1)


def mean_square(data: Trajectories, of: object) -> float:
    z = np.concatenate([x[:-1] for x in data.x])
    return float((of(z) ** 2).sum(1).mean())  # type: ignore[operator]


def test_gamma_is_omega_and_the_energy_of_the_correction() -> None:
    law = Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"])
    torch.manual_seed(0)
    network = Correction(2, width=8).double()
    states = np.random.default_rng(0).normal(size=(50, 2))
    got = sjepa.operator_complexity(
        Transition.of(law, "rk4", network), states, lambda_c=0.5, tau=0.1
    )
    c = network(torch.as_tensor(states)).detach().numpy()
    weights = sum(float((p.detach() ** 2).sum()) for p in network.parameters())
    assert got.value == pytest.approx(3.0 + 0.5 * ((c**2).sum(1).mean() + 0.1 * weights))


def test_the_literal_infimum_is_nearly_degenerate_and_says_from_which_weight_on_it_is_not() -> None:
    data = stepped(pendulum)
    found = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-5, lambda_c=0.02)
    # No law, and the correction is the whole field but for what delta forgives.
    whole = 0.02 * mean_square(data, pendulum)
    assert found.law is not None and found.gamma is not None and found.gamma.omega == 0.0
    assert 0.5 * whole < found.value < whole and found.certificate == "exact"
    assert found.l_pred == pytest.approx(1e-5, rel=0.01)
    law = found.table[found.table["r_corr"] == 0].iloc[0]
    assert law["omega"] == 3.0 and law["terms"] == "z2; sin(z1)"
    heavy = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-5, lambda_c=1e3)
    light = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-5, lambda_c=0.99 * law["break_even"])
    assert heavy.value == pytest.approx(3.0) and light.value < 3.0
    assert heavy.law is not None
    assert heavy.law.equivalent(Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"]), 1e-6)


def test_the_least_correction_beside_a_law_is_what_the_shrinkage_proposition_says() -> None:
    """With equal steps c = s r; delta = dt² (1 - s)² E|r|² gives s, up to the class of features."""
    data = stepped(braked)
    library = Library.from_terms(["z2", "sin(z1)"], ["z1", "z2"], mask=np.array([[1, 0], [0, 1]]))
    found = sjepa.dynamics_complexity(None, data, library, 2e-6, lambda_c=50.0, tau=0.0)
    assert found.gamma is not None and found.gamma.omega == 3.0 and found.transition is not None
    z = torch.as_tensor(np.concatenate([x[:-1] for x in data.x]))
    law, c = found.transition.parts(z)
    residual = torch.as_tensor(braked(z.numpy())) - law
    left = DT**2 * float((residual - c).square().sum(-1).mean())
    assert left == pytest.approx(2e-6, rel=0.01)
    energy = float(residual.square().sum(-1).mean())
    share = 1 - math.sqrt(2e-6 / DT**2 / energy)
    assert found.gamma.r_corr == pytest.approx(share**2 * energy, rel=0.05)


def test_rollouts_can_ask_for_more_than_single_steps() -> None:
    data = stepped(braked)
    one = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-4, lambda_c=1.0)
    far = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-4, lambda_c=1.0, delta_roll=1e-4)
    assert far.l_roll <= 1e-4 and far.value > one.value
    assert far.transition is not None
    start = torch.as_tensor(np.stack([x[0] for x in data.x]))
    path = far.transition.rollout(start, DT, steps=10)[:, 1:].numpy()
    truth = np.stack([x[1:11] for x in data.x])
    assert ((path - truth) ** 2).sum(-1).mean() < 4e-4


def test_the_pair_of_encoders_counts() -> None:
    """A target that lags behind is another task: z̄ = 0.9 z shrinks what comes next."""
    data = stepped(pendulum)
    same = sjepa.dynamics_complexity(None, data, LIBRARY, 1e-6, lambda_c=1e3)
    half = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    half.weight.data.copy_(0.9 * torch.eye(2))
    other = sjepa.dynamics_complexity((None, half), data, LIBRARY, 1e-6, lambda_c=1e3)
    assert same.value == pytest.approx(3.0) and other.value > 4.9
    assert other.law is not None
    z1 = dict(zip(map(str, LIBRARY.names), LIBRARY.coefficients(other.law)[:, 0], strict=True))[
        "z1"
    ]
    assert z1 == pytest.approx(-0.1 / DT, rel=1e-3)


def test_nothing_adequate_is_infinite_and_mistakes_are_refused() -> None:
    data = stepped(lambda z: np.sign(np.sin(40 * z)))
    small = Library.from_terms(["z1"], ["z1", "z2"])
    assert sjepa.dynamics_complexity(None, data, small, 1e-6, width=4).value == math.inf
    with pytest.raises(ConfigError, match="positive"):
        sjepa.dynamics_complexity(None, data, small, 0.0)
    with pytest.raises(ConfigError, match="not in a grammar"):
        sjepa.dynamics_complexity(None, data, Grammar(["+"], ["z1", "z2"]), 1.0)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="without actions"):
        driven = Trajectories(data.x, data.t, [np.zeros((len(x), 1)) for x in data.x])
        sjepa.dynamics_complexity(None, driven, small, 1.0)
