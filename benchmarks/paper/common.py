"""What both experiments share: data on a device, seeds, and results as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import torch

from sjepa.data import Trajectories, TrajectoryBatch, paper_data
from sjepa.symbolic import Law


EVALUATION_STEPS = 80
EVALUATION_TRAJECTORIES = 60


@dataclass(frozen=True)
class Split:
    """One split on a device, and the true states beside it for evaluation."""

    batch: TrajectoryBatch
    states: np.ndarray  # (N, T, 2)
    trajectories: Trajectories


def load(name: str, device: torch.device, dtype: torch.dtype = torch.float32) -> dict[str, Split]:
    """The four splits of an experiment."""
    return {
        key: Split(
            TrajectoryBatch.make(part, device=device, dtype=dtype), np.stack(part.state or []), part
        )
        for key, part in paper_data(name).items()
    }


@dataclass
class Result:
    """What one condition with one seed leaves behind. Plain data, so that it can be sent."""

    condition: str
    seed: int
    metrics: dict[str, float]
    law: str | None = None  # the law's JSON
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)


def generator(device: torch.device, seed: int, condition: str) -> torch.Generator:
    """Random numbers that depend on the seed and the condition, not on the order of the runs."""
    return torch.Generator(device).manual_seed(seed * 1_000_003 + crc32(condition.encode()))


def law_metrics(law: Law | None, library: Any = None) -> dict[str, float]:
    """Both complexities of a law."""
    if law is None:
        return {}
    return {
        "omega_terms": law.complexity("terms", library),
        "omega_tree": law.complexity("tree"),
    }
