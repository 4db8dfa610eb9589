"""Alternating training on two processes under torchrun beside training on one: law and losses.

    OMP_NUM_THREADS=1 python -m benchmarks.ranks

The run is that of the tests: nine trajectories through twelve sensors, two cycles, gloo.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.training.alternating.test_ranks import _fit


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (one,) = _fit(Path(folder) / "one", 1)
        first, second = _fit(Path(folder) / "two", 2)
    here, there = (np.array(one_run["history"]["value"]) for one_run in (one, first))
    apart = np.abs(here - there) / np.maximum(np.abs(here), 1e-12)
    print("; ".join(one["law"]), "; same law", first["law"] == second["law"] == one["law"])
    encoded = np.abs(np.array(one["encoded"]) - np.array(first["encoded"])).max()
    print(
        f"{len(here)} losses and metrics at most {apart.max():.1e} apart (relative), "
        f"latents {encoded:.1e}"
    )


if __name__ == "__main__":
    main()
