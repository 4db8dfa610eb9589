"""A known part of a law: read from text, taken from laws, and added to what was found beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import sympy

from sjepa.errors import ConfigError, LawError, ParseError
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.grammar import Grammar
from sjepa.symbolic.intervals import Interval
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.parse import parse, symbol
from sjepa.symbolic.term_templates import TermTemplate, nonlinear_parameters
from sjepa.symbolic.text import to_text
from sjepa.symbolic.verdict import Verdict


_LEFT = re.compile(r"\s*([^\W\d]\w*)\s*(?:'|\[t\+1\])?\s*")
Known = Law | str | Sequence[str]
Templates = list[TermTemplate] | Literal["wide"] | None


class KnownPart(NamedTuple):
    """What is fixed, an equation for each output, and terms (output, text) with free numbers."""

    law: Law
    terms: tuple[tuple[str, str], ...] = ()


def texts_of(given: Known, what: str = "known") -> list[str]:
    """The equations as texts, one or several in each."""
    if isinstance(given, Law):
        return given.lines()
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(
            f'{what} is a Law or equations such as "p\' = -sin(q)", got {given!r:.60}.', what
        )
    return list(texts)


def read_equations(given: Known, outputs: Sequence[str], what: str = "known") -> dict[str, str]:
    """The right-hand sides of some of the outputs, by their names."""
    found: dict[str, str] = {}
    for text in (
        part for t in texts_of(given, what) for part in re.split(r"[;\n]", t) if part.strip()
    ):
        left, sign, right = text.partition("=")
        if not sign and len(outputs) == 1:
            left, right = outputs[0], text
        match = _LEFT.fullmatch(left)
        if match is None or match[1] not in outputs or match[1] in found:
            raise ConfigError(
                f"{what}: {text.strip()!r:.60} is not one equation for one of "
                f"{', '.join(outputs)}; write {outputs[0]}' = ... for its derivative or "
                f"{outputs[0]} = ... for its value.", what
            )  # fmt: skip
        found[match[1]] = right
    return found


def read_known(
    given: Known | None, inputs: Sequence[str], outputs: Sequence[str], dynamics: Dynamics
) -> KnownPart | None:
    """From a law or text, which is parsed and never executed.

    Lower-case letters that are no inputs are numbers to be found: before a term its coefficient,
    inside it a nonlinear parameter.
    """
    if given is None:
        return None
    if isinstance(given, Law) and (given.dynamics != dynamics or set(given.outputs) - {*outputs}):
        raise ConfigError(
            f"known is a {given.dynamics} law of {', '.join(given.outputs)}; wanted is a "
            f"{dynamics} one of {', '.join(outputs)}.", "known"
        )  # fmt: skip
    fixed = dict.fromkeys(outputs, sympy.S.Zero)
    free: list[tuple[str, str]] = []
    seen: set[str] = set()
    for output, text in read_equations(given, outputs).items():
        letters = () if isinstance(given, Law) else nonlinear_parameters(text, inputs)
        try:
            expr = parse(text, [*inputs, *letters])
        except (LawError, ParseError) as error:
            raise ConfigError(f"known: {output}: {error}", "known") from None
        constants = {symbol(c) for c in letters}
        for part in sympy.Add.make_args(sympy.expand(expr) if letters else expr):
            own = part.free_symbols & constants
            if not own:
                fixed[output] += part
                continue
            if twice := sorted(str(c) for c in own if str(c) in seen):
                raise ConfigError(
                    f"known: {twice[0]} stands in two terms: a number to be found belongs to one; "
                    "tie coefficients by constraints.", "known"
                )  # fmt: skip
            seen |= {str(c) for c in own}
            for c in own:
                part = part if (part / c).has(c) else part / c
            free.append((output, to_text(part.as_coeff_Mul()[1])))
    return KnownPart(Law(list(fixed.values()), inputs, outputs, dynamics), tuple(free))


def with_known(known: Law | None, law: Law, sign: int = 1) -> Law:
    """The whole law of what was found beside a known part; -1 takes the part away."""
    if known is None:
        return law
    by = dict(zip(known.outputs, known.expressions, strict=True))
    rows = [e + sign * by.get(o, 0) for o, e in zip(law.outputs, law.expressions, strict=True)]
    used = {str(s) for e in known.expressions for s in e.free_symbols}
    inputs = [*law.inputs, *(n for n in known.inputs if n in used and n not in law.inputs)]
    return Law(rows, inputs, law.outputs, law.dynamics)


def with_free_terms(
    space: Library | Grammar,
    templates: Templates,
    terms: Sequence[tuple[str, str]],
    outputs: Sequence[str],
    library: bool,
    parametric: bool,
) -> tuple[Library, Templates]:
    """The space and its parametric terms with those of a known part whose numbers are free.

    Whether a `library` is searched, and `parametric` terms, depends on backend and data.
    """
    open_ = [pair for pair in terms if nonlinear_parameters(pair[1], space.inputs)]
    if not library or (open_ and (not parametric or templates == "wide")):
        raise ConfigError(
            f"known leaves a number of {(open_ or terms)[0][1]} to be found, which this search "
            "does not: give the number, or a backend that combines terms.", "known"
        )  # fmt: skip
    base = space if isinstance(space, Library) else space.library(outputs)
    base = _with_terms(base, [pair for pair in terms if pair not in open_], outputs)
    if open_ and templates != "wide":
        read = [TermTemplate.read(text, space.inputs) for _, text in open_]
        templates = [*(templates or ()), *read]
    return base, templates


def _with_terms(
    library: Library, pairs: Sequence[tuple[str, str]], outputs: Sequence[str]
) -> Library:
    """The library with further terms, each for its output only."""
    mask, terms, weights = library.mask(outputs), list(library.terms), list(library.weights)
    for output, text in pairs:
        one = Library.from_terms([text], library.inputs)
        if one.terms[0] not in terms:
            terms.append(one.terms[0])
            weights.append(float(one.weights[0]))
            mask = np.concatenate([mask, np.zeros((1, len(outputs)), dtype=bool)])
        mask = mask.copy()
        mask[terms.index(one.terms[0]), list(outputs).index(output)] = True
    return Library(terms, library.inputs, weights, mask, canonical=False)


def whole_front(
    front: Front,
    known: Law | None,
    library: Library | None = None,
    weights: Mapping[str, float] | None = None,
) -> Front:
    """The front of whole laws, whose losses are theirs already."""
    if known is None:
        return front

    def whole(c: Candidate) -> Candidate:
        law = with_known(known, c.law)
        terms = law.complexity("terms", library)
        return replace(c, law=law, terms=terms, tree=law.complexity("tree", weights=weights))

    rows = [whole(c) for c in front]
    marked = rows[front.chosen] if front.chosen is not None else None
    # Terms that gather with known ones change the order.
    kept = [
        c for c in rows if c is marked or not any(
            (front.complexity(o), o.loss) < (front.complexity(c), c.loss) and o.loss <= c.loss
            for o in rows
        )
    ]  # fmt: skip
    kept.sort(key=lambda c: (front.complexity(c), c.loss))
    verdict: Verdict | None = front.verdict
    if verdict is not None:
        rivals = tuple(replace(r, law=with_known(known, r.law)) for r in verdict.rivals)
        verdict = replace(verdict, law=with_known(known, verdict.law), rivals=rivals)
    return replace(
        front, candidates=tuple(kept), chosen=None if marked is None else kept.index(marked),
        verdict=verdict, intervals=_intervals(front.intervals, known),
    )  # fmt: skip


def _intervals(rows: Sequence[Interval], known: Law) -> tuple[Interval, ...]:
    """Those of the terms found, moved by what is known of them, and known terms as they are."""
    if not rows:
        return ()
    given = {
        (output, to_text(term)): c
        for output, pairs in zip(known.outputs, known.terms, strict=True)
        for c, term in pairs
    }
    found = []
    for row in rows:
        c = given.pop((row.output, row.term), 0.0) if row.coefficient else 0.0
        found.append(
            replace(row, coefficient=row.coefficient + c, low=row.low + c, high=row.high + c)
        )
    own = [Interval(output, term, c, c, c, 1.0) for (output, term), c in given.items()]
    return (*own, *found)
