"""Rungs of the race: what is kept, told and saved, and how far one step may go."""

import math

import pytest
import torch

from sjepa.data import Trajectories
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.symbolic import Library
from sjepa.training.joint.batched_encoders import Restarts
from sjepa.training.joint.structures import enumerate_structures
from sjepa.training.joint.successive_halving import (
    HalvingRound,
    beyond_least,
    clip_gradients,
    evaluate,
    ladder,
    successive_halving,
)
from sjepa.training.joint.whitened_trajectories import Observed
from sjepa.training.whitening import fit_whitening
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.paper(["z1", "z2"])
RUNGS = (
    HalvingRound(steps=7, batch=6, horizon=8, keep=4),
    HalvingRound(steps=6, batch=6, horizon=12, keep=3),
    HalvingRound(steps=6, batch=6, horizon=16, keep=2),
)
OPEN = CollapseChecks(variance=0.0, within=0.0, neighbor=math.inf)
CLOSED = CollapseChecks(variance=2.0)  # no direction of standardized coordinates has that


@pytest.fixture(scope="module")
def observed() -> Observed:
    data = Trajectories(list(pendulum_states(12)), 0.07)
    return Observed.of(data, fit_whitening(data))


def restarts(count: int = 8) -> Restarts:
    structures = enumerate_structures(LIBRARY, 2, count, 1)
    generator = torch.Generator().manual_seed(0)
    return Restarts(LIBRARY, structures, torch.randn(count, 2, 2, generator=generator))


def test_every_rung_but_the_last_is_saved_and_the_race_resumes_from_any(observed: Observed) -> None:
    saved: list[tuple[int, Restarts, torch.Tensor]] = []
    told: list[tuple[str, float]] = []
    generator = torch.Generator().manual_seed(1)

    def save(done: int, kept: Restarts) -> None:
        saved.append((done, kept.keep(range(len(kept))), generator.get_state()))

    found = successive_halving(
        restarts(), observed, RUNGS, OPEN, generator,
        lambda line, share: told.append((line, share)), done=0, save=save,
    )  # fmt: skip
    assert [(done, len(kept)) for done, kept, _ in saved] == [(1, 4), (2, 3)]
    assert [share for _, share in told] == pytest.approx([1 / 3, 2 / 3, 1.0])
    begins = ["8 restarts, horizon 8:", "4 restarts, horizon 12:", "3 restarts, horizon 16:"]
    assert all(line.startswith(b) for (line, _), b in zip(told, begins, strict=True))
    assert len(found) == 2
    for done, kept, state in saved:
        generator.set_state(state)
        again = successive_halving(kept, observed, RUNGS, OPEN, generator, done=done)
        assert [(s.structure, s.risk) for s in again] == [(s.structure, s.risk) for s in found]


def test_the_line_names_the_restart_with_the_lowest_risk(observed: Observed) -> None:
    told: list[str] = []
    found = successive_halving(
        restarts(), observed, RUNGS[-1:], OPEN, torch.Generator().manual_seed(1),
        lambda line, share: told.append(line), done=0,
    )  # fmt: skip
    best = min(found, key=lambda s: s.risk)
    assert told[0].endswith(f"best risk {best.risk:.2g} by {best.structure.names(LIBRARY)}")


def test_where_nothing_is_admissible_the_best_fits_go_on_and_say_so(observed: Observed) -> None:
    told: list[str] = []
    field, generator = restarts(), torch.Generator().manual_seed(1)
    found = successive_halving(
        field,
        observed,
        RUNGS[-1:],
        CLOSED,
        generator,
        lambda line, share: told.append(line),
        done=0,
    )
    assert told == ["8 restarts, horizon 16: fails the checks everywhere"]
    # The numbers of the field are those of the end: the same sample judges all of them again.
    generator = torch.Generator().manual_seed(1)
    for _ in range(RUNGS[-1].steps):
        torch.randperm(len(observed), generator=generator)
    risk, _ = evaluate(field, observed, RUNGS[-1], CLOSED, generator)
    assert [s.risk for s in found] == sorted(risk)[:2]
    assert not any(s.check_report.passed for s in found)


def test_what_all_coordinates_lose_of_the_observations_counts_against_none() -> None:
    """A nuisance of its own is lost by the true state, too; a fold loses more."""
    true, fold = (CollapseReport(1.0, 2.0, 0.6, loss, ()) for loss in (0.5, 0.8))
    still = CollapseReport(1.0, 2.0, 0.0, 0.1, ("within",))
    found = beyond_least([true, fold, still], 0.25)
    assert [one.reasons for one in found] == [(), ("neighbor",), ("within",)]
    assert all(one.passed for one in beyond_least([true, fold], 0.4))


def test_restarts_are_judged_on_as_many_trajectories_as_asked(observed: Observed) -> None:
    field, round_ = restarts(3), RUNGS[0]
    risk, _ = evaluate(field, observed, round_, OPEN, torch.Generator().manual_seed(2), 5)
    rows = torch.randperm(len(observed), generator=torch.Generator().manual_seed(2))[:5]
    fit, _ = field.fit(observed, rows, ladder(round_.horizon), round_.stride)
    assert risk == pytest.approx(fit.risk.tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("horizon", "expected"), [(40, [10, 20, 40]), (8, [2, 4, 8]), (1, [2, 3, 4]), (5, [2, 3, 5])]
)
def test_horizons_are_a_short_a_middle_and_the_full_one(horizon: int, expected: list[int]) -> None:
    assert ladder(horizon) == expected


def test_each_restart_has_gradients_of_at_most_unit_length() -> None:
    a, b = torch.zeros(3, 2, requires_grad=True), torch.zeros(3, 1, 2, requires_grad=True)
    a.grad = torch.tensor([[3.0, 0.0], [0.3, 0.0], [math.nan, 1.0]])
    b.grad = torch.tensor([[[0.0, 4.0]], [[0.0, 0.4]], [[1.0, 1.0]]])
    clip_gradients([a, b, torch.zeros(3, 2, requires_grad=True)])
    torch.testing.assert_close(a.grad[:2], torch.tensor([[0.6, 0.0], [0.3, 0.0]]))
    torch.testing.assert_close(b.grad[:2], torch.tensor([[[0.0, 0.8]], [[0.0, 0.4]]]))
    assert not a.grad[2].any() and not b.grad[2].any()  # a broken restart stands still
