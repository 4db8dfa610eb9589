"""Trajectories: from arrays, tables and files, from simulators, and on their way to training."""

from typing import TYPE_CHECKING

from sjepa import _lazy
from sjepa.data.files import read, write
from sjepa.data.trajectories import Trajectories
from sjepa.data.video import read_video, video, write_video


if TYPE_CHECKING:
    from sjepa.data.augment import FrameAugmentation
    from sjepa.data.batches import TrajectoryBatch, Windows, windows
    from sjepa.data.derivatives import Derivatives, differentiate, second_derivatives
    from sjepa.data.history import with_history, with_lags
    from sjepa.data.noise import noise_level
    from sjepa.data.synthetic.pendulum import observation_map, paper_data, pendulum_field
    from sjepa.data.synthetic.simulate import find_system, simulate
    from sjepa.data.synthetic.systems import SYSTEMS, System
    from sjepa.data.synthetic.videos import rendered
    from sjepa.data.weak import WeakWindows, weak_windows


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

# Imported at first use: reading a file needs neither SciPy nor torch, which take longer to import.
__getattr__, __dir__ = _lazy(
    __name__,
    {
        "Derivatives": "sjepa.data.derivatives:Derivatives",
        "FrameAugmentation": "sjepa.data.augment:FrameAugmentation",
        "SYSTEMS": "sjepa.data.synthetic.systems:SYSTEMS",
        "System": "sjepa.data.synthetic.systems:System",
        "TrajectoryBatch": "sjepa.data.batches:TrajectoryBatch",
        "WeakWindows": "sjepa.data.weak:WeakWindows",
        "Windows": "sjepa.data.batches:Windows",
        "differentiate": "sjepa.data.derivatives:differentiate",
        "find_system": "sjepa.data.synthetic.simulate:find_system",
        "noise_level": "sjepa.data.noise:noise_level",
        "observation_map": "sjepa.data.synthetic.pendulum:observation_map",
        "paper_data": "sjepa.data.synthetic.pendulum:paper_data",
        "pendulum_field": "sjepa.data.synthetic.pendulum:pendulum_field",
        "rendered": "sjepa.data.synthetic.videos:rendered",
        "second_derivatives": "sjepa.data.derivatives:second_derivatives",
        "simulate": "sjepa.data.synthetic.simulate:simulate",
        "weak_windows": "sjepa.data.weak:weak_windows",
        "windows": "sjepa.data.batches:windows",
        "with_history": "sjepa.data.history:with_history",
        "with_lags": "sjepa.data.history:with_lags",
    },
)
