"""Selection of polynomial encoders: the best, and those that keep information the best lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sjepa.metrics.shortcuts import CollapseReport, max_information_loss
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.structures import Structure
from sjepa.training.joint.successive_halving import promote


# Further places for encoders that keep information the best ones lose.
INFORMATIVE = 4
# Losses of one structure that are closer than this are those of the same coordinates.
SAME = 1.02
# Candidates with a loss this many times the best are dropped.
CLOSE = 20.0
# Share of a search that is done when degrees are raised and laws simplified.
DEGREE_RAISED = 0.91

DIVERGING = "its rollouts diverge from the data"


@dataclass(frozen=True, eq=False)
class PolynomialCandidate:
    """A structure with the polynomial encoder that fits it best, and its loss."""

    structure: Structure
    head: PolynomialEncoder
    loss: float
    check_report: CollapseReport


def promoted(
    context: SearchContext,
    found: Sequence[PolynomialCandidate],
    keep: int,
    each: int = 1,
    share: float = DEGREE_RAISED,
) -> list[PolynomialCandidate]:
    """The best of the admissible ones; where nothing is admissible, what fits best.

    A low degree may mistake the coordinates of a structure, so `each` of them may stay twice, but
    not where both starts ended in the same place. Encoders without information loss have places
    of their own: two wells folded into one have a smaller loss as long as the degree is low.
    """
    found = distinct(found)
    if not found:
        return []
    chosen = (
        _best(found, keep, each)
        or _best(found, keep, each, ignored="neighbor")
        or sorted(found, key=lambda own: own.loss)[:keep]
    )
    others = [own for own in without_information_loss(found) if own not in chosen]
    chosen += _best(others, INFORMATIVE, each, ignored=DIVERGING)
    best = min(chosen, key=lambda own: own.loss)
    names = best.structure.names(context.library)
    line = f"{len(found)} polynomial encoders: best risk {best.loss:.2g} by {names}"
    context.report(line, share)
    return chosen


def _best(
    found: Sequence[PolynomialCandidate], keep: int, each: int, ignored: str = ""
) -> list[PolynomialCandidate]:
    """The best that pass the checks, except for what a low degree may do to any law."""
    reports = [
        replace(
            own.check_report, reasons=tuple(r for r in own.check_report.reasons if r != ignored)
        )
        for own in found
    ]
    losses = [own.loss for own in found]
    chosen = promote([own.structure for own in found], losses, reports, keep, each)
    return [found[i] for i in chosen]


def close(found: Sequence[PolynomialCandidate]) -> list[PolynomialCandidate]:
    """Candidates whose loss is close to the best."""
    lowest = min((own.loss for own in found), default=0.0)
    return [own for own in found if own.loss <= CLOSE * lowest]


def without_information_loss(found: Sequence[PolynomialCandidate]) -> list[PolynomialCandidate]:
    """Candidates that lose no more information than others that fit nearly as well."""
    near = close(found)
    max_loss = max_information_loss(own.check_report for own in near)
    return [own for own in near if own.check_report.neighbor <= max_loss]


def fittest_and_simplest(
    laws: Sequence[PolynomialCandidate], keep: int
) -> list[PolynomialCandidate]:
    """Half of them the fittest, half the simplest."""
    laws = sorted(laws, key=lambda own: own.loss)
    fittest, others = laws[: keep // 2], laws[keep // 2 :]
    return [*fittest, *sorted(others, key=lambda own: own.structure.cost)[: keep // 2]]


def distinct(found: Sequence[PolynomialCandidate]) -> list[PolynomialCandidate]:
    """Candidates without duplicates: same structure, same outcome of the checks, same loss."""
    kept: dict[tuple[Structure, bool], list[PolynomialCandidate]] = {}
    for own in sorted(found, key=lambda own: own.loss):
        alike = kept.setdefault((own.structure, own.check_report.passed), [])
        if not alike or own.loss > SAME * alike[-1].loss:
            alike.append(own)
    return [own for alike in kept.values() for own in alike]
