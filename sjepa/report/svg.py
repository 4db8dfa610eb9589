"""A little drawing in SVG: scales, ticks, frames and lines.

Colours and line widths are left to the page's style sheet through class names, so that one
drawing serves light, dark and paper. Figures are about as wide as a telephone, and therefore
keep readable letters there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np


@dataclass(frozen=True)
class Scale:
    """Maps numbers from [low, high] to places from `start` to `stop`, in powers if `log`."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(max(value, 1e-300)), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.stop - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers inside the range, about `count`."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, math.ceil((last - first + 1) / count))
            return [10.0**k for k in range(first, last + 1, step)]
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
    parts, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return f'<path class="{escape(classes)}" d="{"".join(parts)}"/>' if parts else ""


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
        left: float = 48,
        bottom: float = 34,
    ) -> Frame:
        return cls(Scale(*xs, left, width - 8), Scale(*ys, height - bottom, 8, log_y))

    def axes(self, x_label: str, y_label: str, ticks: tuple[int, int] = (5, 4)) -> str:
        """Grid lines, numbers and names of the axes."""
        left, right = self.x.start, self.x.stop
        bottom, top = self.y.start, self.y.stop
        parts = []
        for value in self.x.ticks(ticks[0]):
            x = self.x(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
            parts.append(text(x, bottom + 14, label(value), "tick"))
        for value in self.y.ticks(ticks[1]):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            words = power(value) if self.y.log else label(value)
            parts.append(text(left - 6, y + 3.5, words, "tick", "end"))
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        parts.append(text((left + right) / 2, bottom + 29, x_label, "name"))
        if y_label:
            middle = (top + bottom) / 2
            parts.append(
                f'<text transform="translate(11 {middle:.1f}) rotate(-90)" class="name" '
                f'text-anchor="middle">{escape(y_label)}</text>'
            )
        return "".join(parts)

    def line(self, xs: np.ndarray, ys: np.ndarray, classes: str) -> str:
        places = ([self.x(float(v)) for v in xs], [self.y(float(v)) for v in ys])
        return polyline(*places, classes)


def figure(width: float, height: float, body: str, words: str) -> str:
    """The drawing; `words` say to those who cannot see it what it shows."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(words)}">'
        f"{body}</svg>"
    )
