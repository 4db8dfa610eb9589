"""The simplest adequate candidate, as the paper defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sjepa.errors import ConfigError
from sjepa.symbolic import Front, Library
from sjepa.symbolic.front import knee
from sjepa.training.joint.result import JointCandidate
from sjepa.training.joint.structures import Support, Symmetry, without_constants


# Risks up to this multiple of the noise floor are not told apart.
NOISE_MULTIPLE = 1.5
# Rollouts from wide starts fail at FAILS times the error of the others, if it is above FAILS_FROM.
FAILS, FAILS_FROM = 10.0, 0.01


@dataclass(frozen=True)
class Adequacy:
    """The largest risk that counts as adequate, and where the number comes from."""

    delta: float
    reason: str


def adequacy(
    delta: float | str, risks: Sequence[float], noise_floor: float, top: float = 1.0
) -> Adequacy:
    """A given threshold, or one estimated from the candidates and the noise in the data.

    "auto" asks for nine tenths of the fall in log risk from no law at all to the best law found
    (the knee of the front), and never for less than the noise floor.
    """
    if delta != "auto":
        try:
            value = float(delta)
        except (TypeError, ValueError):
            raise ConfigError(f"delta is a number or 'auto', got {delta!r}.") from None
        if not value > 0:
            raise ConfigError(f"delta must be positive, got {value}.")
        return Adequacy(value, f"delta = {value:.3g} was given")
    best = max(min(risks), 1e-300)
    limit = knee(best, top)
    noise = NOISE_MULTIPLE * noise_floor
    if noise > limit:
        return Adequacy(
            noise,
            f"delta = {noise:.3g}: {NOISE_MULTIPLE:g} times the noise floor "
            f"({noise_floor:.2g}); the smallest residual found is {best:.2g}",
        )
    return Adequacy(
        limit,
        f"delta = {limit:.3g}: nine tenths of the fall in log risk to the best law found, whose "
        f"residual is {best:.2g} (noise floor {noise_floor:.2g})",
    )


def adequacy_limits(risks: Sequence[float]) -> Adequacy:
    """The limit where every law is judged by the noise in its own coordinates."""
    return Adequacy(
        max(risks),
        f"{len(risks)} laws have residuals near the noise floor of their own coordinates, "
        f"{min(risks):.2g} to {max(risks):.2g}",
    )


def front_of(
    found: Sequence[JointCandidate], notes: Sequence[str] = ()
) -> tuple[Front, tuple[JointCandidate, ...]]:
    """The Pareto front over (complexity, validation risk), with its encoders in the same order."""
    front = Front.of([f.candidate for f in found], "terms", "joint", notes)
    owner = {id(f.candidate): f for f in found}
    return front, tuple(owner[id(c)] for c in front)


def simplest_adequate(found: Sequence[JointCandidate], delta: float) -> tuple[JointCandidate, bool]:
    """The cheapest candidate within delta, or the one that fits best and False."""
    for one in sorted(found, key=lambda f: (f.candidate.terms, f.candidate.loss)):
        if one.candidate.loss <= delta * (1 + 1e-9):
            return one, True
    return min(found, key=lambda f: f.candidate.loss), False


def rivals_of(
    best: JointCandidate,
    found: Sequence[JointCandidate],
    delta: float,
    library: Library,
    actions: int = 0,
) -> tuple[JointCandidate, ...]:
    """Other laws within delta, the fittest of each structure, cheapest first.

    A law that only renames coordinates, shifts them, or adds terms to the best one is no rival.
    """
    symmetry = Symmetry(library, len(best.structure.support), actions)
    fittest: dict[Support, JointCandidate] = {}
    for one in sorted(found, key=lambda f: f.candidate.loss):
        if one.candidate.loss <= delta and not symmetry.contains(one.structure, best.structure):
            support = without_constants(library, one.structure.support)
            fittest.setdefault(symmetry.representative(support), one)
    return tuple(sorted(fittest.values(), key=lambda f: (f.candidate.terms, f.candidate.loss)))


def caveats(
    best: JointCandidate,
    rivals: Sequence[JointCandidate],
    by_start: tuple[float, float] = (0.0, 0.0),
) -> list[str]:
    """Warnings about a law that is adequate on the data at hand.

    `by_start` are its rollout losses from starts far out and from the others.
    """
    notes = []
    wide, near = by_start
    if wide > max(FAILS * near, FAILS_FROM):
        notes.append(
            f"the law fails for large amplitudes: rollouts from the outermost quarter of the "
            f"held-out starts have an error of {wide:.2g} of the variance, the others {near:.2g}. "
            "Give more trajectories from there, or offer terms that matter at large amplitudes."
        )
    if rivals:
        laws = " | ".join("; ".join(r.law.lines(digits=3)) for r in rivals[:3])
        notes.append(
            f"{len(rivals)} other law{'s are' if len(rivals) > 1 else ' is'} adequate too, in "
            "other coordinates: these data do not decide between them (rivals_). More or cleaner "
            f"data, more diverse starts, or fewer terms (library=) may. {laws}"
        )
    if not best.linear:
        notes.append(
            "the encoder is nonlinear: it and the law are valid on the training range only. "
            "A longer law may fit as well with another encoder. "
            "Compare rollouts on trajectories that were not fitted (score), and use it within the "
            "range of the data."
        )
    return notes
