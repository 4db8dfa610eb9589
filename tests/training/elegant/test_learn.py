"""When a backend's own structures start the search of coordinates a second time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import nn

from sjepa.data import Trajectories
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Law, Library
from sjepa.training.elegant import learn
from sjepa_backends.stlsq import STLSQ


@pytest.mark.parametrize(
    ("backend", "searches"),
    [("stlsq", 1), ({"name": "stlsq"}, 1), (STLSQ, 1), (STLSQ(), 1), ("subset", 2)],
)
def test_searches_again_only_for_a_backend_that_owns_the_structure(
    backend: Any, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = np.arange(0.0, 6.0, 0.05)
    states = np.stack([np.cos(t), -np.sin(t)], axis=1)
    given: list[list[str]] = []

    def search(trajectories: Trajectories, library: Library, *_: Any, **settings: Any) -> Any:
        given.append([s.names(library) for s in settings["structures"]])
        law = Law.from_string(["z2", "-z1"], ["z1", "z2"])
        return SimpleNamespace(
            encoder=nn.Identity(), law=law, front=None, notes=(), doubts=[], report=None,
            figures={}, rivals=(),
        )  # fmt: skip

    monkeypatch.setattr(learn, "elegant_search", search)
    learn.learn_elegant(
        Trajectories([states], 0.05), Library.paper(["z1", "z2"]), 2, 1, "auto", backend, 0,
        RunRecorder(),
    )  # fmt: skip
    assert len(given) == searches
    assert given[0] == []
    assert all("z2; z1" in names for names in given[1:])
