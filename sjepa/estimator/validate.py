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
from sjepa.errors import ConfigError, DataError
from sjepa.estimator.parameter_types import check_each, naming
from sjepa.symbolic import Grammar, Library
from sjepa.training import WAYS, CorrectionSettings
from sjepa.training.alternating.fixed import check_fixed
from sjepa.training.options import is_as_published, search_budget, training_plan


# What is no setting of the way at hand: the words for it, and why each is not read.
GIVEN = "where the coordinates are given"
UNREAD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "joint": (
        "by search='joint'",
        {
            "head": "it reads coordinates off a given encoder",
            "device": "it trains on the CPU",
            "dynamics": "a map needs search='alternating' or given coordinates",
        },
    ),
    "alternating": (
        "by search='alternating'",
        {
            "head": "it reads coordinates off a given encoder",
            "delta_roll": "rollouts are part of its risk; see the options of the search",
            "select": "its cycles are compared by their risk",
            "order": "it learns laws of first order; use search='joint'",
        },
    ),
    "frozen": (
        "by search='alternating'",
        {
            "delta_roll": "rollouts are part of its risk; see the options of the search",
            "select": "its checkpoints are compared by their risk",
            "history": "it is for a search with encoder='auto'",
            "order": "it learns laws of first order; use search='joint'",
        },
    ),
    "given": (
        GIVEN,
        {
            "device": "nothing is trained",
            "history": "discover(lags=...) makes coordinates of the past",
            "delta": "the front is cut at its knee",
        },
    ),
    "learned head": (
        "by head='learned'",
        {
            "search": "it is the joint one",
            "history": "it is for a search with encoder='auto'",
            "options": "they are those of a search with encoder='auto'",
            "device": "it trains on the CPU",
            "backend": "the head is found together with the law",
            "delta_roll": "it is for a search with encoder='auto'",
            "select": "it is for a search with encoder='auto'",
            "dynamics": "a map needs given coordinates",
            "feature_names": "its coordinates are z1, z2, ...",
        },
    ),
}
# Options of `sjepa.discover` for given coordinates.
FORM_OPTIONS = ("form", "window")
# Fewer observations decide nothing about coordinates.
MIN_POINTS = 20
# Shorter trajectories have no windows worth choosing.
SHORTEST = 10


def way_of(model: Any) -> str:
    """Which way of learning an estimator's settings choose."""
    if isinstance(model.encoder, str) and model.encoder == "auto":
        return str(model.search)
    if isinstance(model.head, str) and model.head == "learned":
        return "learned head"
    return "frozen" if model.search == "alternating" else "given"


def validate(model: Any, trajectories: Trajectories) -> None:
    """Refuse settings of an estimator that contradict each other or the data.

    Every refusal is a ConfigError whose `argument` is the parameter's name, or a DataError.
    """
    check_each(model)
    way = way_of(model)
    where, unread = UNREAD[way]
    for name, why in unread.items():
        _refuse_unless_default(model, name, where, why)
    if model.dynamics == "discrete":
        _refuse_unless_default(model, "integrator", "by dynamics='discrete'", "a map has no steps")
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
    if model.order == 2 and model.dynamics == "discrete":
        raise ConfigError("order=2 is for dynamics='continuous': a map has no velocities.", "order")
    if model.integrator == "verlet" and model.order == 1:
        raise ConfigError("integrator='verlet' needs order=2; use 'rk4'.", "integrator")
    with naming("options"):
        if way == "joint":
            search_budget(model.options)
        if way in ("alternating", "frozen"):
            training_plan(model.options, model.backend)
        if way == "frozen":
            check_fixed(model.options)
    if way == "given" and (lost := sorted({*(model.options or ())} - {*FORM_OPTIONS})):
        raise ConfigError(
            f"options: {lost[0]!r} is not read {GIVEN}: form and window are.",
            "options",
        )
    if model.correction is not None:
        with naming("correction"):
            _check_correction(CorrectionSettings.of(model.correction), way)
    if way not in ("alternating", "frozen"):
        return
    with naming("options"):
        as_published = is_as_published(model.options)
    if as_published and model.dynamics == "continuous" and model.integrator != "euler":
        raise ConfigError(
            "Algorithm 1 as published is forward Euler: integrator='euler'.", "integrator"
        )


def _check_correction(given: CorrectionSettings, way: str) -> None:
    if way in ("alternating", "frozen"):
        if not given.neural_only:
            given.check_joint()
    elif given.joint == "coordinates":
        if way != "joint" or given.neural_only:
            raise ConfigError(
                "correction: joint='coordinates' is for search='joint', whose encoder can move."
            )
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
    names = model.feature_names
    if model.latent_dim == "auto":
        _check_auto(model, way)
    elif way in WAYS:
        if names is not None and len(names) != model.latent_dim:
            raise ConfigError(
                f"{len(names)} feature_names for {model.latent_dim} coordinates.", "feature_names"
            )
        if names is not None and isinstance(model.library or model.grammar, Library | Grammar):
            raise ConfigError(
                "The library or grammar names the inputs; leave feature_names.", "feature_names"
            )
        if model.history is None and model.latent_dim > size * model.order:
            raise ConfigError(
                f"latent_dim={model.latent_dim} is more than the {size} values of an observation; "
                "history='auto' reads hidden ones off several successive observations.",
                "latent_dim",
            )
    if model.history is not None:
        _check_history(model, trajectories, size)
    plain = isinstance(model.encoder, str) and (model.head is None or model.head == "none")
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
    for name in ("library", "grammar", "feature_names"):
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
