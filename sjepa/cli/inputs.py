"""What commands read and write: data files with their options, runs, laws, actions, tables."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sjepa.cli.app import say
from sjepa.cli.settings import number_or_name, words
from sjepa.errors import ConfigError, DataError, FormatError, ParseError


if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from sjepa.data import Trajectories
    from sjepa.symbolic import Law


Order = Annotated[int, typer.Option(help="1, or 2 for laws of accelerations.")]
RandomState = Annotated[int, typer.Option(help="Seed of everything random.")]


@dataclass(frozen=True)
class DataOptions:
    """How the columns of a data file are read; :func:`reads_data` gives a command these options."""

    time: Annotated[
        str | None, typer.Option(help="Name of the time column, or a constant step in time.")
    ] = None
    id: Annotated[str | None, typer.Option(help="Column that tells trajectories apart.")] = None
    columns: Annotated[
        str, typer.Option(help="Observed columns, comma-separated; by default all.")
    ] = ""
    actions: Annotated[str, typer.Option(help="Columns of control inputs, comma-separated.")] = ""
    missing: Annotated[
        str | None, typer.Option(help="raise, or drop: leave out rows with missing values.")
    ] = None
    gaps: Annotated[
        str | None, typer.Option(help="cut: cut trajectories at gaps in time; or keep.")
    ] = None

    def source(self, path: Path, run: Path | None = None) -> dict[str, Any]:
        """Where data come from, as plain data that a run can keep.

        What is not given is as it was for `run`, the folder of a run.
        """
        if not path.exists():  # said before pandas and the like are imported
            raise DataError(f"{path}: there is no such file; check the path.")
        recorded = None if run is None else recorded_source(run)
        before = recorded or {}
        return {
            "path": str(path.absolute()),
            "time": number_or_name(self.time) if self.time else before.get("time"),
            "id": self.id or before.get("id"),
            "columns": words(self.columns) or before.get("columns"),
            "actions": words(self.actions) or before.get("actions", []),
            "missing": self.missing or before.get("missing", "raise"),
            "gaps": self.gaps or before.get("gaps", "cut"),
        }


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its argument `reading`, a DataOptions."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    hints = get_type_hints(DataOptions, include_extras=True)
    options = [
        inspect.Parameter(f.name, keyword, default=f.default, annotation=hints[f.name])
        for f in fields(DataOptions)
    ]
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    named = [p.replace(kind=keyword) for p in parameters if p.name != "reading"]

    @wraps(command)
    def called(**given: Any) -> None:
        reading = DataOptions(**{option.name: given.pop(option.name) for option in options})
        command(reading=reading, **given)

    called.__signature__ = inspect.Signature([*named, *options])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in (*named, *options)}
    return called


def recorded_source(run: Path) -> dict[str, Any] | None:
    """Where the data of a run came from; None for a law, or a run that was begun in Python."""
    from sjepa.runs import Run

    if not run.is_dir() or not os.path.lexists(run / "run.json"):
        return None
    opened = Run.open(run)
    return None if opened.asked.get("data") is None else opened.source()


def command_line() -> str:
    """The command that is being run, as it would be typed."""
    return f"sjepa {shlex.join(sys.argv[1:])}"


def recorded_command(run: Path) -> str | None:
    """The command that made a run folder, if it says so."""
    from sjepa.runs import Run

    if not run.is_dir() or not os.path.lexists(run / "run.json"):
        return None
    command = Run.open(run).asked.get("command")
    return command if isinstance(command, str) else None


def read_data(source: Mapping[str, Any]) -> Trajectories:
    """The trajectories of :meth:`DataOptions.source`."""
    from sjepa.data import read

    return read(**source)


def is_run(source: Path) -> bool:
    """Whether a folder is (or is on its way to be) a saved model."""
    return source.is_dir() and any(os.path.lexists(source / n) for n in ("config.json", "run.json"))


def read_model(source: Path) -> Any:
    """A fitted model from the folder of a run."""
    import sjepa

    if not source.exists():
        raise FormatError(f"{source} does not exist.")
    if not is_run(source):
        raise FormatError(f"{source} is not the folder of a run; sjepa fit --out makes one.")
    return sjepa.load(source)


def read_law(source: Path, inputs: list[str] | None = None) -> Law:
    """Whatever holds a law: equations as text, our JSON, a folder with one, or PySR's files."""
    from sjepa.storage import MAX_BYTES, read_bounded
    from sjepa.symbolic import Law
    from sjepa.symbolic.names import has_left_side

    if has_left_side(str(source)):
        return Law.from_string(str(source), inputs)
    if not source.exists():
        raise FormatError(f"{source} does not exist.")
    if source.is_dir() and os.path.lexists(source / "law.json"):
        source = source / "law.json"
    if source.suffix == ".json":
        return Law.from_json(read_bounded(source, MAX_BYTES))
    if source.is_dir() and not list(source.glob("hall_of_fame*")):
        raise FormatError(f"{source} holds neither a law.json nor PySR's hall_of_fame.csv.")
    if source.is_dir() or source.suffix in (".csv", ".bak"):
        return Law.from_pysr(source, inputs=inputs)
    raise FormatError(
        f"{source} is not a law.json, a run folder, a hall-of-fame CSV or an equation (q' = -q)."
    )


def read_model_or_law(source: Path) -> Any:
    """A fitted model from a run, or a law from whatever else holds one."""
    return read_model(source) if is_run(source) else read_law(source)


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
    from sjepa.storage import write_csv, writing

    if out is None:
        say(str(write_csv(frame)).rstrip("\n"))
        return
    with writing(out) as file:
        if out.suffix.lower() == ".csv":
            write_csv(frame, file)
        else:
            frame.to_parquet(file, index=False)


U = Annotated[
    list[str] | None,
    typer.Option(
        "--u",
        help="Actions: torque=0.5 or 'torque=sin(t)', once for each; or a data file with a column "
        "for each, held from row to row.",
    ),
]


def actions_of(
    texts: Sequence[str], names: Sequence[str], grid: np.ndarray
) -> Callable[[Any], np.ndarray] | np.ndarray:
    """What the actions of these names are: a function of time, or a row for each time."""
    if not names:
        raise ConfigError("The law has no actions; leave --u out.")
    if len(texts) == 1 and "=" not in texts[0]:
        return _from_file(Path(texts[0]), names, grid)
    from sjepa.symbolic import Law

    given = {k.strip(): v.strip() for k, sign, v in (t.partition("=") for t in texts) if sign}
    if set(given) != set(names) or len(given) != len(texts):
        raise ConfigError(f"--u must give each of {', '.join(names)} once, as {names[0]}=0.5.")
    try:
        formulas = Law.from_string([given[n] for n in names], ["t"], list(names)).numpy()
    except ParseError as error:
        raise ConfigError(f"--u is a formula of t: {error}") from None

    def at(t: Any) -> np.ndarray:
        import numpy as np

        values: np.ndarray = formulas(np.reshape(np.asarray(t, dtype=float), (-1, 1)))
        return values[0] if np.ndim(t) == 0 else values

    return at


def _from_file(path: Path, names: Sequence[str], grid: np.ndarray) -> np.ndarray:
    """At each time the values of the last row before it."""
    import numpy as np

    from sjepa.data import read

    data = read(path, columns=list(names), gaps="keep")  # a row is held until the next
    if len(data) != 1:
        raise DataError(f"{path}: {len(data)} trajectories of actions; give one.")
    if grid[0] < data.t[0][0]:
        raise DataError(f"{path}: actions begin at t = {data.t[0][0]:g}, after {grid[0]:g}.")
    rows: np.ndarray = data.x[0][np.searchsorted(data.t[0], grid, side="right") - 1]
    return rows
