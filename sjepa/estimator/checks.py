"""Before a fit: what cannot work is refused, what is doubtful is said aloud."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.training import WAYS, CorrectionSettings


# Cubes of larger numbers leave the range of single precision, in which networks are trained.
LARGEST = 1e12
# Spreads below this square to numbers that double precision rounds to nothing.
SMALLEST = 1e-140
# Changes for each unit of time, in units of the spread, that suggest another unit.
SLOW, FAST = 1e-3, 1e3


def check_settings(model: Any, trajectories: Trajectories) -> None:
    """Refuse settings of an estimator that contradict each other or the data."""
    if model.search not in WAYS:
        raise ConfigError(f"search is one of {', '.join(WAYS)}, got {model.search!r}.", "search")
    if not isinstance(model.latent_dim, int) or model.latent_dim < 1:
        raise ConfigError(
            f"latent_dim must be a whole number from 1, got {model.latent_dim!r}.", "latent_dim"
        )
    if model.library is not None and model.grammar is not None:
        raise ConfigError("Give a library or a grammar, not both.")
    if model.correction is not None:
        CorrectionSettings.of(model.correction)
        if model.order == 2:
            raise ConfigError("No correction beside a law of second order; set correction=None.")
    if model.dynamics not in ("continuous", "discrete"):
        raise ConfigError(f"dynamics is 'continuous' or 'discrete', got {model.dynamics!r}.")
    if model.dynamics == "discrete" and model.encoder == "auto":
        raise ConfigError("A map needs given coordinates: use encoder='identity' or your own.")
    if trajectories.u is not None and model.encoder == "auto" and model.search == "elegant":
        raise DataError(
            "The elegant search does not take actions yet: use search='alternating', or "
            "encoder='identity' where the observations are the state."
        )
    if model.order != 1 and model.encoder == "auto" and model.search == "alternating":
        raise ConfigError(
            f"search='alternating' learns first-order laws, got order={model.order!r}; "
            "leave order out or use search='elegant'."
        )
    size = int(np.prod(trajectories.obs_shape))
    if model.feature_names is not None and model.encoder == "auto":
        if len(model.feature_names) != model.latent_dim:
            raise ConfigError(
                f"{len(model.feature_names)} feature_names for {model.latent_dim} coordinates."
            )
        if model.library is not None or model.grammar is not None:
            raise ConfigError("The library or grammar names the inputs; leave feature_names.")
    if model.encoder == "auto" and model.latent_dim > size * (2 if model.order == 2 else 1):
        raise ConfigError(
            f"latent_dim={model.latent_dim} is more than the {size} values of an observation.",
            "latent_dim",
        )


def look(trajectories: Trajectories, states: bool) -> None:
    """Check magnitudes and rates; `states` says that every column is a coordinate of the law."""
    for i, x in enumerate(trajectories.x):
        rows = np.abs(x.reshape(len(x), -1)).max(axis=1)
        if rows.max() > LARGEST:
            row = int(rows.argmax())
            raise DataError(
                f"x is {rows[row]:.3g} in trajectory {i}, row {row}: powers of such numbers "
                "overflow; rescale the data, for instance to a spread of 1."
            )
    low = np.min([x.reshape(len(x), -1).min(axis=0) for x in trajectories.x], axis=0)
    high = np.max([x.reshape(len(x), -1).max(axis=0) for x in trajectories.x], axis=0)
    spread = high - low
    if not spread.max() > SMALLEST:
        raise DataError("x does not change at all: there is nothing that an equation could say.")
    if states and (flat := np.flatnonzero(spread <= 1e-12 * np.abs(high).clip(1e-300))).size:
        name = trajectories.names[flat[0]] if trajectories.names else flat[0]
        _say(f"Column {name} never changes; leave it out, its equation is 0.")
    if len(trajectories) == 1:
        _say(
            "There is one trajectory only; trajectories from other starts would make the law more "
            "certain."
        )
    _look_at_time(trajectories, spread)


def _look_at_time(trajectories: Trajectories, spread: np.ndarray) -> None:
    moving = spread > 0
    rates = []
    for x, steps in zip(trajectories.x, trajectories.steps, strict=True):
        change = np.abs(np.diff(x.reshape(len(x), -1)[:, moving], axis=0)) / spread[moving]
        rates.append(np.median(change.max(axis=1) / steps))
    rate = float(np.median(rates))
    if rate and not SLOW < rate < FAST:
        how = "slow" if rate < SLOW else "fast"
        unit = "milliseconds, divide by 1000" if how == "slow" else "another unit, convert it"
        _say(
            f"The data move by {rate:.1g} of their range in one unit of time, which is very {how}: "
            f"if t is in {unit}."
        )


def _say(text: str) -> None:
    warnings.warn(text, NumericalWarning, stacklevel=5)
