"""Before a fit: every setting is read, and refused where it makes no sense or would go unread."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from sjepa.backend import Backend
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.derivative_settings import derivatives_of
from sjepa.errors import ConfigError, DataError
from sjepa.estimator.parameter_types import (
    check_each,
    head_of,
    is_given,
    is_identity,
    naming,
    search_of,
)
from sjepa.training import Alternating, Joint, LawOnly, Neural


# What each way of learning does not read: the words for the way, and why.
GIVEN = "where the coordinates are given"
UNREAD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "joint": ("by search='joint'", {}),
    "alternating": (
        "by search='alternating'", {"order": "it learns laws of first order; use search='joint'"},
    ),
    "frozen": (
        "by search='alternating'",
        {
            "history": "it is for a search with encoder='auto'",
            "order": "it learns laws of first order; use search='joint'",
        },
    ),
    "given": (
        GIVEN,
        {
            "history": "discover(derivatives=Discrete(lags=...)) makes coordinates of the past",
            "delta": "the front is cut at its knee",
        },
    ),
    "learned head": (
        "by head='learned'",
        {
            "history": "it is for a search with encoder='auto'",
            "backend": "the head is found together with the law",
        },
    ),
}  # fmt: skip
# Fewer observations decide nothing about coordinates.
MIN_POINTS = 20
# Shorter trajectories have no windows worth choosing.
SHORTEST = 10


def way_of(model: Any) -> str:
    """Which way of learning an estimator's settings choose."""
    search, given = search_of(model), is_given(model.encoder)
    learned = head_of(model.encoder) == "learned"
    for kind, fits, why in (
        (LawOnly, given and not learned, "needs a given encoder, whose head is not learned"),
        (Joint, learned or not given, "learns coordinates: with a given encoder use LawOnly"),
        (Alternating, not learned, "is no search of a learned head"),
    ):
        if isinstance(search, kind) and not fits:
            raise ConfigError(f"search: {kind.__name__} {why}.", "search")
    if learned:
        return "learned head"
    if isinstance(search, Alternating):
        return "frozen" if given else "alternating"
    return "given" if given else "joint"


def validate(model: Any, trajectories: Trajectories) -> None:
    """Refuse settings of an estimator that contradict each other or the data.

    Every refusal is a ConfigError whose `argument` is the parameter's name, or a DataError.
    """
    check_each(model)
    way = way_of(model)
    where, unread = UNREAD[way]
    for name, why in unread.items():
        _refuse_unless_default(model, name, where, why)
    if way == "joint" and model.order == 2 and not make_backend(model.backend).trees:
        why = "the library is searched whole; backends that write trees can add to it"
        _refuse_unless_default(model, "backend", "by search='joint' with order=2", why)
    _check_together(model, way)
    _check_with_data(model, way, trajectories)


def _refuse_unless_default(model: Any, name: str, where: str, why: str) -> None:
    default = inspect.signature(type(model).__init__).parameters[name].default
    value = getattr(model, name)
    if name == "backend":  # a name, a mapping and an instance may be the same one
        value, default = make_backend(value), make_backend(default)
    same = isinstance(value, str | Real | Backend) and value == default
    if value is default or same:
        return
    raise ConfigError(f"{name}={value!r:.40} is not read {where}: {why}.", name)


def _check_together(model: Any, way: str) -> None:
    if model.library is not None and model.grammar is not None:
        raise ConfigError("Give a library or a grammar, not both.", "grammar")
    search, correction = search_of(model), Neural.of(model.correction)
    if (
        model.order == 2
        and way == "given"
        and derivatives_of(search.derivatives).form == "discrete"
    ):
        raise ConfigError("order=2 is for derivatives: a map has no velocities.", "order")
    if search.integrator == "verlet" and model.order == 1:
        raise ConfigError("integrator='verlet' needs order=2; use 'rk4'.", "search")
    if way == "frozen":
        with naming("search"):
            search.check_fixed()
    if correction is not None:
        with naming("correction"):
            _check_correction(correction, way)


def _check_correction(given: Neural, way: str) -> None:
    if way in ("alternating", "frozen"):
        if not given.alone:
            given.check_joint()
    elif given.joint == "coordinates":
        if way != "joint" or given.alone:
            raise ConfigError("joint='coordinates' is for search='joint', whose encoder can move.")
        replace(given, joint=False).check_joint("where coordinates move with the correction")


def _check_with_data(model: Any, way: str, trajectories: Trajectories) -> None:
    size, points = int(np.prod(trajectories.obs_shape)), int(trajectories.lengths.sum())
    if trajectories.u is not None and way == "learned head":
        raise DataError(
            f"Coordinates cannot be learned with actions {UNREAD[way][0]} yet: use "
            "search='alternating', or encoder='identity' where the observations are the state."
        )
    if way not in ("given", "frozen") and points < MIN_POINTS:
        raise DataError(
            f"Learning coordinates needs at least {MIN_POINTS} observations, got {points}; with "
            "encoder='identity' fewer will do."
        )
    if model.latent_dim == "auto":
        _check_auto(model, way)
    elif way in ("joint", "alternating"):
        if model.history is None and model.latent_dim > size * model.order:
            raise ConfigError(
                f"latent_dim={model.latent_dim} is more than the {size} values of an observation; "
                "history='auto' reads hidden ones off several successive observations.",
                "latent_dim",
            )
    if model.history is not None:
        _check_history(model, trajectories, size)
    plain = is_identity(model.encoder) and head_of(model.encoder) == "none"
    if plain and way in ("given", "frozen") and model.latent_dim not in (size, "auto"):
        why = f"all {size} observed values are coordinates"
        _refuse_unless_default(model, "latent_dim", "by head='none'", why)


def _check_auto(model: Any, way: str) -> None:
    """Several numbers of coordinates are compared by the search that says what is adequate."""
    if way != "joint":
        raise ConfigError(
            f"latent_dim='auto' is not read {UNREAD[way][0]}: it needs search='joint'.",
            "latent_dim",
        )
    for name in ("library", "grammar"):
        if getattr(model, name) is not None:
            raise ConfigError(
                f"latent_dim='auto' tries several numbers of coordinates, {name} names them: "
                "leave one out.",
                "latent_dim",
            )


def _check_history(model: Any, trajectories: Trajectories, size: int) -> None:
    """Windows need equal steps, and must show as many values as there are coordinates."""
    steps = np.concatenate(trajectories.steps)
    if steps.max() > steps.min() * (1 + 1e-3):
        raise DataError(
            f"A history needs equal steps, these range from {steps.min():g} to {steps.max():g}; "
            "interpolate the data."
        )
    shortest = int(trajectories.lengths.min())
    least = SHORTEST if model.history == "auto" else int(model.history)
    if shortest < 2 * least:
        raise DataError(
            f"A history of {least} needs trajectories of at least {2 * least} observations, "
            f"the shortest has {shortest}."
        )
    if "auto" in (model.history, model.latent_dim):
        return
    if model.latent_dim > size * int(model.history):
        raise ConfigError(
            f"history={model.history} is too short for {model.latent_dim} coordinates.", "history"
        )
