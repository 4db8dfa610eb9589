"""Before a fit: every setting is read, and refused where it makes no sense or would go unread."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sjepa.backend import Backend
from sjepa.backend.registry import make_backend
from sjepa.callbacks import check_callbacks
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError, LawError, NumericalWarning, did_you_mean
from sjepa.models import INTEGRATORS
from sjepa.models.devices import resolve_device
from sjepa.models.pretrained import HEADS
from sjepa.symbolic import Grammar, Library
from sjepa.symbolic.parse import check_names
from sjepa.training import WAYS, CorrectionSettings
from sjepa.training.alternating.fixed import check_fixed
from sjepa.training.options import is_printed, search_budget, training_plan


# What is no setting of the way at hand: the words for it, and why each is not read.
GIVEN = "where the coordinates are given"
UNREAD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "elegant": (
        "by search='elegant'",
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
            "order": "it learns laws of first order; use search='elegant'",
        },
    ),
    "frozen": (
        "by search='alternating'",
        {
            "delta_roll": "rollouts are part of its risk; see the options of the search",
            "select": "its checkpoints are compared by their risk",
            "history": "it is for a search with encoder='auto'",
            "order": "it learns laws of first order; use search='elegant'",
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
            "search": "it is the elegant one",
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
# What `sjepa.discover` may be told about given coordinates.
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
    _check_each(model)
    way = way_of(model)
    where, unread = UNREAD[way]
    for name, why in unread.items():
        _refuse_unless_default(model, name, where, why)
    if model.dynamics == "discrete":
        _refuse_unless_default(model, "integrator", "by dynamics='discrete'", "a map has no steps")
    if way == "elegant" and model.order == 2:
        why = "the library is searched whole"
        _refuse_unless_default(model, "backend", "by search='elegant' with order=2", why)
    _check_together(model, way)
    _check_with_data(model, way, trajectories)


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Give refusals from deeper down the name of the parameter they are about."""
    try:
        yield
    except ConfigError as error:
        error.argument = error.argument or argument
        raise
    except LawError as error:
        raise ConfigError(f"{argument}: {error}", argument) from None


def draw_seed(random_state: Any) -> int:
    """A seed as scikit-learn takes randomness: fresh for None, drawn from what is a generator."""
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


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
    if model.correction is not None and model.order == 2:
        raise ConfigError(
            "correction is for laws of first order; leave it out with order=2.", "correction"
        )
    with naming("options"):
        if way == "elegant":
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
        printed = is_printed(model.options)
    if printed and model.dynamics == "continuous" and model.integrator != "euler":
        raise ConfigError(
            "Algorithm 1 as printed is forward Euler: integrator='euler'.", "integrator"
        )


def _check_correction(given: CorrectionSettings, way: str) -> None:
    if way in ("alternating", "frozen"):
        if not given.neural_only:
            given.check_joint()
    elif given.joint == "coordinates":
        if way != "elegant" or given.neural_only:
            raise ConfigError(
                "correction: joint='coordinates' is for search='elegant', whose encoder can move."
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
    if way != "elegant":
        raise ConfigError(
            f"latent_dim='auto' is not read {UNREAD[way][0]}: it needs search='elegant'.",
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


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _one_of(*known: Any) -> tuple[Callable[[Any], bool], str]:
    def fine(value: Any) -> bool:
        return any(type(value) is type(one) and value == one for one in known)

    return fine, f"one of {', '.join(map(repr, known))}"


def _is_library(value: Any) -> bool:
    terms = isinstance(value, list | tuple) and all(isinstance(term, str) for term in value)
    return value is None or isinstance(value, Library) or (terms and len(value) > 0)


def _is_delta(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf


def _is_random_state(value: Any) -> bool:
    generators = (np.random.RandomState, np.random.Generator)
    return value is None or _whole(value, 0) or isinstance(value, generators)


def _is_names(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple | np.ndarray) and all(isinstance(v, str) for v in value)
    )


# What each parameter may be, and the words for it.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "latent_dim": (
        lambda v: _whole(v, 1) or (isinstance(v, str) and v == "auto"),
        "a whole number from 1, or 'auto'",
    ),
    "search": _one_of(*WAYS),
    "encoder": (
        lambda v: v in ("auto", "identity") if isinstance(v, str) else callable(v),
        "'auto', 'identity', a callable or a module",
    ),
    "head": _one_of("auto", "none", None, *HEADS, "learned"),
    "library": (_is_library, "a Library or a list of terms such as ['z1', 'sin(z1)']"),
    "grammar": (lambda v: v is None or isinstance(v, Grammar), "a Grammar"),
    "delta": (_is_delta, "'auto' or a positive number"),
    "delta_roll": (lambda v: v is None or (_is_delta(v) and v != "auto"), "a positive number"),
    "select": _one_of(None, "mdl"),
    "dynamics": _one_of("continuous", "discrete"),
    "order": _one_of(1, 2),
    "history": (
        lambda v: v is None or v == "auto" or _whole(v, 2),
        "'auto' or a whole number from 2",
    ),
    "device": (lambda v: isinstance(v, str | torch.device), "'auto', 'cpu', 'cuda' or 'mps'"),
    "integrator": _one_of(*INTEGRATORS),
    "random_state": (_is_random_state, "None, a whole number from 0, or a numpy generator"),
    "progress": (lambda v: v is None or callable(v), "a function of a text and a share"),
    "verbose": _one_of(None, True, False),
    "feature_names": (_is_names, "a list of names"),
    "options": (lambda v: v is None or isinstance(v, Mapping), "a mapping from names to values"),
}
# What is read by others, whose refusals get the parameter's name.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "backend": make_backend,
    "correction": lambda v: None if v is None else CorrectionSettings.of(v),
    "device": resolve_device,
    "feature_names": lambda v: None if v is None else check_names(v, "feature"),
    "callbacks": check_callbacks,
}


def _check_each(model: Any) -> None:
    for name, (fine, words) in _KINDS.items():
        if not fine(value := getattr(model, name)):
            hint = did_you_mean(value, _names_in(words)) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is {words}, got {value!r:.60}.{hint}", name)
    for name, read in _READERS.items():
        with naming(name):
            read(getattr(model, name))


def _names_in(words: str) -> list[str]:
    return words.split("'")[1::2]


# Cubes of larger numbers leave the range of single precision, in which networks are trained.
MAX_SIZE = 1e12
# Spreads below this square to numbers that double precision rounds to nothing.
MIN_SPREAD = 1e-140
# Changes for each unit of time, in units of the spread, that suggest another unit.
SLOW, FAST = 1e-3, 1e3


def check_data(trajectories: Trajectories, states: bool) -> None:
    """Check magnitudes and rates; `states` says that every column is a coordinate of the law."""
    for i, x in enumerate(trajectories.x):
        rows = np.abs(x.reshape(len(x), -1)).max(axis=1)
        if rows.max() > MAX_SIZE:
            row = int(rows.argmax())
            raise DataError(
                f"x is {rows[row]:.3g} in trajectory {i}, row {row}: powers of such numbers "
                "overflow; rescale the data, for instance to a spread of 1."
            )
    low = np.min([x.reshape(len(x), -1).min(axis=0) for x in trajectories.x], axis=0)
    high = np.max([x.reshape(len(x), -1).max(axis=0) for x in trajectories.x], axis=0)
    spread = high - low
    if not spread.max() > MIN_SPREAD:
        raise DataError("x does not change at all: there is nothing that an equation could say.")
    if states and (flat := np.flatnonzero(spread <= 1e-12 * np.abs(high).clip(1e-300))).size:
        name = trajectories.names[flat[0]] if trajectories.names else flat[0]
        _warn(f"Column {name} never changes; leave it out, its equation is 0.")
    if len(trajectories) == 1:
        _warn(
            "There is one trajectory only; trajectories from other starts would make the law more "
            "certain."
        )
    _check_rates(trajectories, spread)


def _check_rates(trajectories: Trajectories, spread: np.ndarray) -> None:
    moving = spread > 0
    rates = []
    for x, steps in zip(trajectories.x, trajectories.steps, strict=True):
        change = np.abs(np.diff(x.reshape(len(x), -1)[:, moving], axis=0)) / spread[moving]
        rates.append(np.median(change.max(axis=1) / steps))
    rate = float(np.median(rates))
    if rate and not SLOW < rate < FAST:
        how = "slow" if rate < SLOW else "fast"
        unit = "milliseconds, divide by 1000" if how == "slow" else "another unit, convert it"
        _warn(
            f"The data move by {rate:.1g} of their range in one unit of time, which is very {how}: "
            f"if t is in {unit}."
        )


def _warn(text: str) -> None:
    warnings.warn(text, NumericalWarning, stacklevel=5)
