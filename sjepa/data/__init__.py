"""Trajectories: from arrays, tables and files, from simulators, and on their way to training."""

from sjepa.data._gaps import Dropped
from sjepa.data.augment import FrameAugmentation
from sjepa.data.batches import TrajectoryBatch, Windows, windows
from sjepa.data.chaos import dysts_system
from sjepa.data.derivatives import Derivatives, differentiate
from sjepa.data.files import read, write
from sjepa.data.held import held_rows, jumps
from sjepa.data.history import with_history
from sjepa.data.noise import noise_level
from sjepa.data.pendulum import observation_map, paper_data, pendulum_field
from sjepa.data.rendered import rendered
from sjepa.data.simulate import find_system, simulate
from sjepa.data.systems import SYSTEMS, System
from sjepa.data.trajectories import Trajectories
from sjepa.data.video import read_video, video, write_video
from sjepa.data.weak import WeakWindows, weak_windows


__all__ = [
    "SYSTEMS",
    "Derivatives",
    "Dropped",
    "FrameAugmentation",
    "System",
    "Trajectories",
    "TrajectoryBatch",
    "WeakWindows",
    "Windows",
    "differentiate",
    "dysts_system",
    "find_system",
    "held_rows",
    "jumps",
    "noise_level",
    "observation_map",
    "paper_data",
    "pendulum_field",
    "read",
    "read_video",
    "rendered",
    "simulate",
    "video",
    "weak_windows",
    "windows",
    "with_history",
    "write",
    "write_video",
]
