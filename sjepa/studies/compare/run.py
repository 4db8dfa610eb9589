"""Every backend by name on one's own table or trajectories, each in its own time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sjepa.backend import Backend, Budget
from sjepa.backend.executors import check_executor, run_on
from sjepa.backend.registry import available_backends, make_backend
from sjepa.data import Trajectories
from sjepa.data.names import numbered
from sjepa.errors import BackendUnavailable, ConfigError, DataError, SjepaError
from sjepa.estimator.checks import check_X_y
from sjepa.estimator.table_space import output_names
from sjepa.settings import list_of, texts_of, whole_of
from sjepa.studies.compare.comparison import Comparison
from sjepa.studies.compare.tasks import BackendResult, BackendTask, Data, TableData, TrajectoryData


# The call without a backend, by this name.
DEFAULT = "default"


def compare(
    X: Any,
    y: Any = None,
    *,
    t: Any = None,
    u: Any = None,
    backends: Sequence[Any] | None = None,
    budget: float = 10.0,
    cv: int = 3,
    random_state: int = 0,
    feature_names: Sequence[str] | None = None,
    executor: Any = "local",
    workers: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare backends on your own data, all with the same budget.

    Parameters
    ----------
    X, y : table (n, d) and targets (n,) or (n, k), or trajectories and their times
        With `y` formulas y = f(X) are searched, with times `t` equations of motion of states X.
    t, u : times and inputs of trajectories, as in :func:`sjepa.discover`
    backends : list, optional
        Names, mappings, instances, estimators of other packages, or "default" for the call
        without a backend. By default that and all that are installed.
    budget : float
        CPU seconds for each search: of all data, and of every fold.
    cv : int
        Number of folds. Rows of a table are left out at random; of trajectories whole ones, or
        parts of them where there are fewer than folds.
    random_state : int
        Seed of the searches and of the folds.
    feature_names : list of str, optional
        Names of columns or states.
    executor, workers : "local", "dask", "ray" or a client, and how many processes
    progress : callable, optional
        Called with a backend's label, how many are done, and how many there are.
    settings : further arguments of :class:`SymbolicRegressor` or :func:`discover`, for all alike

    Returns
    -------
    Comparison
        ``to_frame()`` is the table, ``report(path)`` a page with the Pareto fronts over each
        other. A backend that fails is a row that says why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (100, 2))
    >>> found = compare(X, X[:, 0] * X[:, 1], backends=["stlsq", "subset"])
    >>> found.to_frame()[["backend", "score", "agreement"]].round(3).values.tolist()
    [['stlsq', 1.0, 1.0], ['subset', 1.0, 1.0]]
    """
    check_executor(executor)
    cv = whole_of(cv, "cv", 2)
    seconds = Budget.of(budget).seconds
    if seconds is None:
        raise ConfigError("Give a budget of seconds, the same for each backend.", "budget")
    data, what = _data(X, y, t, u, feature_names, settings)
    installed = [name for name, ready in available_backends().items() if ready]
    if backends is None:
        chosen: list[Any] = [DEFAULT, *installed]
    else:
        single = isinstance(backends, str | Mapping) or not hasattr(backends, "__iter__")
        chosen = [backends] if single else list_of(backends, "backends", "names or backends")
    if not chosen:
        raise ConfigError("Give at least one backend.", "backends")
    labels = _labels(chosen)
    entries: dict[str, BackendResult] = {}
    tasks = []
    for label, backend in zip(labels, chosen, strict=True):
        try:
            checked = _checked(backend)
        except SjepaError as error:
            entries[label] = BackendResult(label, error=f"{type(error).__name__}: {error}")
        else:
            tasks.append(BackendTask(label, checked, data, seconds, cv, random_state))
    for entry in run_on(executor, _run, tasks, workers):
        entries[entry.label] = entry
        if progress is not None:
            progress(entry.label, len(entries), len(labels))
    return Comparison(tuple(entries[label] for label in labels), seconds, cv, what)


def _run(_: int, task: BackendTask) -> BackendResult:
    return task.run()


def _data(
    X: Any, y: Any, t: Any, u: Any, names: Sequence[str] | None, settings: Mapping[str, Any]
) -> tuple[Data, str]:
    if y is not None:
        if t is not None or u is not None:
            raise ConfigError("Give y for formulas of a table, or t for trajectories, not both.")
        columns, name = getattr(y, "columns", None), getattr(y, "name", None)
        labels = getattr(X, "columns", None)
        if names is not None:
            labels = texts_of(names, "feature_names", "texts")
        X, y = check_X_y(X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        inputs = numbered("x", X.shape[1]) if labels is None else list(map(str, labels))
        outputs = output_names([name] if columns is None else list(columns), y, inputs)
        table = TableData(X, y.reshape(len(y), -1), inputs, outputs, dict(settings))
        return table, f"{len(X):,} rows of {X.shape[1]} columns"
    if t is None and not isinstance(X, Trajectories):
        raise DataError("Give y for formulas of a table, or the times t of trajectories.", "t")
    data = Trajectories.of(X, t, u, names=names, states=True)
    word = "trajectory" if len(data) == 1 else "trajectories"
    return TrajectoryData(
        data, dict(settings)
    ), f"{len(data)} {word}, {int(data.lengths.sum()):,} points"


def _checked(backend: Any) -> Any:
    """The backend as it is searched; refused before any time is spent."""
    if isinstance(backend, str) and backend == DEFAULT:
        return None
    made: Backend = make_backend(backend)
    try:
        made.describe()
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{made.name}: {error}") from None
    return made


def _labels(backends: Sequence[Any]) -> list[str]:
    """A short name for each, numbered where several would have the same."""
    names = [_label(backend) for backend in backends]
    count, used, labels = Counter(names), Counter[str](), []
    for name in names:
        used[name] += 1
        labels.append(name if count[name] == 1 else f"{name} {used[name]}")
    return labels


def _label(backend: Any) -> str:
    if isinstance(backend, str):
        return backend
    if isinstance(backend, Mapping):
        options = ", ".join(f"{k}={v}" for k, v in backend.items() if k != "name")
        return f"{backend.get('name')}({options})"[:60] if options else str(backend.get("name"))
    if isinstance(backend, list | tuple):
        return "+".join(map(_label, backend))
    if isinstance(backend, Backend):
        return backend.name
    if isinstance(backend, type):
        return str(getattr(backend, "name", backend.__name__))
    return f"{type(backend).__module__.partition('.')[0]}.{type(backend).__name__}"
