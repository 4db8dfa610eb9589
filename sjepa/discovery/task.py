"""From states and terms to a front: the rows, the problem they make, and how it is searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.data import Trajectories
from sjepa.data.derivative_settings import DerivativeSettings
from sjepa.data.forms import Form, Rows, continuous_rows, is_noisy
from sjepa.data.rows import discrete_rows, inputs_of
from sjepa.discovery.proposals import SELECT_SHARE, search_map, select_weakly, share_of
from sjepa.discovery.search_space import kind_of
from sjepa.search.ladder import Ladder
from sjepa.symbolic import Front, Gram, Grammar, Law, Library
from sjepa.symbolic.gram import variance_of
from sjepa.symbolic.term_templates import TermTemplate as Shape


# Rows and a library to sums over data that are not in memory, or without one to some of the rows.
Summed = Callable[[Rows, "Library | None"], tuple["Gram | None", Any]]


@dataclass(frozen=True, eq=False)
class DiscoveryTask:
    """What a call of `discover` comes to once data and terms are read.

    `names` are the inputs of the law, `common` are fields of the problem that its rows do not
    decide.
    """

    data: Trajectories
    backend: Backend
    space: Library | Grammar
    names: tuple[str, ...]
    order: int
    form: Form
    known: Law | None  # with the inputs of the space
    common: Mapping[str, Any]

    @property
    def free(self) -> bool:
        """Whether numbers may be fitted again, which would break constraints."""
        return not self.common["constraints"]

    def problem(self, names: Sequence[str], **rows: Any) -> Problem:
        problem = Problem(names=names, **rows, **kind_of(self.space), **self.common)
        return problem if problem.proposals is None else problem.proposals.started(problem)


class DiscoveryResult(NamedTuple):
    """A front, the problem it solves until `end`, and what to say of it.

    `again` turns more data into such rows; it is empty where the front cannot be updated from sums.
    """

    front: Front
    problem: Problem
    end: float
    form: Form
    again: Mapping[str, Any] = {}


def discover_map(task: DiscoveryTask) -> DiscoveryResult:
    """A law for the next value."""
    inputs, following = discrete_rows(task.data)
    following = following[:, : len(task.common["outputs"])]
    rows = Rows("discrete", following, inputs).less(task.known)
    problem = task.problem(
        task.names, inputs=inputs, targets=rows.targets, dynamics="discrete",
        loss_unit=rows.loss_unit,
    )  # fmt: skip
    end = problem.deadline()
    if task.free:
        front = search_map(task.backend, problem, task.known)
    else:
        front = problem.solve(task.backend)
    # Losses are those of the change, which rows of neighbors would not have: none are tried.
    ladder = Ladder(task.backend, rows, task.data, task.names, 1, end, False, False)
    if task.free:  # losses are those of the change, also of what is proposed
        change = following - inputs[:, : following.shape[1]]
        problem = problem.with_(loss_unit=variance_of(change))
    found = ladder.conclude(front, problem)
    return DiscoveryResult(found.front, problem, end, "discrete")


def discover_field(
    task: DiscoveryTask,
    slopes: list[np.ndarray] | None,
    fitted: DerivativeSettings,
    summed: Summed | None,
    shapes: list[Shape] | Literal["wide"] | None,
    widen: bool,
) -> DiscoveryResult:
    """A law for derivatives: given ones, or those that `fitted` says."""
    backend, data, order = task.backend, task.data, task.order
    if slopes is not None:
        targets, inputs = np.concatenate(slopes), np.concatenate(inputs_of(data))
        rows = Rows("derivative", targets, inputs=inputs).less(task.known)
    else:
        if isinstance(task.space, Grammar) and not backend.trees:
            task = replace(task, space=task.space.library(task.common["outputs"]))
        places = [task.names.index(n) for n in task.space.inputs] if order == 2 else None
        options = {**fitted.options(), "order": order, "window": fitted.window, "columns": places}
        options["known"] = task.known
        form = "derivative" if task.form == "weak" and backend.trees else task.form
        terms = task.space if isinstance(task.space, Library) else None
        rows = continuous_rows(data, terms, form=form, trees=backend.trees, **options)
    values: dict[str, Any] = {
        "inputs": rows.inputs,
        "targets": rows.targets,
        "features": rows.features,
        "loss_unit": rows.loss_unit,
    }
    if isinstance(task.space, Library) and task.space.has_numbers and not backend.trees:
        values["on_rows"] = rows.thinned(1)  # simulations move numbers inside terms
    if summed is not None:
        sums, sample = summed(rows, None if backend.trees else terms)
        values = {"gram": sums} if sample is None else {"inputs": sample[0], "targets": sample[1]}
        values["loss_unit"] = rows.loss_unit
    problem = task.problem(task.names if order == 1 else task.space.inputs, **values)
    end = problem.deadline()
    if backend.trees and slopes is None and _is_weak(task, rows):
        proposed = problem.with_(budget=share_of(problem, 1 - SELECT_SHARE)).solve(backend)
        front, problem, rows = select_weakly(proposed, problem, data, options)
        ladder = Ladder(backend, rows, data, task.names, order, end, task.free)
        found = ladder.conclude(front, problem)
        return DiscoveryResult(found.front, found.problem, end, "weak")
    ladder = Ladder(backend, rows, data, task.names, order, end, task.free, slopes is None)
    found = ladder.climb(problem, shapes, widen)
    seen = found.problem.targets
    whole = seen is None or len(seen) >= len(rows.targets)  # on some rows there are no sums of all
    return DiscoveryResult(found.front, found.problem, end, rows.form, rows.again if whole else {})


def _is_weak(task: DiscoveryTask, rows: Rows) -> bool:
    """Whether integrals choose among the terms that trees propose on derivatives."""
    if task.form == "weak":
        return True
    return task.form == "auto" and rows.form == "derivative" and is_noisy(task.data)
