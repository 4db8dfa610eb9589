"""What is said of a chosen law: whether it is adequate, what else it could be, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sjepa.errors import FormatError, SjepaError
from sjepa.symbolic.law import Law


@dataclass(frozen=True)
class Rival:
    """Another law that the data cannot exclude; `odds` are those of the chosen law against it."""

    law: Law
    odds: float

    def __repr__(self) -> str:
        return f"{'; '.join(self.law.lines(digits=3))} (odds {self.odds:.2g})"


@dataclass(frozen=True)
class Domain:
    """Where a law was compared with data: ranges of its inputs, noise of its states, duration."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    noise: tuple[float, ...]
    duration: float
    samples: int


@dataclass(frozen=True)
class Verdict:
    """The chosen law, whether it is adequate, its alternatives, and the reasons.

    Attributes
    ----------
    law : Law
        The law of the highest evidence.
    adequate : bool or None
        Whether its residuals are noise: True, False, or None if the data do not decide.
    rivals : tuple of Rival
        Other laws within odds of 20 to 1, most likely first.
    reasons : tuple of str
        Sentences that say why, with what each test assumes.
    figures : mapping
        The numbers behind them: ``p_value``, ``correlation_time``, ...
    domain : Domain, optional
        Where the data lie, for :meth:`sjepa.Front.next_experiment`.
    """

    law: Law
    adequate: bool | None = None
    rivals: tuple[Rival, ...] = ()
    reasons: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    domain: Domain | None = None

    @property
    def word(self) -> str:
        return {True: "adequate", False: "not adequate", None: "undecided"}[self.adequate]

    def __repr__(self) -> str:
        lines = [*self.law.lines(digits=4), f"verdict: {self.word}"]
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :meth:`from_dict` reads back; laws travel as text."""
        return {
            "law": self.law.to_dict(),
            "adequate": self.adequate,
            "rivals": [{"law": r.law.to_dict(), "odds": r.odds} for r in self.rivals],
            "reasons": list(self.reasons),
            "figures": {k: v for k, v in self.figures.items() if math.isfinite(v)},
            "domain": None if self.domain is None else asdict(self.domain),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        try:
            rivals = tuple(Rival(Law.from_dict(r["law"]), float(r["odds"])) for r in data["rivals"])
            reasons, adequate = data["reasons"], data["adequate"]
            figures = {str(k): float(v) for k, v in data["figures"].items()}
            if type(adequate) not in (bool, type(None)) or not isinstance(reasons, list):
                raise ValueError("'adequate' or 'reasons'")
            if not all(isinstance(r, str) for r in reasons):
                raise ValueError("'reasons' must be texts")
            numbers = [*figures.values(), *(r.odds for r in rivals)]
            domain = data.get("domain")
            if domain is not None:
                low, high, noise = (tuple(map(float, domain[k])) for k in ("low", "high", "noise"))
                duration, samples = float(domain["duration"]), int(domain["samples"])
                numbers += [*low, *high, *noise, duration]
                domain = Domain(low, high, noise, duration, samples)
            if not all(map(math.isfinite, numbers)):
                raise ValueError("figures, odds and domain must be finite")
            law = Law.from_dict(data["law"])
            return cls(law, adequate, rivals, tuple(reasons), figures, domain)
        except (SjepaError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"Invalid verdict: {' '.join(str(error).split())[:80]}.") from None
