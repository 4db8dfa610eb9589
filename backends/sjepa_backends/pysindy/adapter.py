"""A PySINDy optimizer, or a whole SINDy model, as a backend."""

from __future__ import annotations

from typing import Any

import pysindy

from sjepa.errors import ConfigError
from sjepa_backends.adapters import params
from sjepa_backends.pysindy import PySINDy


# What stays with us: numbers are refitted after the search, nothing is printed.
_OURS = ("copy_X", "verbose", "verbose_cvxpy", "unbias")


def from_object(thing: Any) -> PySINDy:
    """The backend with an optimizer's settings, and a model's feature library."""
    if isinstance(thing, pysindy.SINDy):
        return _of_model(thing)
    if isinstance(thing, pysindy.optimizers.BaseOptimizer):
        return _of_optimizer(thing, None)
    raise ConfigError(
        f"PySINDy's {type(thing).__name__} is no backend; give an optimizer such as "
        "pysindy.STLSQ(threshold=0.1), or a pysindy.SINDy.", "backend",
    )  # fmt: skip


def _of_optimizer(thing: Any, library: Any) -> PySINDy:
    ensemble = None
    if isinstance(thing, pysindy.EnsembleOptimizer):
        ensemble = {k: v for k, v in params(thing).items() if k != "opt"}
        thing = thing.opt
    settings = thing.get_params(deep=False)
    options = {k: v for k, v in settings.items() if k not in _OURS and v is not None}
    # Where it would leave its penalized numbers as they are, so do we.
    debias = bool(settings.get("unbias", True))
    return PySINDy(type(thing).__name__, options, None, ensemble, debias, library)


def _of_model(model: Any) -> PySINDy:
    if type(model) not in (pysindy.SINDy, pysindy.DiscreteSINDy):
        raise ConfigError(f"PySINDy's {type(model).__name__} cannot be a backend.", "backend")
    differentiation = getattr(model, "differentiation_method", None)
    if differentiation is not None and _set_by_user(differentiation):
        raise ConfigError(
            f"{differentiation!r:.80} of the model cannot be kept: derivatives are "
            "estimated before the search. Give discover(..., x_dot=...), or derivative=.",
            "backend",
        )
    return _of_optimizer(model.optimizer, model.feature_library)


def _set_by_user(differentiation: Any) -> bool:
    """Whether it is another method than the one a model has by default."""
    plain = pysindy.SINDy().differentiation_method
    return type(differentiation) is not type(plain) or repr(
        sorted(differentiation.get_params().items())
    ) != repr(sorted(plain.get_params().items()))
