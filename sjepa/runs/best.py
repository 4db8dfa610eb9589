"""The best law so far, in a small file that can be read while a search runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sjepa.callbacks import Step
from sjepa.errors import FormatError
from sjepa.storage import read_json, write_json


logger = logging.getLogger(__name__)

NAME, KIND, VERSION = "best.json", "sjepa-best", 1
_NUMBERS = ("residual", "noise_floor", "complexity", "share")
# The share that is done is written again when it has moved this far.
MOVED = 0.01


def read_best(path: Path) -> dict[str, Any] | None:
    """Law (one string for each equation), residual, noise floor, complexity and share done.

    None where no law was reported yet.
    """
    if not path.is_symlink() and not path.exists():
        return None
    data = read_json(path, KIND, VERSION)
    law, numbers = data.get("law"), [data.get(name) for name in _NUMBERS]
    lines = isinstance(law, list) and all(isinstance(e, str) and e.isprintable() for e in law)
    if not lines or not all(v is None or _is_number(v) for v in numbers) or numbers[-1] is None:
        raise FormatError(f"{path} is damaged: it does not hold a law and its figures.")
    return {"law": law, **dict(zip(_NUMBERS, numbers, strict=True))}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # also no NaN


class BestLaw:
    """Keeps the file; what an earlier process of the same run found counts too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.known = read_best(path)
        except FormatError as error:  # it is only for people to read: the search can go on
            logger.warning("%s", error)
            self.known = None

    def offer(self, step: Step) -> None:
        """Keep the law of a step if it leaves less, and how far the search is."""
        if step.law is not None and step.risk is not None and math.isfinite(step.risk):
            before = None if self.known is None else self.known["residual"]
            if before is None or step.risk < before:
                figures = {"residual": step.risk, "noise_floor": step.noise_floor}
                self.write(step.law.split("; "), figures, step.complexity, step.share)
                return
        if self.known is not None and abs(step.share - self.known["share"]) >= MOVED:
            self._write(self.known | {"share": step.share})

    def write(
        self,
        law: Sequence[str],
        figures: Mapping[str, float | None],
        complexity: float | None,
        share: float,
    ) -> None:
        """Write a law, whatever stood there before; `figures` may lack some."""
        values = [figures.get("residual"), figures.get("noise_floor"), complexity, share]
        numbers = [float(v) if v is not None and math.isfinite(v) else None for v in values]
        self._write({"law": list(law), **dict(zip(_NUMBERS, numbers, strict=True))})

    def _write(self, data: dict[str, Any]) -> None:
        self.known = data
        write_json(self.path, KIND, VERSION, data)
