from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa.report import ReportData, collect


# Whatever a file could contain, in every place where its text is shown.
EVIL = (
    '"></svg></style><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">&amp;'
)


def pendulum(count: int = 3) -> sjepa.Trajectories:
    """A damped linear pendulum in closed form."""
    t = np.arange(0, 12, 0.05)
    states = []
    for k in range(count):
        a, w, phase = 0.4 + 0.3 * k, 1.3, 1.1 * k
        q = a * np.exp(-0.1 * t) * np.cos(w * t + phase)
        p = a * np.exp(-0.1 * t) * (-0.1 * np.cos(w * t + phase) - w * np.sin(w * t + phase))
        states.append(np.stack([q, p], axis=1))
    return sjepa.Trajectories(states, t, names=["q", "p"])


@pytest.fixture(scope="session")
def front() -> sjepa.Front:
    return sjepa.discover(pendulum())


@pytest.fixture(scope="session")
def evil(front: sjepa.Front) -> ReportData:
    """A report in which every free text is an attack."""
    nasty = sjepa.Front(front.candidates, front.measure, EVIL, (EVIL,))
    made = collect(nasty, pendulum(), title=EVIL, recipe=[EVIL])
    history = pd.DataFrame({"step": [1, 2, 3], EVIL: [3.0, 2.0, 1.0]})
    return ReportData(
        made.title, made.law, nasty, (EVIL,), made.trails, made.names, made.score, history,
        {EVIL: EVIL, **made.facts}, made.recipe,
    )  # fmt: skip
