"""Polynomial libraries: the subspace first, then the coordinates that make the law sparse."""

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, simulate
from sjepa.metrics import probe_r2
from sjepa.symbolic import Law, Library
from sjepa.training.joint import SearchBudget, joint_search
from sjepa.training.joint.gauge import Gauge, GaugeMoves, term_shares
from sjepa.training.joint.subspace import Subspace, closed_under_affine_maps


XYZ = ["z1", "z2", "z3"]
QUADRATIC = Library.polynomial(XYZ, 2)
LORENZ = Law.from_string(
    ["10.0*z2 - 10.0*z1", "28.0*z1 - 1.0*z2 - 40.0*z1*z3", "40.0*z1*z2 - 2.6667*z3"], XYZ
)


def test_only_complete_sets_of_monomials_are_closed() -> None:
    assert closed_under_affine_maps(QUADRATIC, 3)
    assert closed_under_affine_maps(Library.polynomial(XYZ, 3), 3)
    assert not closed_under_affine_maps(Library.polynomial(XYZ, 2, bias=False), 3)
    assert not closed_under_affine_maps(Library.paper(["z1", "z2"]), 2)
    masked = QUADRATIC.with_mask({"z1": ["z2"]})
    assert not closed_under_affine_maps(masked, 3)


def gauge_of_lorenz(basis: torch.Tensor, offset: torch.Tensor) -> tuple[GaugeMoves, Gauge]:
    """Lorenz in other coordinates, on points spread like its attractor."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    law = torch.tensor(QUADRATIC.coefficients(LORENZ))
    space = Subspace(torch.eye(3, dtype=torch.float64), law, 0.0)
    moves = GaugeMoves(space, points, QUADRATIC)
    shares, _ = term_shares(moves.features, moves.z, moves.velocity, basis[None], offset[None])
    return moves, Gauge(basis, offset, shares[0])


def test_moves_lead_from_another_seven_term_law_to_lorenz_own() -> None:
    """With y - x for y and a shifted z the law also has seven terms, one of them a constant."""
    basis = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    offset = torch.tensor([0.0, 0.0, -27.0 / 40.0]).double()
    moves, start = gauge_of_lorenz(basis, offset)
    assert moves.score(start)[:2] == (7, True)
    best = moves.improve(start)
    assert moves.score(best) == (7, False, 9.0)
    own = tuple(tuple(np.flatnonzero(c).tolist()) for c in QUADRATIC.coefficients(LORENZ).T)
    assert moves._key(best) == moves.symmetry.representative(own)


def test_a_change_of_gauge_and_back_changes_nothing() -> None:
    moves, _ = gauge_of_lorenz(torch.eye(3).double(), torch.zeros(3).double())
    _, law = term_shares(
        moves.features, moves.z, moves.velocity,
        torch.eye(3).double()[None], torch.zeros(1, 3).double(),
    )  # fmt: skip
    # A ridge of 1e-12 on scaled columns.
    np.testing.assert_allclose(law[0], QUADRATIC.coefficients(LORENZ), atol=1e-6)


def test_predator_and_prey_are_found_behind_nonlinear_channels() -> None:
    states = simulate("lotka_volterra", seed=0, trajectories=12, points=160)
    mix = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]

    def observe(s: np.ndarray) -> np.ndarray:
        x, y = s.T
        return np.stack([x, y, np.sqrt(x), np.tanh(y), np.cos(x)], axis=1) @ mix

    data = Trajectories([observe(s) for s in states.x], states.t, state=states.x)
    result = joint_search(
        data, Library.polynomial(["z1", "z2"], 2), 2,
        budget=SearchBudget(effort=0.4, refinement=60, rollout=15, grow=False),
    )  # fmt: skip
    truth = np.concatenate(states.x)
    z = np.concatenate([result.encode(torch.tensor(x)).numpy() for x in data.x])
    assert probe_r2(z, truth, z, truth).train > 0.999
    assert sum(len(row) for row in result.law.terms) == 4
    assert result.best.candidate.terms == pytest.approx(6.0)
    assert result.verdict.adequate


def test_numbers_are_those_of_all_samples_where_long_horizons_leave_some_out() -> None:
    """Lorenz's states over horizons of 300 samples, of which every fifth is integrated."""
    data = simulate("lorenz", seed=3, trajectories=8, points=500)
    given = Trajectories(data.x, data.t)
    budget = SearchBudget(horizon=300, rollout=0, grow=False, effort=0.5)
    result = joint_search(given, QUADRATIC, 3, budget=budget)
    rates = sorted(float(c) for row in result.law.terms for c, t in row if len(t.free_symbols) == 1)
    assert result.residual < 1e-6
    assert any(abs(rate + 8 / 3) < 0.01 for rate in rates), rates
