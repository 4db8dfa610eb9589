"""What commands write: files that are not replaced unless asked for, and tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sjepa.errors import ConfigError, DataError


if TYPE_CHECKING:
    import pandas as pd

Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
TableFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="CSV or Parquet file; without it CSV on the screen."),
]


def check_place(out: Path | None, force: bool) -> None:
    """Refuse a place for a result before the work, not after it."""
    if out is None:
        return
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"{out}: the folder {out.parent} does not exist; create it first.")
    if os.path.lexists(out) and not force:
        raise ConfigError(f"{out} is there already; choose another name, or add --force.")
    if out.is_dir():
        raise ConfigError(f"{out} is a folder; name a file in it.")


def check_table(out: Path | None, force: bool) -> None:
    """The same for a table, whose ending says what it is."""
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{out}: cannot write this ending; use .csv or .parquet.")
    check_place(out, force)


def write_table(frame: pd.DataFrame, out: Path | None) -> None:
    """A CSV or Parquet file that appears when it is complete, or CSV on the screen."""
    from sjepa.storage import writing

    if out is None:
        frame.to_csv(sys.stdout, index=False)
        return
    with writing(out) as file:
        (frame.to_csv if out.suffix.lower() == ".csv" else frame.to_parquet)(file, index=False)
