"""A law that leads the linear search clearly is grown alone."""

from typing import Any

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories
from sjepa.metrics import probe_r2
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget, best_candidate as module
from sjepa.training.joint.best_candidate import best_candidate, best_candidate_raised
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.finalists import enough, lacking, validation_risk
from sjepa.training.joint.levenberg import refine_encoder
from sjepa.training.joint.refinement import linear_head
from sjepa.training.joint.structures import Structure, structure
from tests.training.joint.shortcut_data import pendulum_states


NAMES = ["z1", "z2"]
LIBRARY = Library.from_terms(["1", "z1", "z2", "sin(z1)", "sin(z2)", "z1**3", "z2**3"], NAMES)


def own(*rows: str) -> Structure:
    position = LIBRARY.names.index
    support = tuple(tuple(sorted(position(t) for t in row.split(" + "))) for row in rows)
    return structure(LIBRARY, support)


@pytest.fixture(scope="module")
def context() -> SearchContext:
    data = Trajectories(list(pendulum_states(6)), 0.07)
    return prepare(data, LIBRARY, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 2, None)


PENDULUM = own("z2", "sin(z1)")


@pytest.mark.parametrize(
    ("others", "leads"),
    [
        ({own("z2", "z1"): 1e-2}, True),
        ({own("z2", "z1"): 3e-3}, False),  # too close
        ({own("z2", "z1 + sin(z1)"): 9e-4}, True),  # the same with a term added
        ({own("1 + sin(z2)", "z1"): 9e-4}, True),  # the same, renamed and shifted
        ({own("z2", "z1 + z1**3"): 1e-4}, False),  # itself too good for company
        # A long law is no company and no leader, however little it leaves.
        ({own("1 + z1 + sin(z1) + z2**3", "z1 + sin(z2) + z1**3"): 1e-6}, True),
    ],
)
def test_a_leader_leaves_far_less_than_any_other_law(
    context: SearchContext,
    others: dict[Structure, float],
    leads: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    risks = {PENDULUM: 1e-3, **others}
    monkeypatch.setattr(module, "validation_risk", lambda _, head, task: risks[task.structure])
    heads: list[Any] = [(None, context.task(s)) for s in risks]
    found = best_candidate(context, heads)
    assert (found is not None and found[1].structure == PENDULUM) == leads


def test_a_leader_that_leaves_much_is_none(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "validation_risk", lambda *_: 0.02)
    heads: list[Any] = [(None, context.task(PENDULUM))]
    assert best_candidate(context, heads) is None


def test_sensors_that_are_hardly_curved_get_a_nonlinear_encoder_for_the_best_candidate_alone() -> (
    None
):
    states = pendulum_states(40, 141)
    rng = np.random.default_rng(0)
    x = states @ rng.normal(size=(2, 4)) + 0.15 * np.tanh(states @ rng.normal(size=(2, 4)))
    x += 0.003 * rng.normal(size=x.shape)
    data = Trajectories(list(x), 0.07)
    seen = prepare(data, LIBRARY, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 4, None)
    flat = torch.tensor(states.reshape(-1, 2))
    white = seen.whitening(torch.tensor(x.reshape(-1, 4)))
    start = torch.linalg.lstsq(white, flat - flat.mean(0)).solution
    heads = []
    for law in (PENDULUM, own("z2", "z1")):
        head, task = linear_head(start), seen.task(law)
        refine_encoder(head, task, seen.train, 60, seen.stride)
        heads.append((head, task))
    assert lacking(seen, heads)
    ((nonlinear, task),) = best_candidate_raised(seen, best_candidate(seen, heads))
    assert task.structure == PENDULUM and enough(seen, nonlinear, task)
    risk = validation_risk(seen, nonlinear, task)
    assert risk < 0.2 * validation_risk(seen, *heads[0])
    z = nonlinear(white).detach()
    # A law determines nonlinear coordinates up to a shift along its flow: no affine map undoes that.
    assert probe_r2(z, flat, z, flat).test > 0.997
