"""Angles that go round, seen as videos: found, followed, and given the law that moves them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import nn

import sjepa
from sjepa import SJEPA, Library, Trajectories
from sjepa.errors import ConfigError
from sjepa.models import Whitening
from sjepa.models.angle import Angle, turn
from sjepa.models.pretrained.embedder import encode_all
from sjepa.training.joint.angle import angle_of, fit_angle


STEP, COUNT, POINTS = 0.05, 12, 160
T = STEP * np.arange(POINTS)


def video(angles: np.ndarray, side: int = 16) -> np.ndarray:
    """Frames (T, side, side) of a blurred rod that hangs down at 0."""
    grid = (np.arange(side) + 0.5) / side * 2 - 1
    x, y = np.meshgrid(grid, grid)
    tip = np.stack([np.sin(angles), np.cos(angles)], axis=-1)[:, :, None, None]
    along = np.clip(x * tip[:, 0] + y * tip[:, 1], 0, 0.8)
    away = (x - along * tip[:, 0]) ** 2 + (y - along * tip[:, 1]) ** 2
    return np.exp(-away / 0.03)


def rotor(reach: float, speed: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles, speeds and torques of q'' = -9 sin q + 2 u, in small steps of Heun's rule."""
    rng = np.random.default_rng(seed)
    angles, speeds = np.zeros((COUNT, POINTS)), np.zeros((COUNT, POINTS))
    torques = rng.uniform(-2, 2, (COUNT, POINTS))
    q, p = reach * rng.uniform(-1, 1, COUNT), speed * rng.uniform(-1, 1, COUNT)
    for i in range(POINTS):
        angles[:, i], speeds[:, i] = q, p
        for _ in range(10):
            a = -9 * np.sin(q) + 2 * torques[:, i]
            middle = q + STEP / 20 * p
            p = p + STEP / 10 * (a - 9 * np.sin(middle) + 2 * torques[:, i]) / 2
            q = q + STEP / 10 * (p - STEP / 20 * a)
    return angles, speeds, torques[..., None]


@pytest.fixture(scope="module")
def fitted() -> tuple[SJEPA, np.ndarray]:
    angles, _, u = rotor(np.pi, 3.0, 0)
    x = [video(q) for q in angles]
    return SJEPA(1, order=2, random_state=0, verbose=False).fit(x, T, list(u)), angles


def test_the_law_of_a_circular_coordinate_is_found_in_its_video(
    fitted: tuple[SJEPA, np.ndarray],
) -> None:
    model, angles = fitted
    assert np.ptp(angles, axis=1).max() > 4 * np.pi
    numbers = {str(term): c for c, term in model.law_.terms[0]}
    assert set(numbers) == {"sin(z1)", "u1"}
    assert numbers["sin(z1)"] == pytest.approx(-9, rel=0.1)
    assert abs(numbers["u1"]) == pytest.approx(2, rel=0.1)
    sign = np.sign(numbers["u1"])  # frames do not say which way round is positive
    for q, z in zip(angles, model.encode([video(q) for q in angles]), strict=True):
        off = z[:, 0] - sign * q
        turns = np.round(off.mean() / (2 * np.pi))
        # Followed from turn to turn, and never lost: two thousand small frames tell no more.
        np.testing.assert_allclose(off, 2 * np.pi * turns, atol=0.6)
    assert "coordinate is circular" in model.diagnostics_[0]


def test_settings_are_read_for_angles_too_or_refused() -> None:
    angles, _, u = rotor(np.pi, 3.0, 0)
    data = Trajectories.of([video(q) for q in angles], T, list(u))
    encoder = angle_of(data)
    assert encoder is not None
    library = Library.from_terms(["1", "sin(z1)", "cos(z1)", "u1"], ["z1", "u1"])
    rough = fit_angle(data, encoder, library, delta=0.2)
    assert rough.law.lines(2)[0].startswith("z1'' = -") and "u1" not in str(rough.law)
    assert not rough.warnings and fit_angle(data, encoder, library).warnings
    short = fit_angle(data, encoder, library, select="mdl")
    assert short.law == short.front.shortest(int(data.lengths.sum()))
    with pytest.raises(ConfigError, match=r"2π-periodic: add sin\(z1\)"):
        fit_angle(data, encoder, Library.from_terms(["z1", "z1**3"], ["z1", "u1"]))
    with pytest.raises(ConfigError, match="delta_roll is not read for a circular"):
        SJEPA(1, search=sjepa.Joint(delta_roll=0.1), order=2, verbose=False).fit(data)


def test_an_angle_is_judged_on_what_was_held_out(fitted: tuple[SJEPA, np.ndarray]) -> None:
    model, _ = fitted
    assert set(model.figures_) == {
        "residual", "residual_training", "noise_floor", "ratio", "adequate", "rollout_held_out",
        "rollout_training",
    }  # fmt: skip
    # Other terms than the chosen ones would do far worse on both.
    assert 0 < model.figures_["residual_training"] < 0.05 and model.figures_["residual"] < 0.1
    assert 0 < model.figures_["rollout_held_out"] < 1 and "rollout error" in repr(model)
    assert any("of held-out data" in note for note in model.diagnostics_)


def test_of_a_single_long_video_the_end_is_held_out_if_it_is_long_enough() -> None:
    t = STEP * np.arange(400)
    turning = solve_ivp(lambda _, s: [s[1], -9 * np.sin(s[0])], (0, 20), [0, 7], t_eval=t)
    q = turning.y[0]
    data = Trajectories.of([video(q)], STEP)
    library = Library.from_terms(["1", "sin(z1)", "cos(z1)"], ["z1"])
    encoder = angle_of(data)
    assert encoder is not None
    assert "rollout_held_out" in fit_angle(data, encoder, library, effort=0.1).figures
    short = Trajectories.of([video(q[:70])], STEP)
    learned = fit_angle(short, encoder, library)
    assert "rollout_held_out" not in learned.figures and learned.figures["residual"] >= 0
    assert any("nothing was held out" in note for note in learned.notes)


def test_progress_of_an_angle_is_reported_and_options_are_read_or_refused() -> None:
    angles, _, u = rotor(np.pi, 3.0, 0)
    x, reported = [video(q) for q in angles], list[tuple[str, float]]()
    settings = {"order": 2, "verbose": lambda *report: reported.append(report)}
    SJEPA(1, search=sjepa.Joint(effort=0.1), **settings).fit(x, T, list(u))
    shares = [share for _, share in reported]
    assert shares == sorted(shares) and reported[-1] == ("done", 1.0)
    assert sum("circular" in line for line, _ in reported) == 40  # a tenth of the updates, twice
    with pytest.raises(ConfigError, match="restarts is not read for a circular"):
        SJEPA(1, search=sjepa.Joint(effort=0.1, restarts=9), **settings).fit(x, T, list(u))


def test_a_saved_angle_is_followed_as_before(
    fitted: tuple[SJEPA, np.ndarray], tmp_path: Path
) -> None:
    model, angles = fitted
    model.save(tmp_path / "rotor")
    again, x = sjepa.load(tmp_path / "rotor"), video(angles[0])
    np.testing.assert_array_equal(again.encode(x), model.encode(x))
    assert turn(again.encoder_) == pytest.approx(2 * np.pi)


def test_what_only_swings_has_no_angle() -> None:
    for speed, data in (
        (2.0, video),
        (3.0, lambda q: np.random.default_rng(0).normal(size=(len(q), 9))),
    ):
        angles, _, u = rotor(1.0, speed, 1)
        assert angle_of(Trajectories.of([data(q) for q in angles], T, list(u))) is None


def test_a_turn_is_reported_in_the_units_of_the_coordinate() -> None:
    angle = Angle(2).double()
    scaled = nn.Linear(1, 1).double()
    with torch.no_grad():
        scaled.weight.fill_(-0.5)
    encoder = nn.Sequential(nn.Sequential(Whitening(2, 2).double(), angle), scaled)
    assert turn(encoder) == pytest.approx(np.pi)
    assert turn(scaled) is None and turn(len) is None
    q = np.linspace(0, 20, 90)
    (z,) = encode_all(encoder, [np.stack([np.cos(q), np.sin(q)], axis=1)])
    np.testing.assert_allclose(z[:, 0] - z[0, 0], -0.5 * q, atol=1e-9)
