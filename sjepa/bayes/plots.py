"""Pictures of a posterior: structures, futures, calibration. Each returns what it drew on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np


if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sjepa.bayes.calibration import Calibration
    from sjepa.bayes.prediction import Rollout
    from sjepa.bayes.result import Posterior

BLUE, ORANGE, GRAY = "#1f5a96", "#c44e1c", "0.55"
BANDS = ((0.95, 0.15), (0.8, 0.25), (0.5, 0.4))


def plot_structures(posterior: Posterior, ax: Axes | None = None, max_structures: int = 8) -> Axes:
    """One bar for each structure, labeled with its equations; unreliable evidences are hatched."""
    table = posterior.structures.head(max_structures)
    rows = len(table)
    ax = ax or _axes(1, (9.0, 0.6 + 0.55 * rows))[0]
    place = np.arange(rows)[::-1]
    bars = ax.barh(place, table["weight"], color=BLUE, height=0.62)
    for bar, status in zip(bars, table["status"], strict=True):
        if status != "ok":
            bar.set_hatch("//")
    for y, (_, row) in zip(place, table.iterrows(), strict=True):
        ax.text(
            row["weight"] + 0.012, y, f"{_percent(row['weight'])}   {_short(row['equation'])}",
            va="center", fontsize=8,
        )  # fmt: skip
    ax.set(xlim=(0, 1.0), ylim=(-0.6, rows - 0.4), xlabel="posterior weight")
    ax.set_yticks(place, [f"C = {c:g}" for c in table["complexity"]], fontsize=8)
    remaining = 1.0 - float(table["weight"].sum())
    if len(posterior.structures) > rows:
        ax.set_title(
            f"{len(posterior.structures) - rows} further structures hold {remaining:.2g}",
            fontsize=9,
        )
    _plain(ax)
    # Text to the right of long bars would leave the axes.
    ax.set_xlim(0, 1.9)
    ax.set_xticks(np.linspace(0, 1, 6))
    return ax


def plot_fan(
    rollout: Rollout, truth: np.ndarray | None = None, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Median and central 50, 80 and 95 % of the futures of one start; `truth` (K + 1, d)."""
    z = rollout.z if rollout.z.ndim == 3 else rollout.z[:, 0]
    panels = list(axes) if axes is not None else _axes(z.shape[-1], (7.0, 2.2 * z.shape[-1]))
    for j, ax in enumerate(panels):
        for level, alpha in BANDS:
            low, high = np.nanquantile(z[..., j], [(1 - level) / 2, (1 + level) / 2], axis=0)
            ax.fill_between(
                rollout.t, low, high, color=BLUE, alpha=alpha, lw=0, label=f"{level:.0%}"
            )
        ax.plot(rollout.t, np.nanmedian(z[..., j], axis=0), color=BLUE, lw=1.4, label="median")
        if truth is not None:
            ax.plot(rollout.t, np.asarray(truth)[:, j], color=ORANGE, lw=1.4, label="truth")
        ax.set_ylabel(rollout.names[j])
        _plain(ax)
    panels[0].legend(fontsize=8, frameon=False, ncols=5, loc="lower left", bbox_to_anchor=(0, 1))
    panels[-1].set_xlabel("time")
    return panels


def plot_coverage(calibration: Calibration, ax: Axes | None = None) -> Axes:
    """Actual against stated coverage of central intervals, one line a horizon."""
    ax = ax or _axes(1, (4.6, 4.4))[0]
    levels = np.array(calibration.levels)
    ax.plot([0, 1], [0, 1], color=GRAY, lw=1, ls="--")
    horizons = list(calibration.pit)
    for i, h in enumerate(horizons):
        actual = [calibration.coverage(h, v) for v in levels]
        shade = 0.25 + 0.75 * (i + 1) / len(horizons)
        ax.plot(levels, actual, color=BLUE, alpha=shade, lw=1.6, marker="o", ms=3,
                label=f"{h} step{'s' if h > 1 else ''}")  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="stated coverage", ylabel="actual coverage")
    ax.set_aspect("equal")
    ax.legend(fontsize=8, frameon=False)
    _plain(ax)
    return ax


def plot_horizons(calibration: Calibration, axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Log density, 90 % coverage, calibration error and sharpness against the horizon."""
    panels = list(axes) if axes is not None else _axes(4, (10.0, 2.6), across=True)
    table = calibration.table
    titles = {
        "log_density": "log predictive density",
        "coverage_90": "coverage of 90 % intervals",
        "calibration_error": "calibration error",
        "sharpness": "width of 90 % intervals",
    }
    for ax, (column, title) in zip(panels, titles.items(), strict=True):
        ax.plot(table["horizon"], table[column], color=BLUE, marker="o", ms=4, lw=1.4)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("steps ahead")
        _plain(ax)
    panels[1].axhline(0.9, color=GRAY, lw=1, ls="--")
    panels[1].set_ylim(0, 1.02)
    panels[2].set_ylim(bottom=0)
    panels[3].set_ylim(bottom=0)
    return panels


def _axes(count: int, size: tuple[float, float], across: bool = False) -> list[Axes]:
    import matplotlib.pyplot as plt

    rows, columns = (1, count) if across else (count, 1)
    axes = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, sharex=not across
    )[1]
    return list(axes.flat)


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def _short(text: str, max_structures: int = 84) -> str:
    return text if len(text) <= max_structures else text[: max_structures - 1] + "…"


def _percent(weight: float) -> str:
    return "<0.01" if weight < 0.005 else f"{weight:.2f}"
