"""Linear coordinates that a race of structures misses: all monomials together find their plane."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, simulate
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget, affine_closed, finalists as last, joint_search
from sjepa.training.joint.affine_closed import closed_heads
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.finalists import lacking, warm_started
from sjepa.training.joint.refinement import StructureTask, linear_head
from sjepa.training.joint.structures import structure


SMALL = SearchBudget(effort=0.5, grow=False)


def library(*names: str) -> Library:
    return Library.paper(list(names)) + Library.polynomial(list(names), 3)


def mixed(states: np.ndarray, step: float, seed: int) -> Trajectories:
    """Eight noisy mixtures of states (trajectories, times, d), their squares and products."""
    rng = np.random.default_rng(seed)
    states = (states - states.mean((0, 1))) / states.std((0, 1))
    first, second = np.triu_indices(states.shape[-1])
    products = states[..., first] * states[..., second]
    x = states @ rng.normal(size=(states.shape[-1], 8))
    x = x + 0.3 * products @ rng.normal(size=(products.shape[-1], 8))
    return Trajectories(list(x + 0.002 * x.std() * rng.normal(size=x.shape)), step)


@pytest.fixture(scope="module")
def wells() -> SearchContext:
    data = simulate("double_well", seed=3, trajectories=25, points=100)
    given = mixed(np.stack(data.x), float(data.t[0][1] - data.t[0][0]), 3)
    terms = library("z1", "z2")
    return prepare(given, terms, 2, 1, 0, SMALL, None, CollapseChecks(), None, None)


def spring(context: SearchContext) -> StructureTask:
    names = context.library.names
    return context.task(structure(context.library, ((names.index("z2"),), (names.index("z1"),))))


def test_a_double_well_is_found_from_the_plane_in_which_cubic_terms_close(
    wells: SearchContext,
) -> None:
    """A spring is all that the race has; squares that are mixed into coordinates are undone."""
    rest = np.random.default_rng(0).normal(size=(wells.whitening.rank, 2))
    poor = warm_started(wells, [(linear_head(torch.tensor(rest)), spring(wells).structure)])
    assert lacking(wells, poor)
    heads = closed_heads(wells, poor, 3)
    assert not lacking(wells, heads)
    shortest = min(
        (task for head, task in heads if last.enough(wells, head, task)),
        key=lambda task: task.structure.cost,
    )
    rows = {frozenset(wells.library.names[p] for p in row) for row in shortest.structure.support}
    assert rows in (
        {frozenset({"z2"}), frozenset({"z1", "z1**3"})},
        {frozenset({"z1"}), frozenset({"z2", "z2**3"})},
    )


def test_a_plane_that_is_not_closed_costs_no_search_for_its_gauge(
    wells: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last, "RESIDUAL", 0.0)  # and no noise: nothing is close enough
    monkeypatch.setattr("sjepa.training.joint.affine_closed.noise_floor", lambda *_: 0.0)
    poor = [(linear_head(torch.eye(wells.whitening.rank, 2).double()), spring(wells))]
    assert closed_heads(wells, poor, 3) == []


def test_a_single_coordinate_may_come_to_rest_where_it_starts() -> None:
    """x' = x - x**3: hardly any of the variance is motion, and the square of x has a law too."""
    t = np.arange(80) * 0.05
    start = np.random.default_rng(8).uniform(-1.6, 1.6, size=(40, 1))
    x = start * np.exp(t) / np.sqrt(1 + start**2 * (np.exp(2 * t) - 1))
    result = joint_search(mixed(x[..., None], 0.05, 8), library("z1"), 1, budget=SMALL)
    assert result.verdict.adequate
    assert {str(term) for _, term in result.law.terms[0]} == {"z1", "z1**3"}


def test_a_shortcut_that_leaves_nothing_is_not_enough(
    wells: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = linear_head(torch.eye(wells.whitening.rank, 2).double()), spring(wells)
    real = last.scored(wells, pair[1], pair[0])
    monkeypatch.setattr(last, "enough", lambda *_: True)
    for reasons in ((), ("neighbor",)):
        report = CollapseReport(1.0, 2.0, 0.6, 0.01, reasons)
        monkeypatch.setattr(last, "scored", lambda *_, r=report: replace(real, check_report=r))
        assert lacking(wells, [pair]) == bool(reasons)


def test_a_plane_that_closes_with_a_long_law_only_is_not_taken(
    wells: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curved sensors look linear where many terms make up for it."""
    terms = ["z1", "z2", "z1**2", "z2**2", "z1*z2", "z1**3", "z2**3"]
    row = tuple(sorted(wells.library.names.index(t) for t in terms))
    head = linear_head(torch.eye(wells.whitening.rank, 2).double())
    long = head, wells.task(structure(wells.library, (row, row)))
    monkeypatch.setattr(affine_closed, "monomial_heads", lambda *_: [long])
    monkeypatch.setattr(last, "enough", lambda _, own, task: task is long[1])
    real = last.scored(wells, long[1], head)
    fine = replace(real, check_report=CollapseReport(1.0, 2.0, 0.6, 0.01, ()))
    monkeypatch.setattr(last, "scored", lambda *_: fine)
    monkeypatch.setattr(affine_closed, "warm_started", lambda *_: [])
    assert closed_heads(wells, [long], 3) == []
    monkeypatch.setattr(affine_closed, "SHORT", 20.0)
    assert closed_heads(wells, [long], 3) == [long]
