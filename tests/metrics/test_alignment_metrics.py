"""Affine maps, probes and rollout scores against scikit-learn and plain loops."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from sjepa.errors import DataError
from sjepa.metrics import (
    AffineMap,
    correction_ratio,
    probe_r2,
    r2,
    rollout_score,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_affine_map_is_ordinary_least_squares(rng: np.random.Generator) -> None:
    z = rng.normal(size=(5, 40, 3)) @ rng.normal(size=(3, 3)) + 4.0
    s = np.sin(z[..., :2]) + rng.normal(size=(5, 40, 2))
    fitted = AffineMap.fit(torch.from_numpy(z), s)
    reference = LinearRegression().fit(z.reshape(-1, 3), s.reshape(-1, 2))
    expected = reference.predict(z.reshape(-1, 3)).reshape(5, 40, 2)
    np.testing.assert_allclose(fitted(z), expected, rtol=1e-9, atol=1e-9)


def test_probe_scores_match_scikit_learn(rng: np.random.Generator) -> None:
    z, z_test = rng.normal(size=(80, 2)), rng.normal(size=(50, 2))
    s, s_test = (np.tanh(a @ [[1.0, 2.0], [0.5, -1.0]]) for a in (z, z_test))
    model = LinearRegression().fit(z, s)
    score = probe_r2(z, s, z_test, s_test)
    assert score.train == pytest.approx(r2_score(s, model.predict(z)))
    assert score.test == pytest.approx(r2_score(s_test, model.predict(z_test)))


def test_constant_latents_probe_to_the_training_mean(rng: np.random.Generator) -> None:
    """The paper's fixed-point control: 0 on training data, slightly negative on test data."""
    z = np.full((200, 2), [0.65, -0.35])
    s, s_test = rng.normal(size=(200, 2)), rng.normal(size=(50, 2)) + 0.1
    score = probe_r2(z, s, z[:50], s_test)
    assert score.train == pytest.approx(0.0, abs=1e-12)
    assert score.test == pytest.approx(r2_score(s_test, np.tile(s.mean(0), (50, 1))))
    assert score.test < 0


def test_a_probe_amplifies_tiny_variation(rng: np.random.Generator) -> None:
    s = rng.normal(size=(100, 2))
    assert probe_r2(1.0 + 1e-6 * s, s, 1.0 + 1e-6 * s, s).test == pytest.approx(1.0)


def test_shapes_that_do_not_match_are_refused() -> None:
    with pytest.raises(DataError, match="one state for each latent"):
        AffineMap.fit(np.zeros((3, 2)), np.zeros((4, 2)))
    with pytest.raises(DataError, match="Cannot compare rollouts"):
        rollout_score(np.zeros((3, 5, 2)), np.zeros((3, 4, 2)))


def naive_rollout_score(z: np.ndarray, s: np.ndarray, align) -> tuple[float, float]:
    errors, divergent = [], 0
    for n in range(len(z)):
        dead = False
        for h in range(z.shape[1]):
            bad = not np.isfinite(z[n, h]).all()
            mapped = np.full(3, np.nan) if bad else align(z[n, h])
            bad = bad or np.sqrt((z[n, h] ** 2).sum()) > 40 or np.sqrt((mapped**2).sum()) > 25
            dead = dead or bad
            errors.append(100.0 if dead else min(((mapped - s[n, h]) ** 2).mean(), 100.0))
        divergent += dead
    return float(np.mean(errors)), divergent / len(z)


def test_the_rollout_score_matches_a_plain_loop(rng: np.random.Generator) -> None:
    z, s = rng.normal(size=(12, 20, 2)), rng.normal(size=(12, 20, 3))
    z[0, 5] = 41.0  # leaves and comes back
    z[1, 7:] = np.nan
    z[2, 3] = np.inf
    z[3, 9] = [19.0, 0.0]  # inside the latent limit, outside the state limit
    z[4, 9] = [8.0, 0.0]  # large error, but inside
    align = AffineMap(np.array([[1.5, 0.0, 0.2], [0.0, 1.0, 0.1]]), np.ones(3))
    score = rollout_score(z, s, align)
    mse, rate = naive_rollout_score(z, s, align)
    assert score.mse == pytest.approx(mse)
    assert score.divergence_rate == rate == 4 / 12
    assert score.per_step.mean() == pytest.approx(mse) and len(score.per_step) == 20


def test_a_perfect_rollout_scores_zero_and_a_lost_one_the_clipping_value() -> None:
    s = np.ones((3, 4, 2))
    assert rollout_score(s, s).mse == 0 and rollout_score(s, s).divergence_rate == 0
    lost = rollout_score(np.full_like(s, np.nan), s)
    assert lost.mse == 100 and lost.divergence_rate == 1


def test_the_correction_ratio_is_an_energy_ratio(rng: np.random.Generator) -> None:
    law = rng.normal(size=(50, 2))
    assert correction_ratio(np.zeros((50, 2)), law) == 0
    assert correction_ratio(law, law) == pytest.approx(1.0)
    assert correction_ratio(0.5 * law, 1.5 * law) == pytest.approx(1 / 9)
    assert correction_ratio(law, 0 * law) > 1e9  # eta_0 keeps it finite


def test_r2_of_the_mean_is_zero(rng: np.random.Generator) -> None:
    s = rng.normal(size=(30, 2))
    assert r2(np.tile(s.mean(0), (30, 1)), s) == pytest.approx(0.0)
