"""Methods of a law: evaluate, compare, simulate, score, fine-tune, save.

These are methods of :class:`sjepa.symbolic.Law`. What they need of the layers above is imported
when they are called; the contract in pyproject.toml names this file as the one exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import sympy

from sjepa.errors import FormatError, LawError
from sjepa.settings import list_of, number_of, path_of, whole_of
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.delays import read_stored
from sjepa.symbolic.parse import check_names, parse
from sjepa.symbolic.text import to_text


if TYPE_CHECKING:
    import pandas as pd

    from sjepa.data import Trajectories
    from sjepa.models import SimulatedPath, Simulator
    from sjepa.symbolic.front import Front
    from sjepa.symbolic.law import Law

FORMAT, VERSION = "sjepa-law", 1
# Where laws are compared: inside the ramps of the safe operators, and beyond their limits.
EQUIVALENCE_RADII = (3.0, 5e-4, 0.05, 30.0, 1e3)


def evaluate(law: Law, x: Any) -> np.ndarray:
    """Values (..., outputs) at inputs (..., inputs); :meth:`numpy` is quicker for many calls."""
    return law.numpy()(x)


def equivalent(
    law: Law, other: Law, tolerance: float = 1e-8, points: int = 256, seed: int = 0
) -> bool:
    """Whether both give the same values on random held-out points, whatever their form.

    The points lie around zero at several scales, half of them with positive coordinates only.
    Points where either law is undefined are left out; if there are none left, the answer is
    whether the canonical forms are equal.
    """
    tolerance, points = number_of(tolerance, "tolerance"), whole_of(points, "points", 1)
    seed = whole_of(seed, "seed")
    if law.inputs != other.inputs or len(law.outputs) != len(other.outputs):
        return False
    rng = np.random.default_rng(seed)
    here, there = law.numpy(), other.numpy()
    compared = False
    for radius in EQUIVALENCE_RADII:
        z = rng.uniform(-radius, radius, (points, len(law.inputs)))
        z[::2] = np.abs(z[::2])
        a, b = here(z), there(z)
        usable = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
        a, b = a[usable], b[usable]
        if len(a):
            compared = True
            # Far out, large terms may cancel: rounding is a share of the largest value there.
            size = np.abs(a) if radius <= 3.0 else np.abs(a).max(axis=0)
            if (np.abs(a - b) > tolerance * (1.0 + size)).any():
                return False
    return True if compared else law == other


def order_of(law: Law) -> Literal[1, 2]:
    """Whether a law gives the first or the second time derivative of its coordinates."""
    count = len(law.outputs)
    if law.outputs == law.inputs[:count]:
        return 1
    if law.dynamics == "continuous" and law.outputs == law.inputs[count : 2 * count]:
        return 2
    raise LawError(
        f"The law gives {', '.join(law.outputs)} from {', '.join(law.inputs)}: to simulate "
        "it, its outputs must be its first inputs."
    )


def simulate(law: Law, x0: Any, t: Any, u: Any = None, **options: Any) -> SimulatedPath:
    """States at times `t` from the state `x0`; a law of second order also needs velocities.

    Actions `u` are rows (T, m), each kept constant until the next time, or one row for all times.
    See :class:`sjepa.models.Simulator`, also for the options.

    >>> from sjepa import Law
    >>> Law.from_string("-x", ["x"]).simulate([1.0], [0.0, 1.0]).z.round(4).tolist()
    [[1.0], [0.3679]]
    """
    from sjepa.models import Simulator

    return Simulator(law).simulate(x0, t, u, **options)


def score(law: Law, x: Any, t: Any = None, u: Any = None) -> float:
    """R² of simulated against given states over whole trajectories; see ``SJEPA.score``."""
    from sjepa.metrics import path_r2

    simulator, data = _data(law, x, t, u)
    return path_r2(simulator.beside(data), data.x)


def fit(
    law: Law,
    x: Any,
    t: Any = None,
    u: Any = None,
    free: Sequence[int] | Sequence[str] | None = None,
    *,
    horizon: int = 10,
) -> Law:
    """The same equations with coefficients fitted to rollouts of `horizon` steps through the data.

    Parameters
    ----------
    x, t, u : states, times and actions, as for ``SJEPA.fit``
    free : list of int or of str, optional
        What is fitted: positions in `coefficients`, or terms such as ``"sin(q)"`` with their
        coefficients and nonlinear parameters, in every equation that has them. By default all
        coefficients, and a multiplier of every term.

    >>> from sjepa import Law
    >>> t = np.arange(0, 3, 0.01)
    >>> x = np.exp(-1.5 * t)[:, None]
    >>> Law.from_string("-x", ["x"]).fit(x, t).lines(4)
    ["x' = -1.5*x"]
    """
    import torch

    from sjepa.data import Trajectories, TrajectoryBatch
    from sjepa.data.clock import middles
    from sjepa.training.rollout_fit import refine

    start, moving = _free(law, free)
    horizon = whole_of(horizon, "horizon", 1)
    simulator, data = _data(law, x, t, u)
    states = [simulator.states(z, times) for z, times in zip(data.x, data.t, strict=True)]
    actions = middles(data).u if simulator.actions else None
    rows = Trajectories(states, data.t, actions, gaps="keep")
    batch = TrajectoryBatch.make(rows, dtype=torch.float64)
    found = refine(
        start, batch.x, batch.dt, horizon=horizon, mask=batch.mask, u=batch.u, free=moving
    )
    return found.canonical()


def to_dict(law: Law) -> dict[str, Any]:
    """Plain data that :meth:`from_dict` reads back to an equal law."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "dynamics": law.dynamics,
        "inputs": list(law.inputs),
        "outputs": list(law.outputs),
        "expressions": [to_text(e) for e in law.expressions],
    } | ({"delays": dict(law.delays)} if law.delays else {})


def from_dict(cls: type[Law], data: Any) -> Law:
    """Read what :meth:`to_dict` wrote, checking every part of it."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f"Not a law: expected a JSON object with format {FORMAT!r}.")
    if data.get("version") != VERSION:
        raise FormatError(
            f"The law has format version {data.get('version')!r}; this release reads {VERSION}."
        )
    for key in ("inputs", "outputs", "expressions"):
        value = data.get(key)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise FormatError(f"Not a law: {key!r} must be a list of texts.")
    inputs = check_names(data["inputs"], "input")
    expressions = [parse(e, inputs) for e in data["expressions"]]
    law = cls(expressions, inputs, data["outputs"], data.get("dynamics", "continuous"))
    return read_stored(law, data["delays"]) if "delays" in data else law


def save(law: Law, path: str | Path) -> None:
    """Write the law as JSON; read it with :meth:`load`, or give it to the command line."""
    from sjepa.storage import write_whole

    write_whole(path_of(path, "path"), (law.to_json() + "\n").encode())


def load(cls: type[Law], path: str | Path) -> Law:
    """Read what :meth:`save` wrote, or the law of a run's folder. Nothing in it is executed."""
    from sjepa.storage import MAX_BYTES, read_bounded

    path = path_of(path, "path")
    return cls.from_json(read_bounded(path / "law.json" if path.is_dir() else path, MAX_BYTES))


def validate(front: Front, x: Any, t: Any = None, u: Any = None, *, zoh: bool = False) -> Front:
    """The front compared on data that it was not fitted to.

    Every law is simulated unchanged over segments of the data, from fitted initial states; ``best``
    is then the law of the highest evidence, and ``verdict`` that on these data.

    Parameters
    ----------
    x, t, u : states, times and inputs, as for ``discover``
    zoh : bool
        Whether inputs are constant between samples (zero-order hold), and not smooth.
    """
    from sjepa.data import Trajectories
    from sjepa.models import Simulator
    from sjepa.search.verdicts import validated

    simulator = Simulator(front.best())
    data = simulator.select(Trajectories.of(x, t, u))
    return validated(front, data, simulator.order, zoh)


def next_experiment(
    front: Front, n: int = 3, bounds: Mapping[str, tuple[float, float]] | None = None
) -> pd.DataFrame:
    """Where to measure next: initial states at which ``best()`` and its rivals differ most.

    Parameters
    ----------
    n : int
        How many starts.
    bounds : mapping, optional
        Smallest and largest value of states, velocities and (constant) inputs by name; by default
        the range of the data.

    Returns
    -------
    DataFrame
        A column for each input of the law, and ``separation``: by how many standard deviations of
        the noise the nearest rival's path differs.
    """
    from sjepa.search.experiment import next_experiment as propose

    if front.verdict is None:
        raise LawError("This front has no verdict, so it has no rivals to tell apart.")
    return propose(front.verdict, n, bounds)


def update(front: Front, x: Any, t: Any = None, u: Any = None) -> Front:
    """The front of the first data and these together, without the rows of the first.

    ``discover`` with a backend that combines terms keeps sums over its data, and those of more
    data are added to them: the search is then over all rows. Noise, windows and the form of the
    regression stay as they were decided on the first data. Simulations go through the new data
    alone.

    Parameters
    ----------
    x, t, u : states, times and actions, as for ``discover``

    Raises
    ------
    LawError
        If the front has no sums: those of expression trees, of parametric terms, of maps,
        of lags or of given derivatives have none, and files do not keep them.
    """
    if front.kept is None:
        raise LawError(
            "This front has no sums to add to (fronts from files, of trees, parametric terms, "
            "maps, lags and given derivatives have none): call discover on all data."
        )
    return front.kept.update(x, t, u)  # type: ignore[no-any-return]


def _data(law: Law, x: Any, t: Any, u: Any) -> tuple[Simulator, Trajectories]:
    from sjepa.data import Trajectories
    from sjepa.models import Simulator

    simulator = Simulator(law)
    return simulator, simulator.select(Trajectories.of(x, t, u))


def _free(law: Law, free: Sequence[Any] | None) -> tuple[Law, list[bool] | None]:
    """The law with its numbers as they may move, and which of them may; None for all."""
    if free is None:
        return law, None
    count = len(law.coefficients)
    wanted: list[Any] = [free] if isinstance(free, str) else list_of(free, "free", "terms")
    if all(isinstance(i, int) for i in wanted):
        if wrong := [i for i in wanted if not -count <= i < count]:
            raise LawError(f"free: the law has {count} coefficients, none at position {wrong[0]}.")
        return law, [i in wanted or i - count in wanted for i in range(count)]
    if not all(isinstance(text, str) for text in wanted):
        raise LawError(f"free is a list of positions or of terms, got {free!r:.60}.")
    law = law.with_free_terms()
    stripped, symbols, values = law.skeleton
    numbers = dict(zip(symbols, map(sympy.Float, values.tolist()), strict=True))
    parts: dict[sympy.Expr, set[Any]] = {}
    for part in (p for e in stripped for p in sympy.Add.make_args(e)):
        term = split_terms(part.xreplace(numbers))[0][1]
        parts.setdefault(term, set()).update(part.free_symbols)
    moving: set[Any] = set()
    for text in wanted:
        term = split_terms(parse(text, law.inputs))[0][1]
        if term not in parts:
            known = ", ".join(to_text(t, 4) for t in parts)
            raise LawError(f"free: the law has no term {text!r}; its terms are {known}.")
        moving |= parts[term]
    return law, [symbol in moving for symbol in symbols]
