"""Actions of a simulation from the line: a constant, a formula of t, or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sjepa.errors import ConfigError, DataError, ParseError


if TYPE_CHECKING:
    import numpy as np

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

    data = read(path, columns=list(names))
    if len(data) != 1:
        raise DataError(f"{path}: {len(data)} trajectories of actions; give one.")
    if grid[0] < data.t[0][0]:
        raise DataError(f"{path}: actions begin at t = {data.t[0][0]:g}, after {grid[0]:g}.")
    rows: np.ndarray = data.x[0][np.searchsorted(data.t[0], grid, side="right") - 1]
    return rows
