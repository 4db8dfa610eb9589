"""Spread, motion along trajectories, and the neighbor test on known shortcuts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sjepa.errors import DataError
from sjepa.metrics import latent_spread, neighbor_test, within_trajectory_share
from sjepa.models import Transition


class Pendulum(torch.nn.Module):
    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.stack([z[..., 1], -z[..., 0].sin()], dim=-1)


@pytest.fixture(scope="module")
def states() -> np.ndarray:
    """120 pendulum trajectories of 100 transitions from the paper's ranges: (120, 101, 2)."""
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.uniform([-1.8, -1.4], [1.8, 1.4], size=(120, 2)))
    dt = torch.from_numpy(rng.choice([0.025, 0.04, 0.06], size=(120, 100)))
    return Transition(Pendulum(), integrator="rk4").rollout(start, dt).numpy()


@pytest.fixture(scope="module")
def observations(states: np.ndarray) -> np.ndarray:
    q, p = states[..., 0], states[..., 1]
    features = [q, p, np.sin(q), np.cos(q), np.sin(2 * q), np.tanh(p), q * p, q**2, p**2]
    x = np.stack(features, axis=-1)
    return (x - x.mean((0, 1))) / x.std((0, 1))


def energy(states: np.ndarray) -> np.ndarray:
    return states[..., 1] ** 2 / 2 - np.cos(states[..., 0])


def shortcuts(states: np.ndarray) -> dict[str, np.ndarray]:
    q, p, e = states[..., 0], states[..., 1], energy(states)
    return {
        "folded": np.stack([q**2 - p**2, 2 * q * p], axis=-1),
        "conserved": np.stack([e, (e - e.mean()) ** 2], axis=-1),
        "one coordinate missing": q[..., None],
        "constant": np.full_like(states, 0.65),
    }


def test_two_equal_directions_have_rank_two_and_a_constant_has_rank_zero() -> None:
    z = np.random.default_rng(0).normal(size=(4000, 2))
    z = (z - z.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True))).T
    spread = latent_spread(z)
    assert spread.effective_rank == pytest.approx(2.0)
    assert spread.min_std == pytest.approx(1.0) and spread.covariance_trace == pytest.approx(2.0)
    assert latent_spread(z[:, :1] * [1.0, 2.0]).effective_rank == pytest.approx(1.0)
    constant = latent_spread(np.full((100, 2), [0.65, -0.35]))
    assert constant.effective_rank == 0 and constant.collapsed() and not spread.collapsed()


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.floats(1e-4, 1e4))
def test_effective_rank_is_the_entropy_of_the_spectrum_and_ignores_scale(
    seed: int, scale: float
) -> None:
    z = np.random.default_rng(seed).normal(size=(50, 3)) * [1.0, 0.5, 0.1]
    share = np.linalg.svd(z - z.mean(0), compute_uv=False) ** 2
    share /= share.sum()
    expected = np.exp(-(share * np.log(share)).sum())
    assert latent_spread(scale * z).effective_rank == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("std", "collapsed"), [((0.3, 0.3), False), ((0.19, 1.0), True), ((0.21, 0.22), True)]
)
def test_collapse_follows_both_thresholds_of_the_paper(std: tuple, collapsed: bool) -> None:
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    assert latent_spread(signs * std).collapsed() is collapsed


def test_motion_along_trajectories_separates_states_from_conserved_quantities(
    states: np.ndarray,
) -> None:
    honest = within_trajectory_share(states)
    assert honest.worst > 0.4
    e = energy(states)
    mixed = np.stack([states[..., 0] + e, states[..., 0] - e], axis=-1)
    assert within_trajectory_share(shortcuts(states)["conserved"]).mean < 1e-6
    assert within_trajectory_share(mixed).worst < 1e-6
    mask = np.ones(states.shape[:2], dtype=bool)
    assert within_trajectory_share(states, mask).worst == pytest.approx(honest.worst)


def test_the_neighbor_test_tells_the_state_from_every_shortcut(
    states: np.ndarray, observations: np.ndarray
) -> None:
    assert neighbor_test(states, observations) < 0.02
    for name, z in shortcuts(states).items():
        assert neighbor_test(z, observations) > 0.2, name
    assert neighbor_test(shortcuts(states)["constant"], observations) == pytest.approx(1, abs=0.1)


def test_the_neighbor_test_matches_brute_force() -> None:
    rng = np.random.default_rng(0)
    z, x = rng.normal(size=(4, 25, 2)), rng.normal(size=(4, 25, 3, 2))
    flat_z, flat_x = (z / z.std((0, 1))).reshape(100, 2), x.reshape(100, 6)
    near = []
    for i in range(100):
        distance = ((flat_z - flat_z[i]) ** 2).sum(1)
        distance[i] = np.inf
        near.append(((flat_x[i] - flat_x[distance.argmin()]) ** 2).sum())
    pairs = [((a - b) ** 2).sum() for i, a in enumerate(flat_x) for b in flat_x[:i]]
    assert neighbor_test(z, x) == pytest.approx(np.mean(near) / np.mean(pairs), rel=1e-6)


def test_the_neighbor_test_ignores_the_scale_and_offset_of_each_coordinate(
    states: np.ndarray, observations: np.ndarray
) -> None:
    rescaled = states * [1e-3, 50.0] + 7.0
    expected = neighbor_test(states, observations)
    assert neighbor_test(rescaled, observations) == pytest.approx(expected, rel=1e-3)


def test_nuisance_in_the_observations_is_seen_through_by_looking_ahead(
    states: np.ndarray, observations: np.ndarray
) -> None:
    rng = np.random.default_rng(0)
    clock = 3.0 * rng.integers(0, 2, size=(*states.shape[:2], 1)) * (np.arange(101) < 80)[:, None]
    noisy = np.concatenate([observations, clock], axis=-1)
    assert neighbor_test(states, noisy, ahead=80) < 0.05 < neighbor_test(states, noisy)


def test_masked_points_take_no_part(states: np.ndarray, observations: np.ndarray) -> None:
    mask = np.arange(101) < 60
    mask = np.broadcast_to(mask, states.shape[:2])
    cut = neighbor_test(states[:, :60], observations[:, :60], ahead=5)
    assert neighbor_test(states, observations, mask, ahead=5) == pytest.approx(cut)


def test_the_neighbor_test_refuses_points_that_do_not_pair_up() -> None:
    with pytest.raises(DataError, match=r"z \(B, T, d\)"):
        neighbor_test(np.zeros((5, 2)), np.zeros((5, 3)))
    with pytest.raises(DataError, match="at least 3"):
        neighbor_test(np.zeros((1, 4, 2)), np.zeros((1, 4, 2)), ahead=3)
