"""Penalties on the correction and on the law."""

import pytest
import torch
from torch import nn

from sjepa.training.losses import correction_penalty, smooth_complexity


def test_the_correction_penalty_is_energy_per_coordinate_plus_parameter_norm() -> None:
    c = torch.randn(3, 5, 2, dtype=torch.float64)
    network = nn.Linear(2, 2).double()
    norm = sum((p**2).sum() for p in network.parameters())
    expected = (c**2).sum(-1).mean() / 2 + 0.01 * norm
    value = correction_penalty(c, network.parameters(), tau=0.01)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(correction_penalty(c), (c**2).mean())


def test_the_correction_penalty_skips_padding() -> None:
    c = torch.randn(4, 5, 2)
    mask = torch.arange(5).expand(4, 5) < 3
    torch.testing.assert_close(correction_penalty(c, mask=mask), correction_penalty(c[:, :3]))


def test_smooth_complexity_tends_to_the_weighted_sum_of_magnitudes() -> None:
    alpha = torch.tensor([[1.0, 0.0], [-0.5, 2.0], [0.0, 0.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    exact = 0.5 * 1.0 + 1.0 * 2.5
    # Each of the six entries adds at most w sqrt(xi).
    assert smooth_complexity(alpha, weights).item() == pytest.approx(exact, abs=7.0 * 1e-4)
    assert smooth_complexity(alpha, weights, xi=1e-20).item() == pytest.approx(exact, abs=1e-8)


def test_smooth_complexity_has_a_finite_gradient_at_zero_and_scores_restarts_apart() -> None:
    alpha = torch.zeros(4, 3, 2, requires_grad=True)
    value = smooth_complexity(alpha, torch.ones(3))
    assert value.shape == (4,)
    value.sum().backward()
    assert alpha.grad is not None and alpha.grad.isfinite().all()
