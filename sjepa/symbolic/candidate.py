"""One law on a front, with its scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sjepa.errors import FormatError, SjepaError
from sjepa.symbolic.law import Law


if TYPE_CHECKING:
    from sjepa.symbolic.library import Library


@dataclass(frozen=True)
class Candidate:
    """One law on a front: its complexity and its loss.

    Attributes
    ----------
    loss : float
        Mean over the outputs of the squared error, each in units of its target's variance.
    losses : tuple of float
        The same for each output.
    certified : bool
        Whether the backend proved that no law of lower complexity in its library fits as well.
    backend : str
        Name of the backend that found it.
    evidence : float, optional
        Score in nats relative to the chosen law, which has 0: log likelihood less code length.
        None if the law was not compared.
    standard_error : float, optional
        Of the evidence, from how the likelihood varies between parts of the data.

    Examples
    --------
    >>> Candidate.score(Law.from_string("-0.5*x", ["x"]), [0.01]).terms
    1.0
    """

    law: Law
    loss: float
    terms: float
    tree: float
    losses: tuple[float, ...] = ()
    certified: bool = False
    backend: str = ""
    evidence: float | None = None
    standard_error: float | None = None

    @classmethod
    def score(
        cls,
        law: Law,
        losses: Sequence[float],
        library: Library | None = None,
        certified: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> Candidate:
        """Measure a law's complexities and attach its losses.

        `library` and `weights` are those of the search; see :meth:`Law.complexity`.
        """
        return cls(
            law,
            float(np.mean(losses)),
            law.complexity("terms", library),
            law.complexity("tree", weights=weights),
            tuple(float(v) for v in losses),
            certified,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :meth:`from_dict` reads back; the law travels as text."""
        return {**vars(self), "law": self.law.to_dict(), "losses": list(self.losses)}

    @classmethod
    def from_dict(cls, data: Any, row: int) -> Candidate:
        """Checking every part of it; `row` is where it stands on its front."""
        try:
            losses = tuple(_number(v) for v in data["losses"])
            loss, terms, tree = (_number(data[key]) for key in ("loss", "terms", "tree"))
            law = Law.from_dict(data["law"])
            given = [data.get(key) for key in ("evidence", "standard_error")]
            return cls(
                law, loss, terms, tree, losses, data["certified"] is True,
                str(data.get("backend", "")), *(None if v is None else _number(v) for v in given),
            )  # fmt: skip
        except (SjepaError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:80]
            raise FormatError(f"Row {row} of its front cannot be read ({reason}).") from None


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} is no number")
    return float(value)
