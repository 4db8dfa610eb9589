"""Starts, survivors, longer and shorter structures, and what counts as noise."""

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.models import Whitening
from sjepa.symbolic import Library
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.context import prepare
from sjepa.training.joint.finalists import refined_encoders
from sjepa.training.joint.initial_subspaces import (
    linear_modes,
    slowest_subspaces,
    starting_readouts,
)
from sjepa.training.joint.refinement import (
    StructureTask,
    linear_head,
    noise_floor,
    scale_is_free,
    unit_scale,
)
from sjepa.training.joint.structure_moves import proposals, reductions
from sjepa.training.joint.structures import Structure, structure
from sjepa.training.joint.successive_halving import Survivor, promote
from sjepa.training.joint.whitened_trajectories import Observed
from sjepa.training.whitening import fit_whitening
from tests.training.joint.shortcut_data import oscillator_states, pendulum_states


LIBRARY = Library.paper(["z1", "z2"])


def white(x: np.ndarray, step: float = 0.07) -> Observed:
    data = Trajectories(list(x), step)
    return Observed.of(data, fit_whitening(data))


def test_the_slowest_mode_is_the_motion_and_the_next_its_harmonic() -> None:
    s = oscillator_states()
    q, p = s[..., 0], s[..., 1]
    observed = white(np.stack([q**2 - p**2, p, 2 * q * p, q], axis=-1))
    modes = linear_modes(observed)
    # Quadrature of fourth order on steps of 0.07.
    assert [m.frequency for m in modes] == pytest.approx([1.0, 2.0], rel=1e-3)
    plane = observed.x.flatten(0, 1) @ slowest_subspaces(modes, 2)[0]
    residual = torch.linalg.lstsq(plane, torch.tensor(s.reshape(-1, 2))).residuals
    assert float(residual.sum()) < 1e-6 * s.size
    starts = starting_readouts(modes, 4, 2, 8, torch.Generator().manual_seed(0))
    torch.testing.assert_close(starts.norm(dim=1), torch.ones(8, 2).double())


def test_conserved_quantities_are_no_starts() -> None:
    s = pendulum_states(40)
    q, p = s[..., 0], s[..., 1]
    energy = p**2 / 2 - np.cos(q)
    modes = linear_modes(white(np.stack([q, p, energy], axis=-1)))
    assert [m.basis.shape[1] for m in modes] == [2]


def test_components_that_are_noise_are_left_out() -> None:
    rng = np.random.default_rng(0)
    s = pendulum_states(20)
    x = np.concatenate([s, 0.3 * rng.normal(size=(*s.shape[:2], 3))], axis=-1)
    assert fit_whitening(Trajectories(list(x), 0.07)).rank == 2
    assert fit_whitening(Trajectories(list(x), 0.07), rank=4).rank == 4


def pendulum_task(support: tuple[tuple[int, ...], ...]) -> tuple[StructureTask, Observed]:
    s = pendulum_states(30)
    data = Trajectories(list(s), 0.07)
    plain = Whitening(2, 2).double()  # the identity: observations are the state
    task = StructureTask(LIBRARY, structure(LIBRARY, support), 1, (5, 20, 40))
    return task, Observed.of(data, plain)


def test_a_law_that_is_too_long_is_shortened_to_the_pendulum() -> None:
    task, observed = pendulum_task(((1, 2), (1, 3)))
    found = list(reductions(linear_head(torch.eye(2).double()), task, observed, 20, 4))
    # Either superfluous z1 may go first.
    assert len(found) == 2 and found[-1][1].structure.names(LIBRARY) == "z2; sin(z1)"


def test_a_law_that_is_too_short_is_lengthened_by_the_exact_search() -> None:
    task, observed = pendulum_task(((2,), (1,)))
    found = proposals(linear_head(torch.eye(2).double()), task, observed)
    assert "z2; sin(z1)" in [s.names(LIBRARY) for s in found]


def test_a_scale_is_free_outside_functions_only() -> None:
    task, observed = pendulum_task(((2,), (3,)))
    assert not scale_is_free(LIBRARY, task.structure, "z1")
    assert scale_is_free(LIBRARY, task.structure, "z2")
    head = linear_head(torch.diag(torch.tensor([1.0, 7.0])).double())
    before = float(task.risk(head, observed, observed).risk)
    unit_scale(head, task, observed)
    z = head(observed.x).detach().flatten(0, 1)
    assert float(z[:, 1].std()) == pytest.approx(1.0)
    torch.testing.assert_close(z[:, 0], observed.x[..., 0].flatten())
    assert float(task.risk(head, observed, observed).risk) == pytest.approx(before, abs=1e-10)


def test_the_noise_floor_is_what_noise_leaves_of_the_exact_law() -> None:
    s = pendulum_states(60)
    noisy = s + 0.02 * np.random.default_rng(0).normal(size=s.shape)
    task, _ = pendulum_task(((2,), (3,)))
    observed = Observed.of(Trajectories(list(noisy), 0.07), Whitening(2, 2).double())
    head = linear_head(torch.eye(2).double())
    risk = float(task.risk(head, observed, observed).risk)
    # Noise inside the integrals averages out; what is left is that of the two ends.
    assert noise_floor(head, task, observed) == pytest.approx(risk, rel=0.2)


def test_survivors_are_admissible_and_not_hopeless() -> None:
    fine = CollapseReport(1.0, 2.0, 0.6, 0.01, ())
    refused = CollapseReport(1.0, 2.0, 0.6, 0.9, ("neighbor",))
    cheap, dear, folded = (Structure(((i,), (i,)), c) for i, c in enumerate((2.0, 4.0, 2.0)))
    entries = [cheap, cheap, cheap, dear, dear, folded]
    risk = [0.02, 0.03, 0.04, 0.01, 0.3, 1e-4]
    check_reports = [fine] * 5 + [refused]
    assert promote(entries, risk, check_reports, keep=10) == [3, 0, 1]
    assert promote(entries, risk, check_reports, keep=1) == [3]


def test_starts_grow_with_the_effort_and_every_survivor_of_a_structure_is_refined() -> None:
    assert [SearchBudget(effort=effort).starts for effort in (0.1, 1.0, 3.0)] == [1, 4, 12]
    s = pendulum_states(20)
    budget = SearchBudget(refinement=2, finalists=1)
    context = prepare(
        Trajectories(list(s), 0.07), LIBRARY, 2, 1, 0, budget, None, CollapseChecks(), None, None
    )
    passed = CollapseReport(1.0, 2.0, 0.6, 0.01, ())
    rotation, swing = structure(LIBRARY, ((2,), (1,))), structure(LIBRARY, ((2,), (3,)))
    survivors = [
        Survivor(own, readout, risk, passed)
        for own, readout, risk in (
            (swing, torch.eye(2).double(), 0.1),
            (rotation, torch.eye(2).double(), 0.2),
            (swing, torch.eye(2).double().flip(0), 0.3),
        )
    ]
    refined = refined_encoders(context, survivors)
    assert [task.structure for _, task in refined] == [swing, swing]
