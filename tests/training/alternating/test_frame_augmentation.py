"""The invariance term takes any augmentation, not only noise."""

import torch

from benchmarks.paper.conditions import EXPERIMENT_1
from sjepa.data import FrameAugmentation, TrajectoryBatch
from sjepa.training.alternating import TrainingConfig
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import TrainingData

from .conftest import make_model


def terms(train: TrajectoryBatch, augmentation: object) -> float:
    settings = TrainingConfig(horizon=5, augmentation=augmentation)  # type: ignore[arg-type]
    objective = Objective(make_model(), EXPERIMENT_1["warm_start"], settings)
    chunk = TrainingData.of(train).chunk(slice(0, 4), 0, 3)
    return float(objective(chunk, torch.Generator().manual_seed(0)).representation.detach())


def test_noise_by_a_function_is_noise_by_its_strength(train: TrajectoryBatch) -> None:
    assert terms(train, FrameAugmentation(noise=0.012)) == terms(train, 0.012)
    assert terms(train, lambda x, generator: x + 0.5) != terms(train, 0.012)
