"""From measured states to equations in one call, without training anything."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sjepa.backend import Backend, Budget, Problem, Progress
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories, differentiate, is_piecewise_constant, weak_windows, zoh_rows
from sjepa.data.second_order import motion, state_names
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.symbolic import Front, Grammar, Law, Library


Form = Literal["auto", "derivative", "weak", "zoh", "discrete"]
FORMS = ("auto", "derivative", "weak", "zoh", "discrete")

# Noise above this share of a signal's spread makes the integral form the better one.
NOISY = 1e-3
# A law that leaves more than this share of the variance unexplained is worth a warning.
POOR = 0.2
# More inputs than this would make a default library of hundreds of terms.
MOST_INPUTS = 16


def discover(
    x: Any,
    t: Any = None,
    *,
    u: Any = None,
    x_dot: Any = None,
    backend: str | Mapping[str, Any] | type[Backend] | Backend = "stlsq",
    library: Library | Sequence[str] | None = None,
    grammar: Grammar | None = None,
    feature_names: Sequence[str] | None = None,
    form: Form = "auto",
    derivative: str | Mapping[str, Any] = "auto",
    seed: int = 0,
    budget: Budget | float | None = None,
    warm: Front | None = None,
    progress: Progress | None = None,
) -> Front:
    """Find the equations that move given states.

    Parameters
    ----------
    x : array (T, d), list of arrays, or Trajectories
        One or many trajectories, of any lengths.
    t : float, array or list of arrays
        A constant step, or times; irregular times are fine.
    u : array (T, m) or list of arrays, optional
        Actions, one row per observation; they are inputs of the equations and are called u1, u2,
        ... The last row is not used where actions are held.
    x_dot : like x, optional
        Known derivatives. Otherwise they are estimated.
    backend : name, mapping with a "name", class or instance
    library : Library or list of terms, optional
        What the law may be made of; by default monomials, sines, cosines and x|x|.
    grammar : Grammar, optional
        The same for backends that write expression trees.
    feature_names : names of the states, by default x1, x2, ...
    form : "derivative", "weak", "zoh", "discrete" or "auto"
        Fit time derivatives point by point; integrals against smooth bumps (for noisy data, with
        backends that search a library); mean velocities of single steps, during which actions are
        held constant; or the next value itself. "auto" looks at the noise, and takes "zoh" for
        actions that jump.
    derivative : str or mapping
        Method of :func:`sjepa.data.differentiate`, or its options with a ``"method"``.
    seed : int
    budget : seconds, or a Budget
    warm : a previous Front to start from

    Returns
    -------
    Front
        ``front.best()`` is the law at its knee, ``front.to_frame()`` the whole table.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.01)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> discover(x, t, feature_names=["q", "p"]).best()
    q' = p
    p' = -4*q
    """
    backend = make_backend(backend)
    backend.prepare()
    if form not in FORMS:
        raise ConfigError(f"form is one of {', '.join(map(repr, FORMS))}, got {form!r}.", "form")
    trajectories = Trajectories.of(x, t, u, names=feature_names, states=True)
    states = trajectories.obs_shape[0]
    names = [*(trajectories.names or ()), *(trajectories.action_names or ())]
    library = Library.of(library, names)
    if library is None and grammar is None:
        if len(names) > MOST_INPUTS:
            raise DataError(
                f"{len(names)} inputs are too many for the default library: give a library, or "
                "fewer columns. Rows are times: transpose x if its rows are quantities.",
                "library",
            )
        if backend.trees:
            grammar = Grammar.default(names[:states], names[states:])
        else:
            library = Library.default(names[:states], names[states:])
    common: dict[str, Any] = {
        "names": names,
        "outputs": trajectories.names,
        "library": library,
        "grammar": grammar,
        "seed": seed,
        "budget": budget if isinstance(budget, Budget) else Budget(seconds=budget),
        "warm": warm,
        "progress": progress,
    }
    if (
        form == "auto"
        and x_dot is None
        and trajectories.u is not None
        and is_piecewise_constant(trajectories.u)
    ):
        form = "zoh"
    if form == "discrete":
        problem = Problem(*_next_values(trajectories), dynamics="discrete", **common)
    elif form == "zoh":
        problem = Problem(*zoh_rows(trajectories), **common)
    elif x_dot is not None:
        slopes = _like(x_dot, trajectories)
        problem = Problem(_inputs(trajectories), np.concatenate(slopes), **common)
    else:
        problem = _differentiated(trajectories, form, derivative, backend, common)
    front = problem.solve(backend)
    _warn(front, problem)
    return front


def _warn(front: Front, problem: Problem) -> None:
    """Say aloud what makes a law doubtful."""
    rows = 0 if problem.targets is None else len(problem.targets)
    terms = len(problem.candidate_library) if problem.library is not None else 0
    if rows < terms:
        warnings.warn(
            f"Only {rows} rows for {terms} candidate terms: almost any law fits. "
            "Give more data or a smaller library.",
            NumericalWarning, stacklevel=3,
        )  # fmt: skip
    if len(front) and (loss := front.best_candidate().loss) > POOR:
        warnings.warn(
            f"The best law leaves {100 * loss:.0f} % of the variance unexplained: the library "
            "may lack a term, or the derivatives may be too noisy.",
            NumericalWarning, stacklevel=3,
        )  # fmt: skip


def _inputs(trajectories: Trajectories, rows: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """States and actions side by side, all trajectories one below the other."""
    parts = []
    for i, x in enumerate(trajectories.x):
        part = x if trajectories.u is None else np.concatenate([x, trajectories.u[i]], axis=1)
        parts.append(part if rows is None else part[rows[i]])
    return np.concatenate(parts)


def _next_values(trajectories: Trajectories) -> tuple[np.ndarray, np.ndarray]:
    steps = np.concatenate(trajectories.steps)
    if steps.max() > steps.min() * (1 + 1e-6):
        raise DataError(
            f"A map needs equal steps, these range from {steps.min():g} to {steps.max():g}; "
            "use form='derivative'."
        )
    rows = [np.arange(len(x) - 1) for x in trajectories.x]
    return _inputs(trajectories, rows), np.concatenate([x[1:] for x in trajectories.x])


def _like(x_dot: Any, trajectories: Trajectories) -> list[np.ndarray]:
    given = [x_dot] if isinstance(x_dot, np.ndarray) and x_dot.ndim <= 2 else list(x_dot)
    slopes = [np.asarray(v, dtype=float).reshape(len(v), -1) for v in given]
    shapes, wanted = [s.shape for s in slopes], [x.shape for x in trajectories.x]
    if shapes != wanted:
        raise DataError(f"x_dot has shapes {shapes}, the states have {wanted}.")
    return slopes


@dataclass(frozen=True)
class _Smooth:
    """Smoothed states, their derivatives, and which rows to trust."""

    trajectories: Trajectories
    x_dot: list[np.ndarray]
    rows: list[np.ndarray]
    noise_share: float


def _differentiated(
    trajectories: Trajectories,
    form: Form,
    derivative: str | Mapping[str, Any],
    backend: Backend,
    common: dict[str, Any],
) -> Problem:
    options = {"method": derivative} if isinstance(derivative, str) else dict(derivative)
    result = differentiate(trajectories, **options)
    spread = np.concatenate(trajectories.x).std(axis=0)
    share = float((result.noise / np.maximum(spread, 1e-300)).max())
    # The slope of a constant column is rounding; as a target it would be fitted like any other.
    flat = spread <= 1e-12 * np.abs(np.concatenate(trajectories.x)).max(axis=0)
    slopes = [np.where(flat, 0.0, d) for d in result.x_dot]
    smooth = _Smooth(result.trajectories, slopes, [np.flatnonzero(v) for v in result.valid], share)
    if form == "weak" and backend.trees:
        raise ConfigError(f"{backend.name!r} needs rows, which the weak form does not have.")
    if form == "weak" or (form == "auto" and share > NOISY and not backend.trees):
        library = common["library"] or common["grammar"].library(common["outputs"])
        features, targets = _weak_rows(smooth.trajectories, library)
        common = {**common, "library": library, "grammar": None}
        return Problem(features=features, targets=targets, **common)
    targets = np.concatenate([d[r] for d, r in zip(smooth.x_dot, smooth.rows, strict=True)])
    return Problem(_inputs(smooth.trajectories, smooth.rows), targets, **common)


def _weak_rows(trajectories: Trajectories, library: Library) -> tuple[np.ndarray, np.ndarray]:
    """Integrals of the terms and of the derivatives against bumps, over all trajectories."""
    run = library.numpy()
    features, targets = [], []
    for i, x in enumerate(trajectories.x):
        windows = weak_windows(trajectories.t[i])
        features.append(windows.phi @ run(_inputs(trajectories[i : i + 1])))
        targets.append(-(windows.dphi @ x) * (np.ptp(x, axis=0) > 1e-12 * np.abs(x).max(axis=0)))
    return np.concatenate(features), np.concatenate(targets)


def discover_accelerations(
    encoded: Trajectories,
    backend: Any,
    space: Library | Grammar | None,
    seed: int,
    progress: Progress | None = None,
) -> Front:
    """The front of laws for the second derivatives of given coordinates."""
    backend = make_backend(backend)
    moved = motion(encoded)
    d = encoded.obs_shape[0]
    if space is None:
        space = (Grammar if backend.trees else Library).default(moved.names)
    names = state_names(space, d)
    kind = "library" if isinstance(space, Library) else "grammar"
    given: dict[str, Any] = {kind: space, "seed": seed, "progress": progress}
    inputs = moved.inputs[:, : len(space.inputs)]
    front = Problem(inputs, moved.targets, space.inputs, names[d:], **given).solve(backend)
    wide = tuple(replace(c, law=widened(c.law, names)) for c in front)
    return replace(front, candidates=wide)


def widened(law: Law, names: tuple[str, ...]) -> Law:
    """The law with coordinates and velocities as inputs, whether or not it uses them."""
    if law.inputs == names:
        return law
    return Law(law.expressions, names, law.outputs, canonical=False)
