"""The search over workers: the same numbers whoever computes them, and however many they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sjepa import SJEPA, Joint
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.metrics import CollapseChecks
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget, SearchResult, joint_search
from sjepa.training.joint.batched_encoders import Restarts
from sjepa.training.joint.structures import enumerate_structures
from sjepa.training.joint.successive_halving import HalvingRound, climb
from sjepa.training.joint.whitened_trajectories import Observed
from sjepa.training.joint.worker_pool import Pool
from sjepa.training.whitening import fit_whitening
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.from_terms(["z1", "z2", "sin(z1)", "sin(z2)"], ["z1", "z2"])
TINY = SearchBudget(
    structures=4, restarts=2, effort=0.2, finalists=2, refinement=15, rollout=3, max_terms=1,
    grow=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Trajectories:
    s = pendulum_states(16)
    q, p = s[..., 0], s[..., 1]
    x = np.stack([q, p, np.sin(2 * q), q * p, p**2, np.tanh(q + p)], axis=-1)
    return Trajectories(list(x), 0.07)


def _same(one: SearchResult, other: SearchResult) -> bool:
    states = [r.encoder.state_dict() for r in (one, other)]
    return one.law.to_json() == other.law.to_json() and all(
        torch.equal(states[0][k], states[1][k]) for k in states[0]
    )


@pytest.mark.slow
def test_the_number_of_workers_changes_no_bit(data: Trajectories) -> None:
    found = []
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as executor:
            budget = replace(TINY, executor=executor)
            found.append(joint_search(data, LIBRARY, 2, budget=budget))
    assert _same(*found)


@pytest.mark.slow
def test_neither_does_another_process(data: Trajectories) -> None:
    found = []
    for workers in (1, 2):
        budget = replace(TINY, executor="local", workers=workers)
        found.append(joint_search(data, LIBRARY, 2, budget=budget))
    assert _same(*found)


def test_parts_of_a_rung_are_the_round(data: Trajectories) -> None:
    """All parts see the same batches, and the random numbers go on as if there were none."""
    observed = Observed.of(data, fit_whitening(data, None, None))
    structures = enumerate_structures(LIBRARY, 2, 7, 1)
    generator = torch.Generator().manual_seed(0)
    readouts = torch.randn(7, observed.x.shape[-1], 2, generator=generator)
    round_ = HalvingRound(steps=6, batch=5, horizon=8, keep=3)
    found: list[tuple[Any, ...]] = []
    for pool in (Pool(), Pool("local")):
        generator = torch.Generator().manual_seed(1)
        restarts = Restarts(LIBRARY, structures, readouts)
        risk, reports = climb(restarts, observed, round_, CollapseChecks(), generator, pool)
        found.append((risk, [r.passed for r in reports], restarts.readouts, generator))
    (risk, passed, numbers, one), (risks, others, readout, two) = found
    np.testing.assert_allclose(risks, risk, rtol=1e-3)
    assert passed == others
    torch.testing.assert_close(readout, numbers, rtol=1e-3, atol=1e-4)
    assert torch.equal(one.get_state(), two.get_state())


def test_an_unknown_executor_is_refused_before_anything_is_done(data: Trajectories) -> None:
    with pytest.raises(ConfigError, match="executor is one of local, dask, ray"):
        SJEPA(search=Joint(executor="slurm")).fit(data)
