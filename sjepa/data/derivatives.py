"""Derivatives of measured trajectories, and how far to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sjepa.data._check import Array, medians, resolved, segments, squarable
from sjepa.data.local_fit import local_polynomial, local_slopes
from sjepa.data.names import numbered, with_velocity_names
from sjepa.data.noise import noise_level
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


# (half-width in points, degree), from the least smoothing to the most: differences of order
# eight, six and four, then quartics over windows that grow by about 1.4.
_DIFFERENCES = ((4, 8), (3, 6), (2, 4))
_QUARTICS = tuple((h, 4) for h in (3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90))

# A window is too wide once it differs from a narrower one by more than noise explains, in units
# of variance. 1 would trip over noise that is itself only estimated; on test systems 1.5 to 2
# gave errors within 1.4 times those of the best window.
_EXCESS = 1.8
_SAMPLE = 4000  # points used to choose a window


def is_difference(window: tuple[int, int]) -> bool:
    """Whether a window's polynomial goes through all of its points, which so stay as they are."""
    half, degree = window
    return degree == 2 * half


class Smoothing(NamedTuple):
    """Noise (d,) and, where the data chose them, half-width and degree of each column's window."""

    noise: Array
    windows: tuple[tuple[int, int], ...] | None

    @property
    def leaves_states(self) -> bool:
        """Whether the states stay as they are."""
        return self.windows is not None and all(map(is_difference, self.windows))


class Derivatives(NamedTuple):
    """Smoothed trajectories and their time derivatives.

    ``trajectories``: x replaced by its smooth version (unchanged for differences);
    ``x_dot``: one array (T, d) per trajectory; ``valid``: one bool array (T,) per trajectory,
    False near ends where the derivative is much noisier than inside; ``noise`` (d,): estimated
    standard deviation of the noise in each column; ``method``: what was used for each column;
    ``windows``: where the data chose, half-width and degree of each column's window.
    """

    trajectories: Trajectories
    x_dot: list[Array]
    valid: list[Array]
    noise: Array
    method: tuple[str, ...]
    windows: tuple[tuple[int, int], ...] | None = None

    @property
    def smoothing(self) -> Smoothing:
        """What can be used again on other data."""
        return Smoothing(self.noise, self.windows)


def differentiate(
    trajectories: Trajectories,
    method: str = "auto",
    *,
    order: int = 6,
    window: int | None = None,
    degree: int = 4,
    lam: float | None = None,
    like: Smoothing | None = None,
) -> Derivatives:
    """Time derivatives of vector observations, on regular or irregular time grids.

    Parameters
    ----------
    trajectories : Trajectories
        With observations of shape (d,).
    method : {"auto", "finite_difference", "savgol", "spline"}
        ``auto`` estimates the noise of each column and takes the widest window that noise alone
        explains: finite differences for clean data, moving quartics for noisy data.
        ``savgol`` is a moving polynomial, weighted by distance in time.
        ``spline`` is a cubic smoothing spline per column, smoothed by cross-validation.
    order : int
        For finite_difference: order of accuracy, even.
    window, degree : int
        For savgol: points in a window, odd (chosen as in auto if None), and degree.
    lam : float, optional
        For spline: fixed smoothing parameter.
    like : Smoothing, optional
        Settings found on other data of the same kind, reused.
    """
    if len(trajectories.obs_shape) != 1:
        raise DataError(
            f"observations have shape {trajectories.obs_shape}; only vectors have usable "
            "derivatives, encode them first."
        )
    squarable(trajectories.x, "x")
    names = trajectories.names or numbered("x", trajectories.x[0].shape[1])
    resolved(trajectories.x, names)
    squarable(trajectories.u or (), "u")
    d = trajectories.obs_shape[0]
    noise = noise_level(trajectories.x, trajectories.t) if like is None else like.noise
    with np.errstate(over="ignore", invalid="ignore"):
        if like is not None and like.windows is not None:
            found = _apply(trajectories, like.windows, noise, trust_ends=False)
        else:
            found = _differentiated(trajectories, method, noise, d, order, window, degree, lam)
    squarable(found.x_dot, "A derivative")
    return found


def _differentiated(
    trajectories: Trajectories, method: str, noise: Array, d: int, order: int, window: int | None,
    degree: int, lam: float | None,
) -> Derivatives:  # fmt: skip
    if method == "spline":
        return _spline(trajectories, lam, noise)
    if method == "finite_difference":
        if order < 2 or order % 2:
            raise DataError(f"the order must be even and at least 2, got {order}.")
        chosen = [(order // 2, order)] * d
    elif method == "savgol" and window is not None:
        if window < 3 or window % 2 == 0 or not 1 <= degree < window:
            raise DataError(
                f"window must be odd and larger than degree, got window={window}, degree={degree}."
            )
        chosen = [(window // 2, degree)] * d
    elif method == "savgol":
        chosen = _choose(
            trajectories, noise, [(h, degree) for h, _ in _QUARTICS if 2 * h >= degree]
        )
    elif method == "auto":
        chosen = _choose(trajectories, noise, [*_DIFFERENCES, *_QUARTICS])
    else:
        raise DataError(
            f"there is no method {method!r}; use auto, finite_difference, savgol or spline."
        )
    found = _apply(trajectories, chosen, noise, trust_ends=method == "finite_difference")
    free = method == "auto" or (method == "savgol" and window is None)
    return found._replace(windows=tuple(chosen) if free else None)


def slope_error(trajectories: Trajectories, noise: Array | None = None) -> Array:
    """Mean square error (d,) to expect of the derivatives of clean data (with `noise` if known).

    Differences of order eight, six and four come nearer to the derivative by about the same
    factor each time, so what separates them tells what the best of them still lacks; noise, be it
    rounding, comes on top.
    """
    some = trajectories._cut(segments(trajectories.lengths))
    series = list(zip(some.t, some.x, strict=True))
    found = [[local_slopes(t, x, k // 2, k) for t, x in series] for k in (8, 6, 4)]
    inner = [slice(4, -4) if len(x) > 16 else slice(None) for x in some.x]
    best, middle, worst = (
        np.concatenate([f.slope[part] for f, part in zip(fits, inner, strict=True)])
        for fits in found
    )
    near = ((best - middle) ** 2).mean(axis=0)
    far = np.maximum(((middle - worst) ** 2).mean(axis=0), 1e-300)
    gains = [fit.slope_gain[len(fit.slope) // 2] for fit in found[0]]
    level = noise_level(some.x, some.t) if noise is None else noise
    return np.asarray(level**2 * np.mean(np.square(gains)) + near * np.minimum(near / far, 1.0))


def second_derivatives(trajectories: Trajectories, **options: Any) -> Derivatives:
    """The same for the state (coordinates, velocities), whose derivatives are accelerations too."""
    first = differentiate(trajectories, **options)
    smooth = first.trajectories
    moved = Trajectories(
        [np.concatenate(pair, axis=1) for pair in zip(smooth.x, first.x_dot, strict=True)],
        smooth.t,
        smooth.u,
        state=smooth.state,
        names=with_velocity_names(smooth.names or numbered("z", smooth.obs_shape[0])),
        input_names=smooth.input_names,
        gaps="keep",
    )
    second = differentiate(moved, **options)
    valid = [a & b for a, b in zip(first.valid, second.valid, strict=True)]
    return second._replace(valid=valid)


def _apply(
    trajectories: Trajectories, chosen: Sequence[tuple[int, int]], noise: Array, trust_ends: bool
) -> Derivatives:
    """Fit each column with its own window."""
    smooth, x_dot, valid = [], [], []
    exact = all(map(is_difference, chosen))
    for t, x in zip(trajectories.t, trajectories.x, strict=True):
        value, slope = None if exact else np.empty(x.shape), np.empty(x.shape)
        good = np.ones(len(t), dtype=bool)
        for half, degree in sorted(set(chosen)):
            columns: Any = [c == (half, degree) for c in chosen]
            columns = slice(None) if all(columns) else columns  # a slice is not copied
            fit = local_polynomial(t, x, half, degree, columns, (value, slope))
            if not trust_ends:
                good &= fit.slope_gain <= 2 * _median(fit.slope_gain)
            del fit  # its gains are as long as the data, and the next ones come on top
        smooth.append(x.astype(float, copy=False) if value is None else value)
        x_dot.append(slope)
        valid.append(good)
    words = tuple(
        f"differences of order {c[1]}"
        if is_difference(c)
        else f"degree {c[1]} over {2 * c[0] + 1} points"
        for c in chosen
    )
    new = trajectories._like(smooth, trajectories.t, trajectories.u, trajectories.state)
    return Derivatives(new, x_dot, valid, noise, words)


def _median(values: Array) -> float:
    """The median, without a search where most values are the same."""
    middle = values[len(values) // 2]
    same = np.count_nonzero(values == middle)
    return float(middle if 2 * same > len(values) else np.median(values))


def _choose(
    trajectories: Trajectories, noise: Array, candidates: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """For each column, the most smoothing that agrees with all milder ones (Lepski's rule)."""
    every = max(1, round(trajectories.lengths.sum() / _SAMPLE))
    some = trajectories[::every]
    some = some._cut(segments(some.lengths))
    room = max(9, int(medians(trajectories.lengths[None])[0]) // 3)
    candidates = [c for c in candidates if 2 * c[0] + 1 <= room] or list(candidates[:1])
    # Ends are left out: windows are shifted there and say little about their width.
    reach = max(h for h, _ in candidates)
    cuts = [min(reach, n // 4) for n in some.lengths]

    fits: list[tuple[Array, float]] = []  # slopes (rows, d) and mean squared gain
    best = np.zeros(len(noise), dtype=int)
    growing = np.ones(len(noise), dtype=bool)
    for level, (half, degree) in enumerate(candidates):
        parts = [local_slopes(t, x, half, degree) for t, x in zip(some.t, some.x, strict=True)]
        slope = np.concatenate(
            [p.slope[k : len(p.slope) - k] for p, k in zip(parts, cuts, strict=True)]
        )
        gain = np.concatenate(
            [p.slope_gain[k : len(p.slope) - k] for p, k in zip(parts, cuts, strict=True)]
        )
        power = float((gain**2).mean())
        for milder, milder_power in fits:
            allowed = _EXCESS * noise**2 * max(milder_power - power, 0.0)
            growing &= ((slope - milder) ** 2).mean(axis=0) <= allowed
        best[growing] = level
        if not growing.any():
            break
        fits.append((slope, power))
    return [candidates[i] for i in best]


def _spline(trajectories: Trajectories, lam: float | None, noise: Array) -> Derivatives:
    """A cubic smoothing spline per column and trajectory."""
    from scipy.interpolate import make_smoothing_spline

    smooth, x_dot, valid = [], [], []
    for i, (t, x) in enumerate(zip(trajectories.t, trajectories.x, strict=True)):
        if len(t) < 5:
            raise DataError(f"trajectory {i} has {len(t)} points, a spline needs 5; leave it out.")
        # Cross-validation looks for the penalty between fixed bounds, which only fit times near 1.
        unit = float(np.diff(t).mean())
        scaled, penalty = (t - t[0]) / unit, None if lam is None else lam / unit**3
        try:
            splines = [
                make_smoothing_spline(scaled, np.asarray(c, dtype=float), lam=penalty) for c in x.T
            ]
        except (ValueError, np.linalg.LinAlgError) as error:
            raise DataError(
                f"trajectory {i} cannot be made a spline ({error!s:.80}); use derivative='auto'.",
                "derivative",
            ) from None
        smooth.append(np.stack([s(scaled) for s in splines], axis=1))
        x_dot.append(np.stack([s.derivative()(scaled) / unit for s in splines], axis=1))
        # The spline is straight at its ends, whatever the data do.
        edge = min(len(t) // 4, max(2, len(t) // 20))
        rows = np.arange(len(t))
        valid.append((rows >= edge) & (rows < len(t) - edge))
    new = trajectories._like(smooth, trajectories.t, trajectories.u, trajectories.state)
    return Derivatives(new, x_dot, valid, noise, ("smoothing spline",) * len(noise))


def initial_state(z: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(z, dz/dt) at the first of a few successive samples z (k, d), by a parabola through them."""
    if z.ndim != 2 or len(z) < 2 or len(t) < len(z):
        raise DataError(
            f"A second-order law starts from at least two successive observations, taken at the "
            f"first times given; got coordinates {z.shape} and {len(t)} times."
        )
    since = t[: len(z)] - t[0]
    design = np.vander(since, min(3, len(z)), increasing=True)
    fitted = np.linalg.lstsq(design, z, rcond=None)[0]
    return np.concatenate([fitted[0], fitted[1]])
