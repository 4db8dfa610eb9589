"""Every representation term keeps its promise, and survives collapse."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from sjepa.errors import ConfigError, DataError
from sjepa.metrics.latents import within_shares
from sjepa.training.losses import REPRESENTATION_TERMS, LatentNoise, RepresentationLoss
from sjepa.training.losses.admissibility import admissibility, within_trajectory
from sjepa.training.losses.bottleneck import barlow_twins, predictive_information, rank, variational
from sjepa.training.losses.sigreg import sigreg
from sjepa.training.losses.vicreg import covariance, invariance, mean, variance


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whitened(z: Tensor) -> Tensor:
    """Rows with mean exactly 0 and covariance exactly I."""
    z = z - z.mean(0)
    return z @ torch.linalg.inv(torch.linalg.cholesky(z.T @ z / len(z))).T


def inputs_of(name: str, z: Tensor) -> dict[str, Tensor]:
    needs = [key for key in REPRESENTATION_TERMS[name].needs if key not in ("z", "trajectories")]
    return {key: z + 0.01 * i for i, key in enumerate(needs)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", REPRESENTATION_TERMS)
def test_value_and_gradient_are_finite_at_exact_collapse(name: str, dtype: torch.dtype) -> None:
    z = torch.full((4, 8, 3), 0.65, dtype=dtype, requires_grad=True)
    total, parts = RepresentationLoss({name: 2.0})(z, **inputs_of(name, z))
    total.backward()
    assert parts.keys() == {name}
    assert total.dtype == dtype and total.ndim == 0 and total.isfinite()
    assert z.grad is not None and z.grad.isfinite().all()


@pytest.mark.parametrize("name", REPRESENTATION_TERMS)
def test_gradients_match_finite_differences(name: str) -> None:
    # Away from the kinks of the hinges: correlated, and small enough to be outside their bounds.
    size = 0.1 if name == "admissibility" else 0.3
    z = (
        size * randn(0, 3, 6, 2) @ torch.tensor([[1.0, 0.5], [0.0, 1.0]]).double()
    ).requires_grad_()
    loss = RepresentationLoss({name: 1.0})
    assert torch.autograd.gradcheck(lambda z: loss(z, **inputs_of(name, z))[0], (z,))


@pytest.mark.parametrize(
    "name",
    [
        "variance",
        "barlow_twins",
        "predictive_information",
        "sigreg",
        "admissibility",
        "within_trajectory",
    ],
)
def test_terms_against_collapse_prefer_an_informative_representation(name: str) -> None:
    z = whitened(randn(0, 400, 2)).reshape(20, 20, 2)
    loss = RepresentationLoss({name: 1.0})
    informative = loss(z, **{k: z for k in inputs_of(name, z)})[0]
    collapsed = loss(1e-3 * z, **{k: torch.ones_like(z) for k in inputs_of(name, z)})[0]
    if name == "within_trajectory":  # scale-free: its collapse is along trajectories
        collapsed = loss(z[:, :1].expand_as(z))[0]
    assert informative < 0.6 * collapsed


def test_the_variance_term_is_zero_from_unit_scale_on_and_linear_below() -> None:
    z = whitened(randn(0, 100, 3))
    assert variance(z) == 0 and variance(3.0 * z) == 0
    torch.testing.assert_close(variance(0.4 * z, floor=0.0), torch.tensor(0.6, dtype=torch.float64))


def test_descent_on_the_variance_term_restores_a_nearly_collapsed_representation() -> None:
    z = (1e-3 * randn(0, 64, 2)).requires_grad_()
    optimizer = torch.optim.Adam([z], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        variance(z).backward()
        optimizer.step()
    assert (z.std(0, correction=0) > 0.99).all()


def test_covariance_and_mean_terms_match_numpy_style_references() -> None:
    z = randn(0, 4, 50, 3) @ randn(1, 3, 3)
    c = torch.cov(z.reshape(-1, 3).T, correction=0)
    expected = sum(c[i, j] ** 2 for i in range(3) for j in range(3) if i != j) / 3
    torch.testing.assert_close(covariance(z), expected)
    torch.testing.assert_close(mean(z), (z.mean((0, 1)) ** 2).mean())


def test_invariance_is_zero_only_for_equal_views() -> None:
    a, b = randn(0, 5, 2), randn(1, 5, 2)
    assert invariance(a, a) == 0 and invariance(a, b) > 0


@settings(deadline=None, max_examples=25)
@given(scale=st.floats(1e-1, 1e3), seed=st.integers(0, 2**31))
def test_barlow_twins_ignores_scale_and_offset_and_wants_independent_coordinates(
    scale: float, seed: int
) -> None:
    a, b = randn(seed, 64, 3), randn(seed + 1, 64, 3)
    before, after = barlow_twins(a, b), barlow_twins(scale * a + 7.0, b)
    # The floor of 1e-6 is a 1e-4 part of the smallest variance drawn.
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)
    assert barlow_twins(whitened(a), whitened(a)) < 1e-9
    copies = a[:, :1].expand(-1, 3)
    torch.testing.assert_close(
        barlow_twins(copies, copies, floor=0.0), torch.tensor(6 * 5e-3 / 3, dtype=torch.float64)
    )


def test_the_variational_rate_is_the_divergence_from_a_standard_normal() -> None:
    m, log_var = randn(0, 7, 3), randn(1, 7, 3)
    q = torch.distributions.Normal(m, (0.5 * log_var).exp())
    p = torch.distributions.Normal(torch.zeros_like(m), torch.ones_like(m))
    expected = torch.distributions.kl_divergence(q, p).sum(-1).mean()
    torch.testing.assert_close(variational(m, log_var), expected)


def test_predictive_information_matches_a_plain_loop_and_costs_log_n_at_collapse() -> None:
    p, z = randn(0, 6, 2), randn(1, 6, 2)
    loop = 0.0
    for i in range(6):
        score = torch.stack([-(p[j] - z[i]).square().mean() / 0.2 for j in range(6)])
        loop = loop - (score[i] - score.logsumexp(0)) / 6
    torch.testing.assert_close(predictive_information(p, z), loop)
    constant = torch.ones(6, 2, dtype=torch.float64)
    assert predictive_information(constant, constant).item() == pytest.approx(math.log(6))


@pytest.mark.parametrize("rho", [0.3, 0.9, 0.99])
def test_predictive_information_bounds_the_true_information_from_below(rho: float) -> None:
    a, b = randn(0, 1024, 1), randn(1, 1024, 1)
    target = rho * a + math.sqrt(1 - rho**2) * b
    true = -0.5 * math.log(1 - rho**2)  # of two Gaussians with correlation rho
    # The best critic: the conditional mean, and the conditional variance as temperature.
    bound = math.log(1024) - predictive_information(rho * a, target, temperature=1 - rho**2).item()
    assert bound <= true + 0.05  # sampling noise of 1024 rows
    assert bound >= true - 0.05


def test_the_rank_term_counts_directions_whatever_their_scale() -> None:
    z = whitened(randn(0, 200, 4))
    for used in (1, 2, 4):
        keep = torch.tensor([1.0] * used + [0.0] * (4 - used), dtype=torch.float64)
        rotated = (z * keep) @ torch.linalg.qr(randn(1, 4, 4)).Q
        assert rank(10.0 * rotated).item() == pytest.approx(used, rel=1e-6)


def test_latent_noise_perturbs_in_training_only_and_obeys_its_generator() -> None:
    noise, z = LatentNoise(0.1), randn(0, 4000, 2)
    draws = [noise(z, torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert (draws[0] - z).std().item() == pytest.approx(0.1, rel=0.05)  # 8000 draws: 1 %
    assert noise.eval()(z) is z
    with pytest.raises(ConfigError, match="negative"):
        LatentNoise(-1.0)


def test_admissibility_is_exactly_zero_inside_its_bounds_and_positive_outside() -> None:
    z = whitened(randn(0, 200, 2))
    assert admissibility(z) == 0 and admissibility(0.21 * z) == 0
    assert admissibility(0.19 * z).item() == pytest.approx(0.04 - 0.19**2)
    for sign in (1.0, -1.0):
        copies = torch.stack([z[:, 0], sign * z[:, 0]], dim=-1)
        assert admissibility(copies).item() == pytest.approx(0.5)


def epps_pulley(x: Tensor) -> Tensor:
    """Closed form of ∫ |φ_x(t) - e^{-t²/2}|² e^{-t²/2} dt for a sample x (n,)."""
    pairs = torch.exp(-0.5 * (x[:, None] - x[None, :]).square()).mean()
    cross = torch.exp(-0.25 * x.square()).mean()
    return (
        math.sqrt(2 * math.pi) * pairs - 2 * math.sqrt(math.pi) * cross + math.sqrt(2 * math.pi / 3)
    )


def test_sigreg_matches_the_closed_form_of_epps_and_pulley() -> None:
    x = randn(0, 50, 1)
    # Cutting the integral at t = 5 leaves out about e^{-12.5}.
    torch.testing.assert_close(sigreg(x), epps_pulley(x[:, 0]), atol=1e-5, rtol=0)


def test_sigreg_is_near_its_floor_for_a_gaussian_and_larger_for_anything_else() -> None:
    n = 2000
    gaussian = randn(0, n, 2)
    floor = (math.sqrt(2 * math.pi) - math.sqrt(2 * math.pi / 3)) / n
    value = sigreg(gaussian).item()
    assert value < 4 * floor
    uniform = math.sqrt(12) * (torch.rand(n, 2, generator=torch.Generator().manual_seed(0)) - 0.5)
    others = {
        "uniform of unit variance": uniform.double(),
        "half the scale": 0.5 * gaussian,
        "twice the scale": 2.0 * gaussian,
        "off center": gaussian + 0.5,
        "a line": gaussian[:, :1] * torch.ones(2) / math.sqrt(2.0),
        "a circle": math.sqrt(2.0) * gaussian / gaussian.norm(dim=1, keepdim=True),
        "collapsed": torch.zeros(n, 2, dtype=torch.float64),
    }
    for name, z in others.items():
        assert sigreg(z).item() > 3 * value, name


def test_sigreg_repeats_its_directions_unless_given_a_generator() -> None:
    z = randn(0, 100, 5)
    assert sigreg(z) == sigreg(z)
    generator = torch.Generator().manual_seed(0)
    assert sigreg(z, generator=generator) != sigreg(z, generator=generator)


def pendulum_like() -> tuple[Tensor, Tensor, Tensor]:
    """Position, velocity and energy of oscillators of different amplitude, each (30, 40)."""
    amplitude = torch.linspace(0.5, 1.5, 30, dtype=torch.float64)[:, None]
    angle = torch.linspace(0, 4 * math.pi, 41, dtype=torch.float64)[:-1]
    return amplitude * angle.cos(), amplitude * angle.sin(), (amplitude**2).expand(-1, 40)


def test_a_conserved_coordinate_is_seen_even_when_mixed_into_a_moving_one() -> None:
    q, p, energy = pendulum_like()
    honest, shortcut = torch.stack([q, p], -1), torch.stack([q, energy], -1)
    mixed = shortcut @ torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    assert within_trajectory(honest) == 0
    # One of two directions has share 0: half of the floor.
    for z in (shortcut, mixed, 100.0 * mixed - 3.0):
        assert within_trajectory(z).item() == pytest.approx(0.15, abs=1e-4)


def test_within_shares_are_the_law_of_total_variance_in_one_dimension() -> None:
    z = randn(0, 6, 9, 1) + 2.0 * randn(1, 6, 1, 1)
    expected = z.var(1, correction=0).mean() / z.var(correction=0)
    torch.testing.assert_close(within_shares(z, ridge=0.0)[0], expected)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31))
def test_within_shares_do_not_depend_on_linear_coordinates_or_on_padding(seed: int) -> None:
    z = randn(seed, 5, 8, 2) + randn(seed + 1, 5, 1, 2)
    matrix = torch.linalg.qr(randn(seed + 2, 2, 2)).Q @ torch.diag(
        torch.tensor([3.0, 0.5]).double()
    )
    shares = within_shares(z, ridge=0.0)
    assert (shares >= -1e-12).all() and (shares <= 1 + 1e-12).all()
    torch.testing.assert_close(within_shares(z @ matrix + 1.0, ridge=0.0), shares)
    padded = torch.cat([z, torch.full((5, 3, 2), torch.nan, dtype=torch.float64)], dim=1)
    mask = torch.arange(11).expand(5, 11) < 8
    torch.testing.assert_close(within_shares(padded, mask, ridge=0.0), shares)


def test_the_paper_s_combination_is_the_weighted_sum_of_its_parts() -> None:
    weights = {"invariance": 2, "variance": 3, "covariance": 0.25, "mean": 0.01}
    z, a, b = randn(0, 4, 10, 2), randn(1, 4, 10, 2), randn(2, 4, 10, 2)
    total, parts = RepresentationLoss(weights)(z, view_a=a, view_b=b)
    assert parts.keys() == weights.keys()
    torch.testing.assert_close(total, sum(weights[name] * parts[name] for name in weights))
    torch.testing.assert_close(parts["variance"], variance(z))
    torch.testing.assert_close(parts["invariance"], invariance(a, b))


def test_padding_enters_no_term() -> None:
    loss = RepresentationLoss(
        {"invariance": 1, "variance": 1, "covariance": 1, "mean": 1, "within_trajectory": 1}
    )
    z, b = randn(0, 4, 6, 2), randn(1, 4, 6, 2)
    expected = loss(z, view_a=z, view_b=b)[0]
    padding = torch.full((4, 2, 2), torch.nan, dtype=torch.float64)
    z_padded, b_padded = torch.cat([z, padding], 1), torch.cat([b, padding], 1)
    mask = (torch.arange(8) < 6).expand(4, 8)
    padded = loss(z_padded, mask=mask, view_a=z_padded, view_b=b_padded)[0]
    torch.testing.assert_close(padded, expected)


def test_a_weight_of_zero_leaves_a_term_and_its_inputs_out() -> None:
    total, parts = RepresentationLoss({"invariance": 0.0, "variance": 1.0})(randn(0, 5, 2))
    assert parts.keys() == {"variance"} and total == parts["variance"]


def test_wrong_settings_and_missing_inputs_are_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'variance'"):
        RepresentationLoss({"varience": 1.0})
    with pytest.raises(ConfigError, match="negative: mean"):
        RepresentationLoss({"mean": -1.0})
    with pytest.raises(ConfigError, match="'invariance' needs view_a and view_b"):
        RepresentationLoss({"invariance": 1.0})(torch.zeros(3, 2))
    with pytest.raises(DataError, match=r"trajectories \(\.\.\., T, d\)"):
        RepresentationLoss({"within_trajectory": 1.0})(torch.zeros(3, 2))
    with pytest.raises(DataError, match="pair up"):
        predictive_information(torch.zeros(3, 2), torch.zeros(4, 2))


def test_invariance_is_the_mean_over_all_coordinates_of_all_observations() -> None:
    a = torch.randn(2, 5, 3)
    b = a.clone()
    b[0, :, 1] += 2.0  # 5 of 30 numbers differ, each by 2
    total, _ = RepresentationLoss({"invariance": 1.0})(a, view_a=a, view_b=b)
    assert total.item() == pytest.approx(5 * 4.0 / 30)
