"""Γ by the paper's definition."""

import numpy as np
import pytest
import torch

import sjepa
from sjepa.models import Correction, Transition
from sjepa.symbolic import Law


def test_gamma_is_omega_and_the_energy_of_the_correction() -> None:
    law = Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"])
    torch.manual_seed(0)
    network = Correction(2, width=8).double()
    states = np.random.default_rng(0).normal(size=(50, 2))
    got = sjepa.operator_complexity(
        Transition.of(law, "rk4", network), states, lambda_c=0.5, tau=0.1
    )
    c = network(torch.as_tensor(states)).detach().numpy()
    weights = sum(float((p.detach() ** 2).sum()) for p in network.parameters())
    assert got.value == pytest.approx(3.0 + 0.5 * ((c**2).sum(1).mean() + 0.1 * weights))
