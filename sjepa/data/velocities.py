"""The velocity with which a second-order law starts.

A frame shows where things are, not how fast: the state is (z, dz/dt), and a few successive
observations are needed to begin.
"""

from __future__ import annotations

import numpy as np

from sjepa.errors import DataError


def initial_state(z: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(z, dz/dt) at the first of a few successive samples z (k, d), by a parabola through them."""
    if z.ndim != 2 or len(z) < 2 or len(t) < len(z):
        raise DataError(
            f"A second-order law starts from at least two successive observations, taken at the "
            f"first times given; got coordinates {z.shape} and {len(t)} times."
        )
    since = t[: len(z)] - t[0]
    design = np.vander(since, min(3, len(z)), increasing=True)
    fitted = np.linalg.lstsq(design, z, rcond=None)[0]
    return np.concatenate([fitted[0], fitted[1]])
