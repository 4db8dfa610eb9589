"""Draw the README's figure: from mixed observations to coordinates and a law.

    python benchmarks/readme_figure.py            # about half a minute; writes benchmarks/figures/

Everything in it is computed here: Experiment 1 of the paper, 60 trajectories for the search, and
test trajectories that it has not seen.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import sjepa
from sjepa.data import Trajectories, paper_data
from sjepa.report.plots import COLORS, plot_portrait


HERE = Path(__file__).parent / "figures"


def main() -> None:
    data = paper_data("exp1")
    test = data["test"]
    model = sjepa.SJEPA(latent_dim=2, random_state=1).fit(data["train"][:60])
    print(model)
    print(f"R2 of simulated paths, {len(test)} test trajectories: {model.score(test):.4f}")
    figure = Figure(figsize=(12, 3.7), layout="constrained", dpi=130)
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr]
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.05, 1.15])
    observations(left, test)
    portrait(middle, model, test)
    rollouts(right, model, test)
    HERE.mkdir(exist_ok=True)
    path = HERE / "observations_to_law.png"
    save(figure, path)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def observations(ax: Any, data: Trajectories) -> None:
    ax.plot(data.t[0], data.x[0], lw=0.7, color="0.45", alpha=0.7)
    title(ax, "Observed", "32 noisy mixtures of an unknown state")
    ax.set(xlabel="time", yticks=[])


def portrait(ax: Any, model: sjepa.SJEPA, data: Trajectories) -> None:
    # Trajectories of different energies, small to large.
    z = [np.asarray(path) for path in model.encode(data)]
    order = np.argsort([np.abs(path).max() for path in z])
    chosen = order[np.linspace(0, len(order) - 1, 7).astype(int)]
    picked = Trajectories([z[i] for i in chosen], [data.t[i] for i in chosen])
    plot_portrait(model.law_, picked, ax=ax, max_trajectories=7)
    lines = (
        re.sub(r"\\dot{(\w)_", r"\\dot{\1}_", f"{line}") for line in model.law_.latex().splitlines()
    )
    law = r"$\quad$".join(f"${line.replace('}}', '}', 1)}$" for line in lines)
    title(ax, "Found: coordinates and their law", law)


def rollouts(ax: Any, model: sjepa.SJEPA, data: Trajectories) -> None:
    # Neither the best nor the worst: the trajectory with the median error.
    paths = [model.simulate(x[0], t).z for x, t in zip(data.x, data.t, strict=True)]
    encoded = [np.asarray(z) for z in model.encode(data)]
    errors = [np.mean((a - b) ** 2) for a, b in zip(paths, encoded, strict=True)]
    i = int(np.argsort(errors)[len(errors) // 2])
    z, path, t = encoded[i], paths[i], data.t[i]
    for j, color in enumerate(COLORS[:2]):
        ax.plot(t[::4], z[::4, j], "o", ms=6, color=color, alpha=0.35, mec="none")
        ax.plot(t, path[:, j], lw=1.6, color=color, label=f"$z_{j + 1}$")
    ax.plot([], [], "o", ms=6, color="0.5", alpha=0.5, label="encoded observations")
    ax.plot([], [], color="0.5", label="law from the first one")
    r2 = f"$R^2$ = {model.score(data):.3f} over {len(data)} unseen trajectories"
    title(ax, "Simulated from one observation", r2)
    ax.set(xlabel="time")
    ax.set_ylim(top=ax.get_ylim()[1] + 0.35 * np.ptp(ax.get_ylim()))
    ax.legend(fontsize=8.5, frameon=False, ncols=2, loc="upper right")


def title(ax: Any, words: str, below: str) -> None:
    ax.set_title(words, fontsize=11.5, fontweight="bold", loc="left", pad=22)
    ax.text(0, 1.035, below, transform=ax.transAxes, fontsize=9.5, color="0.35")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8.5)


def save(figure: Figure, path: Path) -> None:
    """A PNG of 128 colors is a third of the size and looks the same."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main()
