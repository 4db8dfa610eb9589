"""Who owns the structure: what a user gets is what the experiment measures, seen as it happens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import sjepa
from benchmarks.paper import PROFILES, exp1
from benchmarks.paper.conditions import CONDITIONS
from sjepa.backend import Backend, Problem
from sjepa.models import SparseLaw, TreeLaw
from sjepa.symbolic import Front, Law, Library
from sjepa.training.alternating import StructurePolicy, loop


@dataclass(frozen=True)
class Rotation(Backend):
    """Always answers with a rotation, and counts how often it is asked."""

    name: ClassVar[str] = "rotation"
    trees: ClassVar[bool] = True
    asked: list[bool] = field(default_factory=list, compare=False)

    def search(self, problem: Problem) -> Front:
        self.asked.append(problem.warm is not None)
        law = Law.from_string(["0.9*z2", "-0.9*z1"], problem.names, problem.outputs)
        return problem.front([law], self.name)


class Owning(Rotation):
    trees: ClassVar[bool] = False


class Proposing(Owning):
    owns_structure: ClassVar[bool] = False


CYCLES = 2
EPOCHS = dict.fromkeys(("warm_epochs", "dynamics_epochs", "space_epochs"), 1)
TINY = replace(
    PROFILES["fast"], name="tiny", cycles=CYCLES, epochs=dict.fromkeys(CONDITIONS, 1),
    settings=PROFILES["fast"].settings.with_(batching="trajectories", batch=1024, passes=1),
)  # fmt: skip


def by_user(backend: Backend) -> None:
    t = 0.1 * np.arange(30)
    phase = np.random.default_rng(0).uniform(0, 6, (4, 1))
    x = np.stack([np.cos(t + phase), -np.sin(t + phase), np.cos(t + phase) ** 2], axis=-1)
    options: dict[str, Any] = {**EPOCHS, "cycles": CYCLES, "horizon": 3}
    model = sjepa.SJEPA(search=sjepa.Alternating(**options), backend=backend, library=Library.paper(["z1", "z2"]), random_state=0)  # fmt: skip
    model.fit(list(x), t)


def by_experiment(backend: Backend) -> None:
    run = exp1.SeedRun(7, TINY, backend)
    run._sjepa(run.fresh())


@pytest.mark.parametrize(
    ("kind", "policy", "part", "searches"),
    [
        (Rotation, StructurePolicy("tree", False, True), TreeLaw, CYCLES),
        (Owning, StructurePolicy("library", False, True), SparseLaw, CYCLES),
        (Proposing, StructurePolicy("library", True, False), SparseLaw, 1),
    ],
)
@pytest.mark.parametrize("way", [by_user, by_experiment])
@pytest.mark.filterwarnings("ignore")
def test_the_backend_says_who_owns_the_structure_in_both_ways_of_training(
    way: Any, kind: type[Rotation], policy: StructurePolicy, part: type, searches: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seen = []

    def watched(law: Law, space: Any, given: StructurePolicy) -> Any:
        made = as_part(law, space, given)
        seen.append((given, type(made)))
        return made

    as_part = loop.as_part
    monkeypatch.setattr(loop, "as_part", watched)
    backend = kind()
    way(backend)
    # Every search but the first starts from the front before it.
    assert backend.asked == [False, *[True] * (searches - 1)]
    assert set(seen) == {(policy, part)}
