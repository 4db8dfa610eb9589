"""Reading the data of a command, and saying what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sjepa.cli.settings import number_or_name, words


if TYPE_CHECKING:
    from sjepa.data import Trajectories

Time = Annotated[
    str | None, typer.Option(help="Name of the time column, or a constant step in time.")
]
Id = Annotated[str | None, typer.Option(help="Column that tells trajectories apart.")]
Columns = Annotated[str, typer.Option(help="Observed columns, comma-separated; by default all.")]
Actions = Annotated[str, typer.Option(help="Action columns, comma-separated.")]
DropNan = Annotated[bool, typer.Option("--drop-nan", help="Leave out rows with missing values.")]


def source_of(
    path: Path, time: str | None, id: str | None, columns: str, actions: str, drop_nan: bool
) -> dict[str, Any]:
    """Where data come from, as plain data that a run can keep."""
    return {
        "path": str(path.absolute()),
        "time": number_or_name(time),
        "id": id,
        "columns": words(columns) or None,
        "actions": words(actions),
        "drop_nan": drop_nan,
    }


def read_source(source: Mapping[str, Any]) -> tuple[Trajectories, str]:
    """The trajectories, and a sentence about what was dropped."""
    from sjepa.data import read

    data = read(
        source["path"], time=source["time"], id=source["id"], columns=source["columns"],
        actions=source["actions"], allow_nan=source["drop_nan"],
    )  # fmt: skip
    if not source["drop_nan"]:
        return data, ""
    data, dropped = data.drop_nan()
    return data, str(dropped)
