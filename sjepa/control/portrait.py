"""Phase portraits of laws with two coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sjepa.control.equilibria import Equilibria, equilibria
from sjepa.control.linearize import ContinuousModel
from sjepa.errors import DataError
from sjepa.models import Transition
from sjepa.models.simulate import plane_velocity
from sjepa.settings import array_of


if TYPE_CHECKING:
    from matplotlib.axes import Axes


def phase_portrait(
    model: Any,
    box: Sequence[tuple[float, float]],
    u: Any = None,
    *,
    points: Equilibria | None = None,
    ax: Axes | None = None,
    size: int = 41,
) -> Axes:
    """Stream lines of a two-dimensional vector field under constant inputs, equilibria marked.

    Filled marks are stable (by the criterion of continuous time), empty ones unstable, half-tone
    ones undecided to first order. Thin lines are where one velocity is zero.
    """
    import matplotlib.pyplot as plt

    transition = Transition.of(model)
    if len(array_of(box, "box").reshape(-1)) != 4 or transition.dynamics != "continuous":
        raise DataError("A phase portrait is drawn for vector fields of two coordinates.")
    if points is None:
        points = equilibria(transition, box, u)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
    x, y = (np.linspace(*limits, size) for limits in box)

    def field(z: np.ndarray, u: np.ndarray | None) -> np.ndarray:
        inputs = torch.as_tensor(z if u is None else np.concatenate([z, u], axis=-1))
        with torch.no_grad():
            return transition.velocity(inputs).numpy()

    if u is None:
        u = next((p.u for p in points if p.u is not None), None)
    velocity = plane_velocity(field, x, y, u=None if u is None else np.atleast_1d(array_of(u, "u")))
    speed = np.hypot(velocity[..., 0], velocity[..., 1])
    shade = np.log1p(speed)
    ax.streamplot(
        x, y, velocity[..., 0], velocity[..., 1], color=shade, cmap="Blues",
        norm=plt.Normalize(-shade.max(), shade.max()), density=1.2, linewidth=0.9, arrowsize=0.8,
    )  # fmt: skip
    for i, color in enumerate(("#b5651d", "#5a8f3c")):
        if velocity[..., i].min() < 0 < velocity[..., i].max():
            ax.contour(x, y, velocity[..., i], [0.0], colors=color, linewidths=0.8)
    kinds = set()
    for p in points:
        assert isinstance(p.model, ContinuousModel)
        face = "black" if p.model.hurwitz else "gray" if "first order" in p.kind else "white"
        marker = "X" if p.kind == "saddle" else "o"
        label = p.kind if p.kind not in kinds else None
        kinds.add(p.kind)
        ax.plot(*p.z, marker, ms=8, mfc=face, mec="black", ls="", label=label, zorder=5)
    names = transition.state_names(2)
    ax.set(xlabel=names[0], ylabel=names[1], xlim=box[0], ylim=box[1])
    if kinds:
        ax.legend(loc="upper right", fontsize="small", framealpha=0.9)
    return ax
