"""Convert any supported input to Trajectories; the only place that interprets ambiguous data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sjepa.data._angles import unwrapped
from sjepa.data.names import numbered
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


def as_trajectories(
    x: Any,
    t: Any,
    u: Any,
    names: Sequence[str] | None,
    states: bool,
    gaps: Literal["cut", "keep"],
) -> Trajectories:
    """See :meth:`Trajectories.of`."""
    if isinstance(x, str | Path):
        raise DataError(f"x is a path; read it with sjepa.data.read({str(x)!r}) first.")
    if isinstance(x, list | tuple) and x and all(isinstance(one, Trajectories) for one in x):
        x = Trajectories.concat(x)  # what model selection makes of a Trajectories
    if isinstance(x, Trajectories):
        if t is not None or u is not None:
            raise DataError("Trajectories already hold their times and inputs; give x alone.")
        found = x
    elif t is None:
        raise DataError("Give the times as t: a constant step, an array, or a list of arrays.")
    else:
        _ask(x, t)
        found = Trajectories(x, t, u, gaps=gaps)
    if states:
        if len(found.obs_shape) != 1:
            raise DataError(
                f"Expected states (T, d), got observations of shape {found.obs_shape}; "
                "learn coordinates first, with SJEPA or sjepa fit."
            )
        if found.names is None:
            names = names or numbered("x", found.obs_shape[0])
    return unwrapped(found if names is None else found._named(names))


def _ask(x: Any, t: Any) -> None:
    """With a step alone nothing says whether a stack holds trajectories or frames."""
    shape: tuple[int, ...] = tuple(getattr(x, "shape", ()))
    if len(shape) > 2 and not isinstance(t, list | tuple) and np.ndim(t) == 0:
        raise DataError(
            f"x of shape {tuple(shape)} may be {shape[0]} trajectories or one of {shape[0]} "
            "frames: give list(x) for the first, [x] for the second."
        )
