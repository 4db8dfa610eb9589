"""Read what PySR leaves behind: a fitted regressor, its table, or its hall-of-fame files.

Files are read as text and every equation goes through the safe parser; the pickle that PySR
writes beside them (``checkpoint.pkl``) is never opened.
"""

from __future__ import annotations

import csv
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import sympy

from sjepa.errors import FormatError, LawError, ParseError
from sjepa.settings import path_of
from sjepa.storage import MAX_BYTES, read_bounded
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.parse import CONSTANTS, parse


# PySR's "best": the highest score among the losses up to this many times the lowest.
_TOLERATED = 1.5
_COLUMNS = ("complexity", "loss", "equation")
_CALL = re.compile(r"\s*\(")
_NAME = re.compile(r"(?<![\w.#])[^\W\d]\w*")
_NUMBERED = re.compile(r"x(\d+)")
# Inputs that no equation uses are listed up to here; a table of more columns names them itself.
MAX_INPUTS = 10_000


def parse_pysr(text: str, inputs: Sequence[str]) -> sympy.Expr:
    """Read an equation as PySR writes it, where ``x0 > 1`` is a number, 1 or 0."""
    return parse(text, inputs, indicator=True)


@dataclass(frozen=True)
class _Row:
    complexity: float
    loss: float
    equation: str


@dataclass(frozen=True)
class _Table:
    """The equations found for one output, and where they were found."""

    origin: str
    rows: tuple[_Row, ...]

    def best(self) -> int:
        """The row PySR itself would pick."""
        limit = _TOLERATED * min(row.loss for row in self.rows)
        scores = [0.0]
        for before, after in zip(self.rows, self.rows[1:], strict=False):
            if after.loss <= 0:
                scores.append(math.inf)
            else:
                fall = math.log(max(before.loss, 1e-300)) - math.log(after.loss)
                scores.append(fall / ((after.complexity - before.complexity) or 1.0))
        allowed = [i for i, row in enumerate(self.rows) if row.loss <= limit]
        return max(allowed, key=lambda i: scores[i]) if allowed else len(self.rows) - 1

    def row(self, i: int) -> _Row:
        try:
            return self.rows[i]
        except IndexError:
            raise LawError(
                f"There is no row {i}: {self.origin} has {len(self.rows)} rows, counted from 0."
            ) from None

    def expression(self, i: int, inputs: Sequence[str]) -> sympy.Expr:
        text = self.row(i).equation
        if "#" in text or re.match(r"\s*\w+\s*=", text):
            raise ParseError(
                f"{self.origin}, row {i}: {text!r:.60} comes from a template search; it is an "
                "equation only together with its template."
            )
        try:
            return parse_pysr(text, inputs)
        except ParseError as error:
            raise ParseError(f"{self.origin}, row {i}: {error}") from None


def law_from_pysr(
    source: Any,
    row: int | Sequence[int] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    dynamics: Dynamics | None = None,
) -> Law:
    """Read one law.

    Parameters
    ----------
    source : fitted ``PySRRegressor``, table, path, or list of tables or paths
        A path is a CSV file (``hall_of_fame.csv``, or ``equations_`` saved as one) or the folder
        of a run; for several outputs the folder, or a list with one entry for each.
    row : int or list of int, optional
        Position of the equation, counted from 0; a list has one for each output. By default the
        row that PySR itself calls best.
    inputs : list of str, optional
        By default the regressor's feature names. A file does not say them, so they are taken from
        its equations: every column up to the last one used if they are called x0, x1, ..., and
        otherwise the names that occur, in natural order, with a warning: the columns of the data
        may have another.
    outputs : list of str, optional
        By default y, or y0, y1, ... for several, as PySR calls them.
    dynamics : "continuous" or "discrete", optional
        A regression is a map y = f(x); but outputs that are all named after inputs are taken as
        their time derivatives, by default.
    """
    tables = _tables(source)
    names, targets, kind = _frame(source, tables, inputs, outputs, dynamics)
    if row is None:
        rows = [t.best() for t in tables]
    else:
        rows = [int(row)] * len(tables) if isinstance(row, int | np.integer) else list(row)
    if len(rows) != len(tables):
        raise LawError(f"Got {len(rows)} rows for {len(tables)} outputs.")
    expressions = [t.expression(i, names) for t, i in zip(tables, rows, strict=True)]
    return Law(expressions, names, targets, kind)


def _frame(
    source: Any,
    tables: Sequence[_Table],
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    dynamics: Dynamics | None,
) -> tuple[tuple[str, ...], tuple[str, ...], Dynamics]:
    """Names of inputs and outputs, and what the equations are."""
    if inputs is None:
        known = getattr(source, "feature_names_in_", None)
        inputs = _inputs_of(tables) if known is None else [str(n) for n in known]
        if known is None and len(inputs) > 1 and not _NUMBERED.fullmatch(inputs[0]):
            warnings.warn(
                f"{tables[0].origin} does not say in what order its inputs were given; they are "
                f"taken as {', '.join(inputs)}. Name them in the order of the data: inputs=[...].",
                stacklevel=4,
            )
    if outputs is None:
        base = "y" if "y" not in inputs else "target"
        outputs = [base] if len(tables) == 1 else [f"{base}{i}" for i in range(len(tables))]
    if isinstance(inputs, str) or isinstance(outputs, str):
        raise LawError("inputs and outputs are lists of names.")
    if dynamics is None:
        dynamics = "continuous" if set(outputs) <= set(inputs) else "discrete"
    return tuple(inputs), tuple(outputs), dynamics


def _inputs_of(tables: Sequence[_Table]) -> list[str]:
    found = {
        match.group()
        for table in tables
        for row in table.rows
        for match in _NAME.finditer(row.equation)
        if not _CALL.match(row.equation, match.end()) and match.group() not in CONSTANTS
    }
    numbers = [_NUMBERED.fullmatch(name) for name in found]
    if not all(numbers):
        return sorted(found, key=lambda name: [int(p) if p.isdigit() else p for p in _parts(name)])
    # The numbers are columns, so those before the last one exist even if no equation uses them.
    # Python refuses to read more than some thousand digits as a number.
    count = max((int(n[1][:10]) for n in numbers if n), default=0) + 1
    if count > MAX_INPUTS:
        raise FormatError(
            f"{tables[0].origin} has inputs beyond x{MAX_INPUTS - 1}: name them, inputs=[...]."
        )
    return [f"x{i}" for i in range(count)]


def _parts(name: str) -> list[str]:
    """Letters and numbers in turn, so that z2 comes before z10."""
    return re.split(r"(\d+)", name)


# Finding the tables ------------------------------------------------------------------------------


def _tables(source: Any) -> list[_Table]:
    if isinstance(source, str | Path):
        path = path_of(source, "source")
        paths = _run_files(path) if path.is_dir() else [path]
        return [_read_csv(p) for p in paths]
    if isinstance(source, list | tuple):
        tables = [table for entry in source for table in _tables(entry)]
        if not tables:
            raise FormatError("There are no equations in an empty list.")
        return tables
    if hasattr(source, "columns"):
        return [_read_frame(source)]
    if not hasattr(source, "equations_"):
        raise FormatError(
            f"Expected a fitted PySRRegressor, its table or a path, got {type(source).__name__}."
        )
    if source.equations_ is None:
        raise FormatError("The PySRRegressor is not fitted: it has no equations.")
    return _tables(source.equations_)


def _run_files(folder: Path) -> list[Path]:
    """The hall of fame of a run, one file for each output; back-ups if that is all there is."""
    for ending in ("csv", "csv.bak"):
        single = folder / f"hall_of_fame.{ending}"
        if os.path.lexists(single):
            return [single]
        several: list[Path] = []
        while os.path.lexists(path := folder / f"hall_of_fame_output{len(several) + 1}.{ending}"):
            several.append(path)
        if several:
            return several
    raise FormatError(f"{folder} has no hall_of_fame.csv: not the folder of a PySR run.")


def _read_csv(path: Path) -> _Table:
    if not path.exists():
        raise FormatError(f"{path} does not exist.")
    try:
        text = read_bounded(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not text: not a table of PySR.") from None
    with StringIO(text, newline="") as file:
        lines = csv.reader(file)
        header = [name.strip().lower() for name in next(lines, [])]
        if missing := [name for name in _COLUMNS if name not in header]:
            raise FormatError(f"{path} has no column {missing[0]!r}: not a table of PySR.")
        places = [header.index(name) for name in _COLUMNS]
        cells = ([line[p] if p < len(line) else "" for p in places] for line in lines if line)
        return _table(str(path), cells)


def _read_frame(frame: Any) -> _Table:
    columns = {str(name).lower(): name for name in frame.columns}
    if missing := [name for name in _COLUMNS if name not in columns]:
        raise FormatError(f"The table has no column {missing[0]!r}: not a table of PySR.")
    values = (frame[columns[name]] for name in _COLUMNS)
    return _table("the table", zip(*values, strict=True))


def _table(origin: str, cells: Iterator[Sequence[Any]]) -> _Table:
    rows = []
    for i, (complexity, loss, equation) in enumerate(cells):
        try:
            # Equations are text, but a table of nothing but constants holds floats.
            rows.append(_Row(float(complexity), float(loss), str(equation)))
        except ValueError:
            raise ParseError(
                f"{origin}, row {i}: complexity {complexity!r} and loss {loss!r} must be numbers."
            ) from None
    if not rows:
        raise FormatError(f"{origin} has no rows.")
    return _Table(origin, tuple(rows))
