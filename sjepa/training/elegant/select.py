"""The simplest adequate candidate, as the paper defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sjepa.errors import ConfigError
from sjepa.symbolic import Front
from sjepa.symbolic.front import knee
from sjepa.training.elegant.result import Found


# Risks up to this multiple of the noise floor are not told apart.
NOISE_MULTIPLE = 1.5


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
    (the knee of the front), and never for less than noise alone would leave.
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
            f"delta = {noise:.3g}: {NOISE_MULTIPLE:g} times what noise alone would leave "
            f"({noise_floor:.2g}); the best law found leaves {best:.2g}",
        )
    return Adequacy(
        limit,
        f"delta = {limit:.3g}: nine tenths of the fall in log risk to the best law found, which "
        f"leaves {best:.2g} (noise alone would leave {noise_floor:.2g})",
    )


def front_of(found: Sequence[Found], notes: Sequence[str] = ()) -> tuple[Front, tuple[Found, ...]]:
    """The Pareto front over (complexity, validation risk), with its encoders in the same order."""
    front = Front.of([f.candidate for f in found], "terms", "elegant", notes)
    owner = {id(f.candidate): f for f in found}
    return front, tuple(owner[id(c)] for c in front)


def simplest_adequate(found: Sequence[Found], delta: float) -> tuple[Found, bool]:
    """The cheapest candidate within delta, or the one that fits best and False."""
    for one in sorted(found, key=lambda f: (f.candidate.terms, f.candidate.loss)):
        if one.candidate.loss <= delta * (1 + 1e-9):
            return one, True
    return min(found, key=lambda f: f.candidate.loss), False
