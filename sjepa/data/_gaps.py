"""Cut trajectories where values are missing, so that no step leads across a hole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sjepa.data._check import Array
from sjepa.errors import DataError


@dataclass(frozen=True)
class Dropped:
    """What :meth:`Trajectories.drop_nan` removed.

    Parameters
    ----------
    missing : dict of int to list of int
        For each trajectory that lost some: the rows with NaN or infinity.
    lonely : dict of int to list of int
        Good rows that were left without a neighbour on either side, and had to go as well.
    source : list of int
        For each new trajectory, the old one it is a piece of.
    """

    missing: dict[int, list[int]]
    lonely: dict[int, list[int]]
    source: list[int]

    @property
    def rows(self) -> int:
        """How many rows were removed in all."""
        return sum(map(len, self.missing.values())) + sum(map(len, self.lonely.values()))

    def __str__(self) -> str:
        if not self.rows:
            return "Nothing was dropped."
        bad = sum(map(len, self.missing.values()))
        return (
            f"Dropped {bad} rows with missing values and {self.rows - bad} rows left alone beside "
            f"them, in {len(self.missing)} trajectories; {len(self.source)} pieces remain."
        )


def pieces(
    columns: Sequence[list[Array] | None],
) -> tuple[list[tuple[int, slice]], Dropped]:
    """Stretches of at least two complete rows, as (trajectory, slice), and what is not in them."""
    present = [c for c in columns if c is not None]
    missing: dict[int, list[int]] = {}
    lonely: dict[int, list[int]] = {}
    cuts: list[tuple[int, slice]] = []
    for i, arrays in enumerate(zip(*present, strict=True)):
        good = np.all([np.isfinite(a.reshape(len(a), -1)).all(axis=1) for a in arrays], axis=0)
        if not good.all():
            missing[i] = np.flatnonzero(~good).tolist()
        edges = np.flatnonzero(np.diff(np.r_[False, good, False])).reshape(-1, 2)
        for start, stop in edges.tolist():
            if stop - start >= 2:
                cuts.append((i, slice(start, stop)))
            else:
                lonely.setdefault(i, []).append(start)
    if not cuts:
        raise DataError("no two neighbouring rows are complete; drop the emptiest columns first.")
    return cuts, Dropped(missing, lonely, [i for i, _ in cuts])
