"""A little drawing in SVG: scales, ticks, frames and lines.

Colours and line widths are left to the page's style sheet through class names, so that one
drawing serves light, dark and paper. Figures are about as wide as a telephone, and therefore
keep readable letters there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np


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


@dataclass(frozen=True)
class Scale:
    """Maps numbers from [low, high] to places from `start` to `stop`.

    In powers if `log`; by square roots if `root`, which gives the small numbers more room.
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False
    root: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.root:
            value, low, high = (math.copysign(math.sqrt(abs(v)), v) for v in (value, low, high))
        if self.log:
            value, low, high = math.log10(max(value, 1e-300)), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.stop - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers inside the range, about `count`."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, math.ceil((last - first + 1) / count))
            return [10.0**k for k in range(first, last + 1, step)]
        if self.root:
            round_numbers = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
            return [v for v in round_numbers if self.low <= v <= self.high]
        raw = (self.high - self.low) / max(count, 1)
        unit = 10 ** math.floor(math.log10(raw))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def span(values: np.ndarray, log: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The range to draw: the finite values with a margin; never empty."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite) & ((finite > 0) | (not log))]
    if not len(finite):
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if log:
        widen = max((high / low) ** margin, 1.5)
        return low / widen, high * widen
    widen = margin * (high - low) if high > low else 0.5 * abs(high) or 0.5
    return low - widen, high + widen


def label(value: float) -> str:
    """A tick's number: short, with a true minus sign."""
    return number(value, 4 if 1e-3 <= abs(value) < 1e5 else 1)


def number(value: float, digits: int = 3) -> str:
    """A number in words of type: 4.6·10⁻⁵, −0.25."""
    tiny = 0 < abs(value) < 1e-3
    text = f"{value:.{digits - 1}e}" if tiny else f"{value:.{digits}g}"
    if "e" in text:
        head, power = text.split("e")
        head = f"{float(head):g}"
        raised = str(int(power)).translate(_RAISED)
        text = f"10{raised}" if head == "1" else f"{head}·10{raised}"
    return text.replace("-", "−")


def power(value: float) -> str:
    """A power of ten as one."""
    exponent = round(math.log10(value))
    return {0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(_RAISED)}")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def polyline(xs: Sequence[float], ys: Sequence[float], classes: str) -> str:
    """A line through the points, interrupted where a value is not finite."""
    steps, last = [], None
    for x, y in zip(xs, ys, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            last = None
            continue
        here = round(10 * x), round(10 * y)
        # From the rounded place before, so that rounding does not add up.
        steps.append("M" + _pair(*here) + "l" if last is None else _step(here, last))
        last = here
    return f'<path class="{escape(classes)}" d="{"".join(steps)}"/>' if steps else ""


def dots(xs: Sequence[float], ys: Sequence[float], classes: str) -> str:
    """A dot at each finite point: lines of no length with round ends."""
    steps, last = [], (0, 0)
    for x, y in zip(xs, ys, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            here = round(10 * x), round(10 * y)
            steps.append(f"m{_step(here, last).strip()}h0")
            last = here
    return f'<path class="{escape(classes)}" d="{"".join(steps)}"/>' if steps else ""


def _step(here: tuple[int, int], last: tuple[int, int]) -> str:
    step = _pair(here[0] - last[0], here[1] - last[1])
    return step if step.startswith("-") else f" {step}"


def _pair(x: int, y: int) -> str:
    """Two tenths as short as a path may write them: no zero before the point, no needless space."""
    first, second = (
        f"{v / 10:g}".replace("0.", ".", 1) if -10 < v < 10 else f"{v / 10:g}" for v in (x, y)
    )
    return f"{first}{'' if second.startswith('-') else ' '}{second}"


def text(x: float, y: float, words: str, classes: str = "", anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{escape(classes)}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


@dataclass(frozen=True)
class Frame:
    """The place of a plot with its two scales."""

    x: Scale
    y: Scale

    @classmethod
    def make(
        cls,
        xs: tuple[float, float],
        ys: tuple[float, float],
        width: float,
        height: float,
        *,
        log_y: bool = False,
        left: float = 56,
        top: float = 8,
        bottom: float = 34,
    ) -> Frame:
        """`top` and `bottom` are what is left free of the `height`."""
        return cls(Scale(*xs, left, width - 8), Scale(*ys, height - bottom, top, log_y))

    def axes(self, x_label: str, y_label: str, ticks: tuple[int, int] = (5, 4)) -> str:
        """Grid lines, numbers and names of the axes."""
        return self.x_axis(x_label, ticks[0]) + self.y_axis(y_label, ticks[1])

    def x_axis(self, name: str | None, ticks: int = 5) -> str:
        """Without a name only the grid: the axis of another frame below serves this one too."""
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        parts = []
        for value in self.x.ticks(ticks):
            x = self.x(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
            if name is not None:
                parts.append(text(x, bottom + 14, label(value), "tick"))
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        if name is not None:
            parts.append(text((left + right) / 2, bottom + 29, name, "name"))
        return "".join(parts)

    def y_axis(self, name: str, ticks: int = 4) -> str:
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        parts = []
        for value in self.y.ticks(ticks):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            words = power(value) if self.y.log else label(value)
            parts.append(text(left - 6, y + 3.5, words, "tick", "end"))
        if name:
            middle = (top + bottom) / 2
            parts.append(
                f'<text transform="translate(11 {middle:.1f}) rotate(-90)" class="name" '
                f'text-anchor="middle">{escape(name)}</text>'
            )
        return "".join(parts)

    def line(self, xs: np.ndarray, ys: np.ndarray, classes: str) -> str:
        places = ([self.x(float(v)) for v in xs], [self.y(float(v)) for v in ys])
        return polyline(*places, classes)

    def dots(self, xs: np.ndarray, ys: np.ndarray, classes: str) -> str:
        return dots([self.x(float(v)) for v in xs], [self.y(float(v)) for v in ys], classes)


def figure(width: float, height: float, body: str, words: str) -> str:
    """The drawing; `words` say to those who cannot see it what it shows."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(words)}">'
        f"{body}</svg>"
    )
