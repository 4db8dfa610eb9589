from __future__ import annotations

from dataclasses import replace

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
    data = pendulum()
    data.ids = (EVIL, "b", "c")
    made = collect(nasty, data, title=EVIL, recipe=[EVIL])
    history = pd.DataFrame({"step": [1, 2, 3], EVIL: [3.0, 2.0, 1.0]})
    return replace(made, notes=(EVIL,), history=history, facts={EVIL: EVIL, **made.facts})


@pytest.fixture(scope="session")
def recorded() -> tuple[sjepa.SJEPA, sjepa.Trajectories]:
    """Videos of a spot on a line, and a model whose coordinate is the place of the spot."""
    t = np.arange(0, 12, 0.1)
    places = [a * np.exp(-0.1 * t) * np.cos(1.3 * t + b) for a, b in ((1.0, 0.0), (0.7, 1.0))]
    pixels = np.linspace(-1.5, 1.5, 24)
    row = np.exp(-((pixels[None, :] - np.stack(places)[..., None]) ** 2) / 0.05)
    videos = sjepa.Trajectories(list(np.repeat(row[:, :, None, :], 12, axis=2)), t)
    model = sjepa.SJEPA(encoder=sjepa.ReadOut(_place_of_spot, "none"), order=2).fit(videos)
    return model, videos


def _place_of_spot(frames: np.ndarray) -> np.ndarray:
    weights = np.asarray(frames).sum(axis=1)
    return (weights * np.linspace(-1.5, 1.5, 24)).sum(axis=1, keepdims=True) / weights.sum(
        axis=1, keepdims=True
    )
