"""The penalty on the correction."""

import torch
from torch import nn

from sjepa.training.losses import correction_penalty


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
