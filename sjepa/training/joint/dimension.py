"""How many coordinates: the fewest that have an adequate law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sjepa.errors import DataError
from sjepa.symbolic import Law
from sjepa.training.result import FitResult


# More coordinates than this are asked for by number.
MAX_COORDINATES = 3


@dataclass(frozen=True)
class Dimension:
    """What a search with some number of coordinates came to.

    `residual` is the risk of its law, `complexity` what the law costs: C_dyn where it is adequate.
    """

    dimension: int
    residual: float
    noise_floor: float
    complexity: float
    adequate: bool
    law: str

    @classmethod
    def of(cls, dimension: int, learned: FitResult) -> Dimension:
        law: Law = learned.law
        figures = learned.figures
        return cls(
            dimension, figures["residual"], figures["noise_floor"], law.complexity("terms"),
            learned.verdict.adequate is not False, "; ".join(law.lines(digits=4)),
        )  # fmt: skip

    def __str__(self) -> str:
        end = f"C_dyn {self.complexity:g}" if self.adequate else "not adequate"
        unit = "coordinate" if self.dimension == 1 else "coordinates"
        floor = f"noise floor {self.noise_floor:.2g}"
        return f"{self.dimension} {unit}: residual {self.residual:.2g} ({floor}), {end}"


def fewest_coordinates(
    learn: Callable[[int, bool], FitResult], max_dimension: int, grow: bool
) -> tuple[FitResult, list[Dimension]]:
    """The first adequate search, with linear encoders for every dimension before any nonlinear one.

    `learn` gets the number of coordinates and whether encoders may be nonlinear. Without an
    adequate one, the search with the smallest residual.
    """
    best: dict[int, tuple[FitResult, Dimension]] = {}
    for nonlinear in [False, True][: 1 + grow]:
        for d in range(1, max_dimension + 1):
            try:
                learned = learn(d, nonlinear)
            except DataError:  # the observations vary in fewer directions
                if d == 1:
                    raise
                break
            found = Dimension.of(d, learned)
            if d not in best or found.residual < best[d][1].residual or found.adequate:
                best[d] = learned, found
            if found.adequate:
                return _with_table(learned, d, best)
    d = min(best, key=lambda d: best[d][1].residual)
    return _with_table(best[d][0], d, best)


def _with_table(learned: FitResult, chosen: int, tried: Any) -> tuple[FitResult, list[Dimension]]:
    table = [tried[d][1] for d in sorted(tried)]
    first = f"latent_dim = {chosen} was chosen: " + "; ".join(map(str, table)) + "."
    return replace(learned, notes=[first, *learned.notes]), table
