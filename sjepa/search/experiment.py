"""Where to measure next: starts from which laws that the data cannot tell apart part ways."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import qmc

from sjepa.errors import LawError
from sjepa.symbolic import Law
from sjepa.symbolic.law import TIME
from sjepa.symbolic.law_methods import order_of
from sjepa.symbolic.verdict import Verdict


# Starts that are simulated, steps of each, and the largest difference that counts, in units of
# noise: a law that diverges is told apart, and how far it goes says nothing more.
STARTS, STEPS, CAP = 256, 400, 100.0


def next_experiment(
    verdict: Verdict,
    n: int = 3,
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> pd.DataFrame:
    """The starts, and constant inputs, at which the rivals differ most from the chosen law.

    Each further start is the one that adds most to what tells the hardest rival apart.
    """
    law, domain = verdict.law, verdict.domain
    if not verdict.rivals or domain is None:
        raise LawError("There is no rival to tell apart: the verdict names none.")
    names = law.inputs
    low, high = np.array(domain.low), np.array(domain.high)
    for name, (least, most) in (bounds or {}).items():
        if name not in names:
            raise LawError(f"bounds names {name!r}; the law takes {', '.join(names)}.")
        low[names.index(name)], high[names.index(name)] = least, most
    points = qmc.scale(
        qmc.Sobol(len(names), seed=0).random(STARTS), low, np.maximum(high, low + 1e-300)
    )
    noise = np.array(domain.noise)
    own = _paths(law, points, domain.duration)
    gaps = [
        np.minimum(np.abs(_paths(r.law, points, domain.duration) - own) / noise, CAP)
        for r in verdict.rivals
    ]
    # What one experiment is worth in nats, for each rival: half the squares of all its samples.
    worth = np.stack([0.5 * domain.samples * (g**2).sum(axis=2).mean(axis=0) for g in gaps])
    chosen: list[int] = []
    for _ in range(n):
        total = worth[:, chosen].sum(axis=1, keepdims=True) + worth
        total[:, chosen] = -np.inf
        chosen.append(int(np.argmax(total.min(axis=0))))
    table = pd.DataFrame(points[chosen], columns=list(names))
    table["separation"] = [float(min(np.sqrt((g[:, i] ** 2).mean()) for g in gaps)) for i in chosen]
    return table


def _paths(law: Law, points: np.ndarray, duration: float) -> np.ndarray:
    """States (STEPS + 1, rows, d) from starts with constant inputs, by the classic method.

    Time continues from where it starts.
    """
    size = order_of(law) * len(law.outputs)
    f, z, rest = law.numpy(), points[:, :size].copy(), points[:, size:]
    h, d = duration / STEPS, len(law.outputs)
    clock = np.array([name == TIME for name in law.inputs[size:]])

    def velocity(z: np.ndarray, time: float) -> np.ndarray:
        change = f(np.concatenate([z, rest + time * clock], axis=1))
        return change if size == d else np.concatenate([z[:, d:], change], axis=1)

    path = [z[:, :d]]
    with np.errstate(all="ignore"):
        for time in h * np.arange(STEPS):
            if law.dynamics == "discrete":
                z = velocity(z, time)
            else:
                a = velocity(z, time)
                b = velocity(z + h / 2 * a, time + h / 2)
                c = velocity(z + h / 2 * b, time + h / 2)
                z = z + h / 6 * (a + 2 * b + 2 * c + velocity(z + h * c, time + h))
            z = np.clip(np.nan_to_num(z, nan=1e100), -1e100, 1e100)
            path.append(z[:, :d])
    return np.stack(path)
