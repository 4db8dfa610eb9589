"""The drawings of the report: matplotlib writes the SVG, the page's style sheet colors it.

What belongs to one law stands in groups of their own, and only those of the law that is shown are
visible: every drawing follows the reader's choice, and shows the chosen law without a script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from io import StringIO
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import IdentityTransform

from sjepa.models import Simulator
from sjepa.models.simulate import plane_velocity
from sjepa.report.content import ReportData
from sjepa.report.text import power, pretty
from sjepa.symbolic import Front


# In units of the SVG, which are pixels where a figure is as wide as a telephone.
WIDTH = 420.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 8.0, 8.0, 34.0
# Losses below this are rounding; on a logarithmic axis they would squeeze the rest.
MIN_LOSS = 1e-16
COLORS = 4
# Beyond this complexity the short laws need more room than the long ones.
CROWDED = 20.0
# Arrows a side of a portrait, steps between pale and dark ones, and half their length.
ARROWS, SHADES, REACH = 13, 4, 9.0
# Coordinates that residuals are drawn against.
MAX_COORDINATES = 4
# Colors that stand for variables of the style sheet, so that one drawing is light and dark.
GRID, AXIS, SOFT, PAPER = "#0000d1", "#0000d2", "#0000d3", "#0000d4"
_VARIABLES = {GRID: "--grid", AXIS: "--arrow", SOFT: "--soft", PAPER: "--paper"} | {
    f"#0000c{i}": f"--c{i}" for i in range(1, COLORS + 1)
}
STYLE: Any = {
    "svg.fonttype": "none", "font.size": 11, "axes.labelsize": 12, "axes.labelpad": 3,
    "text.color": SOFT, "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "axes.grid": True, "grid.color": GRID, "axes.axisbelow": True, "axes.edgecolor": AXIS,
    "axes.facecolor": "none", "figure.facecolor": "none", "axes.linewidth": 1,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.xmargin": 0, "lines.linewidth": 1.6,
}  # fmt: skip


def color(i: int) -> str:
    return f"#0000c{i % COLORS + 1}"


class Drawing:
    """A figure on its way to SVG: axes in their places, and markup that is laid over them."""

    def __init__(self, height: float) -> None:
        self.height, self.over = height, ""
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)

    def axes(
        self, name: str, side: str, top: float = TOP, bottom: float = BOTTOM, ticks: int = 4
    ) -> Axes:
        """Axes that leave `top` and `bottom` free; without a name its axis has no labels."""
        ax = self.figure.add_axes(
            (LEFT / WIDTH, bottom / self.height, 1 - (LEFT + RIGHT) / WIDTH,
             1 - (top + bottom) / self.height)
        )  # fmt: skip
        # Names may come from files: a dollar sign is not the start of a formula.
        ax.set_xlabel(name, parse_math=False)
        ax.set_ylabel(side, parse_math=False)
        ax.yaxis.set_label_coords(11 / WIDTH, 1 - (top + self.height - bottom) / 2 / self.height,
                                  self.figure.transFigure)  # fmt: skip
        ax.tick_params(labelbottom=bool(name), pad=4)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
        ax.yaxis.set_major_locator(MaxNLocator(ticks, steps=_STEPS))
        return ax

    def of_law(self, law: int, below: Axes, side: str, **place: Any) -> Axes:
        """Axes over others, whose scale of y is that of one law."""
        ax = self.axes("", side, **place)
        ax.set(gid=f"law:{law}", xlim=below.get_xlim())
        ax.grid(visible=False, axis="x")
        ax.spines["bottom"].set_visible(False)
        return ax

    def at(self, ax: Axes, x: float, y: float) -> tuple[float, float]:
        """Where a point of the data lies on the drawing."""
        ax.autoscale_view()
        across, up = ax.transData.transform((x, y))
        return float(across), self.height - float(up)

    def svg(self, words: str, shown: int = -1) -> str:
        """The markup; `words` say to those who cannot see it what it shows.

        A group is named ``law:3:path`` by the law it belongs to and its class, either of which may
        be left out. Those of every law but `shown` are hidden.
        """

        def named(group: re.Match[str]) -> str:
            law, kind = group[1], group[2]
            of = f' data-law="{law}"{"" if int(law) == shown else " hidden"}' if law else ""
            return f"<g{of}" + (f' class="{kind}"' if kind else "")

        file = StringIO()
        # A salt of its own keeps the names of clip paths apart on a page of several drawings.
        with rc_context({"svg.hashsalt": words}):
            self.figure.savefig(file, format="svg", metadata=_NO_METADATA)
        text = file.getvalue()
        body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
        body = body.replace("xlink:href", "href")  # HTML knows no prefixes
        body = re.sub(r"<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
        body = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", body)
        body = re.sub("|".join(_VARIABLES), lambda m: f"var({_VARIABLES[m[0]]})", body)
        body = re.sub(r' d="([^"]*)"', lambda m: f' d="{_short(m[1])}"', body)
        body = re.sub(r'<g id="(?:law:(\d+))?(?::(\w+))?[^"]*"', named, body)
        body = re.sub(r">\s+<", "><", body)
        return (
            f'<svg viewBox="0 0 {WIDTH:g} {self.height:g}" role="img" '
            f'aria-label="{escape(words)}">{body}{self.over}</svg>'
        )


# Between the numbers at an axis, as people count.
_STEPS = (1, 2, 5, 10)
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def _short(path: str) -> str:
    """Tenths of a unit are enough, and the lines of a path need no letter."""
    return re.sub(r"(\.\d)\d+", r"\1", " ".join(path.split())).replace(" L ", " ")


@rc_context(STYLE)
def pareto(front: Front, chosen: int | None) -> str:
    """Loss against complexity; each law is a button that the page's script listens to."""
    x = np.array([front.complexity(c) for c in front])
    y = np.maximum([c.loss for c in front], MIN_LOSS)
    drawn = Drawing(300.0)
    ax = drawn.axes(f"complexity ({front.measure})", "unexplained variance")
    ax.set(yscale="log", xlim=(x[0] - 0.5, x[-1] + 0.5), ymargin=0.12)
    log_decades(ax)
    if x[-1] > CROWDED:
        crowded(ax)
        ax.set_xlim(x[0] - 0.2, 1.06 * x[-1])
    ax.step(x, y, where="post", color=AXIS, lw=1.25)
    for i, candidate in enumerate(front):
        cx, cy = drawn.at(ax, x[i], y[i])
        equations = "; ".join(candidate.law.lines(digits=3))
        words = escape(f"complexity {x[i]:g}, loss {candidate.loss:.2e}: {equations}")
        at = f'cx="{cx:.1f}" cy="{cy:.1f}"'
        # The clear disc makes the point easy to hit with a finger.
        drawn.over += (
            f'<g class="point{" chosen" if i == chosen else ""}" data-point="{i}" tabindex="0" '
            f'role="button" aria-label="{words}"><title>{words}</title><circle class="touch" {at} '
            f'r="14"/><circle class="ring" {at} r="9"/><circle class="dot" {at} r="4.5"/></g>'
        )
    return drawn.svg(f"Pareto front of {len(front)} laws")


def crowded(ax: Axes) -> None:
    """Gives short laws more room among complexities that reach far."""
    ax.set_xscale("function", functions=(_root, lambda v: np.sign(v) * np.square(v)))
    ax.xaxis.set_major_locator(FixedLocator([0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]))


def _root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def log_decades(ax: Axes) -> None:
    ax.yaxis.set_major_locator(LogLocator(numticks=5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    ax.yaxis.set_minor_locator(NullLocator())


@rc_context(STYLE)
def rollout(data: ReportData, k: int) -> str:
    """Coordinates over time, measured ones faint and wide; residuals; inputs."""
    trail, names = data.trails[k], data.names
    # Velocities of second-order laws are estimates, and so would be what is missed of them.
    own_columns = len(data.law.outputs)
    acted = trail.u is not None
    bands, gap = (150.0, 62.0, 52.0)[: 3 if acted else 2], 14.0
    drawn = Drawing(TOP + sum(bands) + gap * (len(bands) - 1) + BOTTOM)

    def place(band: int) -> dict[str, Any]:
        top = TOP + sum(bands[:band]) + gap * band
        return {"top": top, "bottom": drawn.height - top - bands[band]}

    paths = drawn.axes("", "", **place(0))
    for j in range(len(names)):
        paths.plot(trail.t, trail.seen[:, j], color=color(j), lw=6, alpha=0.22, gid=":seen")
    # A path that runs away must not flatten the data: it leaves the frame instead.
    paths.margins(y=0.12)
    low, high = paths.get_ylim()
    paths.set_autoscale_on(False)
    if trail.u is not None:
        actions = drawn.axes("time", "actions", **place(2), ticks=2)
        for j, column in enumerate(trail.u.T):
            style: dict[str, Any] = {"color": color(len(names) + j), "lw": 1.3, "gid": ":action"}
            actions.step(trail.t, column, where="post", **style)
    below = drawn.axes("" if acted else "time", "", **place(1))
    below.set(xlim=paths.get_xlim(), yticks=())
    for i, entry in enumerate(data.entries):
        if not entry.paths:
            at = (0.5, (place(1)["bottom"] + bands[1] / 2) / drawn.height)
            drawn.figure.text(*at, "not simulated", ha="center", gid=f"law:{i}")
            continue
        path = entry.paths[k]
        inside = (path >= low) & (path <= high)
        missed = np.where(inside, trail.seen - path, np.nan)[:, :own_columns]
        residual = drawn.of_law(i, below, "residual", **place(1), ticks=3)
        residual.axhline(0.0, color=AXIS, lw=1)
        for j in range(len(names)):
            visible = np.where(inside[:, j], path[:, j], np.nan)
            paths.plot(trail.t, visible, color=color(j), gid=f"law:{i}:path")
            if j < own_columns:
                residual.plot(trail.t, missed[:, j], color=color(j), lw=1.1, gid=":missed")
    shown = ", ".join(pretty(n) for n in names)
    words = f"{shown} over time, {trail.name}: measured and simulated, residual"
    return drawn.svg(words + (", actions" if acted else ""), data.start)


@rc_context({**STYLE, "path.simplify": False})
def residuals(data: ReportData, j: int) -> str:
    """Residuals of the velocities against one coordinate."""
    assert data.points is not None
    x, name, drawn = data.points[:, j], pretty(data.names[j]), Drawing(210.0)
    below = drawn.axes(name, "")
    below.set(xlim=wide_range(x, 0.06), yticks=())
    for i, entry in enumerate(data.entries):
        if entry.residual is None:
            continue
        # A few wild points must not flatten the rest.
        reach = float(np.nanquantile(np.abs(entry.residual), 0.98)) * 1.15 or 1.0
        ax = drawn.of_law(i, below, "velocity residual")
        ax.set_ylim(-reach, reach)
        for c, column in enumerate(entry.residual.T):
            dots(ax, x, column, ":dots", c)
    return drawn.svg(f"Velocity residuals against {name}", data.start)


def dots(ax: Axes, x: np.ndarray, y: np.ndarray, gid: str, which: int) -> None:
    """Points inside the frame, as lines of no length with round ends: shorter than markers."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    with np.errstate(invalid="ignore"):
        inside = (x >= left) & (x <= right) & (y >= low) & (y <= high)
    rows = [np.column_stack([v[inside], v[inside], np.full(inside.sum(), np.nan)]).ravel()
            for v in (x, y)]  # fmt: skip
    style: dict[str, Any] = {"lw": 3.5, "alpha": 0.55, "solid_capstyle": "round"}
    ax.plot(*rows, color=color(which), gid=gid, **style)


def wide_range(values: np.ndarray, margin: float) -> tuple[float, float]:
    """The range of the values with a margin; never empty."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    more = margin * (high - low) or 0.5 * abs(high) or 0.5
    return low - more, high + more


def pairs(size: int, max_pairs: int = 3) -> list[tuple[int, int]]:
    """Which coordinates are drawn against each other."""
    return list(combinations(range(size), 2))[:max_pairs]


@rc_context(STYLE)
def portrait(data: ReportData, axes: tuple[int, int]) -> str:
    """Trajectories and the law's directions in two coordinates; the others at their mean."""
    rows = np.concatenate([trail.seen for trail in data.trails])
    a, b = axes
    names = pretty(data.names[a]), pretty(data.names[b])
    drawn = Drawing(380.0)
    ax = drawn.axes(*names, ticks=6)
    ax.set(xlim=wide_range(rows[:, a], 0.1), ylim=wide_range(rows[:, b], 0.1), autoscale_on=False)
    for i, entry in enumerate(data.entries):
        simulator = entry.simulator if entry.paths else None
        if simulator is not None:
            _arrows(ax, i, simulator, axes, rows, _action(data))
    for i, trail in enumerate(data.trails):
        ax.plot(trail.seen[:, a], trail.seen[:, b], color=color(i))
        ax.plot(*trail.seen[0, [a, b]], "o", color=color(i), ms=7, mec=PAPER, mew=1.5)
    words = f"Phase portrait in {names[0]} and {names[1]} with the law's directions"
    return drawn.svg(words, data.start)


def _action(data: ReportData) -> np.ndarray | None:
    u = [trail.u for trail in data.trails if trail.u is not None]
    return np.concatenate(u).mean(axis=0) if u else None


def _arrows(
    ax: Axes, law: int, simulator: Simulator, axes: tuple[int, int], rows: np.ndarray,
    action: np.ndarray | None,
) -> None:  # fmt: skip
    """Arrows of equal length, in the directions they have on the page; fast ones are darker."""
    x, y = (np.linspace(*lim, 2 * ARROWS + 1)[1::2] for lim in (ax.get_xlim(), ax.get_ylim()))
    held = action if simulator.actions else None
    with np.errstate(all="ignore"):
        velocity = plane_velocity(simulator.velocity, x, y, axes, rows.mean(axis=0), held)
    place = ax.transData
    moved = velocity.reshape(-1, 2) @ place.get_matrix()[:2, :2].T
    speed = np.hypot(*moved.T)
    finite = np.isfinite(speed) & (speed > 0)
    middle = place.transform(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))[finite]
    speed = speed[finite]
    half = REACH * moved[finite] / speed[:, None]
    across = 0.3 * half[:, ::-1] * [1, -1]
    tip, neck, gap = middle + half, middle + 0.45 * half, np.full_like(half, np.nan)
    lines = np.stack([middle - half, tip, gap, neck + across, tip, neck - across, gap], axis=1)
    top = np.quantile(speed, 0.9) if len(speed) else 1.0
    shade = np.minimum(SHADES * speed / top, SHADES - 1).astype(int)
    for k in range(SHADES):
        some = lines[shade == k].reshape(-1, 2)
        ax.plot(
            *some.T, color=AXIS, lw=1, alpha=(k + 1) / SHADES, gid=f"law:{law}:arrow",
            transform=IdentityTransform(),
        )  # fmt: skip


@rc_context(STYLE)
def line_portrait(data: ReportData) -> str:
    """For one coordinate: how fast it changes at each of its values."""
    rows = np.concatenate([trail.seen for trail in data.trails])
    z, action = np.linspace(*wide_range(rows, 0.06), 200)[:, None], _action(data)
    name, drawn = pretty(data.names[0]), Drawing(260.0)
    side = f"change of {name}"
    below = drawn.axes(name, "")
    below.set(xlim=(z[0, 0], z[-1, 0]), yticks=())
    for i, entry in enumerate(data.entries):
        simulator = entry.simulator if entry.paths else None
        if simulator is None:
            continue
        u = np.tile(action, (len(z), 1)) if action is not None and simulator.actions else None
        with np.errstate(all="ignore"):
            change = simulator.velocity(z, u)[:, 0]
        ax = drawn.of_law(i, below, side)
        ax.axhline(0.0, color=AXIS, lw=1)
        ax.plot(z[:, 0], change, color=color(0), gid=":path")
    return drawn.svg(f"{side} against {name}", data.start)


@rc_context(STYLE)
def training(history: pd.DataFrame, column: str) -> str:
    """One figure of the training against its step; logarithmic if it spans decades."""
    known = history[["step", column]].dropna().to_numpy(float)
    step, values = known[np.isfinite(known[:, 1])].T
    drawn = Drawing(170.0)
    ax = drawn.axes("step", "")
    ax.plot(step, values, color=color(0))
    if len(values) and values.min() > 0 and values.max() > 30 * values.min():
        ax.set_yscale("log")
        log_decades(ax)
    return drawn.svg(f"{column} during training")


@rc_context(STYLE)
def video_curve(t: np.ndarray, z: np.ndarray, names: Sequence[str]) -> tuple[str, list[str]]:
    """Coordinates over the time of a video, a line for the present, and its place at each frame."""
    drawn = Drawing(170.0)
    ax = drawn.axes("time", "")
    for j, column in enumerate(z.T):
        ax.plot(t, column, color=color(j))
    x = [f"{drawn.at(ax, float(time), 0.0)[0]:.1f}" for time in t]
    drawn.over = (
        f'<path id="now" class="now" transform="translate({x[0]} 0)" '
        f'd="M0 {TOP:g}V{drawn.height - BOTTOM:g}"/>'
    )
    return drawn.svg(f"{', '.join(map(pretty, names))} over the time of the video"), x
