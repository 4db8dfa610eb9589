"""Data that are not in memory: sums are taken where the data are, and only the sums travel.

A stream is a number of pieces, each of which fits into memory: files, partitions, trajectories.
What has to be decided once (noise, windows, form) is decided on a few of them; then every piece
becomes rows of a regression and those become sums, in one pass. The sums are added in the order of
the pieces, so that the law does not depend on how many workers there were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from sjepa.backend.executors import run_on
from sjepa.data._table_files import from_table
from sjepa.data.files import list_files, read
from sjepa.data.forms import Rows, continuous_rows
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError
from sjepa.settings import path_of
from sjepa.symbolic import Gram, Library


# Pieces that are looked at first, and rows of each.
PILOTS, PILOT_ROWS = 4, 20_000
# Rows that are kept for backends that need rows: a fair sample of all.
SAMPLE = 20_000


@dataclass(frozen=True, eq=False)
class Stream:
    """Pieces of data, how to open them, and the few that were looked at first."""

    pieces: Iterable[Any]
    pilot: Trajectories
    t: Any = None
    names: Sequence[str] | None = None

    @classmethod
    def of(cls, x: Any, t: Any, names: Sequence[str] | None) -> Stream | None:
        """None for data that are in memory."""
        pieces = _pieces(x)
        if pieces is None:
            return None
        if isinstance(pieces, list):
            if not pieces:
                raise DataError("The stream holds no pieces: there is nothing to fit.")
            some = np.unique(np.linspace(0, len(pieces) - 1, PILOTS).round().astype(int))
            first = [pieces[i] for i in some]
        else:
            first = list(islice(pieces, PILOTS))
            pieces = chain(first, pieces)
            if not first:
                raise DataError("The iterator is empty: there is nothing to fit.")
        opened = [open_piece(_here(p), t, names) for p in first]
        return cls(pieces, Trajectories.concat([_beginning(piece) for piece in opened]), t, names)

    def sums(
        self, rows: Rows, library: Library | None, seed: int, executor: Any, workers: int
    ) -> tuple[Gram | None, tuple[np.ndarray, np.ndarray] | None]:
        """Sums of a library's terms over all pieces; without a library, a sample of rows."""
        near = None
        if library is not None and rows.inputs is not None:
            near = Gram.from_chunks(library, [(rows.inputs, rows.targets)]).near
        coefficients = None if near is None else near.coefficients
        work = PieceSums(library, rows.again, self.t, self.names, coefficients, seed)
        found = run_on(executor, work, self.pieces, workers)
        if library is not None:
            return reduce(add, found), None
        return None, _drawn(found)


@dataclass(frozen=True, eq=False)
class PieceSums:
    """What is done to every piece, wherever it is: plain data, so that it travels."""

    library: Library | None
    again: Mapping[str, Any]
    t: Any = None
    names: Sequence[str] | None = None
    near: np.ndarray | None = None
    seed: int = 0

    def __call__(self, number: int, piece: Any) -> Any:
        data = open_piece(piece, self.t, self.names)
        rows = continuous_rows(data, self.library, **self.again)
        if self.library is None:
            assert rows.inputs is not None
            keys = np.random.default_rng([self.seed, number]).random(len(rows.targets))
            kept = np.argsort(keys)[:SAMPLE]
            return keys[kept], rows.inputs[kept], rows.targets[kept]
        if rows.features is not None:
            return Gram.from_features(rows.features, rows.targets)
        assert rows.inputs is not None
        return Gram.from_chunks(self.library, [(rows.inputs, rows.targets)], self.near)


def _drawn(found: Iterator[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """The rows with the lowest keys of all pieces: every row has the same chance."""
    kept: tuple[np.ndarray, ...] | None = None
    for part in found:
        both = part if kept is None else [np.concatenate(p) for p in zip(kept, part, strict=True)]
        lowest = np.sort(np.argsort(both[0], kind="stable")[:SAMPLE])
        kept = tuple(a[lowest] for a in both)
    assert kept is not None
    return kept[1], kept[2]


def open_piece(piece: Any, t: Any = None, names: Sequence[str] | None = None) -> Trajectories:
    """A file, a table with a time column, or what `discover` takes: as trajectories."""
    if isinstance(piece, str | Path):
        found = read(piece, time=t)
    elif hasattr(piece, "columns"):  # a pandas table
        found = from_table(piece, t, None, None, ())
    elif isinstance(piece, tuple):
        found = Trajectories.of(*piece, names=names, states=True)
    else:
        found = Trajectories.of(piece, t, names=names, states=True)
    if names is not None and found.names != tuple(names):
        found = Trajectories.of(found.x, found.t, found.u, names=names, states=True)
    return found


def _here(piece: Any) -> Any:
    """A piece that is elsewhere, brought here."""
    if hasattr(piece, "__dask_graph__"):
        return piece.compute()
    if type(piece).__module__.startswith("ray"):
        import ray

        return ray.get(piece)
    return piece


def _pieces(x: Any) -> list[Any] | Iterator[Any] | None:
    if isinstance(x, str | Path):
        return list_files(path) if (path := path_of(x, "x")).is_dir() else None
    if isinstance(x, list | tuple) and x and all(isinstance(p, str | Path) for p in x):
        return [path_of(p, "x") for p in x]
    if hasattr(x, "__dask_graph__") and hasattr(x, "to_delayed"):
        parts = list(np.ravel(x.to_delayed()))
        return [_bag_part(p) for p in parts] if type(x).__name__ == "Bag" else parts
    if type(x).__module__.startswith("ray.data"):
        return list(x.to_pandas_refs())
    return x if isinstance(x, Iterator) else None


def _bag_part(part: Any) -> Any:
    """A part of a bag is a list of trajectories."""
    import dask

    return dask.delayed(list)(part)


def _beginning(data: Trajectories) -> Trajectories:
    """The first rows, in whole segments."""
    cuts, left = [], PILOT_ROWS
    for i, n in enumerate(data.lengths):
        if left < 2:
            break
        cuts.append((i, slice(0, min(int(n), left))))
        left -= int(n)
    cut = data._cut(cuts)
    return Trajectories(  # copies, so that the piece itself can go
        [a.copy() for a in cut.x], [a.copy() for a in cut.t],
        None if cut.u is None else [a.copy() for a in cut.u],
        names=cut.names, input_names=cut.input_names, gaps="keep",
    )  # fmt: skip
