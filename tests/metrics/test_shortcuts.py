"""Conserved and folded coordinates: invited, named, refused, and not what the search returns."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, simulate
from sjepa.metrics import CollapseChecks, diagnose_latents, diagnose_law, probe_r2
from sjepa.metrics.shortcuts import max_information_loss, narrowest
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget, joint_search
from tests.training.joint.shortcut_data import (
    conserved_data,
    folded_data,
    pendulum_states,
    vicreg_coordinates,
)


CASES = {
    "conserved": (
        conserved_data, "within", "conserved-quantity collapse",
        ["z1", "z2", "sin(z1)", "sin(z2)"], {"z2; sin(z1)", "sin(z2); z1"},
    ),
    "folded": (
        folded_data, "neighbor", "folding", ["1", "z1", "z2", "z1*z2"], {"z2; z1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_vicreg_terms_alone_end_in_the_shortcut_and_the_search_does_not(case: str) -> None:
    make, gate, name, terms, structures = CASES[case]
    data = make()
    x, states = np.stack(data.x), np.stack(data.state)
    z = vicreg_coordinates(data)
    spread = np.linalg.eigvalsh(np.cov(z.reshape(-1, 2).T))
    assert spread.min() > 0.8  # the variance and covariance terms are satisfied
    assert probe_r2(z, states, z, states).train < 0.1
    assert gate in CollapseChecks().check(z, x).reasons
    findings = diagnose_latents(z, x)
    assert [f.name for f in findings] == [name]

    result = joint_search(
        data, Library.from_terms(terms, ["z1", "z2"]), 2,
        budget=SearchBudget(structures=12, finalists=4, refinement=60, rollout=15),
    )  # fmt: skip
    found = result.encode(torch.tensor(x))
    assert probe_r2(found, states, found, states).train > 0.99
    assert result.verdict.adequate is not False
    names = "; ".join(" + ".join(str(t) for _, t in row) for row in result.law.terms)
    assert names in structures


@pytest.fixture(scope="module")
def pendulum() -> Trajectories:
    s = pendulum_states(40)
    q, p = s[..., 0], s[..., 1]
    x = np.stack([q, p, np.sin(2 * q), q * p, p**2], axis=-1)
    return Trajectories(list(x), 0.07, state=list(s))


def warped(s: np.ndarray) -> np.ndarray:
    return s + 0.1 * s[..., ::-1] ** 2


def energy(s: np.ndarray) -> np.ndarray:
    e = s[..., 1] ** 2 / 2 - np.cos(s[..., 0])
    return np.stack([e, (e - e.mean()) ** 2], axis=-1) / e.std()


def folded(s: np.ndarray) -> np.ndarray:
    return np.stack([s[..., 0] ** 2 - s[..., 1] ** 2, 2 * s[..., 0] * s[..., 1]], axis=-1)


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        (lambda s: s, None),
        (warped, None),
        (lambda s: 0.65 + 1e-3 * s, "constant collapse"),
        (lambda s: s[..., :1] * [1.0, 2.0], "dimensional collapse"),
        (energy, "conserved-quantity collapse"),
        (folded, "folding"),
    ],
)
def test_every_shortcut_has_its_name(
    pendulum: Trajectories, encoder: Callable[[np.ndarray], np.ndarray], name: str | None
) -> None:
    findings = diagnose_latents(encoder(np.stack(pendulum.state)), np.stack(pendulum.x))
    assert [f.name for f in findings][:1] == ([] if name is None else [name])
    for finding in findings:
        assert str(finding).startswith(name or "") and len(finding.sentence) > 60
        below = finding.name != "folding"
        assert (finding.value < finding.threshold) == below


def test_laws_have_their_own_diagnoses() -> None:
    assert not diagnose_law(0.01, 0.02, correction_share=0.1)
    underfit, absorbed = diagnose_law(0.1, 0.02, 0.001, correction_share=0.9)
    assert underfit.name == "under-fit law" and "0.001" in underfit.sentence
    assert absorbed.name == "correction absorbing the law" and "90%" in absorbed.sentence


def test_one_constant_coordinate_is_a_collapse() -> None:
    rng = np.random.default_rng(0)
    z = np.stack([rng.normal(size=(6, 50)), np.full((6, 50), 3.0)], axis=-1)
    assert "variance" in CollapseChecks(within=0.0).check(z, z).reasons
    moving = rng.normal(size=(6, 50, 2))
    assert "variance" not in CollapseChecks(within=0.0).check(moving, moving).reasons


def test_a_coordinate_that_moves_by_rounding_alone_is_constant() -> None:
    still = 1e6 + 1e-6 * np.random.default_rng(0).normal(size=200)
    rows = np.stack([np.linspace(0.0, 1.0, 200), still], axis=1)
    assert narrowest(rows) == 0.0
    assert narrowest(rows - rows[0]) > 0.5  # the same motion around 0 is one


def test_observations_are_compared_as_many_steps_later_as_asked() -> None:
    # What is seen is the coordinate two steps before, and the coordinate is white noise.
    z = np.random.default_rng(0).normal(size=(8, 60, 1))
    seen = np.roll(z, 2, axis=1)
    seen[:, :2] = 0.0
    assert CollapseChecks(ahead=0) == CollapseChecks()
    reports = [CollapseChecks(ahead=ahead).check(z, seen) for ahead in (0, 1, 2)]
    assert ["neighbor" in report.reasons for report in reports] == [True, True, False]


def test_the_narrowest_direction_is_that_of_the_correlations() -> None:
    """For two coordinates the eigenvalues are one plus and minus their correlation."""
    a, b = np.random.default_rng(0).normal(size=(2, 500))
    rows = np.stack([a, 1e3 * (0.6 * a + 0.8 * b) + 7], axis=1)
    assert narrowest(rows) == pytest.approx(1 - np.corrcoef(rows.T)[0, 1], abs=1e-12)
    assert narrowest(rows[:, [0, 0]]) == pytest.approx(0, abs=1e-12)


def test_a_phase_without_the_distance_from_the_cycle_forgets_far_more_than_the_states() -> None:
    """It passes every check by itself, and has the law of a linear oscillator."""
    data = simulate("van_der_pol", seed=0, trajectories=30, points=100)
    states = np.stack(data.x)
    angle = np.arctan2(states[..., 1], states[..., 0])
    phase = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    whole, lossy = (CollapseChecks().check(z, states) for z in (states, phase))
    assert whole.passed and lossy.passed
    limit = max_information_loss([whole, lossy])
    assert whole.neighbor <= limit < lossy.neighbor
    assert max_information_loss([lossy]) > lossy.neighbor  # alone there is nothing to compare with
