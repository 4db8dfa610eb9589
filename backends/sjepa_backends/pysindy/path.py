"""Run one of PySINDy's optimizers along a path of sparsities."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.errors import BackendUnavailable, ConfigError


@dataclass(frozen=True)
class OptimizerTraits:
    """What has to be known about an optimizer beyond its name.

    `sparsity` is the argument that makes laws shorter; empty where the optimizer walks from short
    to long laws (or back) by itself and keeps the steps in its history. A `joint` optimizer
    couples the outputs, so they cannot be fitted one by one.
    """

    sparsity: str = ""
    joint: bool = False
    fix: str = ""


_CVXPY = "pip install 'pysindy[cvxpy]'"

OPTIMIZERS: Mapping[str, OptimizerTraits] = {
    "STLSQ": OptimizerTraits("threshold"),
    "SR3": OptimizerTraits("reg_weight_lam"),
    "SSR": OptimizerTraits(),
    "FROLS": OptimizerTraits(),
    "ConstrainedSR3": OptimizerTraits("reg_weight_lam", joint=True, fix=_CVXPY),
    "StableLinearSR3": OptimizerTraits("reg_weight_lam", joint=True, fix=_CVXPY),
    "TrappingSR3": OptimizerTraits("reg_weight_lam", joint=True, fix=_CVXPY),
    "MIOSR": OptimizerTraits("target_sparsity", fix="pip install 'pysindy[miosr]'"),
}

# Shares of the target that a term has to contribute to survive, when no path is given.
PATH = np.geomspace(1e-4, 10.0, 21)
# The same in the units of the coefficients, for optimizers that are not given scaled columns.
RAW_PATH = np.geomspace(1e-3, 1.0, 10)
MAX_TERMS = 12

# PySINDy calls methods of these; a list would not do.
_ARRAYS = ("constraint_lhs", "constraint_rhs", "initial_guess", "mod_matrix", "m0", "A0")


def check_name(name: str) -> None:
    if name not in OPTIMIZERS:
        close = difflib.get_close_matches(name.upper(), [n.upper() for n in OPTIMIZERS], n=1)
        match = next((n for n in OPTIMIZERS if close and n.upper() == close[0]), None)
        hint = f" Did you mean {match!r}?" if match else ""
        raise ConfigError(
            f"PySINDy has no optimizer {name!r}.{hint} Known: {', '.join(OPTIMIZERS)}."
        )


def optimizer_class(name: str) -> Any:
    """The class, or an error with the command that installs what it needs."""
    import pysindy

    cls = getattr(pysindy.optimizers, name, None)
    if cls is None:
        raise BackendUnavailable(
            f"PySINDy's {name} needs a package that is not installed here. "
            f"Fix: {OPTIMIZERS[name].fix}. Until then, 'STLSQ' needs nothing else."
        )
    return cls


def check_options(
    name: str, options: Mapping[str, Any], ensemble: Mapping[str, Any] | None
) -> None:
    """Refuse misspelled arguments; some of PySINDy's classes would swallow them."""
    import pysindy

    _check_arguments(optimizer_class(name), options)
    _check_arguments(pysindy.EnsembleOptimizer, ensemble or {})


def _check_arguments(cls: Any, given: Mapping[str, Any]) -> None:
    known = {
        name
        for c in cls.__mro__
        if "__init__" in vars(c) and c.__module__.startswith("pysindy")
        for name, p in inspect.signature(c.__init__).parameters.items()
        if name not in ("self", "opt") and p.kind is not p.VAR_KEYWORD
    }
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"PySINDy's {cls.__name__} has no argument {name!r}.{hint}")


def path_options(
    name: str, options: Mapping[str, Any], path: Sequence[float] | None, scaled: bool
) -> list[dict[str, Any]]:
    """One set of arguments for each point of the path."""
    key = OPTIMIZERS[name].sparsity
    if not key or (key in options and path is None):
        return [dict(options)]
    if path is not None:
        return [{**options, key: v} for v in path]
    if name == "MIOSR":
        return [{**options, key: k} for k in range(1, MAX_TERMS + 1)]
    thresholds = PATH if scaled else RAW_PATH
    if name != "STLSQ":  # a weight of the penalty instead of a threshold on the coefficient
        nu = float(options.get("relax_coeff_nu", 1.0))
        default = "l1" if name in ("StableLinearSR3", "TrappingSR3") else "l0"
        squared = str(options.get("regularizer", default)).lower().endswith("l0")
        thresholds = thresholds**2 / (2 * nu) if squared else thresholds / nu
    return [{**options, key: float(v)} for v in thresholds]


def fit_once(
    name: str,
    options: Mapping[str, Any],
    ensemble: Mapping[str, Any] | None,
    theta: np.ndarray,
    targets: np.ndarray,
) -> list[np.ndarray]:
    """Fit (n, P) features to (n, k) targets; every set of coefficients (k, P) on the way."""
    import pysindy

    cls = optimizer_class(name)
    arguments = {k: np.asarray(v) if k in _ARRAYS else v for k, v in options.items()}
    if name in ("SSR", "FROLS"):  # both stop long before the end by default
        arguments.setdefault("max_iter", theta.shape[1])
    if name == "TrappingSR3":
        arguments.setdefault("_n_tgts", targets.shape[1])
    model = cls(**arguments)
    if ensemble is not None:
        model = pysindy.EnsembleOptimizer(opt=model, **ensemble)
    model.fit(theta, targets)
    steps = [] if OPTIMIZERS[name].sparsity or ensemble is not None else model.history_
    return [np.atleast_2d(c) for c in (*steps, model.coef_)]


def compressed(theta: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As few rows as there are columns, with the same inner products (a QR factor)."""
    if len(theta) <= theta.shape[1] + targets.shape[1]:
        return theta, targets
    r = np.asarray(np.linalg.qr(np.hstack([theta, targets]), mode="r"))
    return r[:, : theta.shape[1]], r[:, theta.shape[1] :]


@contextmanager
def quiet_and_seeded(seed: int) -> Iterator[None]:
    """PySINDy draws from numpy's global generator and warns about every over-large threshold."""
    state = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(state)
