"""Data of the three problems of SINDy autoencoders (Champion et al. 2019), by their recipes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre

from sjepa.data import Trajectories


Field = Callable[[np.ndarray], np.ndarray]


def lorenz(seed: int, trajectories: int = 1024, noise: float = 1e-6) -> Trajectories:
    """Lorenz states and their cubes on six Legendre modes: 250 samples of 128 values each.

    `state` holds the scaled variables (x, y, z) / 40.
    """
    rng = np.random.default_rng(seed)
    half = np.array([36.0, 48.0, 41.0])
    center = np.array([0.0, 0.0, 25.0])
    start = rng.uniform(center - half, center + half, size=(trajectories, 3))
    states = _rk4(_lorenz_field, start, step=0.02, samples=250, inner=10) / 40.0
    y = np.linspace(-1.0, 1.0, 128)
    modes = np.stack([legendre.Legendre.basis(i)(y) for i in range(6)])  # (6, 128)
    x = states @ modes[:3] + states**3 @ modes[3:]
    x += noise * rng.standard_normal(x.shape)
    return Trajectories(list(x), 0.02, state=list(states))


def _lorenz_field(s: np.ndarray) -> np.ndarray:
    x, y, z = s.T
    return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z], axis=1)


def pendulum_video(seed: int, trajectories: int = 100, noise: float = 0.0) -> Trajectories:
    """A pendulum on 51 x 51 pixels, 500 samples at 0.02; `state` holds the angle and its rate."""
    rng = np.random.default_rng(seed)
    start: list[np.ndarray] = []
    while len(start) < trajectories:
        q, p = rng.uniform([-np.pi, -2.1], [np.pi, 2.1])
        if abs(p**2 / 2 - np.cos(q)) <= 0.99:
            start.append(np.array([q, p]))
    states = _rk4(
        lambda s: np.stack([s[:, 1], -np.sin(s[:, 0])], axis=1), np.stack(start), 0.02, 500, 2
    )
    frames = draw_bob(states[..., 0])
    if noise:
        frames += noise * rng.standard_normal(frames.shape).astype(np.float32)
    return Trajectories(list(frames), 0.02, state=list(states))


def draw_bob(angle: np.ndarray) -> np.ndarray:
    """Frames (..., 51, 51) of a Gaussian pendulum mass at the given angles."""
    axis = np.linspace(-1.5, 1.5, 51, dtype=np.float32)
    q = angle.astype(np.float32) - np.float32(np.pi / 2)
    # The Gaussian is a product of one in each direction.
    across = np.exp(-((axis - np.cos(q)[..., None]) ** 2) / 0.05)
    along = np.exp(-((axis - np.sin(q)[..., None]) ** 2) / 0.05)
    return across[..., :, None] * along[..., None, :]


def reaction_diffusion(samples: int = 10_000, size: int = 100, noise: float = 1e-6) -> Trajectories:
    """Spiral waves of a lambda-omega system: one trajectory of frames at steps of 0.05."""
    side = 20.0
    axis = np.linspace(-side / 2, side / 2, size, endpoint=False)
    grid_x, grid_y = np.meshgrid(axis, axis)
    radius, phi = np.hypot(grid_x, grid_y), np.arctan2(grid_y, grid_x)
    wave = 2 * np.pi * np.fft.fftfreq(size, side / size)
    laplace = -(wave[:, None] ** 2 + wave[None, : size // 2 + 1] ** 2)
    mask = np.exp(-0.01 * radius**2)

    def field(state: np.ndarray) -> np.ndarray:
        u, v = state
        r2 = u**2 + v**2
        reaction = np.stack([(1 - r2) * u + r2 * v, -r2 * u + (1 - r2) * v])
        return reaction + 0.1 * np.fft.irfft2(laplace * np.fft.rfft2(state), s=(size, size))

    state = np.tanh(radius) * np.stack([np.cos(phi - radius), np.sin(phi - radius)])
    rng = np.random.default_rng(0)
    frames = np.empty((samples, size, size), dtype=np.float32)
    for i in range(samples):
        frames[i] = state[0] * mask + noise * rng.standard_normal(mask.shape)
        state = _rk4_step(field, state, 0.05)
    return Trajectories([frames], 0.05)


def _rk4_step(field: Field, s: np.ndarray, h: float) -> np.ndarray:
    k1 = field(s)
    k2 = field(s + h / 2 * k1)
    k3 = field(s + h / 2 * k2)
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(s + h * k3))


def _rk4(field: Field, start: np.ndarray, step: float, samples: int, inner: int) -> np.ndarray:
    """States (n, samples, d) from fixed inner steps, all trajectories at once."""
    path, s = [start], start
    for _ in range(samples - 1):
        for _ in range(inner):
            s = _rk4_step(field, s, step / inner)
        path.append(s)
    return np.stack(path, axis=1)
