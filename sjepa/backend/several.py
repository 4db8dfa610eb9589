"""Several backends as one: they share the time, and their fronts are merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sjepa.backend.base import Backend
from sjepa.backend.problem import Budget, Problem
from sjepa.errors import ConfigError, SjepaError
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.law import Law


@dataclass(frozen=True)
class Several(Backend):
    """Asks backends one after the other; each is started from what those before it found.

    Every backend gets an equal share of the time that is left. Laws that several find are listed
    once, under the name of the first; one that fails is a note, unless all of them fail.
    """

    members: tuple[Backend, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ConfigError("A list of backends needs at least one.", "backend")
        set_ = object.__setattr__  # what a class says of itself, here depends on the members
        set_(self, "name", "+".join(b.name for b in self.members))
        set_(self, "trees", any(b.trees for b in self.members))
        set_(self, "proves", any(b.proves for b in self.members))
        set_(self, "constrains", all(b.constrains for b in self.members))
        set_(self, "owns_structure", any(b.owns_structure for b in self.members))

    def prepare(self) -> None:
        for backend in self.members:
            backend.prepare()

    def search(self, problem: Problem) -> Front:
        end, count = problem.deadline(), len(self.members)
        found: dict[Law, Candidate] = {}
        notes: list[str] = []
        failures: list[SjepaError] = []
        warm = problem.warm
        for i, backend in enumerate(self.members):
            budget = problem.budget
            if budget.seconds is not None:
                left = max(end - problem.clock(), 1e-3)
                budget = Budget(left / (count - i), budget.iterations)

            def report(line: str, share: float, i: int = i) -> None:
                problem.report(line, (i + share) / count)

            part = problem.with_(
                budget=budget, warm=warm, progress=None if problem.progress is None else report
            )
            try:
                front = part.solve(backend)
            except SjepaError as error:
                failures.append(error)
                notes.append(str(error))
                continue
            notes += [f"{backend.name}: {note}" for note in front.notes]
            for c in front:
                first = found.setdefault(c.law, c)
                found[c.law] = replace(first, certified=first.certified or c.certified)
            seeds = [*(problem.warm or ()), *found.values()]
            warm = Front.of(seeds, problem.measure, self.name)
        if len(failures) == count:
            raise failures[0]
        return Front.of(found.values(), problem.measure, self.name, notes)
