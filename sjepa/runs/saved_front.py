"""A Pareto front as plain data; laws travel as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sjepa.errors import FormatError, SjepaError
from sjepa.symbolic import Candidate, Front, Law


MOST_LAWS = 10_000


def front_to_plain(front: Front) -> dict[str, Any]:
    """What :func:`front_from_plain` reads back to an equal front."""
    return {
        "measure": front.measure,
        "engine": front.engine,
        "notes": list(front.notes),
        "laws": [
            {
                "law": json.loads(c.law.to_json()),
                "loss": c.loss,
                "losses": list(c.losses),
                "terms": c.terms,
                "tree": c.tree,
                "certified": c.certified,
            }
            for c in front
        ],
    }


def front_from_plain(data: Mapping[str, Any]) -> Front:
    """The front, its complexities as they were measured with the weights of the search."""
    laws, measure = data.get("laws"), data.get("measure")
    if not isinstance(laws, list) or len(laws) > MOST_LAWS or measure not in ("terms", "tree"):
        raise FormatError("Its front is not as it should be.")
    notes = data.get("notes")
    if not isinstance(notes, list) or not all(isinstance(n, str) for n in notes):
        raise FormatError("The notes of its front are not texts.")
    return Front(
        tuple(_candidate(one, i) for i, one in enumerate(laws)),
        measure,
        str(data.get("engine", "")),
        tuple(notes),
    )


def _candidate(one: Any, row: int) -> Candidate:
    try:
        law = Law.from_json(json.dumps(one["law"]))
        losses = tuple(_number(v) for v in one["losses"])
        loss, terms, tree = (_number(one[key]) for key in ("loss", "terms", "tree"))
        return Candidate(law, loss, terms, tree, losses, one["certified"] is True)
    except (SjepaError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        reason = " ".join(str(error).split())[:80]
        raise FormatError(f"Row {row} of its front cannot be read ({reason}).") from None


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} is no number")
    return float(value)
