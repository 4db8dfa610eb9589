"""A small run of the alternating search, as a file and a list of options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


OPTIONS = {
    "cycles": 2,
    "warm_epochs": 6,
    "dynamics_epochs": 4,
    "space_epochs": 4,
    "validate_every": 2,
    "batch": 128,
    "horizon": 5,
}


def oscillators(count: int = 10, points: int = 40, mixed: bool = True) -> pd.DataFrame:
    """Rotations at speed 1.3 with irregular times, plain or seen through a 6-dimensional map."""
    rng = np.random.default_rng(0)
    mix = np.random.default_rng(5).normal(size=(2, 6))
    tables = []
    for run in range(count):
        t = np.cumsum(rng.uniform(0.03, 0.07, points))
        radius, phase = rng.uniform(0.5, 1.5), rng.uniform(0, 6)
        state = radius * np.stack([np.cos(1.3 * t + phase), -np.sin(1.3 * t + phase)], axis=1)
        x = np.tanh(0.7 * state @ mix) if mixed else state
        names = [f"c{i}" for i in range(6)] if mixed else ["q", "p"]
        tables.append(pd.DataFrame({"run": run, "t": t} | dict(zip(names, x.T, strict=True))))
    return pd.concat(tables, ignore_index=True)


def arguments(data: Path, out: Path) -> list[str]:
    given = [f"--set=search.{name}={value}" for name, value in OPTIONS.items()]
    return [
        "fit",
        str(data),
        "--id=run",
        "--search=alternating",
        "--library=1,z1,z2,sin(z1)",
        *given,
        f"--out={out}",
    ]
