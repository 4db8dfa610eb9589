"""What several commands read and write: runs or laws, data files, tables."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjepa.cli.export import read_law
from sjepa.errors import DataError, FormatError
from sjepa.storage import writing


if TYPE_CHECKING:
    import pandas as pd


def words(text: str) -> list[str]:
    """The parts of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def is_run(source: Path) -> bool:
    """Whether a folder is (or is on its way to be) a saved model."""
    return source.is_dir() and any((source / n).exists() for n in ("config.json", "run.json"))


def read_model(source: Path) -> Any:
    """A fitted model from the folder of a run."""
    import sjepa

    if not source.exists():
        raise FormatError(f"{source} does not exist.")
    if not is_run(source):
        raise FormatError(f"{source} is not the folder of a run; sjepa fit --out makes one.")
    return sjepa.load(source)


def read_model_or_law(source: Path) -> Any:
    """A fitted model from a run, or a law from whatever else holds one."""
    return read_model(source) if is_run(source) else read_law(source)


def read_data(
    path: Path,
    time: str | float | None = None,
    id: str | None = None,
    columns: str | list[str] | None = None,
    actions: str | list[str] = "",
    drop_nan: bool = False,
) -> Any:
    """Trajectories from a data file with the usual options; `time` may be a constant step."""
    from sjepa.data import read

    if isinstance(time, str):
        with contextlib.suppress(ValueError):
            time = float(time)
    names = words(columns) if isinstance(columns, str) else columns
    trajectories = read(
        path, time=time, id=id, columns=names or None,
        actions=words(actions) if isinstance(actions, str) else actions, allow_nan=drop_nan,
    )  # fmt: skip
    return trajectories.drop_nan()[0] if drop_nan else trajectories


def recorded_data(run: Path) -> tuple[Path, dict[str, Any]] | None:
    """Where a run's ``run.json`` says its data came from, if that is still there."""
    try:
        source = json.loads((run / "run.json").read_bytes())["asked"]["data"]
        path = Path(source["path"])
        options = {k: source[k] for k in ("time", "id", "columns", "actions", "drop_nan")}
    except (OSError, ValueError, LookupError, TypeError):
        return None
    listed = [options["columns"] or [], options["actions"]]
    plain = all(isinstance(n, str) for names in listed for n in names)
    return (path, options) if plain and path.exists() else None


def write_table(frame: pd.DataFrame, out: Path | None) -> None:
    """A CSV or Parquet file that appears when it is complete, or CSV on the screen."""
    if out is None:
        frame.to_csv(sys.stdout, index=False)
        return
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{out}: cannot write this ending; use .csv or .parquet.")
    if not out.parent.is_dir():
        raise DataError(f"{out}: the folder {out.parent} does not exist; create it first.")
    with writing(out) as file:
        (frame.to_csv if out.suffix.lower() == ".csv" else frame.to_parquet)(file, index=False)
