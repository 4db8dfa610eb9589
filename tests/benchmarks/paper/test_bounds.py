"""Lipschitz constants and the rollout bound."""

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.paper.scores import lipschitz, rollout_bound
from sjepa.models import Correction, Transition


class Linear(torch.nn.Module):
    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs @ self.matrix.T


def test_a_linear_map_has_its_largest_singular_value_everywhere() -> None:
    matrix = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    largest, typical = lipschitz(Linear(matrix), torch.randn(20, 3, dtype=torch.float64))
    expected = np.linalg.svd(matrix.numpy(), compute_uv=False)[0]
    assert largest == pytest.approx(expected)
    assert typical == pytest.approx(expected)


def test_the_estimate_for_a_hybrid_transition_matches_finite_differences() -> None:
    torch.manual_seed(0)
    matrix = torch.tensor([[0.0, 1.0, 0.0], [-1.0, -0.1, 1.0]], dtype=torch.float64)
    model = Transition(Linear(matrix), Correction(2, action_dim=1).double(), integrator="rk4")
    z, dt, u = (torch.rand(6, k, dtype=torch.float64) for k in (2, 1, 1))
    norms = []
    for i in range(6):
        h = 1e-5 * torch.eye(2, dtype=torch.float64)
        ahead, behind = (model(z[i] + s * h, dt[i], u[i]) for s in (1, -1))
        norms.append(np.linalg.norm(((ahead - behind) / 2e-5).detach().numpy(), ord=2))
    largest, typical = lipschitz(model, z, dt, u, quantile=0.5)
    assert largest == pytest.approx(max(norms), rel=1e-8)
    assert typical == pytest.approx(np.median(norms), rel=1e-8)


@pytest.mark.parametrize("L", [0.3, 1.0, 1.0 + 1e-12, 2.0])
def test_the_recursion_equals_the_closed_form(L: float) -> None:
    h = np.arange(21)
    powers = L ** np.arange(20)
    closed = L**h * 0.5 + 0.1 * np.concatenate([[0.0], np.cumsum(powers)])
    np.testing.assert_allclose(rollout_bound(L, 0.1, 20, 0.5), closed, rtol=1e-12)


def test_a_steep_map_gives_an_infinite_bound_not_a_warning() -> None:
    assert rollout_bound(1e10, 1.0, 100)[-1] == np.inf
