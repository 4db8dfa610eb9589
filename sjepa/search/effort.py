"""How much of each stage of a search is tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much of each stage is searched. None of this changes what is believed of a law."""

    laws: int = 4  # of a front, simulated
    crude: float = 10.0  # laws with more than this many times the lowest loss are not simulated
    neighbors: int = 4  # in each round
    rounds: int = 6  # as long as each finds a better law
    rows: int = 20  # fewer do not tell parameters inside terms
    table_rows: int = 50  # the same for tables, whose columns have hundreds of such terms
    points: int = 5  # observations for one such row
    every_point: int = 7  # of a path, that places of parameters are taken from
    max_inputs: int = 6  # beyond, the extended library would be thousands of columns
    max_rows: int = 5_000  # that tell parameters; there are hundreds of columns for each
