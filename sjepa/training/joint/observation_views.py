"""Views of the observations for a search: raw, blurred videos, windows and their quotients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data import Trajectories, noise_level
from sjepa.data.history import DEGREE, derivative_filters, windows as windows_of
from sjepa.data.smooth import HALVES, NOISY, choose_half, noise_of, smoothed
from sjepa.models import Blur, choose_blur
from sjepa.models.ratios import SMALLEST, Ratios


# Observed values that may be the first coordinate of a chain of derivatives.
MAX_STARTS = 3


@dataclass(frozen=True, eq=False)
class View:
    """Observations for a search, what made them, and a name for its checkpoints.

    `noisier_copy` holds the same observations with as much noise again: windows share noise with
    their neighbors, so its level cannot be estimated from roughness. `starts` are read-outs
    (values, d) of one observed value and its derivatives. Rollouts from states that are largely
    noise spoil a law: `rollouts` says whether they may refine it.
    """

    trajectories: Trajectories
    made_by: nn.Module | None = None
    name: str = ""
    notes: tuple[str, ...] = ()
    noisier_copy: Trajectories | None = None
    starts: tuple[Tensor, ...] = ()
    rollouts: bool = True

    def after(self, encoder: nn.Module) -> nn.Module:
        """An encoder of this view as one of the observations."""
        if self.made_by is None:
            return encoder
        assert isinstance(encoder, nn.Sequential)
        return nn.Sequential(self.made_by, *encoder)


def views(trajectories: Trajectories, latent_dim: int, windows: bool) -> list[View]:
    """The plainest first. `windows` says that an observation is (k, *obs)."""
    if windows and len(trajectories.obs_shape) < 3:
        return _of_windows(trajectories, latent_dim)
    plain = View(trajectories)
    if len(trajectories.obs_shape) > 1:
        plain = _smooth(trajectories) or plain
    blur = choose_blur(plain.trajectories.x)
    if blur is None:
        return [plain]
    note = f"frames were blurred over {blur.width:.1f} pixels: what moves is sharp."
    return [
        replace(
            plain, trajectories=_seen(blur, plain.trajectories), made_by=blur,
            notes=(*plain.notes, note),
            noisier_copy=plain.noisier_copy and _seen(blur, plain.noisier_copy),
        )
    ]  # fmt: skip


def _smooth(trajectories: Trajectories) -> View | None:
    """Frames smoothed in time, if they are largely noise; coordinates are still of single ones."""
    level, share = noise_of(trajectories)
    if share < NOISY or int(trajectories.lengths.min()) < 4 * HALVES[0]:
        return None
    half, rng = choose_half(trajectories, level), np.random.default_rng(0)
    noisier = trajectories.map(lambda x: x + (level * rng.standard_normal(x.shape)).astype(x.dtype))
    note = (
        f"frames are noise to {share:.0%} of their variance: for the search they were smoothed "
        f"over {2 * half + 1} frames."
    )
    return View(
        smoothed(trajectories, half),
        notes=(note,),
        noisier_copy=smoothed(noisier, half),
        rollouts=False,
    )


def _of_windows(trajectories: Trajectories, latent_dim: int) -> list[View]:
    k, *shape = trajectories.obs_shape
    noisier_copy, size = _noisier(trajectories), int(np.prod(shape))
    step = float(np.median(np.concatenate(trajectories.steps)))
    starts = []
    if latent_dim < min(k, DEGREE):
        filters = torch.tensor(derivative_filters(k, latent_dim - 1, step))
        starts = [torch.kron(filters, row).T for row in torch.eye(size, dtype=filters.dtype)]
    found = [View(trajectories, noisier_copy=noisier_copy, starts=tuple(starts[:MAX_STARTS]))]
    if k >= SMALLEST:
        order = max(1, -(-latent_dim // size) - 1)
        ratios = Ratios(k, tuple(shape), order, step).double()
        note = "coordinates are read off quotients of derivatives: a hidden state is a factor."
        seen = _seen(ratios, trajectories), _seen(ratios, noisier_copy)
        found.append(View(seen[0], ratios, "quotients ", (note,), seen[1]))
    return found


def _noisier(trajectories: Trajectories) -> Trajectories:
    """Windows of the same observations with as much white noise again as they seem to have."""
    k, *shape = trajectories.obs_shape
    level = noise_level([x[:, -1].reshape(len(x), -1) for x in trajectories.x], trajectories.t)
    rng = np.random.default_rng(0)

    def noisier(x: np.ndarray) -> np.ndarray:
        noise = level * rng.standard_normal((len(x) + k - 1, len(level)))
        return x + windows_of(noise.reshape(-1, *shape), k)

    return trajectories.map(noisier)


def _seen(module: Blur | Ratios, trajectories: Trajectories) -> Trajectories:
    def through(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            seen: Tensor = module(torch.as_tensor(x))
        return seen.numpy()

    return trajectories.map(through)
