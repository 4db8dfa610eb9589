"""The one way to simulate: laws, transitions and fitted models, from one rule for the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sjepa.data import Trajectories
from sjepa.data.clock import TIME, with_time
from sjepa.data.delays import late
from sjepa.data.derivatives import initial_state
from sjepa.data.history import lag_of, with_lags
from sjepa.errors import DataError, LawError
from sjepa.models.solvers import SimulatedPath, integrate, integrate_zoh, iterate
from sjepa.models.transition import Transition
from sjepa.settings import array_of, callable_of
from sjepa.symbolic import Law


# Observations that the first velocity of a second-order path is taken from.
START_ROWS = 5
# A trained network is far less exact than the usual tolerances, and each evaluation is expensive.
NEURAL = {"rtol": 1e-6, "atol": 1e-8, "method": "RK45"}


def plane_velocity(
    velocity: Callable[[np.ndarray, np.ndarray | None], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    axes: tuple[int, int] = (0, 1),
    middle: Sequence[float] | np.ndarray = (0.0, 0.0),
    u: np.ndarray | None = None,
) -> np.ndarray:
    """Velocities (len(y), len(x), 2) in the plane of two coordinates, for phase portraits.

    The other coordinates stay at `middle`, the actions (m,) at `u`.
    """
    grid = np.tile(np.asarray(middle, dtype=float), (len(y), len(x), 1))
    grid[..., axes[0]], grid[..., axes[1]] = np.meshgrid(x, y)
    actions = None if u is None else np.broadcast_to(u, (*grid.shape[:2], len(u)))
    return velocity(grid, actions)[..., list(axes)]


class Simulator:
    """Simulates a law of first or second order or a map, with or without actions.

    The state is the law's outputs; if these are velocities that are inputs behind as many
    positions, it is positions and velocities. The remaining inputs are actions; one of them that is
    called t is the time, which need not be given.

    Parameters
    ----------
    source : Law, Transition with a law, or fitted model
        A model's neural correction moves the state too. A model whose law was found in samples of
        smooth actions draws straight lines between their rows; everything else holds each row.
    form : str
        The form of the data that a law alone was found in, ``front.form``, for the same reason.

    Examples
    --------
    >>> simulator = Simulator(Law.from_string(["p", "-q"], ["q", "p"]))
    >>> simulator.names, simulator.simulate([1.0, 0.0], np.linspace(0, np.pi, 3)).z.round(6)[-1]
    (('q', 'p'), array([-1., -0.]))
    """

    def __init__(self, source: Any, form: str = "") -> None:
        self.transition = Transition.of(source)
        law = source if isinstance(source, Law) else getattr(source, "law_", self.transition.law())
        if law is None:
            raise LawError("A neural transition has no names for its state; give the fitted model.")
        self.law: Law = law
        self.dynamics, self.order = self.transition.dynamics, self.transition.order
        self.size = self.order * len(law.outputs)
        self.names, self.actions = law.inputs[: self.size], law.inputs[self.size :]
        self.timed = TIME in self.actions
        self.given = tuple(name for name in self.actions if name != TIME)
        self.delays = [law.delays.get(name, 0.0) for name in self.given]
        self.symbolic_only = self.transition.correction is None
        form = form or getattr(getattr(source, "front_", None), "form", "")
        self.holds_actions = form not in ("derivative", "weak")
        # A tenth of the time of torch on single states.
        self.run = law.numpy() if self.symbolic_only else self._torch_run

    def _torch_run(self, inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.transition.field(torch.as_tensor(inputs, dtype=torch.float64)).numpy()

    def states(self, z: Any, t: Any) -> np.ndarray:
        """States (T, size) of coordinates (T, d).

        Second order adds velocities: central differences, and at the first time what
        :func:`sjepa.data.derivatives.initial_state` takes from the first few observations. A path
        starts there.
        """
        z, t = np.asarray(z, dtype=float), np.asarray(t, dtype=float)
        if z.ndim == 2 and z.shape[1] == self.size:
            return z
        if z.ndim != 2 or self.order == 1 or 2 * z.shape[1] != self.size:
            raise DataError(
                f"Coordinates of shape {z.shape} are not the state {', '.join(self.names)}."
            )
        start = initial_state(z[:START_ROWS], t)
        states = np.concatenate([z, np.gradient(z, t[: len(z)], axis=0)], axis=1)
        states[0, z.shape[1] :] = start[z.shape[1] :]
        return states

    def start(self, z: Any, t: Any) -> np.ndarray:
        """The state (size,) that a path beside coordinates (T, d) starts from."""
        z = np.asarray(z, dtype=float)
        return self.states(z[:START_ROWS], t)[0]

    def velocity(self, z: np.ndarray, u: np.ndarray | None = None) -> np.ndarray:
        """Change of states (..., size): their derivative, or for a map the step to the next."""
        change = self.run(z if u is None else np.concatenate([z, u], axis=-1))
        if self.dynamics == "discrete":
            return change - z
        if self.order == 2:
            return np.concatenate([z[..., self.size // 2 :], change], axis=-1)
        return change

    def simulate(
        self, start: Sequence[float] | np.ndarray, t: Any, u: Any = None, **options: Any
    ) -> SimulatedPath:
        """States at times `t` from one state; `options` go to :func:`integrate`.

        Each row of actions `u` (T, m) is held from its time to the next, or joined to it by a
        straight line where actions are smooth; one row (m,) is held all the time; a function
        gives the row of a time. A map makes one step from each time to the next. Before the first
        time, which matters to inputs with dead time, rows are like the first one.
        """
        return self._simulate(start, t, u, self.delays, options)

    def _simulate(
        self, start: Any, t: Any, u: Any, delays: Sequence[float], options: Mapping[str, Any]
    ) -> SimulatedPath:
        z0, times = array_of(start, "The state"), array_of(t, "t")
        if z0.shape != (self.size,):
            raise DataError(
                f"The state is {', '.join(self.names)}: give {self.size} numbers, "
                f"got shape {z0.shape}."
            )
        if times.ndim != 1:
            raise DataError(f"Times are one array (T,), got shape {times.shape}.")
        if callable(u):
            callable_of(u, "u", "u(time)", 1)
        rows = self._given(u(times) if callable(u) else u, len(times))
        if self.dynamics == "discrete":
            return iterate(self.run, z0, len(times) - 1, self._timed(rows, times))
        if not self.symbolic_only:
            options = {**NEURAL, **options}
        if rows is not None and self.holds_actions and not callable(u):
            return self._held(z0, times, rows, delays, options)
        at = u if callable(u) else None if rows is None else _lines(times, rows)
        if at is not None and any(delays):
            at = _late(at, delays)

        def field(s: float, z: np.ndarray) -> np.ndarray:
            return self.velocity(z, self._timed(None if at is None else at(s), s))

        return integrate(field, z0, times, **options)

    def _held(
        self, z0: np.ndarray, t: np.ndarray, u: np.ndarray, delays: Sequence[float],
        options: Mapping[str, Any],
    ) -> SimulatedPath:  # fmt: skip
        """With zero-order hold of the inputs; time continues meanwhile, as one more state."""
        if any(delays):  # rows come into effect between the times, too
            between = [t + delay for delay in delays if delay]
            every = np.unique(np.concatenate([t, *(s[s < t[-1]] for s in between)]))
            rows = np.stack(
                [column[np.clip(np.searchsorted(t + delay, every, side="right") - 1, 0, None)]
                 for delay, column in zip(delays, u.T, strict=True)], axis=1,
            )  # fmt: skip
            run = self._held(z0, every, rows, (), options)
            asked = np.searchsorted(every, t)
            reached = int(np.searchsorted(asked, run.reached))
            return replace(run, z=run.z[asked], reached=reached)

        def forced(inputs: np.ndarray) -> np.ndarray:
            return self.velocity(inputs[: self.size], inputs[self.size :])

        if not self.timed:
            return integrate_zoh(forced, z0, t, u, **options)
        duration = t[-1] - t[0]

        def with_clock(inputs: np.ndarray) -> np.ndarray:
            now = t[0] + duration * inputs[self.size]
            known = self._timed(inputs[self.size + 1 :], now)
            return np.append(self.velocity(inputs[: self.size], known), 1 / duration)

        run = integrate_zoh(with_clock, np.append(z0, 0.0), t, u, **options)
        return replace(run, z=run.z[:, : self.size])

    def rows(self, u: Any, t: Any) -> np.ndarray | None:
        """Rows (T, m) of all that the law takes beside its state at times (T,), or None."""
        given, times = self._given(u, len(t)), np.asarray(t, dtype=float)
        return self._timed(late(times, given, self.delays) if any(self.delays) else given, times)

    def _given(self, u: Any, count: int) -> np.ndarray | None:
        """Rows of actions without the time, which data that were made for the law have."""
        if self.timed and np.ndim(u) == 2 and np.shape(u)[1] == len(self.actions):
            u = np.delete(u, self.actions.index(TIME), axis=1) if self.given else None
        return rows_of_actions(u, count, self.given)

    def _timed(self, u: np.ndarray | None, t: Any) -> np.ndarray | None:
        """Actions (..., m) with the time (...,) among them, if the law takes it."""
        if not self.timed:
            return u
        rows = np.zeros((*np.shape(t), 0)) if u is None else np.asarray(u, dtype=float)
        return np.insert(rows, self.actions.index(TIME), t, axis=-1)

    def select(self, data: Trajectories) -> Trajectories:
        """The law's own variables from named columns, in its order; unnamed data stay as is.

        Lagged values that the data lack are taken from the rows before, the time from theirs, and
        inputs with dead time as they act.
        """
        variables = self._variables(data)
        variables = with_time(variables, self.actions.index(TIME)) if self.timed else variables
        return self.acting(variables)

    def acting(self, data: Trajectories) -> Trajectories:
        """Data with the inputs as they act, from the time from which all of them are known."""
        return data.delayed(self.law.delays) if self.law.delays else data

    def _variables(self, data: Trajectories) -> Trajectories:
        names = data.names or ()
        lags = max(map(lag_of, self.names))
        present = [name for name in self.names if not lag_of(name)]
        if lags and not set(self.names) <= set(names) and data.obs_shape[0] == len(present):
            named = Trajectories(
                data.x, data.t, data.u, names=present, ids=data.ids,
                input_names=self.given if data.u is not None and self.given else None,
                gaps="keep",
            )  # fmt: skip
            data = with_lags(named, lags)
            names = data.names or ()
        if names == self.names or not set(self.names) <= set(names):
            return data
        rows = [names.index(name) for name in self.names]
        u, inputs = data.u, data.input_names
        missing = [a for a in self.given if a not in (inputs or ())]
        if missing and set(self.given) <= set(names):
            actions = [names.index(name) for name in self.given]
            u, inputs = [x[:, actions] for x in data.x], self.given
        return Trajectories(
            [x[:, rows] for x in data.x], data.t, u, names=self.names, input_names=inputs,
            ids=data.ids, gaps="keep",
        )  # fmt: skip

    def beside(
        self, coordinates: Trajectories, delays: Sequence[float] = (), **options: Any
    ) -> list[SimulatedPath]:
        """One path beside each trajectory of coordinates, at its times and from its start.

        Inputs are taken as they act, see :meth:`acting`, or still to be delayed.
        """
        return [
            self._simulate(
                self.start(z, t), t,
                coordinates.u[i] if coordinates.u is not None and self.actions else None,
                delays, options,
            )
            for i, (z, t) in enumerate(zip(coordinates.x, coordinates.t, strict=True))
        ]  # fmt: skip


def _lines(t: np.ndarray, rows: np.ndarray) -> Callable[[float], np.ndarray]:
    """Straight lines between rows (T, m) at times t (T,)."""
    return lambda s: np.array([np.interp(s, t, column) for column in rows.T])


def _late(
    at: Callable[[float], np.ndarray], delays: Sequence[float]
) -> Callable[[float], np.ndarray]:
    """Inputs of a time as they act."""
    return lambda s: np.array([np.atleast_1d(at(s - d))[i] for i, d in enumerate(delays)])


def rows_of_actions(u: Any, count: int, names: Sequence[str]) -> np.ndarray | None:
    """Actions as rows (count, m); one row (m,) is repeated."""
    if u is None:
        if names:
            raise DataError(f"The law has the actions {', '.join(names)}: give u.")
        return None
    if not names:
        raise DataError("The model was learned without actions; leave u out.")
    u = np.asarray(u, dtype=float)
    if u.shape == (count,) and len(names) == 1 and count != 1:
        u = u[:, None]
    try:
        rows = np.broadcast_to(u, (count, len(names)))
    except ValueError:
        raise DataError(
            f"u has shape {u.shape}; expected {(count, len(names))}: one row for each time, with "
            f"{', '.join(names)}, or one row for all."
        ) from None
    if not np.isfinite(rows).all():
        raise DataError("u contains NaN or infinity.")
    return rows
