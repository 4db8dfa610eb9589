"""Structures and coordinates together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.discovery import discover
from sjepa.errors import ConfigError, DataError
from sjepa.models.devices import one_thread
from sjepa.models.pretrained.embedder import encode_all
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Library
from sjepa.training.elegant import (
    SearchBudget,
    SearchResult,
    Structure,
    elegant_search,
    structures_of,
)
from sjepa.training.elegant.angle import angle_of, learn_angle
from sjepa.training.elegant.views import View, views
from sjepa.training.options import search_budget
from sjepa.training.result import Learned


@one_thread()
def learn_elegant(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    order: int,
    delta: float | str,
    backend: Any,
    seed: int,
    journal: RunRecorder,
    options: Mapping[str, Any] | None = None,
    *,
    delta_roll: float | None = None,
    select: str | None = None,
    windows: bool = False,
    stage: str = "",
) -> Learned:
    """Search structures and coordinates together; see :mod:`sjepa.training.elegant`.

    With a backend that owns the structure of its law, the search is run again with the structures
    that it proposes in the coordinates found first. Films of sharp things are blurred first. A
    coordinate of second order may be an angle that goes round, which no linear read-out is.
    Polished encoders are checkpoints. `windows` says that observations are ``(k, *obs)``,
    `stage` which of several searches of one fit this is.
    """
    journal.restore()
    budget = search_budget(options)
    if order == 2 and latent_dim == 1 and not windows:
        angle = angle_of(trajectories, budget.effort, journal)
        if angle is not None:
            _check_angle(options or {}, delta_roll, compared=bool(stage))
            return learn_angle(
                trajectories, angle, library, delta, select, seed=seed, effort=budget.effort,
                progress=journal,
            )  # fmt: skip
    solver = make_backend(backend)
    again = solver.owns_structure and order == 1
    if again:
        solver.prepare()

    choices = views(trajectories, latent_dim, windows)
    # Networks, where several views are tried without, are one search more.
    searches, begun = len(choices) + (budget.grow and len(choices) > 1), count()

    def search(view: View, budget: SearchBudget) -> SearchResult:
        with journal.part(next(begun), searches):
            return in_turns(view, budget)

    def in_turns(view: View, budget: SearchBudget) -> SearchResult:
        budget = budget if view.rollouts else replace(budget, rollout=0)

        def run(structures: Sequence[Structure], turn: str) -> SearchResult:
            return elegant_search(
                view.trajectories, library, latent_dim, order=order, delta=delta, seed=seed,
                budget=budget, structures=structures, report=journal.report,
                memory=journal.stage(f"{stage}{view.name}{turn}"), delta_roll=delta_roll,
                select=select, twin=view.twin, starts=view.starts,
            )  # fmt: skip

        with journal.part(0, 1 + again):
            result = run((), "first")
        if again:
            proposed = _proposed(result, view.trajectories, library, backend, seed)
            with journal.part(1, 2):
                result = run(proposed, "second") if proposed else result
        return result

    view, result = _first_adequate(choices, budget, search)
    encoder = view.after(result.encoder.double().eval())
    rivals = [replace(r, encoder=view.after(r.encoder)) for r in result.rivals]
    notes = [*view.notes, *result.notes]
    return Learned(result.law, result.front, encoder, notes, result.doubts, result.figures, rivals)


def _check_angle(options: Mapping[str, Any], delta_roll: float | None, compared: bool) -> None:
    """Refuse what is not read for an angle; `grow` is said by whoever compares dimensions."""
    unread = [name for name in options if name != "effort" and not (compared and name == "grow")]
    if unread:
        raise ConfigError(
            f"{unread[0]} is not read for an angle that goes round, which only has effort; leave "
            "it out.",
            "options",
        )
    if delta_roll is not None:
        raise ConfigError("delta_roll is not read for an angle that goes round.", "delta_roll")


def _first_adequate(
    choices: Sequence[View],
    budget: SearchBudget,
    search: Callable[[View, SearchBudget], SearchResult],
) -> tuple[View, SearchResult]:
    """Linear read-outs of each view of the observations in turn, bent ones only after all."""
    if len(choices) == 1:
        return choices[0], search(choices[0], budget)
    plain = replace(budget, grow=False)
    tried = []
    for view in choices:
        try:
            tried.append((view, search(view, plain)))
        except DataError:  # too noisy, or too few directions, for this view
            if view is choices[0]:
                raise
            continue
        if tried[-1][1].adequate:
            return tried[-1]
    if budget.grow:
        tried.append((choices[0], search(choices[0], budget)))
    return min(tried, key=lambda pair: (not pair[1].adequate, pair[1].residual))


def _proposed(
    result: SearchResult, trajectories: Trajectories, library: Library, backend: Any, seed: int
) -> list[Structure]:
    """What a backend finds in the coordinates of a search, as far as the library has it."""
    latents = encode_all(result.encoder.double().eval(), trajectories.x)
    names = list(library.inputs[: latents[0].shape[1]])
    encoded = Trajectories(
        latents, trajectories.t, trajectories.u, names=names,
        action_names=trajectories.action_names,
    )  # fmt: skip
    front = discover(encoded, backend=backend, library=library, seed=seed)
    return structures_of(front, library)
