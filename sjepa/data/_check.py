"""What every array must pass before it becomes part of a trajectory.

All messages have one form: what is wrong, where, what to do. `where` turns a trajectory number
and a row into the words for the place, so that tables can speak of their own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sjepa.errors import DataError, did_you_mean
from sjepa.symbolic.gram import CHUNK, MAX_SIZE


Array = np.ndarray[Any, np.dtype[Any]]
Where = Callable[..., str]

# Changes smaller than this share of an offset keep at most four digits in sums of squares.
OFFSET = 1e-6


def place(index: int, row: int | None = None) -> str:
    """The default words for a place: trajectory and row, both counted from 0."""
    return f"trajectory {index}" + ("" if row is None else f", row {row}")


def numeric(value: Any, what: str, where: str) -> Array:
    """Turn anything array-like into floats; whatever has no obvious meaning is refused."""
    if value is None:
        raise DataError(f"{what} of {where} is None; pass an array.")
    if hasattr(value, "detach"):  # a torch tensor, possibly on another device
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "fiub":
        value = np.ma.filled(value.astype(np.result_type(value.dtype, np.float32)), np.nan)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(
            f"{what} of {where} has rows of different lengths; make it a rectangular array, "
            "or pass a list of arrays for several trajectories."
        ) from error
    kind = array.dtype.kind
    if kind == "O":
        array, kind = _from_objects(array, what, where), "f"
    if kind == "c":
        raise DataError(
            f"{what} of {where} is complex; pass real and imaginary parts as two columns."
        )
    if kind in "mM":
        raise DataError(
            f"{what} of {where} holds dates; convert to seconds first: "
            "(t - t[0]) / np.timedelta64(1, 's')."
        )
    if kind not in "fiub":
        raise DataError(f"{what} of {where} holds text ({array.dtype}); convert it to numbers.")
    # Small integers (video frames) fit into float32 exactly; the rest needs float64.
    dtype = np.result_type(array.dtype, np.float32)
    return np.asarray(array, dtype=dtype if dtype == np.float32 else np.float64)


def _from_objects(array: Array, what: str, where: str) -> Array:
    """Numbers in an object array (None, Decimal) are accepted; anything else is named."""
    for position in np.ndindex(array.shape):
        item = array[position]
        if isinstance(item, str | bytes | complex) or np.ndim(item) > 0:
            spot = f"{where}, row {position[0]}" if position else where
            raise DataError(
                f"{what} of {spot} is {item!r:.40}, not a number; pass a plain numeric array."
            )
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{what} of {where} is an object array; pass a plain numeric array ({error})."
        ) from error


def rows(array: Array, what: str, where: str) -> Array:
    """A time series has time first; a series of plain numbers is one column."""
    if array.ndim == 0:
        raise DataError(
            f"{what} of {where} is a single number; pass an array whose first axis is time "
            "(a list means several trajectories)."
        )
    if array.size == 0:
        raise DataError(
            f"{what} of {where} is empty (shape {array.shape}); pass data or leave it out."
        )
    return array[:, None] if array.ndim == 1 else array


def finite(array: Array, what: str, index: int, where: Where = place) -> None:
    """Refuse NaN and infinity, naming the first row that holds one."""
    if np.isfinite(array).all():
        return
    good: Array = np.all(np.isfinite(array.reshape(len(array), -1)), axis=1)
    row = int(np.argmin(good))
    bad = int((~good).sum())
    raise DataError(
        f"{what} is NaN or infinite in {where(index, row)} ({bad} such rows in all); clean the "
        "data, or leave such rows out with missing='drop'.",
        "missing",
    )


def squarable(arrays: Iterable[Array], what: str) -> None:
    """Refuse numbers whose squares overflow; anything that is not finite is too large as well."""
    for a in arrays:
        if not (-MAX_SIZE <= float(a.min()) and float(a.max()) <= MAX_SIZE):
            raise DataError(
                f"{what} reaches {np.abs(a).max():.3g}, the squares of which overflow; rescale the "
                "data or their times, for instance to a spread of 1."
            )


def resolved(arrays: Sequence[Array], names: Sequence[str]) -> None:
    """Refuse states whose changes have no squares in double precision, or none beside an offset.

    Columns that do not change, or only by rounding, are left to those who need them to.
    """
    low = np.min([a.min(axis=0) for a in arrays], axis=0)
    high = np.max([a.max(axis=0) for a in arrays], axis=0)
    for name, first, last in zip(names, low.tolist(), high.tolist(), strict=True):
        width, size = last - first, max(abs(first), abs(last))
        if 0 < width < 1 / MAX_SIZE:
            raise DataError(
                f"{name} changes by {width:.3g} in all, the squares of which are 0; rescale the "
                "data, for instance to a spread of 1."
            )
        if 4 * np.finfo(float).eps * size < width < OFFSET * size:
            raise DataError(
                f"{name} changes by {width:.3g} around {first:.6g}, too little beside that offset "
                "for double precision; subtract it."
            )


def spread(arrays: Sequence[Array]) -> Array:
    """Standard deviation (d,) of columns, 0 where nothing but rounding varies."""
    parts = [a[i : i + CHUNK] for a in arrays for i in range(0, len(a), CHUNK)]
    count, ones = sum(map(len, parts)), np.ones(CHUNK)
    mean = np.sum([ones[: len(p)] @ p for p in parts], axis=0) / count
    variance = np.sum([ones[: len(p)] @ np.square(p - mean) for p in parts], axis=0) / count
    found = np.sqrt(variance)
    return np.where(found > 1e-12 * np.hypot(mean, found), found, 0.0)


# Points that are plenty to estimate a level or to compare two methods.
ENOUGH, SEGMENT = 20_000, 1_000


def is_long(lengths: Iterable[int]) -> bool:
    """Whether a part of such trajectories stands for all."""
    return sum(lengths) >= 2 * ENOUGH


def segments(lengths: Iterable[int]) -> list[tuple[int, slice]]:
    """Parts of trajectories that stand for all: all of them, unless those are very long."""
    lengths = list(lengths)
    if not is_long(lengths):
        return [(i, slice(None)) for i in range(len(lengths))]
    every = sum(lengths) // ENOUGH
    starts = ((i, k) for i, n in enumerate(lengths) for k in range(0, max(1, n - SEGMENT), SEGMENT))
    return [(i, slice(k, k + SEGMENT)) for i, k in list(starts)[::every]]


def joined(arrays: Sequence[Array]) -> Array:
    """All rows in one array; one array is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def medians(rows: Array) -> Array:
    """Of each row, whose order is lost; numpy's own looks for what is not a number, and longer."""
    middle = [(rows.shape[1] - 1) // 2, rows.shape[1] // 2]
    rows.partition(middle, axis=1)
    return rows[:, middle].mean(axis=1)


def median_step(times: Sequence[Array]) -> float:
    """Time from one observation to the next."""
    return float(medians(joined([t[1:] - t[:-1] for t in times])[None])[0])


def increasing(t: Array, index: int, where: Where = place) -> None:
    """Refuse time that stands still or goes back. NaN is someone else's business."""
    known = np.flatnonzero(np.isfinite(t))
    stuck = np.flatnonzero(np.diff(t[known]) <= 0)
    if len(stuck):
        row = int(known[stuck[0] + 1])
        before = float(t[known[stuck[0]]])
        raise DataError(
            f"time is not strictly increasing in {where(index, row)}: {float(t[row])!r} follows "
            f"{before!r}; sort by time, remove repeated rows, or split into trajectories."
        )


def is_even(t: Array) -> bool:
    """Whether the steps are equal."""
    step = t[1:] - t[:-1]
    return bool(len(step)) and bool(step.max() - step.min() < 1e-9 * step.max())


def same_length(n: int, x: Array, what: str, where: str) -> None:
    """Compare a length with the number of observations, guessing what went wrong."""
    if n == len(x):
        return
    hint = "give one per observation."
    if what == "t" and x.ndim == 2 and n == x.shape[1]:
        hint = "x looks transposed: rows are times (x.T)."
    elif what == "t" and x.ndim > 2 and n == x.shape[1]:
        hint = "x looks like a stack of trajectories, pass list(x)."
    raise DataError(f"{where} has {len(x)} observations but {what} has {n} entries; {hint}")


def one_of(argument: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a setting that is not one of the known words."""
    if not isinstance(value, str) or value not in known:
        words = " or ".join(map(repr, known))
        raise DataError(f"{argument} is {words}, got {value!r:.40}.", argument)


def labels(
    names: Sequence[str] | None, size: int, what: str, unit: str = "column"
) -> tuple[str, ...] | None:
    """Names must be distinct text, one for each."""
    if names is None:
        return None
    try:
        result = (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        raise DataError(f"{what} is a list of texts, got {names!r:.60}.", what) from None
    wrong = [n for n in result if not isinstance(n, str)]
    if wrong:
        raise DataError(f"{what} must be text, got {wrong[0]!r}; pass str({wrong[0]!r}).")
    if len(result) != size:
        raise DataError(f"{len(result)} {what} for {size} {unit}s; give one name per {unit}.")
    if len(set(result)) < size:
        raise DataError(f"{what} hold {repeated(result)!r} twice; names must differ.")
    return result


# What a file may expand to when it is read: bytes, and times its own size.
MAX_BYTES, MAX_EXPANSION = 2**28, 200


def check_expansion(claimed: int, size: int) -> None:
    """Refuse a small file that stands for a large one, before it is unpacked."""
    if not 0 <= claimed <= MAX_EXPANSION * size + MAX_BYTES:
        raise DataError(f"it claims to hold {claimed} bytes in {size}; write it uncompressed.")


def require(known: Iterable[Any], wanted: Iterable[Any], kind: str = "column") -> None:
    """Refuse a column that does not exist, with the name that was probably meant."""
    names = {str(c): None for c in known}  # a dictionary keeps their order
    for name in wanted:
        if str(name) not in names:
            hint = did_you_mean(name, names)
            listed = ", ".join(list(names)[:20]) + (", ..." if len(names) > 20 else "")
            raise DataError(f"there is no {kind} {name!r}.{hint} There are: {listed}.")


def repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    return next((n for n in names if n in seen or seen.add(n)), None)  # type: ignore[func-returns-value]


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Pieces of one trajectory get its name with a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} part {seen[name]}")
    return tuple(found)
