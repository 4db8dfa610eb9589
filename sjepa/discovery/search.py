"""From measured states to equations in one call, without training anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from sjepa.backend import Backend, Budget
from sjepa.backend.constraints import CONSTRAINTS
from sjepa.backend.portfolio import in_rounds
from sjepa.backend.proposals import Guess, Proposals, Propose, guesses_of
from sjepa.backend.registry import make_backend
from sjepa.callbacks import ProgressBar
from sjepa.data import Trajectories
from sjepa.data._arrays import series
from sjepa.data._as_trajectories import distinct
from sjepa.data._check import finite, place
from sjepa.data.clock import with_time
from sjepa.data.derivative_settings import BY_FORM, DerivativeSettings, derivatives_of
from sjepa.data.forms import Form
from sjepa.data.history import with_lags
from sjepa.data.streams import Stream
from sjepa.discovery.dead_time import DeadTime, front_with_dead_time, in_turns
from sjepa.discovery.result import SufficientStatistics, finalize
from sjepa.discovery.search_space import (
    opened,
    small_or_large,
    space_of,
    takes_time,
    units_of,
)
from sjepa.discovery.task import DiscoveryTask, discover_field, discover_map
from sjepa.discovery.units import Units
from sjepa.errors import ConfigError, DataError
from sjepa.search.bootstrap import bootstrap
from sjepa.settings import RandomState, choice_of, draw_seed, texts_of, whole_of
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.known import read_known, with_free_terms, with_known
from sjepa.symbolic.law import Dynamics


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
    derivatives: str | DerivativeSettings = "auto",
    constraints: Sequence[str] = (),
    known: Law | str | Sequence[str] | None = None,
    units: Mapping[str, str] | Units | None = None,
    n_bootstrap: int = 0,
    per_trajectory: Sequence[str] | Literal["auto"] | None = None,
    random_state: RandomState = 0,
    budget: Budget | float | None = None,
    guesses: Front | Sequence[Guess] = (),
    propose: Propose | None = None,
    verbose: Any = None,
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
        What the law may be made of; by default monomials, sines, cosines and x|x|. ``t`` in a term
        is the time: ``"sin(w*t)"`` is a drive whose frequency is to be found. Short data get
        fewer terms. In a list lower-case letters that are no inputs are numbers to be found, as
        ``c`` in ``"x/(c + x)"``. "wide" adds such terms to the default: quotients, Hill and sigmoid
        curves, exponentials, logarithms, powers, and products of sines and cosines. The default
        call turns to them by itself where the law of the default terms is not adequate, or long.
    grammar : Grammar, optional
        The same for backends that write expression trees.
    feature_names : names of the states, by default x1, x2, ...
    order : 1 or 2
        Whether the law gives first or second time derivatives. With 2 its inputs are the
        coordinates, their velocities (x1_dot, ...) and the actions.
    derivatives : "auto", "smooth", "weak", "zoh", "discrete", or one of their classes
        Fit time derivatives point by point (:class:`sjepa.Smooth`); integrals against test
        functions (:class:`sjepa.Weak`, for noisy data; backends that write trees propose terms, the
        integrals select); the same with actions held constant between samples
        (:class:`sjepa.ZeroOrderHold`); or the next value itself (:class:`sjepa.Discrete`). "auto"
        looks at the noise, and at which reading of the control inputs predicts segments left out.
        ``front.form`` says what was taken. ``Discrete(lags=1)`` adds past values to the state.
    constraints : list of str
        What is known of the coefficients: ``"coef(p', sin(q)) = -1"`` fixes one,
        ``"coef(x', y) = -coef(y', x)"`` ties two, ``"coef(p', p) <= 0"`` says a sign, and
        ``"S' + I' + R' = 0"`` conserves a sum, ``"hamiltonian(q, p)"`` an energy. For "stlsq",
        "subset" and "pysindy"; numbers are then those of the regression. With any backend,
        ``"delay(u1) <= 0.5"`` has the dead time of an input found up to that bound, and
        ``"delay(u1) = 0.3"`` gives it.
    known : Law, or equations, optional
        What is known of the law, as ``"p' = -sin(q)"`` or ``["q' = p", "p' = -sin(q)"]``: the law
        is this plus what is found beside it, with any backend and form of the data. Its numbers
        stay as they are; lower-case letters that are no inputs, as ``k`` in ``"p' = -k*sin(q)"``,
        are found with the rest, for backends that combine terms.
    units : mapping or Units, optional
        Units of states, actions and time, as in ``{"q": "rad", "p": "rad/s", "t": "s"}``: terms
        that cannot be of the right unit are left out, such as the sine of a length. A coefficient
        has the unit that its term needs, unless ``sjepa.Units(of, dimensionless_constants=True)``
        says that numbers have none. Needs pint.
    n_bootstrap : int
        Resamples of the data, segment by segment, on which the search is repeated:
        ``front.intervals`` says how often each term was chosen again and between which numbers
        90 % of its coefficients lie. 200 are plenty; 0 leaves it out.
    per_trajectory : list of terms, or "auto", optional
        One law for several trajectories, whose coefficients may differ between them: those of the
        terms named (``["v**2"]``, or ``["c"]`` with ``"c*v**2"`` in the library), or those whose
        difference the evidence shows. ``front.per_trajectory`` has the law of each trajectory and
        tables of the coefficients with intervals.
    random_state : int, numpy RandomState or Generator, optional
        None draws a new seed.
    budget : float or Budget, optional
        Seconds of processor time, or a :class:`sjepa.Budget`, which also says where data that are
        not in memory are summed up, and where resamples are searched. Expression trees take 30
        seconds if neither this nor the backend's own settings limit them.
    guesses : Front, or list of str or Law, optional
        Laws to start from: a previous front, or such as ``"q' = p; p' = -sin(q)"`` or a list with
        a formula for each state. Every backend that can starts from them; those of a list are also
        compared with what is found, whatever their terms.
    propose : callable, optional
        Called with the front between the rounds of a search, for more such texts: a person, a model
        or a script takes part. Equations that a text leaves out are those of the best law. Text is
        parsed, never executed; what cannot be read is a note of the front.
    verbose : bool, callable, Callback, or list of these, optional
        By default a progress bar is shown in terminals and notebooks and nothing elsewhere; True
        writes lines where no bar can be drawn, False shows nothing. A function is called with a
        line of text and the share of the work done.

    Returns
    -------
    Front
        ``front.best()`` is the simplest law within one standard error of the highest evidence,
        ``front.verdict`` says whether it is adequate, what else the data allow, and why;
        ``front.to_frame()`` is the whole table. A law that is not adequate comes with a
        :class:`sjepa.errors.NumericalWarning`.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.01)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> discover(x, t, feature_names=["q", "p"]).best()
    q' = p
    p' = -4*q

    Springs of three stiffnesses, one friction:

    >>> from sjepa import Law
    >>> springs = [Law.from_string(["v", f"-{k}*q - 0.1*v"], ["q", "v"]) for k in (1, 2, 4)]
    >>> x, terms = [law.simulate([1.0, 0.0], t[::5]).z for law in springs], ["1", "q", "v"]
    >>> front = discover(x, t[::5], feature_names=["q", "v"], library=terms, per_trajectory="auto")
    >>> own = front.per_trajectory
    >>> own.differing["value"].round(2).tolist(), own.shared["value"].round(2).tolist()
    ([-1.0, -2.0, -4.0], [1.0, -0.1])
    """
    fitted, seed = derivatives_of(derivatives), draw_seed(random_state)
    form, lags, units = fitted.form, fitted.lags, Units.of(units)
    constraints = texts_of(constraints, "constraints", CONSTRAINTS)
    dead_time, constraints = DeadTime.read(constraints)
    if dead_time is not None:
        if (
            Stream.of(x, t, feature_names) is not None
            or form == "discrete"
            or not (x_dot is None and per_trajectory is None)
        ):
            raise ConfigError(
                "Delays of inputs are found in data that are in memory, for one law, and not with "
                "x_dot or Discrete (which has lags).", "constraints"
            )  # fmt: skip
        data = Trajectories.of(x, t, u, names=feature_names, states=True)
        settings: dict[str, Any] = {
            "backend": backend, "library": library, "grammar": grammar, "order": order,
            "constraints": constraints, "known": known, "units": units,
            "per_trajectory": per_trajectory, "random_state": seed, "guesses": guesses,
            "propose": propose,
        }  # fmt: skip

        def find(data: Trajectories, form: Form, last: bool) -> Front:
            more = {"n_bootstrap": n_bootstrap, "verbose": verbose} if last else {"verbose": False}
            as_read = fitted if form == fitted.form else BY_FORM[form]
            return discover(data, derivatives=as_read, budget=left(last), **settings, **more)

        left = in_turns(Budget.of(budget))
        return front_with_dead_time(find, data, dead_time, order, form)
    guesses = guesses if isinstance(guesses, Front) else guesses_of(guesses)
    asks = propose is not None or (not isinstance(guesses, Front) and bool(guesses))
    _check(form, lags, order, x_dot, n_bootstrap, constraints, asks)
    library = library if isinstance(library, str) and library == "wide" else Library.read(library)
    grammar, effort = Grammar.of(grammar), Budget.of(budget)
    if per_trajectory is not None:
        from sjepa.discovery.per_trajectory import front_per_trajectory  # with tables

        one_law = {
            "backend": backend, "grammar": grammar, "x_dot": x_dot, "n_bootstrap": n_bootstrap,
            "constraints": constraints, "units": units, "known": known, "guesses": guesses,
            "propose": propose, "derivatives": form != "auto",
        }  # fmt: skip
        if given := [name for name, value in one_law.items() if value]:
            raise ConfigError(f"per_trajectory is not for {given[0]}: leave one out.", given[0])
        data = Trajectories.of(x, t, u, names=feature_names, states=True, gaps="keep")
        return front_per_trajectory(data, per_trajectory, library, order, effort)
    with ProgressBar(verbose, "preparing the data") as bar:
        stream = Stream.of(x, t, feature_names)
        if stream is None:
            data = Trajectories.of(
                x, t, u, names=feature_names, states=True,
                gaps="cut" if x_dot is None else "keep",  # given derivatives have the rows of x
            )  # fmt: skip
            data = data if x_dot is not None else distinct(data)
        else:
            data = stream.pilot
            _check_stream(form, x_dot, u, lags or n_bootstrap)
        measured = data.obs_shape[0]
        if lags:
            if data.u is not None and form != "discrete":
                raise ConfigError(
                    "Lags of actions need a map, Discrete(lags=...), or order=2.", "derivatives"
                )
            data = with_lags(data, lags)
        if takes_time(library, grammar, known, data):
            if stream is not None:
                raise ConfigError(
                    "Data that are not in memory give no time as an input.", "library"
                )
            data = with_time(data)
        widen = library is None and grammar is None and backend is None
        widen = widen and stream is None and x_dot is None and not (units or constraints)
        library, shapes = opened(library, data, order)
        backend = make_backend(small_or_large(data, library) if backend is None else backend)
        if shapes is not None and (backend.trees or form == "discrete"):
            raise ConfigError(
                "Parametric terms are for backends that combine terms, and for derivatives; "
                "backends that write trees find parameters themselves: give a grammar.", "library",
            )  # fmt: skip
        backend.prepare()
        space, names, outputs = space_of(data, order, library, grammar, backend)
        if form == "discrete":
            outputs = outputs[:measured]  # what lies further back is known
        part = read_known(
            known, space.inputs, outputs, "discrete" if form == "discrete" else "continuous"
        )
        if part is not None and part.terms:
            space, shapes = with_free_terms(
                space, shapes, part.terms, outputs, not backend.trees, form != "discrete"
            )
        fixed = None if part is None else part.law
        proposals = None
        if asks:
            dynamics: Dynamics = "discrete" if form == "discrete" else "continuous"
            proposals = Proposals(space.inputs, outputs, dynamics, propose, fixed)
            proposals.guess(() if isinstance(guesses, Front) else guesses)
            backend = in_rounds(backend, proposals)
        common: dict[str, Any] = {
            "outputs": outputs,
            "seed": seed,
            "budget": effort.for_backend(backend.trees, backend.limited),
            "warm": _rest(guesses, fixed) if isinstance(guesses, Front) else None,
            "proposals": proposals,
            "progress": bar.listener,
            "constraints": constraints,
            "dimensionless_constants": units is not None and units.dimensionless_constants,
        }
        if units is not None:
            common["units"] = units_of(
                units.of_names, data, names, outputs, order, form == "discrete"
            )
        task = DiscoveryTask(data, backend, space, names, order, form, fixed, common)
        if form == "discrete":
            result = discover_map(task)
        else:
            slopes = None if x_dot is None else _like(x_dot, data)
            summed = None
            if stream is not None:
                summed = partial(
                    stream.sums, seed=seed, executor=effort.executor, workers=effort.workers
                )
            result = discover_field(task, slopes, fitted, summed, shapes, widen)
        front, problem = result.front, result.problem
        if n_bootstrap and len(front):
            front = bootstrap(
                front, problem, backend, data, n_bootstrap, seed=seed, order=order,
                held=result.form == "zoh", end=result.end, ordered=x_dot is None,
                known=fixed, executor=effort.executor, workers=effort.workers,
            )  # fmt: skip
    if proposals is not None:
        front = replace(front, notes=(*front.notes, *proposals.notes))
    late = data.names[measured:] if form == "discrete" and data.names else ()
    if result.again and not lags:
        kept = SufficientStatistics.of(problem, result.again, backend, names, data, not constraints)
        front = replace(front, kept=kept)
    return finalize(front, problem, result.form, names, late or (), fixed)


def _rest(front: Front, known: Law | None) -> Front:
    """The front without the known part of its laws."""
    if known is None:
        return front
    rest = tuple(replace(c, law=with_known(known, c.law, -1)) for c in front)
    return replace(front, candidates=rest)


def _check(
    form: Form,
    lags: int,
    order: int,
    x_dot: Any,
    n_bootstrap: int,
    constraints: Sequence[str],
    proposals: bool,
) -> None:
    choice_of(order, "order", (1, 2))
    whole_of(n_bootstrap, "n_bootstrap")
    if constraints and proposals:
        raise ConfigError(
            "Laws that are proposed need not keep constraints: leave guesses and propose out.",
            "constraints",
        )
    if constraints and n_bootstrap:
        raise ConfigError("Resampled numbers do not keep constraints: leave one of both out.")
    if x_dot is not None and form != "auto":
        raise ConfigError("Derivatives are given by x_dot: leave derivatives.", "derivatives")
    if order == 2 and (form == "discrete" or x_dot is not None):
        raise ConfigError("order=2 takes second derivatives itself: use order=1 with such data.")
    if lags and order == 2:
        raise ConfigError("Take lags, or order=2, and not both.", "derivatives")


def _check_stream(form: str, x_dot: Any, u: Any, rest: Any) -> None:
    if form == "discrete" or x_dot is not None or u is not None or rest:
        raise ConfigError(
            "Data that are not in memory bring their own actions and times, and are fitted as "
            "derivatives or integrals: leave out u, x_dot, n_bootstrap and Discrete or lags.",
            "derivatives",
        )


def _like(x_dot: Any, trajectories: Trajectories) -> list[np.ndarray]:
    slopes = series(x_dot, "x_dot", place)
    shapes, wanted = [s.shape for s in slopes], [x.shape for x in trajectories.x]
    if shapes != wanted:
        raise DataError(f"x_dot has shapes {shapes}, the states have {wanted}.")
    for i, slope in enumerate(slopes):
        finite(slope, "x_dot", i)
    return slopes
