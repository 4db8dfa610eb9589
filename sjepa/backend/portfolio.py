"""A portfolio of backends: they share the time budget, and their fronts are merged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import sympy

from sjepa.backend.base import Backend, StopNote
from sjepa.backend.problem import ROUNDING, Problem
from sjepa.backend.proposals import Proposals
from sjepa.errors import ConfigError, SjepaError
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.law import Law


# Beside trees, the most that a search of a library may take of the time: it is soon done.
LIBRARY_SHARE = 0.1
# What several tree searches share equally; the rest goes to the one that came furthest.
EQUAL_SHARE = 0.5
# Somebody who proposes laws is asked so often.
ROUNDS = 4
# Further means a loss that is lower by this share.
GAIN = 0.01
# A law that is good enough but not exact may be an imitation that is longer than the truth: it is
# believed when nothing simpler came up for this many times as long as it took to find.
PATIENCE = 2.0


@dataclass(frozen=True)
class Portfolio(Backend):
    """Asks backends one after the other; each is started from what those before it found.

    Libraries are searched first, since that is quick and can be exact; expression trees get what
    is left of the time. When all have had their turn, the one that came furthest is asked again,
    with another seed each time, until the time is spent, a law is exact, or one that is good
    enough has stood for long. Laws that several find are listed once, under the name of the
    first; one that fails is a note, unless all fail. Laws that are proposed between the turns join
    what was found, if they may be written.
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
        libraries = [b for b in self.members if not b.trees]
        trees = [b for b in self.members if b.trees]
        merged = _Merged(problem, self.name, len(self.members))
        end = problem.deadline()
        max_seconds = LIBRARY_SHARE * (end - problem.clock()) if trees else math.inf
        for i, backend in enumerate(libraries):
            merged.ask(backend, min(max_seconds, (end - problem.clock()) / (len(libraries) - i)))
        if merged.lowest <= ROUNDING:  # good enough for a library may still be short of a tree
            trees = []
        now, best = problem.clock(), None
        shared = len(trees) > 1 or problem.proposals is not None
        turns_end = now + (EQUAL_SHARE if shared else 1.0) * (end - now)
        turn = (end - now) / ROUNDS if problem.proposals is not None else math.inf
        for i, backend in enumerate(trees):
            before = merged.lowest
            left = (turns_end - problem.clock()) / (len(trees) - i)
            answered = merged.ask(backend, min(left, turn))
            if answered and (best is None or merged.lowest < (1 - GAIN) * before):
                best = backend
            if merged.lowest <= ROUNDING:
                break
        while best is not None and math.isfinite(end) and problem.clock() < end:
            if merged.settled() or not merged.ask(best, min(end - problem.clock(), turn)):
                break
        return merged.front()


def in_rounds(backend: Backend, proposals: Proposals | None) -> Backend:
    """The backend with its time in turns, where somebody proposes laws for trees to grow from."""
    asked = proposals is not None and proposals.propose is not None
    alone = backend.trees and not isinstance(backend, Portfolio)
    return Portfolio((backend,)) if asked and alone else backend


class _Merged:
    """What was found so far, by whom, and which turn it is."""

    def __init__(self, problem: Problem, name: str, turns: int) -> None:
        self.problem, self.name, self.turns = problem, name, turns
        self.turn, self.start = 0, problem.clock()
        self.simplest, self.reached = math.inf, math.inf
        self.found: dict[Law, Candidate] = {}
        self.finder: dict[tuple[sympy.Expr, ...], str] = {}
        self.notes: list[str] = []
        self.failures: list[SjepaError] = []
        self.stopped = False

    @property
    def lowest(self) -> float:
        return min((c.loss for c in self.found.values()), default=math.inf)

    def settled(self) -> bool:
        """Whether a law is exact, or the simplest that is good enough has not changed for long."""
        if self.stopped:
            return True
        if self.lowest <= ROUNDING:
            return True
        good = [c for c in self.found.values() if c.loss <= self.problem.enough]
        sizes = [getattr(c, self.problem.measure) for c in good]
        now = self.problem.clock()
        if min(sizes, default=math.inf) < self.simplest:
            self.simplest, self.reached = min(sizes), now
        return now - self.start >= (1 + PATIENCE) * (self.reached - self.start)

    def ask(self, backend: Backend, seconds: float) -> bool:
        """Whether there was an answer; after Ctrl-C nobody is asked."""
        if self.stopped:
            return False
        problem, turn, turns = self.problem, self.turn, self.turns
        self.turn += 1

        def report(line: str, share: float) -> None:
            problem.report(line, min((turn + share) / turns, 1.0))

        budget, warm = problem.budget, problem.warm
        if budget.seconds is not None:
            budget = replace(budget, seconds=max(seconds, 1e-3))
        if self.found:
            seeds = [*(problem.warm or ()), *self.found.values()]
            warm = Front.of(seeds, problem.measure, self.name)
        part = problem.with_(
            budget=budget,
            warm=warm,
            seed=problem.seed + max(0, turn + 1 - turns),  # whoever is asked again tries otherwise
            progress=None if problem.progress is None else report,
        )
        try:
            front = part.solve(backend)
        except SjepaError as error:
            self.failures.append(error)
            self.notes.append(str(error))
            return False
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.notes.append(StopNote.of(backend.name))
            self.stopped = True
            return False
        self.stopped = any(isinstance(note, StopNote) for note in front.notes)
        self.notes += [f"{backend.name}: {note}" for note in front.notes]
        for c in front:
            c = self.credited(c)
            first = self.found.setdefault(c.law, c)
            self.found[c.law] = replace(first, certified=first.certified or c.certified)
        self.take_proposals()
        return True

    def credited(self, c: Candidate) -> Candidate:
        """The law under the name of whoever found its terms first, whatever its last digits."""
        structure = c.law.with_free_terms().skeleton[0]
        return replace(c, backend=self.finder.setdefault(structure, c.backend))

    def take_proposals(self) -> None:
        """Take in what is proposed, with its numbers fitted to the rows."""
        problem = self.problem
        if problem.proposals is None or problem.inputs is None:
            return
        for law in problem.proposals.ask(self.front()):
            for c in problem.proposals.scored(problem, law):
                if problem.admits(c.law):
                    self.found.setdefault(c.law, self.credited(replace(c, backend="proposed")))

    def front(self) -> Front:
        if self.failures and not self.found:
            raise self.failures[0]
        return Front.of(self.found.values(), self.problem.measure, self.name, self.notes)
