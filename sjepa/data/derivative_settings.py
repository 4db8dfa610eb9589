"""What a law is fitted to: smoothed derivatives, integrals, steps of held inputs, next values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

from sjepa.data.forms import Form
from sjepa.errors import ConfigError
from sjepa.settings import Settings, settings_of


class DerivativeSettings(Settings):
    """Base of the ways to fit a law to data."""

    form: ClassVar[Form]
    lags: int = 0
    window: int | None = None

    def options(self) -> dict[str, Any]:
        """Arguments of :func:`sjepa.data.differentiate`."""
        return {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lags < 0:
            raise ConfigError(f"lags is a number of steps back, got {self.lags}.")
        window = self.window
        if window is not None and not (isinstance(window, Integral) and window >= 3):
            raise ConfigError(f"window is a number of observations from 3, got {window!r:.60}.")


@dataclass(frozen=True, repr=False)
class ChosenByData(DerivativeSettings):
    """The noise, and whether inputs held between samples predict better, decide."""

    shorthand: ClassVar[str] = "auto"
    form: ClassVar[Form] = "auto"


@dataclass(frozen=True, kw_only=True, repr=False)
class Smooth(DerivativeSettings):
    """Time derivatives point by point.

    Parameters
    ----------
    method : "auto", "finite_difference", "savgol" or "spline"
        See :func:`sjepa.data.differentiate`.
    degree : int
        Of the moving polynomial of "savgol".
    lam : float, optional
        Smoothing parameter of "spline"; by default from cross-validation.
    lags : int
        Steps back that belong to the state: the law is a vector field in delay coordinates.

    Examples
    --------
    >>> Smooth(method="spline", lam=1e-4)
    Smooth(method='spline', lam=0.0001)
    """

    shorthand: ClassVar[str] = "smooth"
    form: ClassVar[Form] = "derivative"
    method: Literal["auto", "finite_difference", "savgol", "spline"] = "auto"
    degree: int = 4
    lam: float | None = None
    lags: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        known = ("auto", "finite_difference", "savgol", "spline")
        if self.method not in known:
            names = ", ".join(map(repr, known))
            raise ConfigError(f"method is one of {names}, got {self.method!r:.60}.")
        for name, method in (("degree", "savgol"), ("lam", "spline")):
            if name in self.changed() and self.method != method:
                raise ConfigError(f"{name} is read by method={method!r} alone.")

    def options(self) -> dict[str, Any]:
        return {"method": self.method, "degree": self.degree, "lam": self.lam}


@dataclass(frozen=True, kw_only=True, repr=False)
class Weak(DerivativeSettings):
    """Integrals against test functions (the weak form), for noisy data.

    Backends that write trees propose terms on smoothed derivatives, and the integrals select.

    Parameters
    ----------
    window : int, optional
        Observations under one test function; by default from the time scale of the data.
    lags : int
        Steps back that belong to the state.

    Examples
    --------
    >>> Weak(window=31)
    Weak(window=31)
    """

    shorthand: ClassVar[str] = "weak"
    form: ClassVar[Form] = "weak"
    window: int | None = None
    lags: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class ZeroOrderHold(DerivativeSettings):
    """Steps between samples over which the control inputs are held constant.

    Parameters
    ----------
    window : int, optional
        Observations under one test function; by default from the time scale of the data.

    Examples
    --------
    >>> ZeroOrderHold(window=15)
    ZeroOrderHold(window=15)
    """

    shorthand: ClassVar[str] = "zoh"
    form: ClassVar[Form] = "zoh"
    window: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Discrete(DerivativeSettings):
    """The next value itself: the law is a map.

    Parameters
    ----------
    lags : int
        Steps back that belong to the state, where what was measured is not all of it: with 1 the
        inputs are x, x_lag1, u1 and u1_lag1.

    Examples
    --------
    >>> import numpy as np
    >>> import sjepa
    >>> x = np.cos(0.5 * np.arange(80))
    >>> law = sjepa.discover(x, 1.0, library=["x1", "x1_lag1"], derivatives=Discrete(lags=1)).best()
    >>> law.round(3)
    x1[t+1] = 1.76*x1 - x1_lag1
    x1_lag1[t+1] = x1
    """

    shorthand: ClassVar[str] = "discrete"
    form: ClassVar[Form] = "discrete"
    lags: int = 0


KINDS = (ChosenByData, Smooth, Weak, ZeroOrderHold, Discrete)
DERIVATIVES: Mapping[str, DerivativeSettings] = {kind.shorthand: kind() for kind in KINDS}
BY_FORM: Mapping[str, DerivativeSettings] = {kind.form: kind() for kind in KINDS}


def derivatives_of(given: Any) -> DerivativeSettings:
    """The settings that ``derivatives=`` stands for."""
    return settings_of(given, "derivatives", DERIVATIVES)
