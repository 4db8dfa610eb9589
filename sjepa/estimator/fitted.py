"""What a fitted model is used for: coordinates, predictions, rollouts, uncertainty, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags

from sjepa.control import Linearization, linearize
from sjepa.data import Trajectories
from sjepa.data.history import middle_of, windows, with_history
from sjepa.errors import ConfigError, DataError
from sjepa.estimator.checks import check_is_fitted
from sjepa.estimator.files import saved_from
from sjepa.estimator.parameter_types import search_of
from sjepa.metrics import AffineMap, path_r2
from sjepa.models import SimulatedPath, Simulator, Transition
from sjepa.models.pretrained.embedder import encode_all
from sjepa.models.simulate import START_ROWS, rows_of_actions
from sjepa.runs.saving import save as save_files
from sjepa.settings import array_of, path_of
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.front import folded
from sjepa.symbolic.verdict import Verdict


if TYPE_CHECKING:
    from sjepa.bayes import Posterior

import pandas as pd


# What is printed; the other columns are there for those who ask.
SHOWN = ("chosen", "complexity", "loss", "score", "equation")


class Equations(pd.DataFrame):
    """A table whose text always has the equations: long ones are wrapped, none is hidden."""

    @property
    def _constructor(self) -> Any:
        return Equations

    @classmethod
    def of(cls, front: Front, law: Law) -> Equations:
        """The front's table; `chosen` marks the row that `law` is, or was before refinement."""
        table = cls(front.to_frame())
        place = front.position(law)
        table["chosen"] = [i == place for i in range(len(table))]
        return table

    def __repr__(self) -> str:
        if not set(SHOWN) <= set(self.columns):
            return super().__repr__()
        lines = [f"{'':2}{'complexity':>10} {'loss':>9} {'score':>7}  equation"]
        for row in self[list(SHOWN)].itertuples(index=False):
            mark = "> " if row.chosen else "  "
            start = f"{mark}{row.complexity:>10g} {row.loss:>9.3g} {row.score:>7.3g}  "
            lines += folded(start, str(row.equation))
        return "\n".join(lines)

    def short(self, beyond: int = 2) -> str:
        """The rows up to the chosen one and a few longer ones, which fit the noise."""
        last = int(np.argmax(self["chosen"])) if self["chosen"].any() else len(self)
        left = len(self) - last - 1 - beyond
        text = repr(self.iloc[: last + 1 + beyond])
        return text if left <= 0 else f"{text}\n  ... {left} more in equations_"


class Fitted(BaseEstimator):
    """The half of :class:`SJEPA` that needs a law; the other half finds one."""

    law_: Law
    front_: Front
    encoder_: Callable[[Any], Any]
    diagnostics_: list[str]
    warnings_: list[str]
    verdict_: Verdict | None
    action_names_: Sequence[str]
    step_: float
    obs_shape_: tuple[int, ...]
    history_length_: int = 1
    seed_: int
    _moved_by: tuple[Law | None, Transition | None]

    if TYPE_CHECKING:  # settings of SJEPA
        encoder: Any
        backend: Any
        latent_dim: Any
        order: Any
        integrator: str
        progress: Any

        def fit(self, x: Any, t: Any = None, u: Any = None) -> Any: ...

        def _space(self, dimension: int | None, actions: Sequence[str] = ()) -> Any: ...

    def __sklearn_tags__(self) -> Tags:
        """`transform` gives coordinates; rows are moments, whose order is what is learned."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        tags.input_tags.three_d_array = True
        return tags

    @property
    def equations_(self) -> Equations:
        """The front; `law_` is the row marked as chosen, or that row with its numbers refined."""
        check_is_fitted(self, "front_")
        return Equations.of(self.front_, self.law_)

    @property
    def transition_(self) -> Transition:
        """Moves by `law_`, also where another law was put in its place."""
        check_is_fitted(self, "law_")
        law, old = getattr(self, "_moved_by", (None, None))
        if old is not None and (law is self.law_ or old.symbolic is None):
            return old
        correction = None if old is None else old.correction
        new = Transition.of(self.law_, search_of(self).integrator, correction)
        self._moved_by = (self.law_, new)
        return new

    def encode(self, x: Any) -> np.ndarray | list[np.ndarray]:
        """Coordinates of observations: an array for an array, a list for many trajectories.

        With a history of k each trajectory (T, ...) has T - k + 1 of them, those of the middle of
        each window: the first belongs to observation ``(k - 1) // 2``.
        """
        check_is_fitted(self, "encoder_")
        if self._is_many(x):
            given = x.x if isinstance(x, Trajectories) else x
            return encode_all(self.encoder_, [self._seen(one) for one in given])
        return self._encode(x)

    def _encode(self, x: Any) -> np.ndarray:
        return encode_all(self.encoder_, [self._seen(x)])[0]

    def _seen(self, x: Any) -> np.ndarray:
        """What the encoder gets of a trajectory: its observations, or windows of them."""
        x, k = self._observations(x), self.history_length_
        if len(x) < k:
            raise DataError(f"The history is {k} observations long, got {len(x)}.", "x")
        return windows(x, k) if k > 1 else x

    def _windows(self, trajectories: Trajectories) -> Trajectories:
        """Trajectories of what the encoder gets, at the times that coordinates belong to."""
        k = self.history_length_
        return with_history(trajectories, k, middle=True) if k > 1 else trajectories

    def _observations(self, x: Any) -> np.ndarray:
        """Finite observations (n, *obs) of the kind that was fitted."""
        x = array_of(x, "x")
        if x.ndim == 1 and self.obs_shape_ == (1,):
            x = x[:, None]
        if x.ndim != len(self.obs_shape_) + 1:
            raise DataError(
                f"Expected observations of shape (n, {', '.join(map(str, self.obs_shape_))}), got "
                f"{x.shape}. Reshape your data: one observation alone is x[None]."
            )
        if x.shape[1:] != self.obs_shape_:
            has, wanted = int(np.prod(x.shape[1:])), self.n_features_in_
            raise DataError(
                f"X has {has} features, but {type(self).__name__} is expecting {wanted} features "
                f"as input: observations of shape {self.obs_shape_}, got {x.shape[1:]}."
            )
        if not np.isfinite(x).all():
            raise DataError("x contains NaN or infinity; drop or repair these observations.")
        return x

    transform = encode

    def fit_transform(self, x: Any, t: Any = None, u: Any = None) -> np.ndarray | list[np.ndarray]:
        """The coordinates of what is fitted."""
        return self.fit(x, t, u).transform(x)

    def predict(self, x: Any, u: Any = None, t: Any = None) -> np.ndarray | list[np.ndarray]:
        """What law and correction give at observations ``(n, *obs)`` and actions (n, m).

        Velocities, or the next coordinates for a map. A law of second order gives accelerations and
        needs the times `t`: the velocity at a point comes from its neighbors. Many trajectories
        give a list.
        """
        check_is_fitted(self, "law_")
        if self._is_many(x):
            if isinstance(x, Trajectories):
                x, t, u = x.x, x.t, x.u
            count = len(x)
            times = t if isinstance(t, list | tuple) else [t] * count
            actions = [None] * count if u is None else u
            return [self.predict(*one) for one in zip(x, actions, times, strict=True)]  # type: ignore[misc]
        simulator, z = Simulator(self), self._encode(x)
        if self.history_length_ > 1 and (t is not None or u is not None):
            inside = self._inside(len(z))
            t = t[inside] if np.ndim(t) else t
            u = np.asarray(u)[inside] if np.ndim(u) and len(u) > len(z) else u
        if simulator.order == 2:
            if t is None:
                raise ConfigError("A second-order law needs velocities: give the times t.", "t")
            t = np.arange(len(z)) * float(t) if np.ndim(t) == 0 else t
            z = simulator.states(z, t)
        if simulator.timed or any(simulator.delays):
            if t is None:
                raise ConfigError(
                    "The law has the time as an input, or inputs with dead time: give the times t.",
                    "t",
                )
            t = np.arange(len(z)) * float(t) if np.ndim(t) == 0 else t
            actions = simulator.rows(u, t)
        else:
            actions = rows_of_actions(u, len(z), self.action_names_)
        return simulator.run(z if actions is None else np.concatenate([z, actions], axis=1))

    def simulate(
        self, x0: Any, t: Any = None, u: Any = None
    ) -> SimulatedPath | list[SimulatedPath]:
        """Coordinates over times `t` from one observation `x0`.

        Actions `u` are rows (T, m), each held until the next time, or one (m,) for all times.
        Of a trajectory `x0` ``(k, *obs)`` at the first k times the first observation is the start;
        a second-order law takes the velocity from the first few and needs at least two. The
        coordinates are then followed by their velocities. With a history of k, `x0` are the first k
        observations at least, and the path begins at time ``(k - 1) // 2``. Many trajectories,
        given as to `fit`, give a list of paths, each from its own start over its own times.
        Survives divergence: the result says how far it got and is NaN from there on.
        """
        check_is_fitted(self, "law_")
        if self._is_many(x0):
            simulator = Simulator(self)
            return simulator.beside(self.coordinates(x0, t, u), simulator.delays)
        simulator, times = Simulator(self), array_of(t, "t")
        x0 = array_of(x0, "x0")
        if x0.ndim <= len(self.obs_shape_):
            x0 = x0[None]
        if times.ndim == 0:
            times = np.arange(len(x0)) * float(times)
        k = self.history_length_
        z = self._encode(x0[: START_ROWS + k - 1])
        first = middle_of(k)
        if k > 1 and np.ndim(u) and len(u) == len(times):
            u = np.asarray(u)[first:]
        return simulator.simulate(simulator.start(z, times[first:]), times[first:], u)

    def _is_many(self, x: Any) -> bool:
        """Whether these are several trajectories, not one and not an observation."""
        if isinstance(x, list | tuple) and len(x):
            return isinstance(x[0], Trajectories) or np.ndim(x[0]) > len(self.obs_shape_)
        return isinstance(x, Trajectories)

    def coordinates(self, x: Any, t: Any = None, u: Any = None) -> Trajectories:
        """Trajectories of coordinates, at the times that they belong to.

        Where no times are given they are those that all trajectories had in `fit`: model selection
        hands `t` to `fit` alone.
        """
        held = isinstance(x, Trajectories) or (
            isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], Trajectories)
        )
        t = getattr(self, "_times", None) if t is None and not held else t
        trajectories = Trajectories.of(x, t, u)
        for one in trajectories.x:
            self._observations(one)
        return self._windows(trajectories).map(lambda x: encode_all(self.encoder_, [x])[0])

    def posterior(self, x: Any, t: Any = None, u: Any = None, **settings: Any) -> Posterior:
        """Posterior over the laws of the coordinates, with the encoder fixed.

        Candidates are searched with this model's backend and library on one part of the
        trajectories and compared on the rest. `settings` are those of
        :func:`sjepa.bayes.posterior`, such as ``gamma``, ``correction`` or ``candidates``.
        """
        check_is_fitted(self, "law_")
        from sjepa.bayes import posterior

        if self.order == 2:
            raise ConfigError("posterior needs order=1: give velocities as coordinates.")
        latent = self.coordinates(x, t, u).map(lambda z: z, names=self.law_.outputs)
        space = self._space(len(self.law_.outputs) if self.encoder == "auto" else None)
        defaults = {
            "backend": self.backend,
            "library": space if isinstance(space, Library) else None,
            "grammar": space if isinstance(space, Grammar) else None,
            "integrator": search_of(self).integrator,
            "random_state": self.seed_,
            "verbose": self.verbose,
        }
        found = posterior(latent, **{**defaults, **settings})
        return found.of_observations(self._encode, len(self.obs_shape_))

    def linearize(self, z: Any, u: Any = None, dt: float | None = None) -> Linearization:
        """First-order model around coordinates z (..., d) and actions u (..., m).

        `dt` is the length of a step of the integrated transition, by default the median step of
        the data; see :func:`sjepa.control.linearize`.
        """
        check_is_fitted(self, "law_")
        return linearize(self.transition_, z, u, self.step_ if dt is None else dt)

    def score(self, x: Any, t: Any = None, u: Any = None) -> float:
        """R2 of simulated against encoded coordinates over whole trajectories (1 is perfect).

        Without `t` the times are those that all trajectories had in `fit`, a step or one array.
        Minus infinity where a path diverges or is too slow to simulate to its end: such a law
        predicts nothing there, and no mean is put in its place.
        """
        check_is_fitted(self, "law_")
        simulator = Simulator(self)
        coordinates = simulator.acting(self.coordinates(x, t, u))
        return path_r2(simulator.beside(coordinates), coordinates.x)

    def align(self, x: Any, states: Any) -> AffineMap:
        """The affine map from coordinates to known states, for comparison with them."""
        z = self.encode(x)
        paths = z if isinstance(z, list) else [z]
        given = states if isinstance(z, list) and isinstance(states, list | tuple) else [states]
        if len(given) != len(paths):
            raise DataError(f"Give states of {len(paths)} trajectories, got {len(given)}.")
        known = [
            array_of(own, "states")[self._inside(len(path))]
            for path, own in zip(paths, given, strict=True)
        ]
        return AffineMap.fit(np.concatenate(paths), np.concatenate(known))

    def _inside(self, count: int) -> slice:
        """The rows of a trajectory that `count` coordinates belong to."""
        first = middle_of(self.history_length_)
        return slice(first, first + count)

    def print(self, digits: int = 4) -> None:
        """Print the equations."""
        check_is_fitted(self, "law_")
        print("\n".join(self.law_.lines(digits)))

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder of plain files; read it with :func:`sjepa.load`.

        An older model in that folder is replaced, in one step; anything else is left alone.
        """
        check_is_fitted(self, "law_")
        save_files(path_of(folder, "folder"), saved_from(self))

    def sympy(self) -> list[sympy.Expr]:
        check_is_fitted(self, "law_")
        return self.law_.sympy()

    def latex(self) -> str:
        check_is_fitted(self, "law_")
        return self.law_.latex()

    def report(
        self,
        path: str | Path,
        x: Any = None,
        t: Any = None,
        u: Any = None,
        *,
        held_out: Any = None,
        title: str = "",
        video: Any = None,
    ) -> Path:
        """Write a self-contained HTML page about the result; see :mod:`sjepa.report`.

        With observations `x`, times `t` and actions `u` it also shows the simulated paths beside
        them, and with `held_out` ones (Trajectories, or (x, t) or (x, t, u)) how every law does on
        those. A `video`, frames or a Trajectories of them, is shown in place of the first of the
        data, as that of an episode under control.
        """
        from sjepa.report import write_report

        check_is_fitted(self, "law_")
        return write_report(self, path, x, t, u, held_out=held_out, title=title, video=video)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The settings that differ from the defaults and, once fitted, the law and its warnings."""
        lines = self.law_.lines(digits=4) if hasattr(self, "law_") else []
        figures = getattr(self, "figures_", {})
        if "rollout_held_out" in figures:
            out, seen = figures["rollout_held_out"], figures["rollout_training"]
            lines.append(
                f"(rollout error {out:.2g} of the variance held out, {seen:.2g} in training)"
            )
        lines += [f"! {warning}" for warning in getattr(self, "warnings_", ())]
        return "\n".join([super().__repr__(N_CHAR_MAX), *(f"    {line}" for line in lines)])

    def _html_repr(self) -> str:
        """What notebooks show: the law, typeset, and its warnings, above the settings."""
        law = self.law_._repr_html_() if hasattr(self, "law_") else ""
        warnings = "".join(
            f"<p>! {escape(warning)}</p>" for warning in getattr(self, "warnings_", ())
        )
        return law + warnings + str(super()._html_repr())
