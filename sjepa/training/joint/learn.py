"""Structures and coordinates together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from torch import nn

from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.derivatives import second_derivatives
from sjepa.data.rows import inputs_of
from sjepa.discovery import discover
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.models.devices import one_thread
from sjepa.models.encoders import LinearEncoder
from sjepa.models.pretrained.embedder import encode_all
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Grammar, Library
from sjepa.training.joint import (
    SearchBudget,
    SearchResult,
    Structure,
    joint_search,
    structures_of,
)
from sjepa.training.joint.angle import angle_of, fit_angle
from sjepa.training.joint.observation_views import View, views
from sjepa.training.joint.tree_proposals import proposed
from sjepa.training.result import FitResult
from sjepa.training.searches import Joint


@one_thread()
def fit_joint(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    order: int,
    delta: float | str,
    backend: Any,
    seed: int,
    recorder: RunRecorder,
    budget: Joint,
    *,
    windows: bool = False,
    stage: str = "",
    grammar: Grammar | None = None,
) -> FitResult:
    """Search structures and coordinates together; see :mod:`sjepa.training.joint`.

    With a backend that owns the structure of its law, the search is run again with the structures
    that it proposes in the coordinates found first. One that writes trees of a `grammar` adds its
    terms to the library; without a grammar it keeps to the library. Videos of sharp things are
    blurred first. A coordinate of second order may be circular, which no linear
    read-out is. Refined encoders are checkpoints. `windows` says that observations are
    ``(k, *obs)``, `stage` which of several searches of one fit this is.
    """
    recorder.restore()
    delta_roll, select = budget.delta_roll, budget.select
    if order == 2 and latent_dim == 1 and not windows:
        angle = angle_of(trajectories, budget.effort, recorder)
        if angle is not None:
            budget.check_angle(compared=bool(stage))
            if make_backend(backend).trees:
                raise ConfigError(
                    "The law of a circular coordinate is found in the library alone: leave "
                    "backend.",
                    "backend",
                )
            return fit_angle(
                trajectories, angle, library, delta, select, seed=seed, effort=budget.effort,
                progress=recorder,
            )  # fmt: skip
    solver = make_backend(backend)
    trees = grammar if solver.trees else None
    again = solver.owns_structure and (order == 1 or solver.trees)
    if again:
        solver.prepare()

    choices = views(trajectories, latent_dim, windows)
    # Bent encoders, where several views are tried without, are one search more.
    searches, number = len(choices) + (budget.grow and len(choices) > 1), count()

    def search(view: View, budget: SearchBudget) -> SearchResult:
        with recorder.part(next(number), searches):
            return in_turns(view, budget)

    def in_turns(view: View, budget: SearchBudget) -> SearchResult:
        budget = budget if view.rollouts else replace(budget, rollout=0)

        def run(
            turn: str,
            budget: SearchBudget,
            structures: Sequence[Structure] = (),
            library: Library = library,
            begun: Sequence[tuple[LinearEncoder, Structure]] = (),
        ) -> SearchResult:
            return joint_search(
                view.trajectories, library, latent_dim, order=order, delta=delta, seed=seed,
                budget=budget, structures=structures, report=recorder.report,
                memory=recorder.stage(f"{stage}{view.name}{turn}"), delta_roll=delta_roll,
                select=select, noisier_copy=view.noisier_copy, starts=view.starts, begun=begun,
            )  # fmt: skip

        # Bent coordinates are made for laws of the library: no tree is needed in them.
        with recorder.part(0, 1 + again):
            result = run("first", budget if trees is None else replace(budget, grow=False))
        if not again:
            return result
        encoded = _encoded(result, view.trajectories, library)
        space: dict[str, Any] = {"library": library} if trees is None else {"grammar": trees}
        with warnings.catch_warnings():  # warnings about a law that is only a proposal
            warnings.simplefilter("ignore", NumericalWarning)
            front = discover(encoded, backend=solver, order=order, random_state=seed, **space)
        if trees is None:
            structures = structures_of(front, library)
            with recorder.part(1, 2):
                return run("second", budget, structures) if structures else result
        assert isinstance(result.encoder, nn.Sequential)
        head = result.encoder[1]
        assert isinstance(head, LinearEncoder)
        wider, structures, begun = proposed(
            front, library, head, _rows(encoded, order), trees, len(encoded.action_names or ())
        )
        with recorder.part(1, 2):
            if structures:
                return run("second", budget, structures, wider, begun)
            # Refined encoders are kept, so this only lets them bend.
            return run("first", budget)

    view, result = _first_adequate(choices, budget, search)
    encoder = view.after(result.encoder.double().eval())
    rivals = [replace(r, encoder=view.after(r.encoder)) for r in result.rivals]
    notes = [*view.notes, *result.notes]
    return FitResult(
        result.law,
        result.front,
        encoder,
        notes,
        result.warnings,
        result.figures,
        rivals,
        judged=result.verdict,
    )


def _first_adequate(
    choices: Sequence[View],
    budget: SearchBudget,
    search: Callable[[View, SearchBudget], SearchResult],
) -> tuple[View, SearchResult]:
    """Linear encoders of each view of the observations in turn, nonlinear ones only after all."""
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
        if tried[-1][1].verdict.adequate is not False:
            return tried[-1]
    if budget.grow:
        tried.append((choices[0], search(choices[0], budget)))
    return min(tried, key=lambda pair: (pair[1].verdict.adequate is False, pair[1].residual))


def _encoded(result: SearchResult, trajectories: Trajectories, library: Library) -> Trajectories:
    """The observations in the coordinates of a search."""
    latents = encode_all(result.encoder.double().eval(), trajectories.x)
    names = list(library.inputs[: latents[0].shape[1]])
    return Trajectories(
        latents, trajectories.t, trajectories.u, names=names,
        input_names=trajectories.input_names, gaps="keep",
    )  # fmt: skip


def _rows(encoded: Trajectories, order: int) -> np.ndarray:
    """What a law of this order sees of all trajectories."""
    seen = encoded if order == 1 else second_derivatives(encoded).trajectories
    return np.concatenate(inputs_of(seen))
