"""The drawings of the report, as SVG.

What belongs to one law stands in a group of its own, and only the group of the law that is shown
is visible: every drawing follows the reader's choice, and shows the chosen law without a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from itertools import combinations

import numpy as np
import pandas as pd

from sjepa.models import Simulator
from sjepa.models.simulate import plane_velocity
from sjepa.report.content import Entry, ReportData
from sjepa.report.svg import Frame, figure, pretty, span, text
from sjepa.symbolic import Front


WIDTH = 420.0
# Losses below this are rounding; on a logarithmic axis they would squeeze the rest.
MIN_LOSS = 1e-16
COLOURS = 4
# Beyond this complexity the short laws need more room than the long ones.
CROWDED = 20.0
# Arrows a side of a portrait, and steps between pale and dark ones.
ARROWS, SHADES = 13, 4
# Coordinates that residuals are drawn against.
MAX_COORDINATES = 4


def each(data: ReportData, draw: Callable[[int, Entry], str]) -> str:
    """One group for each law; the page's script chooses which is seen."""
    groups = []
    for i, entry in enumerate(data.entries):
        if drawn := draw(i, entry):
            hidden = "" if i == data.start else " hidden"
            groups.append(f'<g data-law="{i}"{hidden}>{drawn}</g>')
    return "".join(groups)


def pareto(front: Front, chosen: int | None) -> str:
    """Loss against complexity; each law is a button that the page's script listens to."""
    x = np.array([front.complexity(c) for c in front])
    y = np.maximum([c.loss for c in front], MIN_LOSS)
    height = 300.0
    low, high = span(x)
    xs = (min(low, x[0] - 0.5), max(high, x[-1] + 0.5))
    frame = Frame.make(xs, span(y, log=True, margin=0.12), WIDTH, height, log_y=True)
    if x[-1] > CROWDED:
        frame = replace(frame, x=replace(frame.x, low=x[0] - 0.2, root=True))
    stairs_x, stairs_y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    parts = [
        frame.axes(f"complexity ({front.measure})", "unexplained variance"),
        frame.line(stairs_x, stairs_y, "stairs"),
    ]
    for i, candidate in enumerate(front):
        cx, cy = frame.x(x[i]), frame.y(y[i])
        words = f"complexity {x[i]:g}, loss {candidate.loss:.2e}: " + "; ".join(
            candidate.law.lines(digits=3)
        )
        ring = f'<circle class="ring" cx="{cx:.1f}" cy="{cy:.1f}" r="9"/>'
        # The clear disc makes the point easy to hit with a finger.
        parts.append(
            f'<g class="point{" chosen" if i == chosen else ""}" data-point="{i}" tabindex="0" '
            f'role="button" aria-label="{escape(words)}"><title>{escape(words)}</title>'
            f'<circle class="touch" cx="{cx:.1f}" cy="{cy:.1f}" r="14"/>{ring}'
            f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="4.5"/></g>'
        )
    return figure(WIDTH, height, "".join(parts), f"Pareto front of {len(front)} laws")


def rollout(data: ReportData, k: int) -> str:
    """Coordinates over time, what was seen faint and wide; what the law misses; the actions."""
    trail, names = data.trails[k], data.names
    # Velocities of second-order laws are estimates, and so would be what is missed of them.
    own_columns = len(data.law.outputs)
    bands = [150.0, 62.0] + ([52.0] if trail.u is not None else [])
    gap, below = 14.0, 34.0
    height = 8 + sum(bands) + gap * (len(bands) - 1) + below
    tops = 8 + np.cumsum([0.0, *(b + gap for b in bands[:-1])])
    times = span(trail.t, margin=0.0)

    def frame(band: int, ys: tuple[float, float]) -> Frame:
        free = height - tops[band] - bands[band]
        return Frame.make(times, ys, WIDTH, height, top=tops[band], bottom=free)

    # A path that runs away must not flatten the data: it leaves the frame instead.
    low, high = span(trail.seen, margin=0.12)
    paths = frame(0, (low, high))
    parts = [paths.x_axis(None), paths.y_axis("")]
    for j in range(len(names)):
        parts.append(paths.line(trail.t, trail.seen[:, j], f"seen c{j % COLOURS + 1}"))
    last = len(bands) - 1
    if trail.u is not None:
        actions = frame(2, span(trail.u, margin=0.1))
        parts += [actions.x_axis("time"), actions.y_axis("actions", 2)]
        for j in range(trail.u.shape[1]):
            t, u = np.repeat(trail.t, 2)[1:], np.repeat(trail.u[:, j], 2)[:-1]
            parts.append(actions.line(t, u, f"action c{(len(names) + j) % COLOURS + 1}"))
    parts.append(frame(1, (0.0, 1.0)).x_axis("time" if last == 1 else None))

    def draw(_: int, entry: Entry) -> str:
        if not entry.paths:
            return text(WIDTH / 2, tops[1] + bands[1] / 2, "not simulated", "name")
        path = entry.paths[k]
        inside = (path >= low) & (path <= high)
        missed = np.where(inside, trail.seen - path, np.nan)[:, :own_columns]
        residual = frame(1, span(missed, margin=0.1))
        zero = (
            f'<path class="axis" d="M{residual.x.start} {residual.y(0.0):.1f}H{residual.x.stop}"/>'
        )
        body = [residual.y_axis("missed", 3), zero if np.isfinite(missed).any() else ""]
        for j in range(len(names)):
            colour = f"c{j % COLOURS + 1}"
            own = np.where(inside[:, j], path[:, j], np.nan)
            body.append(paths.line(trail.t, own, f"path {colour}"))
            if j < own_columns:
                body.append(residual.line(trail.t, missed[:, j], f"missed {colour}"))
        return "".join(body)

    parts.append(each(data, draw))
    shown = ", ".join(pretty(n) for n in names)
    words = f"{shown} over time: seen and simulated, the difference"
    return figure(WIDTH, height, "".join(parts), words + (", actions" if last == 2 else ""))


def residuals(data: ReportData, j: int) -> str:
    """What laws miss of the velocities, in units of their spread, against one coordinate."""
    assert data.points is not None
    height, x = 210.0, data.points[:, j]

    def draw(_: int, entry: Entry) -> str:
        if entry.residual is None:
            return ""
        # A few wild points must not flatten the rest.
        reach = np.nanquantile(np.abs(entry.residual), 0.98) * 1.15
        frame = Frame.make(span(x), (-reach or -1.0, reach or 1.0), WIDTH, height)
        inside = np.where(np.abs(entry.residual) <= reach, entry.residual, np.nan)
        return frame.y_axis("missed velocity", 4) + "".join(
            frame.dots(x, column, f"dots c{i % COLOURS + 1}") for i, column in enumerate(inside.T)
        )

    name = pretty(data.names[j])
    body = Frame.make(span(x), (-1.0, 1.0), WIDTH, height).x_axis(name) + each(data, draw)
    return figure(WIDTH, height, body, f"What the law misses of the velocities against {name}")


def pairs(size: int, most: int = 3) -> list[tuple[int, int]]:
    """Which coordinates are drawn against each other."""
    return list(combinations(range(size), 2))[:most]


def portrait(data: ReportData, axes: tuple[int, int]) -> str:
    """Trajectories and the law's directions in two coordinates; the others at their mean."""
    rows = np.concatenate([trail.seen for trail in data.trails])
    a, b = axes
    height = 380.0
    frame = Frame.make(span(rows[:, a], margin=0.1), span(rows[:, b], margin=0.1), WIDTH, height)
    names = pretty(data.names[a]), pretty(data.names[b])

    def draw(_: int, entry: Entry) -> str:
        simulator = entry.simulator if entry.paths else None
        return "" if simulator is None else _arrows(simulator, frame, axes, rows, _action(data))

    parts = [frame.axes(*names, (6, 6)), each(data, draw)]
    for i, trail in enumerate(data.trails):
        parts.append(frame.line(trail.seen[:, a], trail.seen[:, b], f"trail c{i % COLOURS + 1}"))
        x, y = frame.x(trail.seen[0, a]), frame.y(trail.seen[0, b])
        parts.append(
            f'<circle class="start c{i % COLOURS + 1}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        )
    words = f"Portrait in {names[0]} and {names[1]} with the law's directions"
    return figure(WIDTH, height, "".join(parts), words)


def _action(data: ReportData) -> np.ndarray | None:
    u = [trail.u for trail in data.trails if trail.u is not None]
    return np.concatenate(u).mean(axis=0) if u else None


def _arrows(
    simulator: Simulator, frame: Frame, axes: tuple[int, int], rows: np.ndarray,
    action: np.ndarray | None,
) -> str:  # fmt: skip
    """Arrows of equal length, in the directions they have on the page; fast ones are darker."""
    x = np.linspace(frame.x.low, frame.x.high, 2 * ARROWS + 1)[1::2]
    y = np.linspace(frame.y.low, frame.y.high, 2 * ARROWS + 1)[1::2]
    held = action if simulator.actions else None
    with np.errstate(all="ignore"):
        velocity = plane_velocity(simulator.velocity, x, y, axes, rows.mean(axis=0), held)
    scale = [
        (frame.x.stop - frame.x.start) / (frame.x.high - frame.x.low),
        (frame.y.stop - frame.y.start) / (frame.y.high - frame.y.low),
    ]
    moved = velocity.reshape(-1, 2) * scale
    speed = np.hypot(*moved.T)
    finite = np.isfinite(speed) & (speed > 0)
    top = np.quantile(speed[finite], 0.9) if finite.any() else 1.0
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    shades: list[list[str]] = [[] for _ in range(SHADES)]
    for point, step, v in zip(points[finite], moved[finite], speed[finite], strict=True):
        cx, cy = frame.x(point[0]), frame.y(point[1])
        dx, dy = step / v * 9.0
        back_x, back_y = cx + 0.45 * dx, cy + 0.45 * dy
        shades[min(int(SHADES * v / top), SHADES - 1)].append(
            f"M{cx - dx:.1f} {cy - dy:.1f}l{2 * dx:.1f} {2 * dy:.1f}"
            f"M{back_x + 0.3 * dy:.1f} {back_y - 0.3 * dx:.1f}L{cx + dx:.1f} {cy + dy:.1f}"
            f"L{back_x - 0.3 * dy:.1f} {back_y + 0.3 * dx:.1f}"
        )
    return "".join(
        f'<path class="arrow" opacity="{(k + 1) / SHADES:g}" d="{"".join(one)}"/>'
        for k, one in enumerate(shades)
        if one
    )


def line_portrait(data: ReportData) -> str:
    """For one coordinate: how fast it changes at each of its values."""
    rows = np.concatenate([trail.seen for trail in data.trails])
    z, action = np.linspace(*span(rows), 200)[:, None], _action(data)
    height = 260.0
    name = pretty(data.names[0])
    side = f"change of {name}"

    def draw(_: int, entry: Entry) -> str:
        simulator = entry.simulator if entry.paths else None
        if simulator is None:
            return ""
        u = np.tile(action, (len(z), 1)) if action is not None and simulator.actions else None
        with np.errstate(all="ignore"):
            change = simulator.velocity(z, u)[:, 0]
        frame = Frame.make(span(z, margin=0.0), span(np.append(change, 0.0)), WIDTH, height)
        zero = f'<path class="axis" d="M{frame.x.start} {frame.y(0):.1f}H{frame.x.stop}"/>'
        return frame.y_axis(side) + zero + frame.line(z[:, 0], change, "path c1")

    below = Frame.make(span(z, margin=0.0), (0.0, 1.0), WIDTH, height).x_axis(name)
    return figure(WIDTH, height, below + each(data, draw), f"{side} against {name}")


def training(history: pd.DataFrame, column: str) -> str:
    """One figure of the training against its step; logarithmic if it spans decades."""
    step, values = history["step"].to_numpy(float), history[column].to_numpy(float)
    finite = values[np.isfinite(values)]
    log = bool(len(finite) and finite.min() > 0 and finite.max() > 30 * finite.min())
    height = 170.0
    frame = Frame.make(span(step, margin=0.0), span(values, log), WIDTH, height, log_y=log)
    known = np.isfinite(values)
    body = frame.axes("step", "") + frame.line(step[known], values[known], "path c1")
    return figure(WIDTH, height, body, f"{column} during training")


def film_curve(t: np.ndarray, z: np.ndarray, names: Sequence[str]) -> tuple[str, list[str]]:
    """Coordinates over the time of a film, a line for the present, and its place at each frame."""
    height = 170.0
    frame = Frame.make(span(t, margin=0.0), span(z, margin=0.1), WIDTH, height)
    lines = [frame.line(t, z[:, j], f"path c{j % COLOURS + 1}") for j in range(z.shape[1])]
    x = [frame.x(float(one)) for one in t]
    now = (
        f'<path id="now" class="now" transform="translate({x[0]:.1f} 0)" '
        f'd="M0 {frame.y.stop:.1f}V{frame.y.start:.1f}"/>'
    )
    body = frame.axes("time", "") + "".join(lines) + now
    words = f"{', '.join(map(pretty, names))} over the time of the film"
    return figure(WIDTH, height, body, words), [f"{one:.1f}" for one in x]
