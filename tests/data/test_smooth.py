"""Smoothing in time of observations that are largely noise."""

import numpy as np

from sjepa.data import Trajectories
from sjepa.data.smooth import HALVES, NOISY, choose_half, noise_of, smoothed


def waves(noise: float, rate: float = 1.0) -> tuple[Trajectories, np.ndarray]:
    rng = np.random.default_rng(0)
    t = np.arange(120) * 0.1
    clean = np.sin(rate * t[:, None] + rng.uniform(0, 6, (8, 1, 30)))
    return Trajectories(list(clean + noise * rng.normal(size=clean.shape)), 0.1), clean


def test_the_window_is_nearly_the_best_and_longer_for_slower_motion() -> None:
    chosen = []
    for rate in (1.0, 3.0):
        data, clean = waves(0.7, rate)
        missed = {h: np.square(np.stack(smoothed(data, h).x) - clean).mean() for h in HALVES}
        half = choose_half(data, noise_of(data)[0])
        assert missed[half] < 1.1 * min(missed.values()) < 0.3 * 0.7**2
        chosen.append(half)
    assert chosen[0] > chosen[1]


def test_the_share_of_noise_is_told() -> None:
    level, share = noise_of(waves(0.7)[0])
    np.testing.assert_allclose(np.median(level), 0.7, rtol=0.1)
    np.testing.assert_allclose(share, 0.49 / (0.49 + 0.5), rtol=0.15)
    assert noise_of(waves(0.05)[0])[1] < NOISY
