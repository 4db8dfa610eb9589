"""Trajectories: what was observed, when, and under which actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from sjepa.data import _arrays as arrays, _check as check
from sjepa.data._check import Array, Where
from sjepa.data._gaps import Cut, cut
from sjepa.data.names import numbered, split_unit, symbols_for
from sjepa.errors import DataError, warn_about_data


class Trajectories:
    """Any number of time series of one kind, possibly of unequal length and irregular in time.

    Integers become floats: float32 where that is exact (8 and 16 bits), else float64. Arrays that
    are floats already are not copied. Trajectories and rows are counted from 0 in all messages.
    What is changed in the data is reported as a :class:`sjepa.errors.DataWarning`.

    Parameters
    ----------
    x : array (T, ...) or list of such arrays
        Observations, time first: (T,) or (T, d) readings, (T, H, W) or (T, C, H, W) frames. A list
        means several trajectories; of a stack (N, T, ...) make one with ``list(stack)``.
    t : float, array (T,) or list of arrays
        A constant step, the times of every trajectory, or the times of each.
    u : array (T,) or (T, m), or list, optional
        Control inputs, one row per observation: ``u[i]`` is the input at time ``t[i]``.
    state : array (T, k) or list, optional
        The true state where it is known. Used to evaluate, never to learn.
    names, input_names : sequences of str, optional
        Names of the observed columns (vectors only) and of the control inputs. Without them `names`
        is None and the inputs are called u1, u2, ... A name that cannot stand in an equation, such
        as "flow rate (l/min)" or "lambda", becomes a symbol; `labels` says what it stands for.
    sigma : float, array or list, optional
        Measured standard errors of x, all positive: one for everything, one per column (d,), or one
        per value (T, d). A list has such an entry for each trajectory.
    ids : sequence of str, optional
        What to call each trajectory, such as the names of experiments.
    missing : "raise" or "drop"
        Whether NaN, infinity and masked values are an error, or their rows are left out.
    gaps : "cut" or "keep"
        Whether trajectories are cut at gaps, so that no step leads across one. A gap is a step that
        is rare, over six times as long as the rest, and longer than the time in which the signal
        moves on; irregular sampling has none. Rows left out because of `missing` are gaps too,
        where there are few.

    Examples
    --------
    >>> data = Trajectories([np.zeros((4, 2)), np.ones((6, 2))], 0.1, names=["q", "p"])
    >>> data
    <Trajectories: 2 of 4 to 6 points; q, p>
    >>> data[1].t[0].round(1).tolist()
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """

    x: list[Array]
    t: list[Array]
    u: list[Array] | None
    state: list[Array] | None
    sigma: list[Array] | None
    names: tuple[str, ...] | None
    input_names: tuple[str, ...] | None
    labels: dict[str, str]
    ids: tuple[str, ...] | None = None

    def __init__(
        self,
        x: Any,
        t: Any,
        u: Any = None,
        *,
        state: Any = None,
        names: Sequence[str] | None = None,
        input_names: Sequence[str] | None = None,
        sigma: Any = None,
        ids: Sequence[str] | None = None,
        missing: Literal["raise", "drop"] = "raise",
        gaps: Literal["cut", "keep"] = "cut",
        _where: Where = check.place,
    ) -> None:
        check.one_of("missing", missing, ("raise", "drop"))
        check.one_of("gaps", gaps, ("cut", "keep"))
        names = arrays.columns(x) if names is None else names
        input_names = arrays.columns(u) if input_names is None else input_names
        x, t = arrays.rows_or_trajectories(x, t)
        self.x = arrays.series(x, "x", _where)
        arrays.same_shape(self.x, "x", _where)
        self.t = arrays.times(t, self.x, _where)
        self.u = arrays.matching(u, self.x, "u", _where)
        self.state = arrays.matching(state, self.x, "state", _where)
        self.sigma = arrays.standard_errors(sigma, self.x, _where)
        if missing == "raise":
            self._check_finite(_where)
        for i, (xi, ti) in enumerate(zip(self.x, self.t, strict=True)):
            if len(xi) < 2:
                raise DataError(
                    f"{_where(i)} has one observation; dynamics need at least two, leave it out."
                )
            check.increasing(ti, i, _where)
        self._name(names, input_names)
        self.ids = check.labels(ids, len(self.x), "ids", "series")
        arrays.warn_if_transposed(t, self.x)
        rest = (self.u, self.state, self.sigma)
        if (cuts := cut(self.x, self.t, rest, missing, gaps, _where)) is not None:
            self.__dict__.update(self._cut(cuts).__dict__)

    @property
    def units(self) -> dict[str, str]:
        """Units of columns and inputs where their labels end in one, as "Level 1 (cm)" does."""
        found = {symbol: split_unit(label)[1] for symbol, label in self.labels.items()}
        return {symbol: unit for symbol, unit in found.items() if unit}

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """The former name of `input_names`."""
        return self.input_names

    def _name(self, names: Sequence[str] | None, input_names: Sequence[str] | None) -> None:
        if names is not None and len(self.obs_shape) != 1:
            raise DataError(
                f"names are for vectors, but observations have shape {self.obs_shape}; "
                "leave them out."
            )
        d, m = self.obs_shape[0], self.u[0].shape[1] if self.u else 0
        if input_names is None and m:
            input_names = numbered("u", m)
        of_x = check.labels(names, d, "names")
        of_u = check.labels(input_names, m, "input_names")
        if overlap := set(of_x or ()) & set(of_u or ()):
            raise DataError(f"{min(overlap)!r} names both a column of x and an input; rename one.")
        given = (*(of_x or ()), *(of_u or ()))
        symbols = symbols_for(given)
        self.labels = {s: label for s, label in zip(symbols, given, strict=True) if s != label}
        self.names = None if of_x is None else symbols[:d]
        self.input_names = None if of_u is None else symbols[len(symbols) - m :]
        if self.labels:
            listed = ", ".join(f"{label!r} is {s}" for s, label in self.labels.items())
            warn_about_data(f"In equations {listed}.", "names")

    @classmethod
    def of(
        cls,
        x: Any,
        t: Any = None,
        u: Any = None,
        *,
        names: Sequence[str] | None = None,
        states: bool = False,
        gaps: Literal["cut", "keep"] = "cut",
    ) -> Trajectories:
        """Whatever a user gives: arrays, lists, pandas tables, Trajectories or a list of them.

        Parameters
        ----------
        x, t, u, gaps : as for the class; Trajectories hold their own times and inputs
        names : names of the columns; by default those of the tables or Trajectories
        states : bool
            Whether observations must be vectors; without names they are called x1, x2, ...
        """
        from sjepa.data._as_trajectories import as_trajectories

        return as_trajectories(x, t, u, names, states, gaps)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        time: str | float,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        actions: Sequence[str] = (),
        state: Sequence[str] = (),
        sigma: float | Sequence[str] | None = None,
        missing: Literal["raise", "drop"] = "raise",
        gaps: Literal["cut", "keep"] = "cut",
    ) -> Trajectories:
        """Read a pandas table with one row per observation.

        Parameters
        ----------
        frame : pandas.DataFrame
        time : str or float
            The time column, or a constant step. Dates, also as text, become seconds since the
            first one.
        id : str, optional
            Column that tells the trajectories apart; they keep the order of first appearance.
        columns : sequence of str, optional
            What was observed. By default every column that has no other role.
        actions, state : sequences of str
            Columns of control inputs, and of the true state.
        sigma : float, or sequence of str
            Standard error of all values, or the columns that hold those of each observed column.
        missing, gaps : as for the class

        Columns are named as in the table, without the unit in brackets, or by their symbol.
        """
        from sjepa.data._frame import from_frame

        return from_frame(frame, time, id, columns, actions, state, sigma, missing, gaps)

    @classmethod
    def concat(
        cls, parts: Sequence[Trajectories], *, labels: Sequence[str] | None = None
    ) -> Trajectories:
        """Put several collections of the same kind into one; `labels` name them in messages."""
        if not parts:
            raise DataError("nothing to put together; pass at least one Trajectories.")
        first = parts[0]
        for i, p in enumerate(parts):
            for what, value in p._kind().items():
                if value != (other := first._kind()[what]):
                    here, there = (labels[i], labels[0]) if labels else (f"part {i}", "part 0")
                    raise DataError(f"{what} are {value} in {here} but {other} in {there}.")

        new = first._like(
            *(
                None if series is None else [a for p in parts for a in getattr(p, key)]
                for key, series in first._series().items()
            )
        )
        every = all(p.ids for p in parts)
        new.ids = check.distinct(n for p in parts for n in p.ids or ()) if every else None
        return new

    # Looking at it

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.x[0].shape[1:]

    @property
    def lengths(self) -> Array:
        """Number of observations of each trajectory."""
        return np.array([len(a) for a in self.x])

    @property
    def steps(self) -> list[Array]:
        """Time between neighboring observations, one array of length T - 1 per trajectory."""
        return [np.diff(a) for a in self.t]

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Trajectories]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Trajectories:
        """An int gives a collection of one; a slice, mask or array of ints a sub-collection."""
        chosen = np.atleast_1d(np.arange(len(self))[key])
        if not len(chosen):
            raise DataError(f"the selection {key!r} of {len(self)} trajectories is empty.")
        return self._cut([(i, slice(None)) for i in chosen])

    def __repr__(self) -> str:
        n = self.lengths
        points = f"{n[0]}" if (n == n[0]).all() else f"{n.min()} to {n.max()}"
        what = f"observations of shape {self.obs_shape}"
        if self.names:
            what = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
        inputs = f"; inputs {', '.join(self.input_names)}" if self.input_names else ""
        return f"<Trajectories: {len(self)} of {points} points; {what}{inputs}>"

    def _check_finite(self, where: Where) -> None:
        for what, series in self._series().items():
            for i, array in enumerate(series or ()):
                check.finite(array, what, i, where)

    # Making others of it

    def split(
        self, fractions: Sequence[float] = (0.8, 0.2), *, seed: int = 0
    ) -> tuple[Trajectories, ...]:
        """Divide into parts by whole trajectories, at random; each part gets at least one.

        A single trajectory is cut in time instead: the first part is the earliest.
        """
        share = np.asarray(fractions, dtype=float)
        if share.ndim != 1 or not len(share) or (share <= 0).any() or abs(share.sum() - 1) > 1e-6:
            raise DataError(f"fractions must be positive and add up to 1, got {tuple(fractions)}.")
        alone = len(self) == 1
        total, least = (len(self.x[0]), 2) if alone else (len(self), 1)
        if total < least * len(share):
            unit = "points of one trajectory" if alone else "trajectories"
            raise DataError(
                f"{total} {unit} cannot be split into {len(share)} parts; use fewer parts."
            )
        sizes = np.maximum(np.round(share * total).astype(int), least)
        while sizes.sum() != total:  # rounding: the largest part gives or takes
            sizes[np.argmax(sizes)] += np.sign(total - sizes.sum())
        stretches = [slice(end - n, end) for n, end in zip(sizes, np.cumsum(sizes), strict=True)]
        if alone:
            return tuple(self._cut([(0, s)]) for s in stretches)
        order = np.random.default_rng(seed).permutation(total)
        return tuple(self[order[s]] for s in stretches)

    def map(
        self, fn: Callable[[Array], Any], *, names: Sequence[str] | None = None
    ) -> Trajectories:
        """New observations at the same times: `fn` gets and returns one whole trajectory.

        The old names do not fit the new observations; pass `names` for theirs.
        """
        return Trajectories(
            [fn(a) for a in self.x],
            self.t,
            self.u,
            state=self.state,
            names=names,
            input_names=self.input_names,
            ids=self.ids,
            gaps="keep",
        )

    def delayed(self, delays: Mapping[str, float], *, cut: float | None = None) -> Trajectories:
        """The same with control inputs as they act, each as late as its name says.

        Values between observations are interpolated linearly, which is the mean over a step for
        inputs that are held. Trajectories begin when the first values have come into effect, or
        `cut` after their start.
        """
        from sjepa.data.delays import delayed

        return delayed(self, delays, cut)

    def stacked(self) -> tuple[Array, Array]:
        """All observations in one array (rows, ...), and the trajectory each row is from."""
        return np.concatenate(self.x), np.repeat(np.arange(len(self)), self.lengths)

    def padded(self) -> dict[str, Array | None]:
        """Rectangular arrays for whole-trajectory batches.

        ``x`` (N, T, ...), ``dt`` (N, T - 1), ``u`` (N, T, m) or None, ``mask`` (N, T) and
        ``length`` (N,). Padding repeats the last value, so that whatever is computed on it stays
        finite; `mask` is False there.
        """
        longest = int(self.lengths.max())

        def fill(series: list[Array], size: int) -> Array:
            return np.stack([a[np.minimum(np.arange(size), len(a) - 1)] for a in series])

        return {
            "x": fill(self.x, longest),
            "dt": fill(self.steps, longest - 1),
            "u": fill(self.u, longest) if self.u else None,
            "mask": np.arange(longest) < self.lengths[:, None],
            "length": self.lengths,
        }

    def _kind(self) -> dict[str, object]:
        """What collections must have in common to be put together."""
        return {
            "observation shapes": self.obs_shape,
            "names": self.names,
            "input names": self.input_names,
            "state shapes": self.state and self.state[0].shape[1:],
            "standard errors": "given" if self.sigma else "missing",
        }

    def _series(self) -> dict[str, list[Array] | None]:
        """All that has one array per trajectory."""
        return {key: getattr(self, key) for key in ("x", "t", "u", "state", "sigma")}

    def _cut(self, cuts: Sequence[Cut]) -> Trajectories:
        """The given rows of the given trajectories, as trajectories of their own."""
        series = self._series().values()
        new = self._like(*(s and [s[i][rows] for i, rows in cuts] for s in series))
        new.ids = self.ids and check.distinct(self.ids[i] for i, _ in cuts)
        return new

    def _named(self, names: Sequence[str]) -> Trajectories:
        """The same data under other names."""
        new = self._like(*self._series().values())
        new._name(names, [self.labels.get(n, n) for n in self.input_names or ()] or None)
        return new

    def _like(
        self,
        x: Any,
        t: Any,
        u: list[Array] | None,
        state: list[Array] | None,
        sigma: list[Array] | None = None,
    ) -> Trajectories:
        """The same names with other arrays, which are known to be good."""
        new = object.__new__(Trajectories)
        new.names, new.input_names, new.labels = self.names, self.input_names, self.labels
        new.x, new.t, new.u, new.state, new.sigma, new.ids = x, t, u, state, sigma, self.ids
        return new
