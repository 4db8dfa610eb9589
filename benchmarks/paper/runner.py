"""Runs an experiment over its seeds and writes everything that is to be kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd
import torch
from joblib import Parallel, delayed

from benchmarks.paper import exp1, exp2
from benchmarks.paper.common import Result
from benchmarks.paper.figures import draw
from benchmarks.paper.parts import Parts
from benchmarks.paper.profiles import PROFILES, Profile
from benchmarks.paper.tables import render
from sjepa import __version__
from sjepa.backend import Progress
from sjepa.backend.executors import run_on
from sjepa.backend.registry import make_backend
from sjepa.errors import ConfigError
from sjepa.models.devices import resolve_device
from sjepa.storage import make_folder, write_whole
from sjepa.symbolic import Law
from sjepa.training.alternating import LatentModel


EXPERIMENTS = {"exp1": exp1, "exp2": exp2}
TITLES = {
    "exp1": "Experiment 1: learning coordinates with elegant dynamics",
    "exp2": "Experiment 2: hybrid dynamics under grammar mismatch",
}
SEEDS = (7, 19, 37)

# Called with the name of a task, what it is doing, and the share of it that is done.
TaskProgress = Callable[[str, str, float], None]


def run(
    name: str,
    seeds: Sequence[int] = SEEDS,
    backend: Any = "stlsq",
    profile: str | Profile = "default",
    out: str | Path | None = None,
    *,
    conditions: Sequence[str] | None = None,
    device: str = "auto",
    n_jobs: int = 2,
    progress: TaskProgress | None = None,
    executor: Any = "local",
) -> pd.DataFrame:
    """Run an experiment and return its metrics in long form.

    Parameters
    ----------
    name : "exp1" or "exp2"
    seeds : sequence of int
        One optimization run each; the data are always the same.
    backend : name, mapping or Backend
        What proposes laws.
    profile : "paper", "windows", "fast", "default", or a Profile
    out : folder, optional
        Gets metrics.parquet, laws.json, tables.md, cycles.json and the figures. What is finished
        is kept there in ``parts``: the same call after an interruption resumes from it, and one
        with more seeds or conditions runs only those.
    conditions : sequence of str, optional
        Only these; all by default.
    n_jobs : int, default=2
        Processes. Results do not depend on it.
    progress : callable, optional
    executor : "local", "dask", "ray" or a client
        Where they are; on other machines nothing is reported on the way.

    Returns
    -------
    pandas.DataFrame
        Columns experiment, condition, seed, metric, value.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(f"No experiment is called {name!r}. Known: {', '.join(EXPERIMENTS)}.")
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise ConfigError(f"No profile is called {profile!r}. Known: {', '.join(PROFILES)}.")
        profile = PROFILES[profile]
    known = EXPERIMENTS[name].CONDITIONS
    wanted = list(conditions or known)
    if unknown := [c for c in wanted if c not in known]:
        raise ConfigError(f"No condition is called {unknown[0]!r}. Known: {', '.join(known)}.")
    if not seeds:
        raise ConfigError("An experiment needs at least one seed.")
    make_backend(backend)  # a misspelled backend is refused before anything is trained
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder)

    where = resolve_device(device)
    with _reporting(progress, n_jobs if executor == "local" else 1) as queue:
        workers: Any = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        if executor != "local":
            workers, queue = partial(run_on, executor, _called, workers=n_jobs), None
        parts = Parts(folder, repr((name, profile, backend, where, __version__)))
        jobs = _exp1_jobs if name == "exp1" else _exp2_jobs
        results = jobs(workers, parts, seeds, wanted, _Setup(profile, backend, where, queue))
    order = {c: i for i, c in enumerate(known)}
    results.sort(key=lambda r: (order[r.condition], list(seeds).index(r.seed)))
    frame = long_form(name, results)
    if folder is not None:
        write(name, results, frame, folder, f"{TITLES[name]} ({profile.name} profile)")
        parts.forget_warm()
    return frame


def long_form(experiment: str, results: Sequence[Result]) -> pd.DataFrame:
    """One row for each figure."""
    rows = [
        (experiment, r.condition, r.seed, metric, float(value))
        for r in results
        for metric, value in r.metrics.items()
    ]
    return pd.DataFrame(rows, columns=["experiment", "condition", "seed", "metric", "value"])


def write(
    experiment: str, results: Sequence[Result], frame: pd.DataFrame, folder: Path, heading: str
) -> None:
    """All files of a finished run, each put in place in one step."""
    laws = [
        {
            "condition": r.condition,
            "seed": r.seed,
            "law": Law.from_json(r.law).lines(digits=6),
            "law_json": r.law,
        }
        for r in results
        if r.law is not None
    ]
    write_whole(folder / "metrics.parquet", frame.to_parquet(index=False))
    write_whole(
        folder / "laws.json", (json.dumps(laws, indent=1, ensure_ascii=False) + "\n").encode()
    )
    write_whole(folder / "tables.md", render(experiment, frame, laws, heading).encode())
    cycles = [{"seed": r.seed, "cycles": r.diagnostics} for r in results if r.diagnostics]
    if cycles:
        write_whole(folder / "cycles.json", (json.dumps(cycles, indent=1) + "\n").encode())
    draw(experiment, results, folder)


def _called(number: int, job: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    """What joblib's ``delayed`` has put together."""
    function, arguments, options = job
    return function(*arguments, **options)


# Jobs: functions of plain data, so that any joblib executor can run them --------------------------


@dataclass(frozen=True)
class _Setup:
    """What every job of a run needs."""

    profile: Profile
    backend: Any
    device: torch.device
    queue: Any

    def begin(self, task: str) -> Progress | None:
        """What a job reports to. Processes share the cores: more threads would be in the way."""
        if self.queue is None:
            return None
        if not hasattr(self.queue, "put"):
            return lambda line, share: self.queue(task, line, share)
        torch.set_num_threads(1)
        return lambda line, share: self.queue.put((task, line, share))

    def experiment1(self, seed: int, what: str) -> exp1.SeedRun:
        progress = self.begin(f"seed {seed}: {what}")
        return exp1.SeedRun(seed, self.profile, self.backend, self.device, progress)


def _exp1_jobs(
    workers: Any, parts: Parts, seeds: Sequence[int], wanted: Sequence[str], setup: _Setup
) -> list[Result]:
    results = parts.results(wanted, seeds)
    left = {s: _left(wanted, s, results) for s in seeds}
    warm = {s: parts.warm(s) for s in seeds if any(c in exp1.WARM for c in left[s])}
    cold = [s for s, snapshot in warm.items() if snapshot is None]
    for seed, snapshot in workers(delayed(_warm)(s, setup) for s in cold):
        parts.keep_warm(seed, snapshot)
        warm[seed] = snapshot
    tasks = [(task, s) for s in seeds for task in exp1.tasks(left[s])]
    # The longest tasks first, so that no process is left waiting at the end.
    tasks.sort(key=lambda task: "sjepa" not in task[0])
    trained = workers(delayed(_exp1_task)(task, s, warm.get(s), setup) for task, s in tasks)
    return results + _kept(trained, parts)


def _warm(seed: int, setup: _Setup) -> tuple[int, dict[str, Any]]:
    return seed, setup.experiment1(seed, "warm start").warm().snapshot()


def _exp1_task(
    names: Sequence[str], seed: int, snapshot: dict[str, Any] | None, setup: _Setup
) -> list[Result]:
    task = setup.experiment1(seed, ", ".join(names))
    warm: LatentModel | None = None
    if snapshot is not None:
        warm = task.fresh()
        warm.restore(snapshot)
    return task.conditions(names, warm)


def _exp2_jobs(
    workers: Any, parts: Parts, seeds: Sequence[int], wanted: Sequence[str], setup: _Setup
) -> list[Result]:
    results = parts.results(wanted, seeds)
    tasks = [(c, s) for s in seeds for c in _left(wanted, s, results)]
    tasks.sort(key=lambda task: "hybrid" not in task[0])
    return results + _kept(workers(delayed(_exp2_task)(c, s, setup) for c, s in tasks), parts)


def _exp2_task(condition: str, seed: int, setup: _Setup) -> list[Result]:
    progress = setup.begin(f"seed {seed}: {condition}")
    result = exp2.run_condition(
        condition, seed, setup.profile, setup.backend, setup.device, progress
    )
    return [] if result is None else [result]


def _left(wanted: Sequence[str], seed: int, results: Sequence[Result]) -> list[str]:
    """Conditions of a seed that have no result yet."""
    done = {r.condition for r in results if r.seed == seed}
    return [c for c in wanted if c not in done]


def _kept(batches: Iterable[list[Result]], parts: Parts) -> list[Result]:
    results = []
    for batch in batches:
        for result in batch:
            parts.keep(result)
            results.append(result)
    return results


@contextmanager
def _reporting(progress: TaskProgress | None, n_jobs: int) -> Iterator[Any]:
    """Something jobs can report to: the callable itself, or a queue when they run elsewhere."""
    if n_jobs == 1:
        yield progress
        return
    from multiprocessing import Manager

    with Manager() as manager:
        queue = manager.Queue()

        def drain() -> None:
            while (row := queue.get()) is not None:
                if progress is not None:
                    progress(*row)

        thread = Thread(target=drain, daemon=True)
        thread.start()
        try:
            yield queue
        finally:
            queue.put(None)
            thread.join(timeout=5)
