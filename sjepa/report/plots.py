"""The report's drawings in matplotlib, for papers and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sjepa.data import Trajectories
from sjepa.errors import DataError
from sjepa.models import Simulator
from sjepa.models.simulate import plane_velocity
from sjepa.report.charts import wide_range
from sjepa.report.comparison import drawn
from sjepa.symbolic import Law


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLORS = ("#1f5a96", "#c44e1c", "#2f7d54", "#7b5ea7")


def plot_rollouts(law: Law, states: Trajectories, max_trajectories: int = 4) -> Figure:
    """States over time: measured (faint), and simulated from the first point."""
    from matplotlib.figure import Figure

    trails = drawn(law, states[: min(max_trajectories, len(states))])
    if not trails:
        raise DataError("The law cannot be simulated: its outputs are not its first inputs.")
    names = Simulator(law).names
    figure = Figure(figsize=(7.5, 1.9 * len(trails)), layout="constrained")
    axes: Any = figure.subplots(len(trails), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (trail, path) in zip(axes, trails, strict=True):
        for j, name in enumerate(names):
            color = COLORS[j % len(COLORS)]
            ax.plot(trail.t, trail.seen[:, j], color=color, lw=4.5, alpha=0.25)
            ax.plot(trail.t, path.z[:, j], color=color, lw=1.3, label=f"${_tex(name)}$")
        low, high = trail.seen.min(), trail.seen.max()
        margin = 0.5 * (high - low) or 1.0
        bottom, top = ax.get_ylim()
        # A path that runs away leaves the frame instead of flattening the data.
        ax.set_ylim(max(bottom, low - margin), min(top, high + margin))
        _calm(ax)
    axes[0].legend(ncols=len(names), fontsize=9, frameon=False, loc="upper right")
    axes[-1].set_xlabel("time; faint: measured, line: law")
    return figure


def plot_portrait(
    law: Law,
    states: Trajectories,
    axes: tuple[int, int] = (0, 1),
    ax: Axes | None = None,
    *,
    max_trajectories: int = 6,
) -> Axes:
    """Trajectories and the law's vector field in two coordinates, the others at their mean."""
    from matplotlib.figure import Figure

    simulator = Simulator(law)
    a, b = axes
    if simulator.size < 2 or not {a, b} <= set(range(simulator.size)) or a == b:
        raise DataError(
            f"A portrait needs two of the coordinates {', '.join(simulator.names)}; "
            f"got axes {axes}."
        )
    if ax is None:
        ax = Figure(figsize=(5, 4.6), layout="constrained").subplots()
    paths = [simulator.states(z, t) for z, t in zip(states.x, states.t, strict=True)]
    rows = np.concatenate(paths)
    x, y = (np.linspace(*wide_range(rows[:, k], 0.08), 21) for k in (a, b))
    held = simulator.actions and states.u is not None
    u = np.concatenate(states.u or []).mean(axis=0) if held else None
    velocity = plane_velocity(simulator.velocity, x, y, axes, rows.mean(axis=0), u)
    ax.streamplot(
        x, y, velocity[..., 0], velocity[..., 1],
        color="0.72", linewidth=0.7, density=1.1, arrowsize=0.8,
    )  # fmt: skip
    for i, path in enumerate(paths[:max_trajectories]):
        color = COLORS[i % len(COLORS)]
        ax.plot(path[:, a], path[:, b], color=color, lw=1.4)
        ax.plot(path[0, a], path[0, b], "o", color=color, ms=4.5, mec="white", mew=0.8)
    ax.set(
        xlabel=f"${_tex(simulator.names[a])}$", ylabel=f"${_tex(simulator.names[b])}$",
        xlim=(x[0], x[-1]), ylim=(y[0], y[-1]),
    )  # fmt: skip
    _calm(ax)
    return ax


def _tex(name: str) -> str:
    import sympy

    return str(sympy.latex(sympy.Symbol(name)))


def _calm(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
