"""One-step and rollout losses against plain loops, and what they promise about gradients."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from sjepa.errors import ConfigError, DataError
from sjepa.training.losses import DISCREPANCIES, one_step_loss, rollout_loss, squared, variance_of


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_one_step_loss_is_the_mean_squared_error() -> None:
    predicted, target = randn(0, 4, 6, 3), randn(1, 4, 6, 3)
    expected = torch.nn.functional.mse_loss(predicted, target)
    torch.testing.assert_close(one_step_loss(predicted, target), expected)


def test_the_cosine_discrepancy_ignores_lengths_and_ranges_from_zero_to_two() -> None:
    a = randn(0, 5, 3)
    for other, value in [(2.0 * a, 0.0), (-0.1 * a, 2.0)]:
        loss = one_step_loss(a, other, discrepancy="cosine")
        torch.testing.assert_close(loss, torch.tensor(value, dtype=torch.float64))


def test_cosine_and_variance_by_hand_on_trajectories() -> None:
    predicted, target = randn(0, 4, 6, 3), randn(1, 4, 6, 3)
    angles = [
        1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        for a, b in zip(predicted.reshape(-1, 3), target.reshape(-1, 3), strict=True)
    ]
    loss = one_step_loss(predicted, target, discrepancy="cosine").item()
    assert loss == pytest.approx(sum(angles) / 24)
    by_numpy = target.numpy().reshape(-1, 3).var(axis=0)
    assert variance_of(target).tolist() == pytest.approx((by_numpy + 1e-6).tolist(), rel=1e-12)
    # Where nothing varies only the floor is left: an error of 0.1 counts 0.01 / 1e-6.
    still = torch.ones(2, 5, 3, dtype=torch.float64)
    assert one_step_loss(still + 0.1, still, scale=variance_of(still)).item() == pytest.approx(1e4)


@pytest.mark.parametrize("name", DISCREPANCIES)
def test_no_gradient_reaches_the_target(name: str) -> None:
    predicted, target = randn(0, 2, 4, 3).requires_grad_(), randn(1, 2, 4, 3).requires_grad_()
    loss = one_step_loss(predicted, target, discrepancy=name)
    (loss + rollout_loss(predicted, target, discrepancy=name)).backward()
    assert target.grad is None
    assert predicted.grad is not None and predicted.grad.abs().sum() > 0


def test_the_rollout_loss_is_the_weighted_sum_over_steps() -> None:
    predicted, target, weights = randn(0, 3, 5, 4, 2), randn(1, 3, 5, 4, 2), randn(2, 4).abs()
    naive = sum(
        weights[h] * (predicted[..., h, :] - target[..., h, :]).square().mean() for h in range(4)
    )
    torch.testing.assert_close(rollout_loss(predicted, target, weights=weights), naive)
    # Uniform weights 1/K: a horizon of one is the one-step loss, and so is any other on average.
    expected = one_step_loss(predicted, target)
    torch.testing.assert_close(rollout_loss(predicted, target), expected)


def test_padding_contributes_nothing_even_if_it_is_not_a_number() -> None:
    predicted, target = randn(0, 6, 4, 2), randn(1, 6, 4, 2)
    mask = torch.ones(6, 4, dtype=torch.bool)
    mask[3:, 2:] = False
    expected = one_step_loss(predicted[mask], target[mask])
    per_step = [one_step_loss(predicted[mask[:, h], h], target[mask[:, h], h]) for h in range(4)]
    target[~mask] = torch.nan
    torch.testing.assert_close(one_step_loss(predicted, target, mask=mask), expected)
    torch.testing.assert_close(rollout_loss(predicted, target, mask=mask), sum(per_step) / 4)


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), scales=st.lists(st.floats(1e-2, 1e2), min_size=3, max_size=3))
def test_the_divided_loss_ignores_the_scale_of_every_coordinate(seed: int, scales: list) -> None:
    z, predicted = randn(seed, 32, 3), randn(seed + 1, 32, 3)
    s = torch.tensor(scales, dtype=torch.float64)
    before = one_step_loss(predicted, z, scale=variance_of(z, floor=0.0))
    after = one_step_loss(s * predicted, s * z, scale=variance_of(s * z, floor=0.0))
    torch.testing.assert_close(after, before, rtol=1e-10, atol=0.0)


def test_the_divided_loss_gives_no_reason_to_shrink() -> None:
    z, velocity = randn(0, 64, 2), randn(1, 64, 2)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    moved = scale * z
    error = squared(moved + 0.1 * scale * velocity, moved, variance_of(moved, floor=0.0)).mean()
    (gradient,) = torch.autograd.grad(error, scale)
    assert abs(gradient.item()) < 1e-12


def test_motionless_latents_give_a_finite_divided_loss() -> None:
    z = torch.ones(10, 2, requires_grad=True)
    loss = one_step_loss(z, z, scale=variance_of(z))
    loss.backward()
    assert loss == 0 and z.grad is not None and z.grad.isfinite().all()


def test_wrong_settings_are_refused() -> None:
    z = torch.zeros(2, 3, 2)
    with pytest.raises(ConfigError, match="Known: cosine, squared"):
        one_step_loss(z, z, discrepancy="l1")
    with pytest.raises(ConfigError, match="no scale"):
        one_step_loss(z, z, discrepancy="cosine", scale=torch.ones(2))
    with pytest.raises(DataError, match="as many weights"):
        rollout_loss(z, z, weights=torch.ones(4))
