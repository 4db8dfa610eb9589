"""Data of the three problems of SINDy autoencoders (Champion et al. 2019), by their recipes."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import legendre
from scipy.integrate import solve_ivp

from sjepa.data import Trajectories


def lorenz(seed: int, trajectories: int = 1024, noise: float = 1e-6) -> Trajectories:
    """Lorenz states and their cubes on six Legendre modes: 250 samples of 128 values each.

    `state` holds the scaled variables (x, y, z) / 40.
    """
    rng = np.random.default_rng(seed)
    half = np.array([36.0, 48.0, 41.0])
    start = rng.uniform(-half, half, size=(trajectories, 3)) + [0.0, 0.0, 25.0]
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
    """A bob drawn on 51 x 51 pixels, 500 samples at 0.02; `state` holds the angle and its rate."""
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
    """Frames (..., 51, 51) of a Gaussian bob at the given angles."""
    axis = np.linspace(-1.5, 1.5, 51, dtype=np.float32)
    q = angle.astype(np.float32) - np.float32(np.pi / 2)
    # The Gaussian is a product of one in each direction.
    across = np.exp(-((axis - np.cos(q)[..., None]) ** 2) / 0.05)
    along = np.exp(-((axis - np.sin(q)[..., None]) ** 2) / 0.05)
    return across[..., :, None] * along[..., None, :]


def reaction_diffusion(samples: int = 10_000, size: int = 100, noise: float = 1e-6) -> np.ndarray:
    """Spiral waves of a lambda-omega system: frames (samples, size, size) at steps of 0.05."""
    side = 20.0
    axis = np.linspace(-side / 2, side / 2, size, endpoint=False)
    grid_x, grid_y = np.meshgrid(axis, axis)
    radius, phi = np.hypot(grid_x, grid_y), np.arctan2(grid_y, grid_x)
    wave = 2 * np.pi * np.fft.fftfreq(size, side / size)
    laplace = -(wave[:, None] ** 2 + wave[None, :] ** 2)
    u, v = np.tanh(radius) * np.cos(phi - radius), np.tanh(radius) * np.sin(phi - radius)

    def field(_: float, state: np.ndarray) -> np.ndarray:
        a, b = state.reshape(2, size, size)
        r2 = a**2 + b**2
        spread = [np.fft.ifft2(laplace * np.fft.fft2(w)).real for w in (a, b)]
        return np.concatenate(
            [
                ((1 - r2) * a + r2 * b + 0.1 * spread[0]).ravel(),
                (-r2 * a + (1 - r2) * b + 0.1 * spread[1]).ravel(),
            ]
        )

    times = 0.05 * np.arange(samples)
    path = solve_ivp(
        field, (0.0, times[-1] + 1e-9), np.concatenate([u.ravel(), v.ravel()]), t_eval=times,
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    frames = path.y[: size * size].T.reshape(-1, size, size) * np.exp(-0.01 * radius**2)
    return frames + noise * np.random.default_rng(0).standard_normal(frames.shape)


def _rk4(field, start: np.ndarray, step: float, samples: int, inner: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """States (n, samples, d) from fixed inner steps, all trajectories at once."""
    path, s, h = [start], start, step / inner
    for _ in range(samples - 1):
        for _ in range(inner):
            k1 = field(s)
            k2 = field(s + h / 2 * k1)
            k3 = field(s + h / 2 * k2)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(s + h * k3))
        path.append(s)
    return np.stack(path, axis=1)
