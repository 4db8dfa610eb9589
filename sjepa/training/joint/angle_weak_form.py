"""Windows over the path of an angle: what moves it in the weak form, and how well a law does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data import Trajectories
from sjepa.metrics import segment_errors
from sjepa.models import Simulator, Transition
from sjepa.models.angle import Angle
from sjepa.models.pretrained.embedder import encode_all
from sjepa.symbolic import Law, Library
from sjepa.training.joint.rollout_refinement import CAP


# Windows of the weak form are a turn or two long, at most so many samples; trajectories have at
# least twice as many as the first.
SHORTEST, LONGEST = 8, 60


def window_of(paths: list[Tensor]) -> int:
    """Samples in about one and a half turns."""
    speed = float(torch.cat([p.diff() for p in paths]).square().mean().sqrt())
    return min(round(3 * math.pi / max(speed, 1e-12)), LONGEST, min(map(len, paths)) // 2)


class WeakTestFunction:
    """Integrals against (1 - s²)³ over windows of k steps, every other one."""

    def __init__(self, k: int, step: float) -> None:
        s, half = torch.linspace(-1, 1, k + 1, dtype=torch.float64), k * step / 2
        inside = 1 - s**2
        self.k = k
        self.values = step * inside**3
        self.slopes = step * -6 * s * inside**2 / half
        self.second_derivative = step * (24 * s**2 * inside - 6 * inside**2) / half**2
        self.zoh_weights = (
            self.values[1:] + self.values[:-1]
        ) / 2  # of what is held between samples

    def acceleration(self, path: Tensor) -> Tensor:
        return path.unfold(0, self.k + 1, 2) @ self.second_derivative

    def causes(self, path: Tensor, u: Tensor | None) -> Tensor:
        """The columns that a rotor's acceleration may be made of (windows, columns)."""
        windows = path.unfold(0, self.k + 1, 2)
        columns = [windows.sin() @ self.values, windows.cos() @ self.values, -windows @ self.slopes]
        if u is not None:
            windows = u[: len(path) - 1].unfold(0, self.k, 2)  # (windows, actions, k)
            columns += list((windows @ self.zoh_weights).unbind(1))
        return torch.stack([*columns, torch.full_like(columns[0], float(self.values.sum()))], 1)


@dataclass(frozen=True, eq=False)
class AngleRows:
    """Windows of an angle's path: accelerations, the terms that may cause them, their noise."""

    test_function: WeakTestFunction
    targets: np.ndarray
    features: np.ndarray
    floor: float
    paths: Trajectories

    @classmethod
    def of(
        cls,
        trajectories: Trajectories,
        encoder: nn.Sequential,
        library: Library,
        window: int | None = None,
    ) -> AngleRows:
        paths = encode_all(encoder, trajectories.x)
        step = float(np.median(np.concatenate(trajectories.steps)))
        test_function = WeakTestFunction(
            window or window_of([torch.as_tensor(x[:, 0]) for x in paths]), step
        )
        left, right = [], []
        for i, x in enumerate(paths):
            between = [(x[1:] + x[:-1]) / 2, np.diff(x, axis=0) / step]
            between += [] if trajectories.u is None else [trajectories.u[i][:-1]]
            values = torch.as_tensor(library.numpy()(np.concatenate(between, axis=1)))
            left.append(test_function.acceleration(torch.as_tensor(x[:, 0])))
            right.append(values.unfold(0, test_function.k, 2) @ test_function.zoh_weights)
        targets, features = (np.asarray(torch.cat(rows)) for rows in (left, right))
        noise = _off(encoder, trajectories) ** 2 * float(
            test_function.second_derivative.square().sum()
        )
        seen = Trajectories(
            paths, trajectories.t, trajectories.u, names=library.inputs[:1],
            input_names=trajectories.input_names, gaps="keep",
        )  # fmt: skip
        return cls(test_function, targets, features, noise / float(targets.var()), seen)

    def missed(self, coefficients: np.ndarray) -> float:
        """The unexplained share of the variance of accelerations."""
        left = self.targets - self.features @ coefficients
        return float(np.square(left).mean() / self.targets.var())

    def rollout(self, law: Law) -> float:
        """What rollouts over a window miss, as a share of the variance of the angle."""
        simulator, paths = Simulator(law), self.paths
        states = Trajectories(
            [simulator.states(z, t) for z, t in zip(paths.x, paths.t, strict=True)], paths.t,
            paths.u, gaps="keep",
        )  # fmt: skip
        errors = segment_errors(Transition.of(law, "rk4"), states, self.test_function.k)[..., 0]
        return float(np.minimum(errors / np.concatenate(paths.x).var(), CAP).mean())


def _off(encoder: nn.Sequential, trajectories: Trajectories) -> float:
    """How far from the circle read-outs are: their angles are off by as much, in radians."""
    whitening, angle = encoder
    assert isinstance(angle, Angle)
    rows = torch.as_tensor(np.concatenate(trajectories.x)).double()
    return float(angle.point(whitening(rows)).norm(dim=1).std())
