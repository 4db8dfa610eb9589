"""The front door: coordinates and equations from observations, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import sympy
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sjepa.backend import Backend
from sjepa.control import Linearisation, linearise
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.learning import (
    WAYS,
    Learned,
    check_correction,
    default_terms,
    learn_alternating,
    learn_correction,
    learn_elegant,
    learn_frozen,
    with_law,
)
from sjepa.metrics import AffineMap, r2
from sjepa.models import Simulation, Transition, follow, right_side, with_actions
from sjepa.symbolic import Front, Grammar, Law, Library


class SJEPA(BaseEstimator):
    """Learn coordinates of observations and the shortest adequate law that moves them.

    Parameters
    ----------
    latent_dim : int, default=2
        Number of coordinates, called z1, z2, ...
    backend : name, mapping with a "name", Backend class or instance
        Engine of the symbolic search where coordinates are fixed or alternate with it. In the
        elegant search an engine other than the default proposes structures for a second run.
    search : "elegant" or "alternating"
        Search structures and coordinates together (the default), or in turns as in the paper.
    encoder : "auto", "identity", or a callable or nn.Module
        "auto" learns the coordinates. "identity" takes the observations as coordinates, anything
        callable is used as it is, frozen; then only the law is searched.
    library, grammar : what may be written, in the names z1, z2, ...
        By default 1, z, sin z, cos z, squares and products.
    delta : float or "auto"
        Largest adequate validation risk; "auto" estimates the noise floor and says so.
    correction : None, "neural", "alone", mapping or nn.Module
        A bounded network that learns what the law leaves over; "alone" leaves the law out. Options
        are those of :class:`sjepa.training.CorrectionSettings`.
    integrator : str, default="rk4"
    realisation : "field" or "map"
        Whether the law gives velocities or the next coordinates (for equal steps and given
        coordinates).
    order : 1 or 2
        Whether the law gives first or second time derivatives of the coordinates.
    device : "auto", "cpu", "cuda" or "mps"
        Where the alternating search trains.
    random_state : int, optional
    progress : callable, optional
        Called with a line of text and the share of the work done.

    Attributes
    ----------
    law_ : Law
    front_ : Front
    equations_ : DataFrame
        The front as a table: complexity, loss, score, equation.
    diagnostics_ : list of str
        What to know about the result, in plain words.
    encoder_ : callable
        Observations (..., *obs) to coordinates (..., d).
    transition_ : Transition
        Law and correction as one differentiable predictor, which `simulate`, `linearize` and the
        planners of :mod:`sjepa.control` use.
    step_ : float
        Median time between observations.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.05)
    >>> x = [a * np.stack([np.cos(t), -np.sin(t)], axis=1) for a in (0.5, 1.0, 1.5)]
    >>> model = SJEPA(encoder="identity").fit(x, t)
    >>> model.law_
    z1' = z2
    z2' = -z1
    """

    def __init__(
        self,
        latent_dim: int = 2,
        *,
        backend: str | Mapping[str, Any] | type[Backend] | Backend = "stlsq",
        search: Literal["elegant", "alternating"] = "elegant",
        encoder: str | Callable[[Any], Any] = "auto",
        library: Library | None = None,
        grammar: Grammar | None = None,
        delta: float | str = "auto",
        correction: Any = None,
        integrator: str = "rk4",
        realisation: Literal["field", "map"] = "field",
        order: Literal[1, 2] = 1,
        device: str = "auto",
        random_state: int | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.backend = backend
        self.search = search
        self.encoder = encoder
        self.library = library
        self.grammar = grammar
        self.delta = delta
        self.correction = correction
        self.integrator = integrator
        self.realisation = realisation
        self.order = order
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, x: Any, t: Any = None, u: Any = None) -> SJEPA:
        """Learn from trajectories: arrays with times `t`, or a Trajectories."""
        trajectories = _trajectories(x, t, u)
        self._check(trajectories)
        learned = self._learn(trajectories)
        self.law_: Law = learned.law
        self.front_: Front = learned.front
        self.encoder_ = learned.encoder
        self.diagnostics_: list[str] = list(learned.notes)
        self.action_names_ = trajectories.action_names or ()
        self.step_ = float(np.median(np.concatenate(trajectories.steps)))
        if self.correction is not None:
            self.law_, transition = learn_correction(
                trajectories.map(self._encode), self.law_, self.correction, self.integrator,
                self._seed,
            )  # fmt: skip
            self._moved_by = (self.law_, transition)
        self.n_features_in_ = int(np.prod(trajectories.obs_shape))
        return self

    def _check(self, trajectories: Trajectories) -> None:
        if self.search not in WAYS:
            raise ConfigError(f"search is one of {', '.join(WAYS)}, got {self.search!r}.")
        if not isinstance(self.latent_dim, int) or self.latent_dim < 1:
            raise ConfigError(f"latent_dim must be a whole number from 1, got {self.latent_dim!r}.")
        if self.library is not None and self.grammar is not None:
            raise ConfigError("Give a library or a grammar, not both.")
        check_correction(self.correction, self.order)
        if self.realisation not in ("field", "map"):
            raise ConfigError(f"realisation is 'field' or 'map', got {self.realisation!r}.")
        if self.realisation == "map" and self.encoder == "auto":
            raise ConfigError("A map needs given coordinates: use encoder='identity' or your own.")
        if trajectories.u is not None and self.encoder == "auto" and self.search == "elegant":
            raise DataError(
                "The elegant search does not take actions yet: use search='alternating', or "
                "encoder='identity' where the observations are the state."
            )
        size = int(np.prod(trajectories.obs_shape))
        if self.encoder == "auto" and self.latent_dim > size * (2 if self.order == 2 else 1):
            raise ConfigError(
                f"latent_dim={self.latent_dim} is more than the {size} values of an observation."
            )

    def _learn(self, trajectories: Trajectories) -> Learned:
        seed = self._seed
        if self.encoder != "auto":
            return learn_frozen(
                trajectories, self.encoder, self._space(None), self.backend, seed,
                self.realisation, self.integrator, self.progress,
            )  # fmt: skip
        space = self._space(self.latent_dim, trajectories.action_names or ())
        if self.search == "alternating":
            return learn_alternating(
                trajectories, space, self.latent_dim, self.backend, self.integrator,
                self.device, seed, self.progress,
            )  # fmt: skip
        if not isinstance(space, Library):
            space = space.library(space.inputs[: self.latent_dim])
        return learn_elegant(
            trajectories, space, self.latent_dim, self.order, self.delta, self.backend, seed,
            self.progress,
        )  # fmt: skip

    def _space(self, dimension: int | None, actions: Sequence[str] = ()) -> Any:
        if self.library is not None or self.grammar is not None:
            return self.library if self.library is not None else self.grammar
        return None if dimension is None else default_terms(_names(dimension), actions)

    @property
    def _seed(self) -> int:
        return 0 if self.random_state is None else int(self.random_state)

    # Using what was learned ----------------------------------------------------------------------

    @property
    def equations_(self) -> pd.DataFrame:
        check_is_fitted(self, "front_")
        return self.front_.to_frame()

    @property
    def transition_(self) -> Transition:
        """Follows `law_`, also where somebody has put another law in its place."""
        check_is_fitted(self, "law_")
        law, old = getattr(self, "_moved_by", (None, None))
        if old is not None and law is self.law_:
            return old
        self._moved_by = (self.law_, with_law(old, self.law_, self.integrator, self.order))
        return self._moved_by[1]

    def encode(self, x: Any) -> np.ndarray | list[np.ndarray]:
        """Coordinates of observations: an array for an array, a list for many trajectories."""
        check_is_fitted(self, "encoder_")
        if isinstance(x, Trajectories):
            return [self._encode(one) for one in x.x]
        if isinstance(x, list | tuple):
            return [self._encode(one) for one in x]
        return self._encode(x)

    def _encode(self, x: Any) -> np.ndarray:
        array = torch.as_tensor(np.asarray(x, dtype=float))
        with torch.no_grad():
            return np.asarray(self.encoder_(array), dtype=float)

    transform = encode

    def predict(self, x: Any, u: Any = None) -> np.ndarray:
        """What law and correction give at observations (n, *obs) and actions (n, m).

        Velocities, or the next coordinates for a map.
        """
        check_is_fitted(self, "law_")
        z = self._encode(x)
        return right_side(self.transition_)(with_actions(z, u, self.action_names_))

    def simulate(self, x0: Any, t: Any, u: Any = None) -> Simulation:
        """Coordinates over times `t` from one observation `x0`.

        Actions `u` are rows (T, m), each held until the next time, or one (m,) for all times.
        Survives divergence: the result says how far it got and is NaN from there on.
        """
        check_is_fitted(self, "law_")
        start = self._encode(np.asarray(x0, dtype=float)[None])[0]
        times = np.asarray(t, dtype=float)
        if self.action_names_ or u is not None:
            u = with_actions(np.empty((len(times), 0)), u, self.action_names_)
        return follow(self.transition_, start, times, u)

    def linearize(self, z: Any, u: Any = None, dt: float | None = None) -> Linearisation:
        """First-order model around coordinates z (..., d) and actions u (..., m).

        `dt` is the length of a step of the integrated transition, by default the median step of
        the data; see :func:`sjepa.control.linearise`.
        """
        check_is_fitted(self, "law_")
        return linearise(self.transition_, z, u, self.step_ if dt is None else dt)

    def score(self, x: Any, t: Any = None, u: Any = None) -> float:
        """R2 of simulated against encoded coordinates over whole trajectories (1 is perfect)."""
        trajectories = _trajectories(x, t, u)
        truth, paths = [], []
        for i, (one, times) in enumerate(zip(trajectories.x, trajectories.t, strict=True)):
            z = self._encode(one)
            held = None if trajectories.u is None else trajectories.u[i]
            path = self.simulate(one[0], times, held).z
            truth.append(z)
            paths.append(np.where(np.isfinite(path), path, z.mean(axis=0)))
        return float(r2(np.concatenate(paths), np.concatenate(truth)))

    def align(self, x: Any, states: Any) -> AffineMap:
        """The affine map from coordinates to known states, for comparison with them."""
        z = np.concatenate(np.atleast_3d(self.encode(x)))
        return AffineMap.fit(torch.as_tensor(z), torch.as_tensor(np.concatenate(list(states))))

    def sympy(self) -> list[sympy.Expr]:
        check_is_fitted(self, "law_")
        return self.law_.sympy()

    def latex(self) -> str:
        check_is_fitted(self, "law_")
        return self.law_.latex()


def _names(dimension: int) -> list[str]:
    return [f"z{i + 1}" for i in range(dimension)]


def _trajectories(x: Any, t: Any, u: Any) -> Trajectories:
    if isinstance(x, Trajectories):
        if t is not None or u is not None:
            raise DataError("Trajectories already hold their times and actions; give x alone.")
        return x
    if t is None:
        raise DataError("Give the times as t: a constant step, an array, or a list of arrays.")
    return Trajectories(x, t, u)
