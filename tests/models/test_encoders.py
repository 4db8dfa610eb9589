"""Encoders: shapes and the factory."""

from itertools import product

import pytest
import torch
from torch import nn

from sjepa.errors import ConfigError, DataError
from sjepa.models import ENCODERS, Whitening, make_encoder
from sjepa.models.encoders import LinearEncoder, ResidualEncoder


OBSERVATIONS = {
    "linear": (5,),
    "mlp": (3, 4),
    "residual": (5,),
    "cnn": (2, 9, 7),
    "identity": (2,),
}


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return make_encoder(name, OBSERVATIONS[name], 2).double()


def test_the_table_of_observations_above_covers_every_encoder() -> None:
    assert OBSERVATIONS.keys() == ENCODERS.keys()


@pytest.mark.parametrize(
    ("name", "lead"), list(product(OBSERVATIONS, [(6,), (3, 6), (2, 3, 6), (0, 6)]))
)
def test_any_leading_shape_gives_the_same_as_one_flat_batch(name: str, lead: tuple) -> None:
    encoder = build(name)
    x = torch.randn(*lead, *OBSERVATIONS[name], dtype=torch.float64)
    z = encoder(x)
    assert z.shape == (*lead, 2)
    one_by_one = [encoder(series) for series in x.reshape(-1, 6, *OBSERVATIONS[name])]
    if one_by_one:
        torch.testing.assert_close(z.reshape(-1, 6, 2), torch.stack(one_by_one))


def test_residual_starts_as_its_linear_part_and_can_leave_it() -> None:
    linear = LinearEncoder(5, 2)
    encoder = ResidualEncoder(5, 2, linear=linear)
    x = torch.randn(4, 5)
    assert torch.equal(encoder(x), linear(x))
    encoder(x).square().sum().backward()
    last = list(encoder.residual.parameters())[-2]
    assert last.grad is not None and last.grad.abs().sum() > 0


def test_frames_without_channels_are_one_channel() -> None:
    plain, explicit = make_encoder("cnn", (9, 7), 2), make_encoder("cnn", (1, 9, 7), 2)
    explicit.load_state_dict(plain.state_dict())
    frames = torch.randn(3, 4, 9, 7)
    torch.testing.assert_close(plain(frames), explicit(frames.unsqueeze(2)))
    # Each frame on its own: what the others show changes nothing.
    others = frames.clone()
    others[:, 1:] = 0.0
    torch.testing.assert_close(plain(others)[:, 0], plain(frames)[:, 0])


def test_a_module_is_taken_as_it_is() -> None:
    module = nn.Linear(3, 2)
    assert make_encoder(module, 3, 2) is module


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_encoder("linaer", 3, 2), "Did you mean 'linear'"),
        (lambda: make_encoder("mlp", 3, 2, widht=8), "widht"),
        (lambda: make_encoder("identity", 3, 2), "latent_dim=3"),
        (lambda: make_encoder("cnn", 3, 2), "'mlp'"),
        (lambda: make_encoder(nn.Linear(3, 2), 3, 2, width=8), "width"),
        (lambda: make_encoder("mlp", (3, 0), 2), "positive"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(call, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_observations_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(\.\.\., 5\), got \(2, 4\)"):
        make_encoder("linear", 5, 2)(torch.zeros(2, 4))


def test_whitening_gives_uncorrelated_unit_variance_components() -> None:
    rng = torch.Generator().manual_seed(0)
    mixing = torch.randn(3, 12, generator=rng, dtype=torch.float64)
    x = 5.0 + torch.randn(4, 500, 3, generator=rng, dtype=torch.float64) @ mixing
    whitening = Whitening.fit(x, obs_shape=12)
    assert whitening.rank == 3
    white = whitening(x).flatten(0, 1)
    torch.testing.assert_close(
        white.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(white.T @ white / 2000, torch.eye(3, dtype=torch.float64))


def test_whitening_keeps_the_fewest_components_that_explain_enough() -> None:
    # Orthogonal columns with exact variances 90, 9, 1: shares 0.90, 0.99, 1.00.
    basis = torch.linalg.qr(torch.randn(200, 4, dtype=torch.float64)).Q
    basis = torch.linalg.qr(basis - basis.mean(0)).Q[:, :3]
    x = basis * (200 * torch.tensor([90.0, 9.0, 1.0], dtype=torch.float64)).sqrt()
    ranks = {e: Whitening.fit(x, 3, explained=e).rank for e in (0.5, 0.95, 0.98, 0.995)}
    assert ranks == {0.5: 1, 0.95: 2, 0.98: 2, 0.995: 3}
    assert Whitening.fit(x, 3, rank=2).rank == 2


def test_many_observed_values_give_the_same_components_as_few() -> None:
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(300, 5, generator=rng, dtype=torch.float64)
    x = scores @ torch.randn(5, 1500, generator=rng, dtype=torch.float64)
    x += 1e-4 * torch.randn(x.shape, generator=rng, dtype=torch.float64)
    whitening = Whitening.fit(x.reshape(300, 30, 50), (30, 50))
    left = torch.linalg.svd(x - x.mean(0), full_matrices=False).U[:, :5]
    white = whitening(x.reshape(300, 30, 50))
    assert whitening.rank == 5
    # Same subspace: projecting the whitened data on the exact one loses nothing.
    torch.testing.assert_close(left @ (left.T @ white), white, atol=1e-6, rtol=0)


def test_whitening_goes_in_front_of_an_encoder_and_through_a_state_dict() -> None:
    x = torch.randn(50, 6) @ torch.randn(6, 6)
    whitening = Whitening.fit(x, 6, rank=4)
    encoder = nn.Sequential(whitening, make_encoder("linear", whitening.rank, 2))
    fresh = nn.Sequential(Whitening(6, 4), make_encoder("linear", 4, 2))
    fresh.load_state_dict(encoder.state_dict())
    assert torch.equal(fresh(x), encoder(x))
    assert not any(p.requires_grad for p in whitening.parameters())


@pytest.mark.parametrize("bad", [torch.ones(5, 3), torch.full((5, 3), torch.nan)])
def test_whitening_refuses_constant_or_missing_observations(bad: torch.Tensor) -> None:
    with pytest.raises(DataError, match="Whitening needs"):
        Whitening.fit(bad, 3)
