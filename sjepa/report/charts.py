"""The drawings of the report, as SVG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import combinations

import numpy as np
import pandas as pd

from sjepa.models import Simulator
from sjepa.models.simulate import plane_velocity
from sjepa.report.content import Trail
from sjepa.report.svg import Frame, figure, span
from sjepa.symbolic import Front


WIDTH = 420.0
# Losses below this are rounding; on a logarithmic axis they would squeeze the rest.
MIN_LOSS = 1e-16
COLOURS = 4

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "psi": "ψ", "omega": "ω",
}  # fmt: skip


def pretty(name: str) -> str:
    """A name as people write it: z₁ for z1, θ for theta."""
    match = re.fullmatch(r"([A-Za-z]+)_?(\d*)((?:_dot)?)", name)
    if match is None:
        return name
    stem, number, dot = match.groups()
    dot = "\u0307" if dot else ""
    return _GREEK.get(stem, stem) + dot + number.translate(_SUBSCRIPTS)


def pareto(front: Front, chosen: int | None) -> str:
    """Loss against complexity; each law is a button that the page's script listens to."""
    x = np.array([front.complexity(c) for c in front])
    y = np.maximum([c.loss for c in front], MIN_LOSS)
    height = 300.0
    low, high = span(x)
    xs = (min(low, x[0] - 0.5), max(high, x[-1] + 0.5))
    frame = Frame.make(xs, span(y, log=True, margin=0.12), WIDTH, height, log_y=True)
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
            f'<g class="point{" chosen" if i == chosen else ""}" data-law="{i}" tabindex="0" '
            f'role="button" aria-label="{escape(words)}"><title>{escape(words)}</title>'
            f'<circle class="touch" cx="{cx:.1f}" cy="{cy:.1f}" r="14"/>{ring}'
            f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="4.5"/></g>'
        )
    return figure(WIDTH, height, "".join(parts), f"Pareto front of {len(front)} laws")


def rollout(trail: Trail, names: Sequence[str]) -> str:
    """Coordinates over time: what was seen, faint and wide, and the law's path on top."""
    height = 210.0
    values = np.concatenate([trail.seen, trail.path[np.abs(trail.path).max(axis=1) < 1e6]])
    low, high = span(trail.seen)
    reach = high - low
    # A path that runs away must not flatten the data: it leaves the frame instead.
    low, high = max(span(values)[0], low - 0.5 * reach), min(span(values)[1], high + 0.5 * reach)
    frame = Frame.make(span(trail.t, margin=0.0), (low, high), WIDTH, height)
    parts = [frame.axes("time", "")]
    inside = (trail.path >= low) & (trail.path <= high)
    for j in range(len(names)):
        path = np.where(inside[:, j], trail.path[:, j], np.nan)
        parts.append(frame.line(trail.t, trail.seen[:, j], f"seen c{j % COLOURS + 1}"))
        parts.append(frame.line(trail.t, path, f"path c{j % COLOURS + 1}"))
    listed = ", ".join(pretty(n) for n in names)
    return figure(WIDTH, height, "".join(parts), f"{listed} over time: seen and simulated")


def pairs(size: int, most: int = 3) -> list[tuple[int, int]]:
    """Which coordinates are drawn against each other."""
    return list(combinations(range(size), 2))[:most]


def portrait(
    simulator: Simulator, trails: Sequence[Trail], axes: tuple[int, int], arrows: int = 15
) -> str:
    """Trajectories and the law's directions in two coordinates; the others at their mean."""
    rows = np.concatenate([trail.seen for trail in trails])
    a, b = axes
    height = 380.0
    frame = Frame.make(span(rows[:, a], margin=0.1), span(rows[:, b], margin=0.1), WIDTH, height)
    u = [trail.u for trail in trails if trail.u is not None]
    action = np.concatenate(u).mean(axis=0) if u else None
    parts = [
        frame.axes(pretty(simulator.names[a]), pretty(simulator.names[b]), (6, 6)),
        _arrows(simulator, frame, axes, rows.mean(axis=0), action, arrows),
    ]
    for i, trail in enumerate(trails):
        parts.append(frame.line(trail.seen[:, a], trail.seen[:, b], f"trail c{i % COLOURS + 1}"))
        x, y = frame.x(trail.seen[0, a]), frame.y(trail.seen[0, b])
        parts.append(
            f'<circle class="start c{i % COLOURS + 1}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        )
    names = f"{pretty(simulator.names[a])} and {pretty(simulator.names[b])}"
    return figure(WIDTH, height, "".join(parts), f"Portrait in {names} with the law's directions")


def _arrows(
    simulator: Simulator,
    frame: Frame,
    axes: tuple[int, int],
    middle: np.ndarray,
    action: np.ndarray | None,
    count: int,
) -> str:
    """Arrows of equal length, in the directions they have on the page; fast ones are darker."""
    x = np.linspace(frame.x.low, frame.x.high, 2 * count + 1)[1::2]
    y = np.linspace(frame.y.low, frame.y.high, 2 * count + 1)[1::2]
    velocity = plane_velocity(simulator.velocity, x, y, axes, middle, action).reshape(-1, 2)
    scale = [
        (frame.x.stop - frame.x.start) / (frame.x.high - frame.x.low),
        (frame.y.stop - frame.y.start) / (frame.y.high - frame.y.low),
    ]
    drawn = velocity * scale
    speed = np.hypot(*drawn.T)
    finite = np.isfinite(speed) & (speed > 0)
    top = np.quantile(speed[finite], 0.9) if finite.any() else 1.0
    parts = []
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    for point, step, v in zip(points[finite], drawn[finite], speed[finite], strict=True):
        cx, cy = frame.x(point[0]), frame.y(point[1])
        dx, dy = step / v * 8.0
        opacity = 0.25 + 0.75 * min(float(v / top), 1.0)
        tip = f"{cx + dx:.1f} {cy + dy:.1f}"
        back_x, back_y = cx + 0.45 * dx, cy + 0.45 * dy
        wings = "".join(f"M{back_x + s * dy:.1f} {back_y - s * dx:.1f}L{tip}" for s in (0.3, -0.3))
        parts.append(
            f'<path class="arrow" opacity="{opacity:.2f}" d="M{cx - dx:.1f} {cy - dy:.1f}L{tip}'
            f'{wings}"/>'
        )
    return "".join(parts)


def line_portrait(simulator: Simulator, trails: Sequence[Trail]) -> str:
    """For one coordinate: how fast it changes at each of its values."""
    rows = np.concatenate([trail.seen for trail in trails])
    z = np.linspace(*span(rows), 200)[:, None]
    u = [trail.u for trail in trails if trail.u is not None]
    action = np.tile(np.concatenate(u).mean(axis=0), (len(z), 1)) if u else None
    change = simulator.velocity(z, action)[:, 0]
    height = 260.0
    frame = Frame.make(span(z, margin=0.0), span(np.append(change, 0.0)), WIDTH, height)
    name = pretty(simulator.names[0])
    side = f"change of {name}"
    zero = f'<path class="axis" d="M{frame.x.start} {frame.y(0):.1f}H{frame.x.stop}"/>'
    parts = [frame.axes(name, side), zero, frame.line(z[:, 0], change, "path c1")]
    return figure(WIDTH, height, "".join(parts), f"{side} against {name}")


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
