"""Coordinates and laws that are judged on what was observed."""

import numpy as np
import pytest

from sjepa.data import Trajectories
from sjepa.inference.coordinates import Observations, Probe
from sjepa.symbolic import Law
from tests.training.joint.shortcut_data import pendulum_states


Array = np.ndarray


def swings(seed: int, count: int, largest: float = 1.4) -> tuple[list[Array], list[Array]]:
    """Damped oscillators, and a narrow bump that moves with them past twelve sensors."""
    rng, t = np.random.default_rng(seed), np.arange(0, 8, 0.05)
    a, b = rng.uniform(-largest, largest, (2, count, 1))
    q = np.exp(-0.1 * t) * (a * np.cos(t) + b * np.sin(t))
    places = np.linspace(-2, 2, 12)
    x = np.exp(-(((q[..., None] - places) / 0.3) ** 2))
    return list(x), list(q[..., None])


def trajectories(x: list[Array]) -> Trajectories:
    return Trajectories(x, 0.05, gaps="keep")


def test_a_probe_follows_functions_of_the_state_that_turn_often() -> None:
    (x, q), (others, p) = swings(0, 20), swings(1, 6)
    probe = Probe.of(q, x)
    left = np.concatenate(others) - probe(np.concatenate(p))
    inside = (np.abs(np.concatenate(p)) < np.abs(np.concatenate(q)).max())[:, 0]
    assert (left[inside] ** 2).mean() < 1e-6


def test_a_probe_of_noise_stays_plain() -> None:
    rng = np.random.default_rng(0)
    z = [rng.uniform(-1, 1, (100, 1)) for _ in range(10)]
    x = [a + 0.3 * rng.normal(size=(100, 3)) for a in z]
    assert Probe.of(z, x).powers.sum(axis=1).max() <= 4


def test_the_right_law_wins_where_observations_turn_often() -> None:
    """Its friction too: the same coordinate without it explains far less."""
    (x, q), (others, _) = swings(0, 20), swings(1, 6)
    probe = Probe.of(x, q)  # the encoder: places from bumps

    def encode(x: Array) -> Array:
        return probe(x)

    evidence = Observations(trajectories(x), trajectories(others), order=2)
    right, poor = (
        Law.from_string([text], ["z1", "z1_dot"], outputs=["z1_dot"])
        for text in ("-1.01*z1 - 0.2*z1_dot", "-1.01*z1")
    )
    scores = [evidence.fit(encode, law, 1.0).total for law in (right, poor)]
    assert scores[0] > scores[1] + 1000


def test_what_an_encoder_does_outside_its_range_is_not_held_against_the_law() -> None:
    """Beyond the training data the coordinate turns back: there no law can be told."""
    (_, q), (_, far) = swings(0, 20), swings(1, 6)
    largest = max(float(np.abs(one).max()) for one in q)
    far[0] = far[0] * 1.5 * largest / np.abs(far[0]).max()

    def encode(x: Array) -> Array:
        return np.where(np.abs(x) > 1.01 * largest, np.sign(x) * 2.02 * largest - x, x)

    evidence = Observations(trajectories(q), trajectories(far), order=2)
    law = Law.from_string(["-1.01*z1 - 0.2*z1_dot"], ["z1", "z1_dot"], outputs=["z1_dot"])
    assert evidence.adequacy(encode, law).adequate is False
    found = evidence.adequacy(encode, law, exact=False)
    assert found.adequate and found.reason.startswith("Within the range of the training data")
    wrong = Law.from_string(["-1.01*z1"], ["z1", "z1_dot"], outputs=["z1_dot"])
    assert evidence.adequacy(encode, wrong, exact=False).adequate is False
    assert evidence.outside(encode) > 0


@pytest.mark.parametrize(
    ("equations", "adequate"), [(("z2", "-sin(z1)"), None), (("z2", "-z1"), False)]
)
def test_small_errors_of_an_encoder_are_not_held_against_the_law_and_wrong_terms_are(
    equations: tuple[str, str], adequate: bool | None
) -> None:
    """Errors are functions of the state here, as those of read-outs of too few sensors are."""

    def encode(x: Array) -> Array:
        return x + 0.01 * np.stack([np.sin(3 * x[:, 1]), np.cos(3 * x[:, 0])], axis=1)

    rng = np.random.default_rng(0)
    s = [a + 0.001 * rng.normal(size=a.shape) for a in pendulum_states(60)]
    evidence = Observations(trajectories(s[:36]), trajectories(s[36:]))
    law = Law.from_string(list(equations), ["z1", "z2"])
    assert evidence.adequacy(encode, law).adequate is False
    assert evidence.adequacy(encode, law, exact=False).adequate is adequate


def test_a_fold_leaves_what_depends_on_the_coordinates_and_a_nuisance_does_not() -> None:
    (_, q), (_, other) = swings(0, 20), swings(2, 20)
    for seen, related in ((q, True), (other, False)):
        x = [np.concatenate([a**2, b], axis=1) for a, b in zip(q, seen, strict=True)]
        evidence = Observations(trajectories(x), trajectories(x))
        assert evidence._leaves_related(lambda x: x[:, :1]) is related
