"""Units: which terms can stand in an equation at all.

Meters do not add up with seconds, and a sine takes no meters. Coefficients may carry units of their
own, as a spring constant does; or they may not, and then every term has the unit of its equation.
Units are read by pint, which takes an angle in radians for a plain number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import sympy

from sjepa.errors import BackendUnavailable, ConfigError
from sjepa.symbolic.functions import Max, Min, safe_div, sqrt_safe
from sjepa.symbolic.library import Library


Dimension = dict[str, Fraction]
# Nodes whose arguments have one dimension, which is theirs too; and those that give a plain number
# whatever they take.
_KEEP = (sympy.Abs, Max, Min, sympy.Max, sympy.Min, sympy.Mod)
_PLAIN = (sympy.sign, sympy.Heaviside)
MAX_LENGTH = 100


class DimensionCheck:
    """Dimensions by name.

    Parameters
    ----------
    units : mapping of names to texts such as ``"m/s**2"``; ``""`` is a plain number
    dimensionless : bool
        Whether numbers in laws are without a unit.

    Examples
    --------
    >>> units = DimensionCheck({"x": "m", "v": "m/s", "x'": "m/s"}, dimensionless=True)
    >>> [units.fits(sympy.Symbol(n, real=True), "x'") for n in ("x", "v")]
    [False, True]
    """

    def __init__(self, units: Mapping[str, str], dimensionless: bool = False) -> None:
        self.dimensions = {name: _read(name, text) for name, text in units.items()}
        self.dimensionless = dimensionless

    def fits(self, term: sympy.Expr, target: str) -> bool:
        """Whether a term, times a number, can be what `target` is."""
        try:
            dimension = self._dimension(term)
        except _Mismatch:
            return False
        return not self.dimensionless or dimension is None or dimension == self.dimensions[target]

    def mask(self, library: Library, outputs: Sequence[str]) -> np.ndarray:
        """Which output may use which term (terms, outputs), beside the library's own mask."""
        fits = [[self.fits(t, f"{o}'") for o in outputs] for t in library.terms]
        mask = library.mask(outputs) & np.array(fits)
        for output, some in zip(outputs, mask.any(axis=0), strict=True):
            if not some:
                raise ConfigError(
                    f"No term has the unit of {output}': give other terms, or allow constants with "
                    "a unit.", "units",
                )  # fmt: skip
        return mask

    def _dimension(self, expr: sympy.Expr) -> Dimension | None:
        """None where a number of unknown unit leaves it open."""
        if expr.is_Symbol:
            return self.dimensions.get(expr.name, {} if self.dimensionless else None)
        if expr.is_Number or expr.is_NumberSymbol:
            return None if expr.is_zero or not (self.dimensionless or expr == -1) else {}
        if expr.is_Mul:
            return _product([self._dimension(a) for a in expr.args])
        if isinstance(expr, safe_div):
            top, bottom = (self._dimension(a) for a in expr.args)
            return _product([top, _power(bottom, Fraction(-1))])
        if isinstance(expr, sqrt_safe):
            return _power(self._dimension(expr.args[0]), Fraction(1, 2))
        if expr.is_Pow and expr.exp.is_Number:
            return _power(
                self._dimension(expr.base), Fraction(float(expr.exp)).limit_denominator(1000)
            )
        if expr.is_Add or isinstance(expr, _KEEP):
            # Canonical form may write x/(x + 0.5) as 2x/(2x + 1): whole numbers have units as well.
            open_ = [a for a in expr.args if not a.is_Number or self.dimensionless]
            return _common([self._dimension(a) for a in open_])
        if isinstance(expr, sympy.Piecewise):
            return _common([self._dimension(a) for a, _ in expr.args])
        for argument in expr.args:
            if self._dimension(argument) and not isinstance(expr, _PLAIN):
                raise _Mismatch
        return {}


class _Mismatch(Exception):
    pass


def _read(name: str, text: str) -> Dimension:
    try:
        import pint
    except ImportError:
        raise BackendUnavailable(
            "Units need pint, not installed here. Fix: pip install 'sjepa[units]'."
        ) from None
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        raise ConfigError(f"The unit of {name} is a text such as 'm/s', got {text!r:.40}.", "units")
    try:
        unit = pint.get_application_registry().Unit("" if text.strip() == "1" else text)
        found = {k: Fraction(v).limit_denominator(1000) for k, v in unit.dimensionality.items()}
    except Exception as error:  # pint raises errors of Python's tokenizer as well as its own
        reason = " ".join(str(error).split())[:80]
        raise ConfigError(
            f"The unit {text!r} of {name} cannot be read ({reason}).", "units"
        ) from None
    return {k: v for k, v in found.items() if v}


def _power(dimension: Dimension | None, by: Fraction) -> Dimension | None:
    return None if dimension is None else {k: v * by for k, v in dimension.items()}


def _product(parts: Sequence[Dimension | None]) -> Dimension | None:
    total: Dimension = {}
    for part in parts:
        if part is None:
            return None
        for k, v in part.items():
            total[k] = total.get(k, Fraction(0)) + v
    return {k: v for k, v in total.items() if v}


def _common(parts: Sequence[Dimension | None]) -> Dimension | None:
    known = [part for part in parts if part is not None]
    if any(part != known[0] for part in known):
        raise _Mismatch
    return known[0] if known else None
