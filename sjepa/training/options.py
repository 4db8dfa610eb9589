"""The options of each way of learning: how much to train, how far to search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import nn

from sjepa.backend.registry import make_backend
from sjepa.errors import ConfigError, did_you_mean
from sjepa.models import make_encoder
from sjepa.training.alternating import EXPERIMENT_1, Alternation, Condition, TrainingConfig
from sjepa.training.joint import SearchBudget


# Epochs of the three phases of the alternating search, by the name of their option.
EPOCHS = ("warm_epochs", "dynamics_epochs", "space_epochs")
# Weights of the objective that both phases share, by the name of their option.
_WEIGHTS = {"lambda_s": "symbolic", "lambda_r": "rollout"}
_OF_NETWORK = ("network", "stochastic")
_OF_PLAN = ("cycles", "propose_every_cycle", "relaxed", "emit", "seconds", "ema", "refit")
# Algorithm 1 as published: the backend only initializes the coefficients, by one thresholded
# ridge regression; the target encoder moves once a cycle; coefficients stay as they were trained.
AS_PUBLISHED: Mapping[str, Any] = {
    "emit": "library", "relaxed": True, "propose_every_cycle": False, "ema": "cycle",
    "refit": False,
}  # fmt: skip


def option_names(search: str) -> list[str]:
    """What `options` may hold for a search."""
    if search == "joint":
        return [f.name for f in fields(SearchBudget)]
    return [
        "as_published",
        *_OF_NETWORK,
        *_OF_PLAN,
        *_WEIGHTS,
        *EPOCHS,
        *(f.name for f in fields(TrainingConfig)),
    ]


def search_budget(options: Mapping[str, Any] | None) -> SearchBudget:
    """The size of a joint search."""
    given = _checked(options, "joint")
    try:
        return SearchBudget(**given)
    except TypeError as error:
        raise ConfigError(f"options of the joint search: {error}.") from None


def is_as_published(options: Mapping[str, Any] | None) -> bool:
    """Whether Algorithm 1 is asked for to the letter."""
    value = (options or {}).get("as_published", False)
    if not isinstance(value, bool):
        raise ConfigError(f"as_published is True or False, got {value!r:.60}.")
    return value


def training_plan(
    options: Mapping[str, Any] | None,
    backend: Any,
    correction: float | None = None,
    delta: float | None = None,
) -> tuple[Condition, Alternation, TrainingConfig]:
    """Warm start, cycles and settings of an alternating search.

    With `correction`, a weight λ_c, both phases train a hybrid; with `delta` they hold L_pred.
    """
    given = _checked(options, "alternating")
    given = {name: value for name, value in given.items() if name not in _OF_NETWORK}
    epochs = {name: given.pop(name) for name in EPOCHS if name in given}
    for name, value in epochs.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} must be a whole number from 1, got {value!r}.")
    phases = [
        condition.with_(epochs=epochs.get(name, condition.epochs))
        for name, condition in zip(
            EPOCHS,
            (EXPERIMENT_1[c] for c in ("warm_start", "dynamics_phase", "space_phase")),
            strict=True,
        )
    ]
    weights = {field: given.pop(name) for name, field in _WEIGHTS.items() if name in given}
    for value in weights.values():
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ConfigError(f"{' and '.join(_WEIGHTS)} are weights from 0, got {value!r:.60}.")
    phases[1:] = [phase.with_(delta=delta, **weights) for phase in phases[1:]]
    if correction is not None:
        phases[1:] = [phase.hybrid(correction) for phase in phases[1:]]
    plan = {name: given.pop(name) for name in _OF_PLAN if name in given}
    if is_as_published({"as_published": given.pop("as_published", False)}):
        if free := [name for name in AS_PUBLISHED if name in plan]:
            raise ConfigError(f"{free[0]} is decided by as_published=True; leave one of them out.")
        plan |= AS_PUBLISHED
        if make_backend(backend) == make_backend("stlsq"):
            backend = Alternation().backend
    if not isinstance(cycles := plan.get("cycles", 1), int) or cycles < 1:
        raise ConfigError(f"cycles must be a whole number from 1, got {cycles!r}.")
    try:
        alternation = Alternation(dynamics=phases[1], space=phases[2], backend=backend, **plan)
        return phases[0], alternation, TrainingConfig(**given)
    except TypeError as error:
        raise ConfigError(f"options of the alternating search: {error}.") from None


def network(
    options: Mapping[str, Any] | None, obs_shape: tuple[int, ...], latent_dim: int
) -> nn.Module:
    """The encoder of an alternating search: ``network`` by name, ``stochastic`` or not."""
    given = _checked(options, "alternating")
    name = given.get("network", "mlp" if len(obs_shape) == 1 else "cnn")
    if not isinstance(name, str):
        raise ConfigError(f"network is the name of an encoder, got {name!r:.60}.")
    stochastic = bool(given.get("stochastic", False))
    return make_encoder(name, obs_shape, latent_dim, stochastic=stochastic)


def _checked(options: Mapping[str, Any] | None, search: str) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"options is a mapping from names to values, got {options!r:.60}.")
    known = option_names(search)
    for name in options:
        if name not in known:
            raise ConfigError(
                f"The {search} search has no option {name!r}.{did_you_mean(name, known)} "
                f"Options: {', '.join(known)}."
            )
    return dict(options)
