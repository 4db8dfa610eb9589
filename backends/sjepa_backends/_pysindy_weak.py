"""Rows of the weak form, integrated by PySINDy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pysindy import WeakPDELibrary
from pysindy.feature_library.base import BaseFeatureLibrary, x_sequence_or_item
from pysindy.utils import AxesArray

from sjepa.errors import ConfigError, DataError
from sjepa.symbolic.library import Library


class OurFeatures(BaseFeatureLibrary):
    """Our terms as a PySINDy library."""

    def __init__(self, library: Library) -> None:
        self.library = library

    @x_sequence_or_item
    def fit(self, x_full: Any, y: Any = None) -> OurFeatures:
        self.n_features_in_ = len(self.library.inputs)
        self.n_output_features_ = len(self.library)
        return self

    @x_sequence_or_item
    def transform(self, x_full: Any) -> list[Any]:
        run = self.library.numpy()
        return [AxesArray(run(np.asarray(x)), x.axes) for x in x_full]

    def get_feature_names(self, input_features: Sequence[str] | None = None) -> list[str]:
        return self.library.names


def weak_rows(
    x: np.ndarray | Sequence[np.ndarray],
    t: np.ndarray | Sequence[np.ndarray],
    u: np.ndarray | Sequence[np.ndarray] | None,
    library: Library,
    windows: int,
    half_width: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Integrated features (windows, terms) and integrated derivatives (windows, states)."""
    states, times = _listed(x, "x"), _listed(t, "t")
    actions = [None] * len(states) if u is None else _listed(u, "u")
    if not len(states) == len(times) == len(actions):
        raise DataError(f"Got {len(states)} trajectories, {len(times)} times, {len(actions)} u.")
    parts = [
        _one(i, *part, library, windows, half_width)
        for i, part in enumerate(zip(states, times, actions, strict=True))
    ]
    return np.vstack([p[0] for p in parts]), np.vstack([p[1] for p in parts])


def _listed(values: Any, what: str) -> list[np.ndarray]:
    parts = [values] if isinstance(values, np.ndarray) else list(values)
    arrays = [np.asarray(v, dtype=float) for v in parts]
    for i, a in enumerate(arrays):
        if not np.isfinite(a).all():
            raise DataError(f"Trajectory {i}: {what} contains values that are not finite.")
    return [a[:, None] if a.ndim == 1 and what != "t" else a for a in arrays]


def _one(
    i: int,
    x: np.ndarray,
    t: np.ndarray,
    u: np.ndarray | None,
    library: Library,
    windows: int,
    half_width: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    joined = x if u is None else np.hstack([x, u])
    if len(joined) != len(t) or len(t) < 10 or not (np.diff(t) > 0).all():
        raise DataError(
            f"Trajectory {i}: the weak form needs at least 10 states at increasing times; "
            f"got {len(joined)} states and {len(t)} times."
        )
    if joined.shape[1] != len(library.inputs):
        raise DataError(
            f"Trajectory {i}: {joined.shape[1]} columns for the inputs {', '.join(library.inputs)}."
        )
    try:
        weak = WeakPDELibrary(
            OurFeatures(library), spatiotemporal_grid=t, K=windows, H_xt=half_width
        )
    except ValueError as error:
        raise ConfigError(f"Trajectory {i}: {error}") from None
    data = AxesArray(joined, {"ax_time": 0, "ax_coord": 1})
    weak.fit([data])
    theta = np.asarray(weak.transform([data])[0])
    derivatives = np.asarray(weak.convert_u_dot_integral(data))
    return theta, derivatives[:, : x.shape[1]]
