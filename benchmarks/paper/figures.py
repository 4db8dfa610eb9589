"""The paper's figures, drawn from the curves that runs leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.paper.common import Result
from benchmarks.paper.tables import LABELS
from sjepa.storage import writing


COLORS = {
    "neural_jepa": "#7a7a7a",
    "post_hoc": "#c44e1c",
    "sjepa": "#1f5a96",
    "pysindy_pca": "#8a6fb0",
    "one_step_collapse": "#d9a441",
    "one_step_attached": "#e6c88a",
    "fixed_point": "#b0b0b0",
    "symbolic_incomplete": "#c44e1c",
    "hybrid_regularised": "#1f5a96",
    "hybrid_unregularised": "#d9a441",
    "symbolic_complete": "#3a8a5c",
    "neural_only": "#7a7a7a",
    "pysindy": "#8a6fb0",
}


def draw(experiment: str, results: Sequence[Result], folder: Path) -> list[Path]:
    """Write all figures of an experiment as PNG; those without data are left out."""
    figures: Mapping[str, Callable[[Sequence[Result]], Figure | None]] = {
        "exp1": {
            "rollout_error": rollout_curves,
            "min_std": spread_bars,
            "latent_geometry": latent_geometry,
        },
        "exp2": {
            "rollout_error": rollout_curves,
            "correction_residual": lambda r: recovery(r, "residual", "residual of the law"),
            "correction_drag": lambda r: recovery(r, "drag", "drag, -0.4 p|p|"),
        },
    }[experiment]
    written = []
    for name, make in figures.items():
        figure = make(results)
        if figure is not None:
            path = folder / f"{name}.png"
            with writing(path) as file:
                figure.savefig(file, format="png", dpi=160)
            written.append(path)
    return written


def rollout_curves(results: Sequence[Result]) -> Figure | None:
    """Physical-state error along open-loop rollouts: mean and one deviation over the seeds."""
    names = [n for n in _names(results, "test_per_step") if n not in _COLLAPSED]
    if not names:
        return None
    figure, axes = _axes(2, width=9.5, sharey=True)
    for ax, split, title in zip(
        axes, ("test", "ood"), ("Test", "Out of distribution"), strict=True
    ):
        for name in names:
            curves = np.stack(
                [r.curves[f"{split}_per_step"] for r in results if r.condition == name]
            )
            curves = np.maximum(curves, 1e-18)
            steps = np.arange(1, curves.shape[1] + 1)
            middle = curves.mean(0)
            ax.plot(steps, middle, color=COLORS.get(name), lw=1.8, label=LABELS.get(name, name))
            if len(curves) > 1:
                low = np.maximum(middle - curves.std(0), curves.min(0))
                ax.fill_between(
                    steps, low, middle + curves.std(0), color=COLORS.get(name), alpha=0.15, lw=0
                )
        ax.set(title=title, xlabel="step", yscale="log")
        ax.margins(x=0)
    axes[0].set_ylabel("mean squared state error")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    return figure


_COLLAPSED = ("one_step_collapse", "one_step_attached", "fixed_point")


def spread_bars(results: Sequence[Result]) -> Figure | None:
    """Smallest standard deviation of a latent coordinate, with the seeds as dots."""
    names = list(dict.fromkeys(r.condition for r in results if "min_std" in r.metrics))
    if not names:
        return None
    figure, (ax,) = _axes(1, width=6.2)
    values = [np.array([r.metrics["min_std"] for r in results if r.condition == n]) for n in names]
    floor = 1e-6
    for i, (name, v) in enumerate(zip(names, values, strict=True)):
        ax.barh(i, max(v.mean(), floor) - floor, left=floor, color=COLORS.get(name), height=0.62)
        ax.plot(np.maximum(v, floor), np.full(len(v), i), "o", ms=3.5, color="0.15")
        ax.text(
            max(v.max(), floor) * 1.5, i, f"{v.mean():.3g}", va="center", fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    ax.axvline(0.2, color="0.35", lw=1, ls="--", zorder=0.5)
    ax.text(0.2, -0.62, "eligible from 0.20 ", fontsize=8, color="0.35", ha="right", va="bottom")
    ax.set_yticks(range(len(names)), [LABELS.get(n, n) for n in names])
    ax.set(xscale="log", xlim=(floor, 12), xlabel="smallest standard deviation of a coordinate")
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return figure


def latent_geometry(results: Sequence[Result]) -> Figure | None:
    """Test embeddings of the first seed, colored by the true angle."""
    wanted = ("neural_jepa", "sjepa", "pysindy_pca")
    chosen: dict[str, Result] = {}
    for r in results:
        if r.condition in wanted and "latents" in r.curves:
            chosen.setdefault(r.condition, r)
    if not chosen:
        return None
    figure, axes = _axes(len(chosen), width=3.5 * len(chosen) + 0.8, height=3.5)
    cloud = None
    limit = max(np.quantile(np.abs(r.curves["q"]), 0.99) for r in chosen.values())
    for ax, name in zip(axes, [n for n in wanted if n in chosen], strict=True):
        r = chosen[name]
        x, y = r.curves["latents"].T[:2]
        cloud = ax.scatter(
            x, y, c=r.curves["q"], s=3, lw=0, cmap="viridis",
            vmin=-limit, vmax=limit, rasterized=True,
        )  # fmt: skip
        ax.set(title=f"{LABELS[name]}, seed {r.seed}", xlabel="$z_1$", ylabel="$z_2$")
        # A trajectory that goes over the top runs far off; the frame is for the others.
        low, high = np.quantile(r.curves["latents"][:, :2], [0.005, 0.995], axis=0)
        half = 0.62 * (high - low).max()
        (cx, cy) = (low + high) / 2
        ax.set(xlim=(cx - half, cx + half), ylim=(cy - half, cy + half))
        ax.set_aspect("equal", "box")
    assert cloud is not None
    figure.colorbar(cloud, ax=axes, label="angle $q$", shrink=0.85)
    return figure


def recovery(results: Sequence[Result], target: str, label: str) -> Figure | None:
    """The calibrated correction against what it should be, for both hybrids."""
    names = [n for n in ("hybrid_regularised", "hybrid_unregularised") if _has(results, n, target)]
    if not names:
        return None
    figure, axes = _axes(len(names), width=4.3 * len(names), height=4.0, sharex=True, sharey=True)
    for ax, name in zip(axes, names, strict=True):
        r = next(r for r in results if r.condition == name)
        goal, correction = r.curves[f"{target}_target"], r.curves[f"{target}_correction"]
        reach = 1.08 * max(np.abs(goal).max(), np.abs(correction).max())
        ax.plot([-reach, reach], [-reach, reach], color="0.35", lw=1, ls="--", zorder=3)
        ax.scatter(goal, correction, s=4, lw=0, alpha=0.5, color=COLORS[name], rasterized=True)
        score = np.mean([r.metrics[f"{target}_r2"] for r in results if r.condition == name])
        ax.set(title=f"{LABELS[name]}  ($R^2$ = {score:.3f})", xlabel=label)
        ax.set_aspect("equal", "box")
    axes[0].set_ylabel("calibrated correction")
    return figure


def _names(results: Sequence[Result], curve: str) -> list[str]:
    return list(dict.fromkeys(r.condition for r in results if curve in r.curves))


def _has(results: Sequence[Result], name: str, target: str) -> bool:
    return any(r.condition == name and f"{target}_target" in r.curves for r in results)


def _axes(
    count: int, width: float, height: float = 3.8, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, Sequence[Axes]]:
    # Figure rather than pyplot: nothing global, so it works in any thread or process.
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False, sharex=sharex, sharey=sharey)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.9", lw=0.6)
        ax.set_axisbelow(True)
    return figure, axes
