"""``sjepa simulate``: a law or a fitted model from a state or from an observation."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sjepa.cli.app import app, say
from sjepa.cli.inputs import (
    DataOptions,
    Force,
    TableFile,
    U,
    actions_of,
    check_table,
    read_data,
    read_model_or_law,
    reads_data,
    write_table,
)
from sjepa.cli.settings import words
from sjepa.errors import ConfigError, DataError


if TYPE_CHECKING:
    import numpy as np

    from sjepa.models import SimulatedPath, Simulator


# More rows than anybody means; a step of 1e-9 in a range is a slip.
MAX_TIMES = 10_000_000


@app.command()
@reads_data
def simulate(
    reading: DataOptions,
    source: Annotated[
        Path, typer.Argument(help="A run folder, a law.json, a PySR CSV, or an equation.")
    ],
    start: Annotated[
        str, typer.Option(help="Initial state: 1,0 in the law's order, or q=1,p=0.")
    ] = "",
    times: Annotated[
        str, typer.Option(help="start:stop:step such as 0:10:0.01, or times, comma-separated.")
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Start from the first observation (for a law: state) of each trajectory."
        ),
    ] = None,
    u: U = None,
    method: Annotated[
        str, typer.Option(help="DOP853 (laws), RK45 (with a correction), LSODA, Radau or BDF.")
    ] = "",
    out: TableFile = None,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate a law or a model; a path that diverges ends there and is reported."""
    import pandas as pd

    from sjepa.models import Simulator

    if bool(start) == (data is not None):
        raise ConfigError("Give where to start: either --start 1,0 or --data file.")
    check_table(out, force)
    found = read_model_or_law(source)
    simulator = Simulator(found)
    if clash := {"t", "trajectory"} & set(simulator.names):
        raise DataError(f"{min(clash)!r} is also what the table calls its own column; rename it.")
    grid = _times(times) if times else None
    options = {"method": method} if method else {}
    if data is None:
        if grid is None:
            raise ConfigError("Give the times, such as --times 0:10:0.01.")
        pushed = actions_of(u, simulator.given, grid) if u else None
        runs = [(grid, simulator.simulate(_state(start, simulator), grid, pushed, **options))]
        labels: Sequence[Any] = [0]
    else:
        if u:
            raise ConfigError("The actions are those of --data; leave --u out.")
        trajectories = read_data(reading.source(data, source))
        runs = _from_data(found, simulator, trajectories, grid, options)
        labels = trajectories.ids or range(len(runs))
    frames = []
    for label, (t, run) in zip(labels, runs, strict=True):
        frame = pd.DataFrame(run.z[: run.reached], columns=list(simulator.names))
        frame.insert(0, "t", t[: run.reached])
        frame.insert(0, "trajectory", label)
        frames.append(frame)
        if run.status != "ok":
            end = "diverges" if run.status == "diverged" else "is too slow to simulate"
            say(f"trajectory {label} {end} after t = {t[run.reached - 1]:g}", error=True)
    frame = pd.concat(frames, ignore_index=True)
    if not json:
        write_table(frame, out)
        return
    result: dict[str, Any] = {"status": [run.status for _, run in runs], "rows": len(frame)}
    if out is None:
        result["table"] = frame.to_dict("list")
    else:
        write_table(frame, out)
        result["table"] = str(out)
    print(json_module.dumps(result))


def _from_data(
    found: Any,
    simulator: Simulator,
    trajectories: Any,
    grid: np.ndarray | None,
    options: dict[str, Any],
) -> list[tuple[np.ndarray, SimulatedPath]]:
    if hasattr(found, "encode"):
        coordinates = simulator.acting(found.coordinates(trajectories))
    else:
        coordinates = simulator.select(trajectories)
    if grid is None:
        paths = simulator.beside(coordinates, **options)
        return list(zip(coordinates.t, paths, strict=True))
    if simulator.given:
        raise ConfigError("The law has actions, known at the times of --data: omit --times.")
    starts = [simulator.start(z, t) for z, t in zip(coordinates.x, coordinates.t, strict=True)]
    return [(grid, simulator.simulate(start, grid, **options)) for start in starts]


def _state(text: str, simulator: Simulator) -> list[float]:
    """'1,0' in order, or 'q=1,p=0' by name."""
    parts = words(text)
    listed = ", ".join(simulator.names)
    try:
        if not any("=" in part for part in parts):
            values = [float(part) for part in parts]
        else:
            given = {k.strip(): float(v) for k, v in (part.split("=", 1) for part in parts)}
            if set(given) != set(simulator.names) or len(given) != len(parts):
                raise ConfigError(f"--start {text!r} must name each of {listed} once.")
            values = [given[name] for name in simulator.names]
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"--start {text!r} is not a list of numbers for {listed}.") from None
    if len(values) != simulator.size:
        raise ConfigError(f"--start has {len(values)} numbers; the state is {listed}.")
    return values


def _times(text: str) -> np.ndarray:
    import numpy as np

    try:
        if ":" not in text:
            return np.array([float(word) for word in words(text)])
        first, last, step = (float(word) for word in text.split(":"))
    except ValueError:
        raise ConfigError(
            f"--times {text!r} is neither start:stop:step nor a list of numbers."
        ) from None
    if not step > 0 or not last > first or not np.isfinite([first, last, step]).all():
        raise ConfigError(f"--times {text!r} must go forward: start:stop:step such as 0:10:0.01.")
    count = (last - first) / step
    if count > MAX_TIMES:
        raise ConfigError(f"--times {text!r} makes {count:.0e} rows, more than {MAX_TIMES:g}.")
    # The end belongs to the range, also where 0.1 is not exactly a tenth.
    return first + step * np.arange(int(np.floor(count + 1e-9)) + 1)
