"""Laws from anywhere: a person, a model or a script that takes part in a search.

What comes is text. It is parsed and never executed, and what cannot be read becomes a note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sympy

from sjepa.errors import ConfigError, LawError, SjepaError
from sjepa.settings import texts_of
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.known import read_equations, whole_front, with_known
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.parse import parse
from sjepa.symbolic.refit import refit
from sjepa.symbolic.snap import loosened
from sjepa.symbolic.term_templates import TermTemplate


if TYPE_CHECKING:
    from sjepa.backend.problem import Problem


# Notes on texts that cannot be read; a script that never writes a law would fill pages with them.
MAX_NOTES = 10

Propose = Callable[[Front], Sequence[str]]
Guess = str | Law | Sequence[str]


def guesses_of(given: Any) -> Sequence[Guess]:
    """Laws to start from, as a caller gives them."""
    if isinstance(given, str | Law) or not isinstance(given, Sequence):
        example = "laws such as [\"q' = p; p' = -sin(q)\"]"
        raise ConfigError(f"guesses is a list of {example}, got {given!r:.60}.", "guesses")
    return given


@dataclass(eq=False)
class Proposals:
    """Laws that were proposed for inputs and outputs, less a `known` part, and who is asked for
    more after every round."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    dynamics: Dynamics
    propose: Propose | None = None
    known: Law | None = None
    laws: dict[Law, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    kinds: set[sympy.Expr] = field(default_factory=set)  # of their terms, whatever the numbers

    def __post_init__(self) -> None:
        if self.propose is not None and not callable(self.propose):
            raise ConfigError(
                f"propose is a function of a front that returns texts, got {self.propose!r:.60}.",
                "propose",
            )

    def guess(self, guesses: Sequence[Guess]) -> None:
        """Laws to start from; each has all equations."""
        for guess in guesses_of(guesses):
            try:
                self._add(guess, None)
            except SjepaError as error:
                raise ConfigError(f"guesses: {_short(guess)}: {error}", "guesses") from None

    def started(self, problem: Problem) -> Problem:
        """The problem with the guesses to start from, as far as it has rows to score them on."""
        rows = [c for law in self.laws for c in self.scored(problem, law)]
        if not rows:
            return problem
        rows = [replace(c, backend="guess") for c in rows]
        return problem.with_(warm=Front.of([*(problem.warm or ()), *rows], problem.measure))

    def scored(self, problem: Problem, law: Law) -> list[Candidate]:
        """The law as it is and with its numbers fitted, where the problem can score it."""
        if problem.inputs is not None and problem.targets is not None:
            fitted = refit(
                loosened(law), problem.inputs, problem.targets, problem.weights
            ).canonical()
            return [problem.candidate(law), problem.candidate(fitted)]
        return [problem.candidate(law)] if problem.candidate_library.covers(law) else []

    def ask(self, front: Front) -> list[Law]:
        """All laws proposed so far, after what this front, of the rest, is answered with."""
        if self.propose is not None:
            try:
                texts: Any = self.propose(whole_front(front, self.known))
            except Exception as error:  # theirs, which should not cost what was found
                self._note(f"propose failed with {type(error).__name__}: {error}")
                texts = []
            if isinstance(texts, str) or not isinstance(texts, Sequence):
                self._note(f"propose returns a list of equations, got {texts!r:.60}")
                texts = []
            for text in texts:
                try:
                    self._add(text, front.best() if len(front) else None)
                except SjepaError as error:
                    self._note(f"proposed {_short(text)}: {error}")
        return list(self.laws)

    def refuse(self, law: Law, why: str) -> None:
        """Take a law out, and say why."""
        self.laws.pop(law, None)
        self._note(f"proposed {_short(with_known(self.known, law))}: {why}")

    def _add(self, given: Guess, best: Law | None) -> None:
        """Equations that a text leaves out are those of the best law."""
        if isinstance(given, Law) and given.dynamics != self.dynamics:
            raise LawError(f"it is a {given.dynamics} law")
        if not isinstance(given, str | Law):
            given = texts_of(given, "a law", 'equations such as ["q\' = p", "p\' = -sin(q)"]')
        texts: Guess = given
        if not isinstance(given, str | Law) and not any("=" in text for text in given):
            if len(given) != len(self.outputs):
                raise LawError(f"there are equations for {', '.join(self.outputs)}")
            texts = [f"{o} = {text}" for o, text in zip(self.outputs, given, strict=True)]
        rows = read_equations(texts, self.outputs, "propose")
        if not rows:
            raise LawError("it has no equation")
        written: dict[str, sympy.Expr] = {o: parse(t, self.inputs) for o, t in rows.items()}
        if best is None and (left := [o for o in self.outputs if o not in written]):
            raise LawError(f"there is no equation for {left[0]}")
        whole = Law(
            [written.get(o, sympy.S.Zero) for o in self.outputs], self.inputs, self.outputs,
            self.dynamics,
        )  # fmt: skip
        rest = dict(zip(self.outputs, with_known(self.known, whole, -1).expressions, strict=True))
        if best is not None:
            own = dict(zip(best.outputs, best.expressions, strict=True))
            rest |= {o: own[o] for o in self.outputs if o not in written}
        law = Law([rest[o] for o in self.outputs], self.inputs, self.outputs, self.dynamics)
        self.laws.setdefault(law)
        self.kinds |= {kind_of(term) for row in law.terms for _, term in row}

    def _note(self, line: str) -> None:
        line = " ".join(line.split())[:300]
        if line not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(line)


def kind_of(term: sympy.Expr) -> sympy.Expr:
    """The term with one symbol for each number inside it."""
    names = sorted(str(s) for s in term.free_symbols) or ["x"]
    free = loosened(Law([term], names, ["y"], canonical=False)).expressions[0]
    return TermTemplate.of(free.as_coeff_Mul()[1], names)[0].expr


def _short(given: Guess) -> str:
    return f"{given if isinstance(given, str) else '; '.join(map(str, _texts(given)))!s:.80}"


def _texts(given: Guess) -> Sequence[Any]:
    if isinstance(given, Law):
        return given.lines(digits=3)
    return given if isinstance(given, Sequence) else [given]
