"""Laws that a backend proposes, chosen by increments or by the weak form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.forms import Rows, continuous_rows
from sjepa.search.ranking import structure_of
from sjepa.symbolic import Candidate, Front, Law, Library
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.front import combine_outputs
from sjepa.symbolic.gram import variance_of
from sjepa.symbolic.library import kept_apart
from sjepa.symbolic.snap import variants


# A longer law for the next value must lower the loss by this share to be listed.
MIN_GAIN = 0.01
# Terms of proposed laws that compete in the weak form, and supports of them that are looked at.
MAX_SELECTED = 60
SELECT_NODES = 200_000
# Share of the time for that.
SELECT_SHARE = 0.2


def search_map(backend: Backend, problem: Problem, known: Law | None = None) -> Front:
    """Laws for the next value, judged by how well they give the change.

    Most of the next value is the present one: standing still looks almost perfect, and whatever
    else matters looks negligible. Of the change it explains nothing. The next value and the change
    are both searched, since each shows terms that the other hides, and joined output by output.
    """
    inputs, following = problem.rows()
    step = following - inputs[:, : following.shape[1]]
    whole = step if known is None else step + known.numpy()(inputs)
    change = problem.with_(
        targets=step, warm=None, loss_unit=None if known is None else variance_of(whole)
    )
    fronts = [problem.solve(backend), change.solve(backend)]
    unit = problem.variance / change.variance
    rows = []
    for j, name in enumerate(problem.outputs):
        found = [c.law.expressions[j] for c in fronts[0]]
        found += [c.law.symbols[j] + c.law.expressions[j] for c in fronts[1]]
        still = Law.from_string([name], problem.names, [name], "discrete")
        laws = {still, *(Law([e], problem.names, [name], "discrete") for e in found)}
        own = None if problem.loss_unit is None else problem.loss_unit[[j]]
        alone = problem.with_(targets=following[:, j], outputs=[name], warm=None, loss_unit=own)
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


def share_of(problem: Problem, share: float) -> Budget:
    seconds = problem.budget.seconds
    return replace(problem.budget, seconds=None if seconds is None else share * seconds)


def select_weakly(
    proposed: Front, problem: Problem, data: Trajectories, options: Mapping[str, Any]
) -> tuple[Front, Problem, Rows]:
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
    kept = kept_apart(sorted(terms, key=lambda t: (t not in own, cost[t], str(t))))[:MAX_SELECTED]

    def library(kept: Sequence[Any]) -> Library:
        mask = [[o in terms[t] for o in problem.outputs] for t in kept]
        return Library(kept, problem.names, [cost[t] for t in kept], mask, canonical=False)

    rows = continuous_rows(data, library(kept), form="weak", **options)
    assert rows.features is not None
    defined = np.flatnonzero(np.isfinite(rows.features).all(axis=0))
    weak = problem.with_(
        inputs=None, grammar=None, warm=None, targets=rows.targets,
        budget=share_of(problem, SELECT_SHARE),
        features=rows.features[:, defined],
        loss_unit=rows.loss_unit,
        library=library([kept[i] for i in defined]),
        on_rows=rows.thinned(1),  # free runs move numbers inside terms
    )  # fmt: skip
    weights = None if problem.grammar is None else problem.grammar.weights
    finder = {structure_of(c.law): c.backend for c in reversed(proposed.candidates)}
    judged = [
        replace(
            Candidate.score(c.law, c.losses, weights=weights),
            backend=finder.get(structure_of(c.law), proposed.backend),
        )
        for c in weak.solve(make_backend("subset", max_nodes=SELECT_NODES))
        if problem.admits(c.law)
    ]
    return Front.of(judged, problem.measure, proposed.backend, proposed.notes), weak, rows
