"""Trajectories: from arrays, tables and files, from simulators, and on their way to training."""

from typing import TYPE_CHECKING

from sjepa import _lazy
from sjepa.data.derivatives import Derivatives, differentiate, second_derivatives
from sjepa.data.files import read, write
from sjepa.data.history import with_history, with_lags
from sjepa.data.noise import noise_level
from sjepa.data.synthetic.chaos import dysts_system
from sjepa.data.synthetic.pendulum import observation_map, paper_data, pendulum_field
from sjepa.data.synthetic.simulate import find_system, simulate
from sjepa.data.synthetic.systems import SYSTEMS, System
from sjepa.data.synthetic.videos import rendered
from sjepa.data.trajectories import Trajectories
from sjepa.data.video import read_video, video, write_video
from sjepa.data.weak import WeakWindows, weak_windows


if TYPE_CHECKING:
    from sjepa.data.augment import FrameAugmentation
    from sjepa.data.batches import TrajectoryBatch, Windows, windows


__all__ = [
    "SYSTEMS",
    "Derivatives",
    "FrameAugmentation",
    "System",
    "Trajectories",
    "TrajectoryBatch",
    "WeakWindows",
    "Windows",
    "differentiate",
    "dysts_system",
    "find_system",
    "noise_level",
    "observation_map",
    "paper_data",
    "pendulum_field",
    "read",
    "read_video",
    "rendered",
    "second_derivatives",
    "simulate",
    "video",
    "weak_windows",
    "windows",
    "with_history",
    "with_lags",
    "write",
    "write_video",
]

# Imported at first use: they need torch, which takes longer to import than a law to find.
__getattr__, __dir__ = _lazy(
    __name__,
    {
        "FrameAugmentation": "sjepa.data.augment:FrameAugmentation",
        "TrajectoryBatch": "sjepa.data.batches:TrajectoryBatch",
        "Windows": "sjepa.data.batches:Windows",
        "windows": "sjepa.data.batches:windows",
    },
)
