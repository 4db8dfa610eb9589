"""Two pictures of a benchmark: what was recovered in what time, and error against length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd


if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLORS = ("#1f5a96", "#c44e1c", "#2f7d4f", "#7a4fa3", "#a3852f", "#4a4a4a")


def plot_results(table: pd.DataFrame) -> Figure:
    """Share of laws recovered against time (left), error against complexity (right)."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    groups = table.groupby("backend")
    for color, (name, rows) in zip(COLORS * 3, groups, strict=False):
        done = rows[rows["error"] == ""]
        times = sorted(done.loc[done["recovered"].astype(bool), "seconds"])
        share = [(i + 1) / len(rows) for i in range(len(times))]
        left.step(
            [times[0], *times] if times else [],
            [0, *share] if times else [],
            where="post",
            color=color,
            label=name,
        )
        right.plot(
            done["omega_tree"], _error(done).clip(lower=1e-12), "o",
            color=color, alpha=0.35, ms=4,
        )  # fmt: skip
        # Where the backend stands as a whole.
        right.plot(
            done["omega_tree"].median(), _error(done).clip(lower=1e-12).median(), "D",
            color=color, ms=9, mec="white", label=f"{name}, medians",
        )  # fmt: skip
    left.set(
        xscale="log", ylim=(0, 1.02), xlabel="seconds for one search", ylabel="share recovered"
    )
    right.set(yscale="log", xlabel="complexity (tree)", ylabel="relative error, √(1 - R²)")
    left.legend(frameon=False, loc="upper left")
    right.legend(frameon=False, fontsize=8)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _error(rows: pd.DataFrame) -> pd.Series:
    """Of the derivative, or for static problems of y, in units of its spread."""
    static = (1.0 - rows["r2"].astype(float)).clip(lower=0.0) ** 0.5
    return rows["field_error"].astype(float).fillna(static)
