"""The target encoder follows slowly and never learns on its own."""

import copy

import pytest
import torch
from torch import nn

from sjepa.errors import ConfigError
from sjepa.models import EMATarget
from sjepa.training.losses import LatentNoise


def test_the_target_is_the_exponential_average_of_all_past_encoders() -> None:
    encoder = nn.Linear(1, 1, bias=False).double()
    weights = [1.0, 4.0, -2.0, 0.5]
    encoder.weight.data.fill_(weights[0])
    target = EMATarget(encoder, decay=0.9)
    for weight in weights[1:]:
        encoder.weight.data.fill_(weight)
        target.update(encoder)
    n = len(weights) - 1
    closed_form = 0.9**n * weights[0] + sum(
        0.1 * 0.9 ** (n - k) * weights[k] for k in range(1, n + 1)
    )
    assert target.encoder.weight.item() == pytest.approx(closed_form, rel=1e-12)


def test_no_gradient_reaches_the_target_and_the_encoder_keeps_its_own() -> None:
    encoder = nn.Linear(3, 2)
    target = EMATarget(encoder)
    assert not target(torch.randn(4, 3, requires_grad=True)).requires_grad
    assert not any(p.requires_grad for p in target.parameters())
    assert all(p.requires_grad for p in encoder.parameters())


def test_a_frozen_encoder_can_be_followed() -> None:
    encoder = nn.Linear(3, 2).requires_grad_(False)
    target = EMATarget(encoder)
    target.update(encoder)
    assert torch.equal(target.encoder.weight, encoder.weight)


def test_buffers_are_copied_not_averaged() -> None:
    encoder = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    target = EMATarget(encoder)
    encoder(torch.randn(8, 3))
    target.update(encoder)
    assert torch.equal(target.encoder[1].running_mean, encoder[1].running_mean)
    assert target.encoder[1].num_batches_tracked == 1


def test_the_target_stays_in_evaluation_mode() -> None:
    target = EMATarget(nn.Sequential(nn.Linear(3, 2), LatentNoise(1.0)))
    target.train()
    x = torch.randn(4, 3)
    assert torch.equal(target(x), target(x))


def test_state_goes_through_a_state_dict_and_a_copy() -> None:
    encoder = nn.Linear(3, 2)
    model = nn.ModuleDict({"encoder": encoder, "target": EMATarget(encoder, decay=0.5)})
    encoder.weight.data.add_(1.0)
    model["target"].update(encoder)
    other = nn.ModuleDict({"encoder": nn.Linear(3, 2), "target": EMATarget(nn.Linear(3, 2))})
    other.load_state_dict(model.state_dict())
    x = torch.randn(5, 3)
    assert torch.equal(other["target"](x), model["target"](x))
    assert torch.equal(copy.deepcopy(model)["target"](x), model["target"](x))
    assert len(model.state_dict()) == 4  # two tensors each; the encoder is not saved twice


def test_a_decay_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"between 0 and 1, got 1\.5"):
        EMATarget(nn.Linear(1, 1), decay=1.5)
