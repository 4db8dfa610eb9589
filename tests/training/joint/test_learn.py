"""When a backend's own structures start the search of coordinates a second time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sjepa.backend import Backend, Problem
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.training.joint import learn
from sjepa.training.joint.refinement import linear_head
from sjepa.training.libraries import coordinate_grammar
from sjepa.training.searches import Joint
from sjepa_backends.stlsq import STLSQ


def rotation() -> Trajectories:
    t = np.arange(0.0, 6.0, 0.05)
    return Trajectories([np.stack([np.cos(t), -np.sin(t)], axis=1)], 0.05)


def answer() -> Any:
    """What a search of a rotation returns."""
    encoder = nn.Sequential(nn.Identity(), linear_head(torch.eye(2).double()))
    return SimpleNamespace(
        encoder=encoder, law=Law.from_string(["z2", "-z1"], ["z1", "z2"]), front=None, notes=(),
        warnings=[], report=None, figures={}, rivals=(), verdict=None,
    )  # fmt: skip


class Trees(Backend):
    """A backend that writes one law, with a grammar one that no library holds."""

    name = "trees"
    trees = True

    def search(self, problem: Problem) -> Front:
        law = ["z2", "-z1"] if problem.grammar is None else ["z2", "-1.3*tanh(z1)"]
        return problem.front([Law.from_string(law, problem.names, problem.outputs)], self.name)


@pytest.mark.parametrize(
    ("backend", "searches"),
    [("stlsq", 1), ({"name": "stlsq"}, 1), (STLSQ, 1), (STLSQ(), 1), ("subset", 2)],
)
def test_searches_again_only_for_a_backend_that_owns_the_structure(
    backend: Any, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[str]] = []

    def search(trajectories: Trajectories, library: Library, *_: Any, **settings: Any) -> Any:
        given.append([s.names(library) for s in settings["structures"]])
        return answer()

    monkeypatch.setattr(learn, "joint_search", search)
    learn.fit_joint(
        rotation(), Library.paper(["z1", "z2"]), 2, 1, "auto", backend, 0,
        RunRecorder(), Joint(),
    )  # fmt: skip
    assert len(given) == searches
    assert given[0] == []
    assert all("z2; z1" in names for names in given[1:])


@pytest.mark.parametrize("grammar", [coordinate_grammar(["z1", "z2"], 2, 1), None])
def test_trees_add_to_the_library_of_the_second_search_unless_a_library_was_given(
    grammar: Grammar | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Library, Any]] = []

    def search(trajectories: Trajectories, library: Library, *_: Any, **settings: Any) -> Any:
        asked.append((library, settings))
        return answer()

    monkeypatch.setattr(learn, "joint_search", search)
    learn.fit_joint(
        rotation(), Library.paper(["z1", "z2"]), 2, 1, "auto", Trees(), 0, RunRecorder(), Joint(),
        grammar=grammar,
    )  # fmt: skip
    (_, first), (library, second) = asked
    assert first["budget"].grow is (grammar is None) and second["budget"].grow
    assert ("tanh(z1)" in library.names) is (grammar is not None)
    assert len(second["begun"]) == (0 if grammar is None else 1)
    wanted = "z2; z1" if grammar is None else "z2; tanh(z1)"
    assert wanted in [s.names(library) for s in second["structures"]]


def test_the_law_of_an_angle_takes_no_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "angle_of", lambda *_: object())
    with pytest.raises(ConfigError, match="circular coordinate") as refusal:
        learn.fit_joint(
            rotation(), Library.paper(["z1"]), 1, 2, "auto", Trees(), 0, RunRecorder(), Joint()
        )
    assert refusal.value.argument == "backend"
