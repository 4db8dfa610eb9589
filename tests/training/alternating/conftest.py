"""Small data and models that train in milliseconds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.models import Correction, NeuralField, SparseLaw, make_encoder
from sjepa.symbolic import Library
from sjepa.training.alternating import LatentModel, TrainingConfig


LIBRARY = Library.paper(["z1", "z2"])


def oscillator(count: int, points: int = 25, seed: int = 0) -> TrajectoryBatch:
    """Rotations at unit speed, seen through a fixed 6-dimensional map; irregular steps."""
    rng = np.random.default_rng(seed)
    t = np.concatenate(
        [np.zeros((count, 1)), rng.choice([0.025, 0.04, 0.06], (count, points - 1)).cumsum(1)], 1
    )
    radius, phase = rng.uniform(0.5, 1.5, (2, count, 1))
    state = np.stack([radius * np.cos(t + phase), -radius * np.sin(t + phase)], axis=-1)
    mix = np.random.default_rng(5).normal(size=(2, 6))
    x = np.tanh(0.7 * state @ mix) + 0.001 * rng.normal(size=(count, points, 6))
    return TrajectoryBatch.make(Trajectories(list(x), list(t)))


@pytest.fixture(scope="session")
def train() -> TrajectoryBatch:
    return oscillator(24)


@pytest.fixture(scope="session")
def validation() -> TrajectoryBatch:
    return oscillator(8, seed=1)


@pytest.fixture
def settings() -> TrainingConfig:
    return TrainingConfig(horizon=5, batch=32, batching="trajectories", validate_every=1)


def make_model(seed: int = 0, integrator: str = "euler") -> LatentModel:
    torch.manual_seed(seed)
    law = SparseLaw(LIBRARY, ("z1", "z2"))
    with torch.no_grad():
        law.coefficients.copy_(0.3 * torch.randn_like(law.coefficients))
    return LatentModel(
        make_encoder("mlp", 6, 2, width=16),
        neural=NeuralField(2, width=16),
        symbolic=law,
        correction=Correction(2, width=8),
        integrator=integrator,
    )


@pytest.fixture
def model() -> LatentModel:
    return make_model()
