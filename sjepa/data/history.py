"""Several successive observations as one: what a single one does not show."""

from __future__ import annotations

import numpy as np

from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


def with_history(trajectories: Trajectories, k: int) -> Trajectories:
    """Observations ``(k, *obs)`` that hold the last k, oldest first; each trajectory loses k - 1.

    Two frames show a velocity. The new arrays are views of the old ones and need no memory.
    """
    if k < 1:
        raise DataError(f"a history needs at least 1 observation, got {k}.")
    if (shortest := int(trajectories.lengths.min())) < k + 1:
        raise DataError(
            f"a history of {k} does not fit into a trajectory of {shortest} observations."
        )
    x = [
        # Writeable only because torch asks for it; nothing here writes into observations.
        np.moveaxis(np.lib.stride_tricks.sliding_window_view(a, k, 0, writeable=True), -1, 1)
        for a in trajectories.x
    ]

    def late(series: list[np.ndarray] | None) -> list[np.ndarray] | None:
        return None if series is None else [a[k - 1 :] for a in series]

    return Trajectories(
        x, [a[k - 1 :] for a in trajectories.t], late(trajectories.u),
        state=late(trajectories.state), action_names=trajectories.action_names,
    )  # fmt: skip
