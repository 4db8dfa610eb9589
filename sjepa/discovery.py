"""From measured states to equations in one call, without training anything."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sjepa.backend import Backend, Budget, Problem, Progress
from sjepa.backend.registry import make_backend
from sjepa.callbacks import ProgressBar
from sjepa.data import Trajectories
from sjepa.data.forms import FORMS, Form, Rows, continuous_rows, is_noisy
from sjepa.data.history import before, with_lags
from sjepa.data.names import state_names, with_velocity_names
from sjepa.data.rows import discrete_rows, inputs_of
from sjepa.data.streams import Stream
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.models.bootstrap import bootstrap
from sjepa.models.selection import judge_front
from sjepa.models.widening import Known
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.front import combine_outputs
from sjepa.symbolic.parse import symbol
from sjepa.symbolic.shapes import Shape, open_numbers
from sjepa.symbolic.snap import variants


# Fewer observations than this for each candidate term call for a smaller default library.
POINTS_PER_TERM = 2
# A law that leaves more than this share of the variance unexplained is worth a warning.
POOR = 0.2
# More inputs than this would make a default library of hundreds of terms.
MAX_INPUTS = 16
# Libraries up to this many terms are searched exactly in about a second.
SMALL = 64
# A longer law for the next value must lower the loss by this share to be listed.
MIN_GAIN = 0.01
# Terms of proposed laws that compete in the weak form, and supports of them that are looked at.
MAX_SELECTED = 60
SELECT_NODES = 200_000
# Share of the time for that.
SELECT_SHARE = 0.2


def discover(
    x: Any,
    t: Any = None,
    *,
    u: Any = None,
    x_dot: Any = None,
    backend: str | Mapping[str, Any] | type[Backend] | Backend | Sequence[Any] | None = None,
    library: Library | Sequence[str] | str | None = None,
    grammar: Grammar | None = None,
    feature_names: Sequence[str] | None = None,
    order: int = 1,
    lags: int = 0,
    form: Form = "auto",
    derivative: str | Mapping[str, Any] = "auto",
    window: int | None = None,
    constraints: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dimensionless_constants: bool = False,
    n_bootstrap: int = 0,
    seed: int = 0,
    budget: Budget | float | None = None,
    warm: Front | None = None,
    progress: Progress | None = None,
    verbose: bool | None = None,
    executor: Any = "local",
    workers: int = 1,
) -> Front:
    """Find the equations of motion of given states.

    Parameters
    ----------
    x : array (T, d), list of arrays, pandas tables, or Trajectories
        One or many trajectories, of any lengths. Data that do not fit into memory: a folder of
        files, an iterator of trajectories, a Dask dataframe or bag, a Ray dataset; one pass is
        made over them, and only sums are kept.
    t : float, array or list of arrays
        A constant step, or times; irregular times are fine.
    u : array (T, m) or list of arrays, optional
        Actions, one row per observation; they are inputs of the equations and are called u1, u2,
        ... The last row is not used under zero-order hold.
    x_dot : like x, optional
        Known derivatives. Otherwise they are estimated.
    backend : name, mapping with a "name", class, instance, or list of them, optional
        By default the exact search of "subset" for small libraries and "stlsq" for large ones.
        Several share the time and are started from what those before them found; their fronts
        are merged, and ``front.to_frame()`` says who found what.
    library : Library, list of terms, or "wide", optional
        What the law may be made of; by default monomials, sines, cosines and x|x|. Short data get
        fewer terms. In a list lower-case letters that are no inputs are numbers to be found, as
        ``c`` in ``"x/(c + x)"``. "wide" adds such terms to the default: quotients, Hill and sigmoid
        curves, exponentials, logarithms, powers, and products of sines and cosines. The default
        call turns to them by itself where the default terms leave more than noise, or need many;
        the front says so.
    grammar : Grammar, optional
        The same for backends that write expression trees.
    feature_names : names of the states, by default x1, x2, ...
    order : 1 or 2
        Whether the law gives first or second time derivatives. With 2 its inputs are the
        coordinates, their velocities (x1_dot, ...) and the actions.
    lags : int
        Steps back that belong to the state, where what was measured is not all of it: with 1 the
        inputs are x, x_lag1, u1 and u1_lag1. The law is then a map unless `form` says otherwise.
    form : "derivative", "weak", "zoh", "discrete" or "auto"
        Fit time derivatives point by point; integrals against smooth bumps (for noisy data;
        backends that write trees propose terms, the integrals select); the same with actions held
        constant between samples (zero-order hold); or the next value itself. "auto" looks at the
        noise, and at which reading of the actions predicts stretches left out. ``front.form``
        says what was taken.
    derivative : str or mapping
        Method of :func:`sjepa.data.differentiate`, or its options with a ``"method"``.
    window : int, optional
        Observations under one bump of the weak form; by default from the time scale of the data.
    constraints : list of str
        What is known of the coefficients: ``"coef(p', sin(q)) = -1"`` fixes one,
        ``"coef(x', y) = -coef(y', x)"`` ties two, ``"coef(p', p) <= 0"`` says a sign, and
        ``"S' + I' + R' = 0"`` conserves a sum. For "stlsq", "subset" and "pysindy"; numbers are
        then those of the regression.
    units : mapping, optional
        Units of states, actions and time, as in ``{"q": "rad", "p": "rad/s", "t": "s"}``: terms
        that cannot be of the right unit are left out, such as the sine of a length. Needs pint.
    dimensionless_constants : bool
        Whether numbers in the law have no unit. Otherwise a coefficient has the unit that its
        term needs.
    n_bootstrap : int
        Resamples of the data, stretch by stretch, on which the search is repeated:
        ``front.intervals`` says how often each term was chosen again and between which numbers
        90 % of its coefficients lie. 200 are plenty; 0 leaves it out.
    seed : int
    budget : seconds, or a Budget
    warm : a previous Front to start from
    progress : callable, optional
        Called with a line of text and the share of the work done.
    verbose : bool, optional
        By default a progress bar is shown in terminals and notebooks and nothing elsewhere; True
        writes lines where no bar can be drawn, False shows nothing.
    executor, workers : "local", "dask", "ray" or a client, and how many processes
        Where data that are not in memory are summed up.

    Returns
    -------
    Front
        ``front.best()`` is the law that free runs through the data choose among the candidates:
        the simplest that no longer one beats by more than chance on stretches its numbers were
        not fitted to. ``front.to_frame()`` is the whole table. Doubts come as a
        :class:`sjepa.errors.NumericalWarning`.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.01)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> discover(x, t, feature_names=["q", "p"]).best()
    q' = p
    p' = -4*q
    """
    _check(form, order, x_dot, n_bootstrap, constraints)
    _check_lags(lags, order, x_dot)
    with ProgressBar(verbose, "preparing the data", progress) as bar:
        stream = Stream.of(x, t, feature_names)
        if stream is None:
            data = Trajectories.of(x, t, u, names=feature_names, states=True)
        else:
            data = stream.pilot
            _check_stream(form, x_dot, u, lags or n_bootstrap)
        measured = data.obs_shape[0]
        if lags:
            if data.u is not None and form not in ("auto", "discrete"):
                raise ConfigError(
                    "Lags of actions need a map: form='discrete', or order=2.", "form"
                )
            data = with_lags(data, lags)
            form = "discrete" if form == "auto" else form
        widen = library is None and grammar is None and backend is None
        widen = widen and stream is None and x_dot is None and not (units or constraints)
        library, shapes = _opened(library, data, order)
        backend = make_backend(_small_or_large(data, library) if backend is None else backend)
        if shapes is not None and (backend.trees or form == "discrete"):
            raise ConfigError(
                "Terms with open numbers are for backends that combine terms, and for derivatives; "
                "backends that write trees find numbers themselves: give a grammar.", "library",
            )  # fmt: skip
        backend.prepare()
        space, names, outputs = _space(data, order, library, grammar, backend)
        if form == "discrete":
            outputs = outputs[:measured]  # what lies further back is known
        common: dict[str, Any] = {
            "outputs": outputs,
            "seed": seed,
            "budget": budget if isinstance(budget, Budget) else Budget(seconds=budget),
            "warm": warm,
            "progress": bar.listener,
            "constraints": constraints,
            "dimensionless_constants": dimensionless_constants,
        }
        if units is not None:
            common["units"] = _units(units, data, names, outputs, order, form == "discrete")
        doubt = ""
        if form == "discrete":
            inputs, following = discrete_rows(data)
            common |= {"dynamics": "discrete", **_kind(space)}
            problem = Problem(inputs, following[:, :measured], names, **common)
            end = problem.deadline()
            front = problem.solve(backend) if constraints else search_map(backend, problem)
        else:
            if x_dot is not None:
                slopes = np.concatenate(_like(x_dot, data))
                rows = Rows("derivative", slopes, inputs=np.concatenate(inputs_of(data)))
            else:
                options = (
                    {"method": derivative} if isinstance(derivative, str) else dict(derivative)
                )
                terms = space if isinstance(space, Library) else None
                if terms is None and not backend.trees:
                    space = terms = space.library(outputs)  # type: ignore[union-attr]
                options |= {
                    "order": order, "window": window,
                    "columns": [names.index(n) for n in space.inputs] if order == 2 else None,
                }  # fmt: skip
                at_points = "derivative" if form == "weak" and backend.trees else form
                rows = continuous_rows(data, terms, form=at_points, trees=backend.trees, **options)
            own = names if order == 1 else space.inputs
            given: dict[str, Any] = {
                "inputs": rows.inputs, "targets": rows.targets, "features": rows.features
            }  # fmt: skip
            if stream is not None:
                library_ = None if backend.trees else terms
                sums, sample = stream.sums(rows, library_, seed, executor, workers)
                given = {"gram": sums}
                if sample is not None:
                    given = {"inputs": sample[0], "targets": sample[1]}
            problem = Problem(names=own, **given, **_kind(space), **common)
            end = problem.deadline()
            if (
                backend.trees
                and x_dot is None
                and (
                    form == "weak"
                    or (form == "auto" and rows.form == "derivative" and is_noisy(data))
                )
            ):
                front = problem.with_(budget=_share(problem, 1 - SELECT_SHARE)).solve(backend)
                front, problem = _select(front, problem, data, options)
                form = "weak"
                if order == 1:
                    front, doubt = judge_front(
                        front, problem, data, order, False, end, refit=not constraints
                    )
            else:
                form = rows.form
                known = Known(backend, rows, data, order, end, not constraints)
                found = known.search(problem, shapes, widen)
                front, problem, doubt = found.front, found.problem, found.doubt
        if n_bootstrap and len(front):
            front = bootstrap(
                front, problem, backend, data, n_bootstrap, seed=seed, order=order,
                held=form == "zoh", end=end,
            )  # fmt: skip
    doubts = _doubts(front, problem, doubt)
    for text in doubts:
        warnings.warn(text, NumericalWarning, stacklevel=2)
    late = data.names[measured:] if form == "discrete" and data.names else ()
    wide = tuple(replace(c, law=_widened(c.law, names, late)) for c in front)
    return replace(front, candidates=wide, form=form, notes=(*front.notes, *doubts))


def _check(form: str, order: int, x_dot: Any, n_bootstrap: int, constraints: Sequence[str]) -> None:
    if form not in FORMS:
        raise ConfigError(f"form is one of {', '.join(map(repr, FORMS))}, got {form!r}.", "form")
    if order not in (1, 2):
        raise ConfigError(f"order must be 1 or 2, got {order!r}.", "order")
    if not (isinstance(n_bootstrap, int) and n_bootstrap >= 0):
        raise ConfigError(f"n_bootstrap is a number of resamples, got {n_bootstrap!r}.")
    if constraints and n_bootstrap:
        raise ConfigError("Resampled numbers do not keep constraints: leave one of both out.")
    if order == 2 and (form == "discrete" or x_dot is not None):
        raise ConfigError("order=2 takes second derivatives itself: use order=1 with such data.")


def _check_lags(lags: int, order: int, x_dot: Any) -> None:
    if not (isinstance(lags, int) and lags >= 0):
        raise ConfigError(f"lags is a number of steps back, got {lags!r}.", "lags")
    if lags and (order == 2 or x_dot is not None):
        raise ConfigError("Take lags, or derivatives (order=2, x_dot), and not both.", "lags")


def _check_stream(form: str, x_dot: Any, u: Any, rest: Any) -> None:
    if form == "discrete" or x_dot is not None or u is not None or rest:
        raise ConfigError(
            "Data that are not in memory bring their own actions and times, and are fitted as "
            "derivatives or integrals: leave out u, x_dot, lags, n_bootstrap and form='discrete'.",
            "form",
        )


def _opened(
    library: Library | Sequence[str] | str | None, data: Trajectories, order: int
) -> tuple[Library | Sequence[str] | None, list[Shape] | Literal["wide"] | None]:
    """The terms of a library without open numbers, and those with."""
    if library == "wide":
        return None, "wide"
    if (
        library is None
        or isinstance(library, Library | str)
        or not all(isinstance(t, str) for t in library)
    ):
        return library, None  # type: ignore[return-value]
    assert data.names is not None
    states = with_velocity_names(data.names) if order == 2 else data.names
    names = [*states, *(data.action_names or ())]
    shapes = [Shape.read(t, names) for t in library if open_numbers(t, names)]
    if not shapes:
        return library, None
    closed = [t for t in library if not open_numbers(t, names)]
    if closed:
        return Library.from_terms(closed, names), shapes
    nothing = Library.from_terms(["1"], names)
    return nothing.with_mask(np.zeros((1, data.obs_shape[0]), dtype=bool)), shapes


def _space(
    data: Trajectories,
    order: int,
    library: Library | Sequence[str] | None,
    grammar: Grammar | None,
    backend: Backend,
) -> tuple[Library | Grammar, tuple[str, ...], tuple[str, ...]]:
    """What a law may be made of, its inputs, and its outputs."""
    d, actions = data.obs_shape[0], data.action_names or ()
    assert data.names is not None
    states = with_velocity_names(data.names) if order == 2 else data.names
    space = grammar if grammar is not None else Library.of(library, [*states, *actions])
    if library is not None and grammar is not None:
        raise ConfigError("Give a library or a grammar, not both.", "grammar")
    if space is None:
        space = _default(backend, states, actions, int(data.lengths.sum()))
    if order == 2:
        if lost := set(actions) - set(space.inputs):
            raise ConfigError(f"The library lacks the action {min(lost)}: add it to its inputs.")
        states = state_names(space.inputs, d, actions)
    return space, (*states, *actions), states[-d:]


def _units(
    given: Mapping[str, str],
    data: Trajectories,
    names: Sequence[str],
    outputs: Sequence[str],
    order: int,
    discrete: bool,
) -> dict[str, str]:
    """Units of a problem's inputs and targets from those of states, actions and time."""
    states, actions = names[: data.obs_shape[0]], data.action_names or ()
    known = [*states, *actions, *([] if discrete else ["t"])]
    if missing := [n for n in known if n not in given]:
        raise ConfigError(f"units lacks {missing[0]}: give one for {', '.join(known)}.", "units")
    if unknown := sorted(set(given) - {*known, "t"}):
        raise ConfigError(f"units names {unknown[0]!r}; there are {', '.join(known)}.", "units")
    found = {n: given[n] for n in (*states, *actions)}
    for state, output in zip(states, outputs, strict=True):
        if order == 2:
            found[output] = f"({given[state] or 1}) / ({given['t']})"
        by = "" if discrete else f" / ({given['t']})" + ("**2" if order == 2 else "")
        found[f"{output}'"] = f"({given[state] or 1}){by}"
    return found


def _default(
    backend: Backend, states: Sequence[str], actions: Sequence[str], points: int
) -> Library | Grammar:
    """The default for a backend; a few observations allow only a few terms."""
    names = [*states, *actions]
    if len(names) > MAX_INPUTS:
        raise DataError(
            f"{len(names)} inputs are too many for the default library: give a library, or "
            "fewer columns. Rows are times: transpose x if its rows are quantities.",
            "library",
        )
    if backend.trees:
        return Grammar.default(states, actions)
    library = Library.default(states, actions)
    for degree in (2, 1):
        if points < POINTS_PER_TERM * len(library):
            library = Library.polynomial(names, degree)
    return library


def _small_or_large(data: Trajectories, library: Library | Sequence[str] | None) -> str:
    """The backend for a library of this size."""
    inputs = len(data.names or ()) + len(data.action_names or ())
    terms = inputs**2 if library is None else len(library)
    return "subset" if terms <= SMALL else "stlsq"


def _kind(space: Library | Grammar) -> dict[str, Any]:
    return {"library" if isinstance(space, Library) else "grammar": space}


def search_map(backend: Backend, problem: Problem) -> Front:
    """Laws for the next value, judged by how well they give the change.

    Most of the next value is the present one: standing still looks almost perfect, and whatever
    else matters looks negligible. Of the change it explains nothing. The next value and the change
    are both searched, since each shows terms that the other hides, and joined output by output.
    """
    inputs, following = problem.rows()
    change = problem.with_(targets=following - inputs[:, : following.shape[1]], warm=None)
    fronts = [problem.solve(backend), change.solve(backend)]
    unit = problem.variance / change.variance
    rows = []
    for j, name in enumerate(problem.outputs):
        own = [c.law.expressions[j] for c in fronts[0]]
        own += [c.law.symbols[j] + c.law.expressions[j] for c in fronts[1]]
        still = Law.from_string([name], problem.names, [name], "discrete")
        laws = {still, *(Law([e], problem.names, [name], "discrete") for e in own)}
        alone = problem.with_(targets=following[:, j], outputs=[name], warm=None)
        scored = [(alone.candidate(law), law) for law in sorted(laws, key=lambda one: one.key)]
        worst = next(c.loss for c, law in scored if law == still)
        rows.append(
            [
                (getattr(c, problem.measure), c.loss * unit[j], law.expressions[0])
                for c, law in scored
                if c.loss <= worst
            ]
        )
    proven = {c.law for c in fronts[0] if c.certified}
    candidates = []
    for _, losses, expressions in combine_outputs(rows, MIN_GAIN):
        law = Law(expressions, problem.names, problem.outputs, "discrete")
        if problem.admits(law):
            whole = problem.candidate(law, law in proven)
            candidates.append(replace(whole, loss=float(np.mean(losses)), losses=losses))
    notes = dict.fromkeys((*fronts[0].notes, *fronts[1].notes))
    return Front.of(candidates, problem.measure, backend.name, tuple(notes))


def _share(problem: Problem, share: float) -> Budget:
    seconds = problem.budget.seconds
    return replace(problem.budget, seconds=None if seconds is None else share * seconds)


def _select(
    proposed: Front, problem: Problem, data: Trajectories, options: Mapping[str, Any]
) -> tuple[Front, Problem]:
    """Laws made of the terms of the proposed ones, selected and fitted on rows of the weak form.

    Trees are searched on smoothed derivatives, which fit wrong terms as well as right ones;
    integrals tell them apart. Terms whose inner numbers are nearly simple also compete as those,
    and so do the simplest terms of the grammar.
    """
    terms: dict[Any, set[str]] = {}
    for law in (c.law for c in proposed):
        for output, expr in zip(law.outputs, law.expressions, strict=True):
            for _, term in (pair for one in variants(expr) for pair in split_terms(one)):
                if problem.admits(Law([term], law.inputs, [output], canonical=False)):
                    terms.setdefault(term, set()).add(output)
    own = sorted(terms, key=str)
    for output, simple in problem.allowed_terms.items():
        for term in simple:
            terms.setdefault(term, set()).add(output)
    cost = {t: problem.complexity(Law([1.5 * t], problem.names, ["y"])) for t in terms}
    kept = sorted(terms, key=lambda t: (t not in own, cost[t], str(t)))[:MAX_SELECTED]

    def library(kept: Sequence[Any]) -> Library:
        mask = [[o in terms[t] for o in problem.outputs] for t in kept]
        return Library(kept, problem.names, [cost[t] for t in kept], mask, canonical=False)

    rows = continuous_rows(data, library(kept), form="weak", **options)
    assert rows.features is not None
    defined = np.flatnonzero(np.isfinite(rows.features).all(axis=0))
    weak = problem.with_(
        inputs=None, grammar=None, warm=None, targets=rows.targets,
        budget=_share(problem, SELECT_SHARE),
        features=rows.features[:, defined],
        library=library([kept[i] for i in defined]),
    )  # fmt: skip
    weights = None if problem.grammar is None else problem.grammar.weights
    judged = [
        replace(Candidate.score(c.law, c.losses, weights=weights), backend=proposed.backend)
        for c in weak.solve(make_backend("subset", max_nodes=SELECT_NODES))
        if problem.admits(c.law)
    ]
    return Front.of(judged, problem.measure, proposed.backend, proposed.notes), weak


def _doubts(front: Front, problem: Problem, doubt: str) -> list[str]:
    """What makes a law doubtful."""
    doubts = [doubt] if doubt else []
    rows = problem.sums.rows if problem.targets is None else len(problem.targets)
    terms = len(problem.candidate_library) if problem.library is not None else 0
    if rows <= terms:
        doubts.append(
            f"Only {rows} rows for {terms} candidate terms: almost any law fits. "
            "Give more data or a smaller library."
        )
    if len(front) and (loss := front.best_candidate().loss) > POOR:
        doubts.append(
            f"The best law leaves {100 * loss:.0f} % of the variance unexplained: the library "
            "may lack a term, or the derivatives may be too noisy."
        )
    return doubts


def _like(x_dot: Any, trajectories: Trajectories) -> list[np.ndarray]:
    given = [x_dot] if isinstance(x_dot, np.ndarray) and x_dot.ndim <= 2 else list(x_dot)
    slopes = [np.asarray(v, dtype=float).reshape(len(v), -1) for v in given]
    shapes, wanted = [s.shape for s in slopes], [x.shape for x in trajectories.x]
    if shapes != wanted:
        raise DataError(f"x_dot has shapes {shapes}, the states have {wanted}.")
    return slopes


def _widened(law: Law, names: tuple[str, ...], late: Sequence[str] = ()) -> Law:
    """The law with coordinates, velocities and actions as inputs, whether or not it uses them.

    Lagged values get the equations that they have by their meaning, so that the law is whole.
    """
    if law.inputs == names and not late:
        return law
    shifts = [symbol(before(name)) for name in late]
    outputs = (*law.outputs, *late)
    return Law([*law.expressions, *shifts], names, outputs, law.dynamics, canonical=False)
