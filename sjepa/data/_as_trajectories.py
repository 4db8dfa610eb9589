"""Convert any supported input to Trajectories; the only place that interprets ambiguous data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sjepa.data._angles import unwrapped
from sjepa.data.names import numbered
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, warn_about_data


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
    if isinstance(x, list | tuple) and x and all(isinstance(part, Trajectories) for part in x):
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
            names = numbered("x", found.obs_shape[0]) if names is None else names
    return unwrapped(found if names is None else found._named(names))


def distinct(data: Trajectories) -> Trajectories:
    """The data without trajectories that are copies of others to the last digit.

    Nothing measured repeats itself like that, and what is given twice is no more evidence.
    """
    kept: dict[tuple[Any, ...], list[int]] = {}
    copies: list[int] = []
    for i, (x, t) in enumerate(zip(data.x, data.t, strict=True)):
        alike = kept.setdefault((x.shape, t[0], t[-1], x[0].tobytes(), x[-1].tobytes()), [])
        if any(_same(data, i, k) for k in alike):
            copies.append(i)
        else:
            alike.append(i)
    if not copies:
        return data
    more = "" if len(copies) == 1 else f" and {len(copies) - 1} more"
    warn_about_data(f"Trajectory {copies[0]}{more} is a copy of another and counts once.")
    return data[np.setdiff1d(np.arange(len(data)), copies)]


def _same(data: Trajectories, i: int, k: int) -> bool:
    series = (data.x, data.t, data.u, data.sigma)
    return all(s is None or np.array_equal(s[i], s[k]) for s in series)


def _ask(x: Any, t: Any) -> None:
    """With a step alone nothing says whether a stack holds trajectories or frames."""
    shape: tuple[int, ...] = tuple(getattr(x, "shape", ()))
    if len(shape) > 2 and not isinstance(t, list | tuple) and np.ndim(t) == 0:
        raise DataError(
            f"x of shape {tuple(shape)} may be {shape[0]} trajectories or one of {shape[0]} "
            "frames: give list(x) for the first, [x] for the second."
        )
