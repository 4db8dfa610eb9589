"""Trajectories: what was observed, when, and under which actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sjepa.data import _arrays as arrays, _check as check
from sjepa.data._check import Array, Where
from sjepa.data._gaps import Dropped, pieces
from sjepa.data.names import numbered
from sjepa.errors import DataError


class Trajectories:
    """Any number of time series of one kind, possibly of unequal length and irregular in time.

    Parameters
    ----------
    x : array (T, ...) or list of such arrays
        Observations, time first: (T,) or (T, d) readings, (T, H, W) or (T, C, H, W) frames. A list
        means several trajectories; of a stack (N, T, ...) make one with ``list(stack)``.
    t : float, array (T,) or list of arrays
        A constant step, the times of every trajectory, or the times of each.
    u : array (T,) or (T, m), or list, optional
        Actions, one row per observation: ``u[i]`` is the action at time ``t[i]``.
    state : array (T, k) or list, optional
        The true state where it is known. Used to evaluate, never to learn.
    names, action_names : sequences of str, optional
        Names of the observed columns (vectors only) and of the actions. Without them `names` is
        None and the actions are called u1, u2, ...
    ids : sequence of str, optional
        What to call each trajectory, such as the names of experiments.
    allow_nan : bool, default=False
        Accept NaN and infinity for now, so that :meth:`drop_nan` can remove them.

    Integers become floats: float32 where that is exact (8 and 16 bits), else float64. Arrays that
    are floats already are not copied. Trajectories and rows are counted from 0 in all messages.

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
    names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    ids: tuple[str, ...] | None = None

    def __init__(
        self,
        x: Any,
        t: Any,
        u: Any = None,
        *,
        state: Any = None,
        names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        allow_nan: bool = False,
        _where: Where = check.place,
    ) -> None:
        names = arrays.columns(x) if names is None else names
        action_names = arrays.columns(u) if action_names is None else action_names
        self.x = arrays.series(x, "x", _where)
        arrays.same_shape(self.x, "x", _where)
        self.t = arrays.times(t, self.x, _where)
        self.u = arrays.matching(u, self.x, "u", _where)
        self.state = arrays.matching(state, self.x, "state", _where)
        if not allow_nan:
            self.check_finite(_where)
        for i, (xi, ti) in enumerate(zip(self.x, self.t, strict=True)):
            if len(xi) < 2:
                raise DataError(
                    f"{_where(i)} has one observation; dynamics need at least two, leave it out."
                )
            check.increasing(ti, i, _where)
        self._name(names, action_names)
        self.ids = check.labels(ids, len(self.x), "ids", "series")
        arrays.warn_if_transposed(t, self.x)

    def _name(self, names: Sequence[str] | None, action_names: Sequence[str] | None) -> None:
        if names is not None and len(self.obs_shape) != 1:
            raise DataError(
                f"names are for vectors, but observations have shape {self.obs_shape}; "
                "leave them out."
            )
        self.names = check.labels(names, self.obs_shape[0], "names")
        m = self.u[0].shape[1] if self.u else 0
        if action_names is None and m:
            action_names = numbered("u", m)
        self.action_names = check.labels(action_names, m, "action_names")
        if overlap := set(self.names or ()) & set(self.action_names or ()):
            raise DataError(f"{min(overlap)!r} names both a column of x and an action; rename one.")

    @classmethod
    def of(
        cls,
        x: Any,
        t: Any = None,
        u: Any = None,
        *,
        names: Sequence[str] | None = None,
        states: bool = False,
    ) -> Trajectories:
        """Whatever a user gives: arrays, lists, pandas tables, Trajectories or a list of them.

        Parameters
        ----------
        x, t, u : as for the class; Trajectories hold their own times and actions
        names : names of the columns; by default those of the tables or Trajectories
        states : bool
            Whether observations must be vectors; without names they are called x1, x2, ...
        """
        from sjepa.data._given import given

        return given(x, t, u, names, states)

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
        allow_nan: bool = False,
    ) -> Trajectories:
        """Read a pandas table with one row per observation.

        Parameters
        ----------
        frame : pandas.DataFrame
        time : str or float
            The time column, or a constant step. Dates become seconds since the first one.
        id : str, optional
            Column that tells the trajectories apart; they keep the order of first appearance.
        columns : sequence of str, optional
            What was observed. By default every column that has no other role.
        actions, state : sequences of str
            Columns of actions, and of the true state.
        """
        from sjepa.data._frame import from_frame

        return from_frame(frame, time, id, columns, actions, state, allow_nan)

    @classmethod
    def concat(
        cls, parts: Sequence[Trajectories], *, labels: Sequence[str] | None = None
    ) -> Trajectories:
        """Put several collections of the same kind into one; `labels` name them in messages."""
        if not parts:
            raise DataError("nothing to put together; pass at least one Trajectories.")
        first = parts[0]
        for i, p in enumerate(parts):
            for what, mine in p._kind().items():
                if mine != (other := first._kind()[what]):
                    here, there = (labels[i], labels[0]) if labels else (f"part {i}", "part 0")
                    raise DataError(f"{what} are {mine} in {here} but {other} in {there}.")

        def joined(lists: list[list[Array] | None]) -> list[Array] | None:
            return None if lists[0] is None else [a for part in lists for a in part or []]

        new = first._like(
            [a for p in parts for a in p.x],
            [a for p in parts for a in p.t],
            joined([p.u for p in parts]),
            joined([p.state for p in parts]),
        )
        if all(p.ids for p in parts):
            new.ids = check.distinct(name for p in parts for name in p.ids or ())
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
        """Time between neighbouring observations, one array of length T - 1 per trajectory."""
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
        actions = f"; actions {', '.join(self.action_names)}" if self.action_names else ""
        return f"<Trajectories: {len(self)} of {points} points; {what}{actions}>"

    def check_finite(self, where: Where = check.place) -> None:
        """Raise DataError if anything is NaN or infinite, naming the first place."""
        for what in ("x", "t", "u", "state"):
            for i, array in enumerate(getattr(self, what) or ()):
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
            action_names=self.action_names,
            ids=self.ids,
        )

    def stacked(self) -> tuple[Array, Array]:
        """All observations in one array (rows, ...), and the trajectory each row is from."""
        return np.concatenate(self.x), np.repeat(np.arange(len(self)), self.lengths)

    def drop_nan(self) -> tuple[Trajectories, Dropped]:
        """Remove rows with NaN or infinity, and say what went.

        A trajectory with a hole is cut there, so that no step leads across it; pieces of a single
        point are removed too.
        """
        cuts, report = pieces([self.x, self.t, self.u, self.state])
        return self._cut(cuts), report

    def padded(self) -> dict[str, Array | None]:
        """Rectangular arrays for whole-trajectory batches.

        ``x`` (N, T, ...), ``dt`` (N, T - 1), ``u`` (N, T, m) or None, ``mask`` (N, T) and
        ``length`` (N,). Padding repeats the last value, so that whatever is computed on it stays
        finite; `mask` is False there.
        """
        self.check_finite()
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
            "action names": self.action_names,
            "state shapes": self.state and self.state[0].shape[1:],
        }

    def _cut(self, cuts: Sequence[tuple[int, slice]]) -> Trajectories:
        """The given stretches of the given trajectories, as trajectories of their own."""

        def take(series: list[Array]) -> list[Array]:
            return [series[i][s] for i, s in cuts]

        u, state = self.u and take(self.u), self.state and take(self.state)
        new = self._like(take(self.x), take(self.t), u, state)
        if self.ids:
            new.ids = check.distinct(self.ids[i] for i, _ in cuts)
        return new

    def _named(self, names: Sequence[str]) -> Trajectories:
        """The same data under other names."""
        new = self._like(self.x, self.t, self.u, self.state)
        new._name(names, self.action_names)
        new.ids = self.ids
        return new

    def _like(
        self, x: list[Array], t: list[Array], u: list[Array] | None, state: list[Array] | None
    ) -> Trajectories:
        """The same names with other arrays, which are known to be good."""
        new = object.__new__(Trajectories)
        new.x, new.t, new.u, new.state = x, t, u, state
        new.names, new.action_names = self.names, self.action_names
        return new
