"""Data that invite shortcuts, and the plain training that takes them."""

from __future__ import annotations

import numpy as np
import torch

from sjepa.data import Trajectories
from sjepa.models import Whitening
from sjepa.training.losses import RepresentationLoss


def pendulum_states(count: int = 60, length: int = 61, step: float = 0.07) -> np.ndarray:
    """Pendulum trajectories (count, length, 2) of swings up to 1.8 rad, by small RK4 steps."""
    rng = np.random.default_rng(0)
    s = rng.uniform([-1.8, -1.4], [1.8, 1.4], size=(count, 2))

    def field(s: np.ndarray) -> np.ndarray:
        return np.stack([s[:, 1], -np.sin(s[:, 0])], axis=1)

    path, h = [s], step / 4
    for _ in range(length - 1):
        for _ in range(4):
            k1 = field(s)
            k2 = field(s + h / 2 * k1)
            k3 = field(s + h / 2 * k2)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(s + h * k3))
        path.append(s)
    return np.stack(path, axis=1)


def oscillator_states(count: int = 60, length: int = 61, step: float = 0.07) -> np.ndarray:
    """Rotations at frequency 1 with amplitudes between 0.5 and 1.5."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 2 * np.pi, (count, 1)) + step * np.arange(length)
    amplitude = rng.uniform(0.5, 1.5, (count, 1))
    return np.stack([amplitude * np.sin(phase), amplitude * np.cos(phase)], axis=-1)


def conserved_data() -> Trajectories:
    """Pendulums whose energy, and its square, are plain to see beside the state."""
    s = pendulum_states()
    q, p = s[..., 0], s[..., 1]
    energy = p**2 / 2 - np.cos(q)
    return _observed([q, p, np.sin(q), energy, energy**2, np.tanh(p)], s, step=0.07)


def folded_data() -> Trajectories:
    """Oscillators read by noisy instruments, whose squares and products come out clean."""
    s = oscillator_states()
    q, p = s[..., 0], s[..., 1]
    noise = np.random.default_rng(1).normal(size=(2, *q.shape))
    noisy = [q + 0.05 * noise[0], p + 0.05 * noise[1]]
    return _observed([*noisy, q**2 - p**2, 2 * q * p], s, step=0.07)


def _observed(features: list[np.ndarray], states: np.ndarray, step: float) -> Trajectories:
    """The features behind a fixed rotation, so that no column is a coordinate."""
    x = np.stack(features, axis=-1)
    mix = np.linalg.qr(np.random.default_rng(2).normal(size=(x.shape[-1],) * 2))[0]
    noise = 1e-3 * np.random.default_rng(3).normal(size=x.shape)
    return Trajectories(list(x @ mix + noise), step, state=list(states))


def vicreg_coordinates(data: Trajectories, horizon: int = 5, starts: int = 4) -> np.ndarray:
    """A linear encoder trained for prediction with variance, covariance and mean terms alone.

    The predictor is the best linear one over `horizon` samples, solved inside the loss; of
    several starts the one with the lowest loss wins. Returns coordinates (B, T, 2).
    """
    x = torch.tensor(np.stack(data.x))
    white = Whitening.fit(x, x.shape[-1], rank=x.shape[-1])(x)
    trained = [_train_vicreg(white, horizon, seed) for seed in range(starts)]
    return min(trained, key=lambda pair: pair[0])[1]


def _train_vicreg(white: torch.Tensor, horizon: int, seed: int) -> tuple[float, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    readout = torch.randn(white.shape[-1], 2, generator=generator, dtype=torch.float64)
    readout = (readout / readout.norm(dim=0)).requires_grad_()
    representation = RepresentationLoss({"variance": 3.0, "covariance": 0.25, "mean": 0.01})
    optimizer = torch.optim.Adam([readout], lr=0.05)
    for _ in range(200):
        z = white @ readout
        now, later = z[:, :-horizon].flatten(0, 1), z[:, horizon:].flatten(0, 1)
        with torch.no_grad():
            matrix = torch.linalg.lstsq(now, later).solution
        loss = (later - now @ matrix).square().mean() + representation(z)[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach()), (white @ readout).detach().numpy()
