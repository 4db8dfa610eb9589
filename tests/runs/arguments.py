"""Random arguments: sound ones, those that make no sense, and expressions with their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np


Array = np.ndarray
Rng = np.random.Generator


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def all_junk() -> list[Any]:
    """Things that hardly any argument means, made afresh: some can be gone through once."""
    return [
        "a", "", "nan", b"x", -1, 0, 1, 2.5, True, 10**400, 1e308, math.nan, math.inf, 1j, [], {}, (),
        ["a"], [None], [[]], [1, "a"], {"a": 1}, {"name": "a"}, {1: 2}, object(), object, len, range(3), slice(3),
        np.array([]), np.array([np.nan, 1.0]), np.ones((2, 3, 4, 5)), np.array("a"), np.array([1j]),
        np.ones(3, bool), np.array(["2020-01-01"], "M8[s]"), np.zeros((0, 2)), "x" * 500, "\x1b[2J", 2**70,
        lambda *a, **k: None, Path("nowhere"), iter([1, 2]), frozenset({1}), np.float32(2), np.ma.masked,
    ]  # fmt: skip


def junk(rng: Rng) -> Any:
    return pick(rng, all_junk())


class Draw:
    """Sound arguments, of which one may be exchanged for junk."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.sound = rng, True

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        if arguments and self.rng.random() < 0.6:
            self.sound = False
            arguments[pick(self.rng, list(arguments))] = junk(self.rng)
        return arguments


# Expressions with their values by plain Python --------------------------------------------------


def expression(rng: Rng, names: list[str], depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.2:
        number = f"{pick(rng, [0.5, 2, 3, 1.5, 1e-9, 1e5, 0.1]):g}"
        return number if rng.random() < 0.4 else pick(rng, names)
    a, b = (expression(rng, names, depth - 1) for _ in range(2))
    return pick(rng, [
        f"({a} + {b})", f"({a} - {b})", f"{a}*{b}", f"({a})*({b})", f"({a})**{rng.integers(0, 4)}",
        f"sin({a})", f"cos({a})", f"exp(-({a})**2)", f"tanh({a})", f"({a})/(1 + ({b})**2)", f"abs({a})",
    ])  # fmt: skip


def value(text: str, names: list[str], point: Array) -> tuple[float, float]:
    """By Python's own arithmetic, and the size of the largest number on the way, for rounding."""
    seen = [1.0]

    class Number(float):
        def _of(self, made: float) -> Number:
            seen.append(abs(made))
            return Number(made)

        def __add__(self, o: Any) -> Number:
            return self._of(float(self) + float(o))

        def __sub__(self, o: Any) -> Number:
            return self._of(float(self) - float(o))

        def __mul__(self, o: Any) -> Number:
            return self._of(float(self) * float(o))

        def __truediv__(self, o: Any) -> Number:
            return self._of(float(self) / float(o))

        def __pow__(self, o: Any) -> Number:  # type: ignore[override]
            return self._of(float(self) ** float(o))

        def __neg__(self) -> Number:
            return self._of(-float(self))

        __radd__ = __add__
        __rmul__ = __mul__

        def __rsub__(self, o: Any) -> Number:
            return self._of(float(o) - float(self))

        def __rtruediv__(self, o: Any) -> Number:
            return self._of(float(o) / float(self))

    scope: dict[str, Any] = {n: Number(v) for n, v in zip(names, point, strict=True)}
    scope |= {
        f: (lambda g: lambda x: Number(g(x)))(getattr(math, f))
        for f in ("sin", "cos", "exp", "tanh")
    }
    scope["abs"] = lambda x: Number(abs(float(x)))
    return float(eval(text, {"__builtins__": {}}, scope)), max(seen)
