"""Where a trajectory is cut: where rows are missing, and at steps that do not resolve the signal.

Irregular sampling is no reason to cut. A gap is a step that is rare, much longer than the steps of
this trajectory, and longer than the time in which the signal itself moves on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sjepa.data._check import Array, Where
from sjepa.errors import DataError, warn_about_data


# At most one step in so many is a gap, which leaves pieces of that many rows on average; steps that
# are more frequent belong to the way the data were sampled, such as two alternating rates.
RARE = 20
# How much longer than all but those rare steps a gap is. Of exponential waiting times, the most
# irregular sampling there usually is, one step in 60 million is (exp(-6 ln 20)).
LONG = 6.0
# The signal is resolved by a step in which it moves by less than this share of its standard
# deviation, in the mean square: for an oscillation an eighteenth of its period.
MOVED = 0.5
# Change across a single step that is beyond the usual one, in standard deviations.
BEYOND = 3.0
# Pieces with fewer rows are left out where there are longer ones: derivatives of high order need
# five points, and those of shorter pieces would be the worst of all.
MIN_ROWS = 5

Cut = tuple[int, Any]  # a trajectory, and the rows of it that make a new one


def cut(
    x: list[Array],
    t: list[Array],
    rest: Sequence[list[Array] | None],
    missing: str,
    gaps: str,
    where: Where,
) -> list[Cut] | None:
    """The pieces that trajectories fall into, or None if nothing changes; warns of what is done.

    With missing="drop" rows without a value in `x`, `t` or the `rest` are left out.
    """
    if missing == "raise" and (gaps == "keep" or all(map(_no_step_is_long, t))):
        return None
    series = [s for s in (x, t, *rest) if s is not None]
    found: list[tuple[int, Array]] = []
    dropped, longest = 0, (0.0, "")
    for i, (xi, ti) in enumerate(zip(x, t, strict=True)):
        rows = np.arange(len(ti))
        if missing == "drop" and not (good := _complete([s[i] for s in series])).all():
            rows = rows[good]
            dropped += len(ti) - len(rows)
            xi, ti = xi[rows], ti[rows]
        holes = np.diff(rows) > 1
        breaks = _breaks(xi, ti, holes) if gaps == "cut" else rows[:0]
        for k in breaks[~holes[breaks]]:
            longest = max(longest, (float(ti[k + 1] - ti[k]), where(i, rows[k])))
        found += [(i, part) for part in np.split(rows, breaks + 1)]
    if not dropped and len(found) == len(x):
        return None
    enough = max((len(part) for _, part in found), default=0)
    if enough < 2:
        raise DataError("no two neighboring rows are complete; drop the emptiest columns first.")
    whole = {i for i, part in found if len(part) == len(t[i])}
    kept = [(i, p) for i, p in found if len(p) >= min(MIN_ROWS, enough) or i in whole]
    _report(x, found, kept, dropped, longest)
    return [(i, _slice(part)) for i, part in kept]


def _report(
    x: list[Array],
    found: Sequence[tuple[int, Array]],
    kept: Sequence[tuple[int, Array]],
    dropped: int,
    longest: tuple[float, str],
) -> None:
    short = sum(len(p) for _, p in found) - sum(len(p) for _, p in kept)
    ending = f" {short} rows in pieces of fewer than {MIN_ROWS} are left out." if short else ""
    if dropped:
        warn_about_data(f"{dropped} rows with missing values are left out.", "missing")
    if count := len(found) - len(x):
        gap = f" (the longest lasts {longest[0]:.4g}, after {longest[1]})" if longest[0] else ""
        warn_about_data(
            f"Trajectories are cut at {count} gap{'s' * (count > 1)}{gap}, {len(kept)} remain; "
            f"gaps='keep' leaves them whole.{ending}",
            "gaps",
        )


def _complete(arrays: Sequence[Array]) -> Array:
    """Which rows have all their values."""
    return np.all([np.isfinite(a.reshape(len(a), -1)).all(axis=1) for a in arrays], axis=0)


def _slice(rows: Array) -> Any:
    """Neighboring rows as a slice, which does not copy."""
    return slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] == len(rows) - 1 else rows


def _no_step_is_long(t: Array) -> bool:
    steps = t[1:] - t[:-1]
    return bool(steps.max() <= LONG * steps.min())


def _breaks(x: Array, t: Array, holes: Array) -> Array:
    """The rows after which a trajectory is cut.

    `holes` are steps across missing rows. Where they are rare they are gaps, whatever their length,
    since maps and held inputs need every row; where not, the rows are just irregular.
    """
    steps = np.diff(t)
    rare = len(steps) // RARE
    few = holes if holes.sum() <= max(rare, 1) else np.zeros_like(holes)
    if rare:
        last = len(steps) - 1 - rare
        far = steps > LONG * np.partition(steps, last)[last]
        if far.any():
            with np.errstate(over="ignore", invalid="ignore"):  # refused later, with a message
                few = few | (far & _unresolved(x.reshape(len(x), -1).astype(float), t, far))
    return np.flatnonzero(few)


def _unresolved(x: Array, t: Array, far: Array) -> Array:
    """Which steps are longer than the time in which the signal moves on, or contain a move."""
    steps, jumps = np.diff(t), np.square(np.diff(x, axis=0))
    limit = np.square(MOVED * x.std(axis=0))
    crossed = np.append(0, np.cumsum(far))  # long steps before each row
    usual = jumps[~far].mean(axis=0)  # noise, and what moves in one step
    time_scale, k = np.inf, 2
    while k < len(x) and time_scale == np.inf:
        pairs = np.flatnonzero(crossed[k:] == crossed[:-k])
        lag = np.inf if not len(pairs) else float(np.median(t[pairs + k] - t[pairs]))
        if lag > steps.max():
            break
        change = np.square(x[pairs + k] - x[pairs]).mean(axis=0)
        if (change - usual > limit).any():
            time_scale = lag
        k += max(1, k // 4)
    across = (jumps > limit + BEYOND**2 * usual).any(axis=1)
    return np.asarray((steps >= time_scale) | across)
