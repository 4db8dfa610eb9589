"""PySR (SymbolicRegression.jl in Julia), in a worker process of its own."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sjepa.backend import Backend, Problem, StopNote
from sjepa.errors import BackendError, BackendUnavailable, ConfigError
from sjepa.symbolic import Grammar
from sjepa.symbolic.front import Front
from sjepa_backends.adapters import grammar_of
from sjepa_backends.pysr import guess, laws, pool, request as requests
from sjepa_backends.pysr.extras import extras
from sjepa_backends.pysr.julia import announce_download, depot, julia_available
from sjepa_backends.pysr.pool import stop_workers
from sjepa_backends.pysr.process import Worker
from sjepa_backends.pysr.so_far import PrintedTable, kept_equations
from sjepa_backends.pysr.template import PySRTemplate


__all__ = ["PySR", "PySRTemplate", "julia_available", "stop_workers"]

_WORKER = Path(__file__).parent.with_name("pysr_worker.py")
_PERCENT = re.compile(r"\((\d+(?:\.\d+)?)%\)")
# Iterations of a search that nothing else limits, and of one that only time limits.
_ITERATIONS = 60
_ENDLESS = 1_000_000
# PySR's own default, which it refuses in a smaller population.
_TOURNAMENT = 15


@dataclass(frozen=True)
class PySR(Backend):
    """Genetic programming over expression trees with PySR 1.5 or 2.x.

    Needs Julia, which PySR downloads at its first search, after a warning. It runs in a worker
    process that stays alive between searches; starting it and compiling are not counted in the
    time budget. Equations
    come back as text and are read by our own parser, refitted on all rows and scored by our own
    complexities.

    Parameters
    ----------
    niterations : int, optional
        Most iterations, if the problem's budget names none. By default 60, or as many as the
        time budget allows when the search is not deterministic.
    populations, population_size : int
    maxsize : float, default=20
        Longest equation, in units of the ``tree`` complexity. PySR is given more room where that
        is too little to evolve in; what is longer is left out afterwards.
    rows : int or None, default=2000
        Search on this many rows, drawn with the problem's seed; None takes all. Numbers are
        refitted on all rows anyway.
    deterministic : bool, optional
        Whether equal seeds give equal answers, which takes a search on one core. By default yes,
        unless `procs` or `cluster_manager` asks for more. A time budget that runs out before the
        iterations do makes the answer depend on the machine all the same.
    procs : int, optional
        Julia processes; otherwise a search that is not deterministic uses all threads.
    cluster_manager : str, optional
        PySR's name of a job queue, such as "slurm".
    batching : bool or "auto", optional
        Compare on small batches of rows; by default what PySR does ("auto" is 2.x only).
    precision : 16, 32 or 64
        Of the search; the refit is in double precision.
    template : PySRTemplate or mapping, optional
        Known structure, for all outputs or for some of them by name, with unknown parameters.
    elementwise_loss : str, optional
        What PySR minimizes, as Julia code: a loss of LossFunctions.jl such as ``"L1DistLoss()"``,
        or ``"f(x, y) = abs(x - y)"``. Its numbers are then kept, not refitted by least squares;
        the front is still made by squared errors, so far outliers are better left out.
    loss_function : str, optional
        The whole objective as Julia code: a function of (tree, dataset, options); of
        (expression, dataset, options) with a template.
    denoise : bool, default=False
        Let PySR smooth the targets by a Gaussian process first.
    dimensional_constraint_penalty : float, optional
        What a law whose units do not match adds to its loss; PySR's own is 1000. Units come with
        the problem, as ``discover(..., units=...)``.
    tensorboard : str, optional
        Folder for TensorBoard's logs.
    hall_of_fame : str, optional
        Folder in which PySR keeps its table of equations, up to date while it searches: a run
        folder, for instance. Among its files is a pickle, which nothing here ever reads.
    operators : sequence of str, optional
        What is searched where no grammar is given.
    options : mapping, optional
        Further arguments of ``PySRRegressor``, passed on as they are; they win over ours.
    startup_timeout : float, default=900
        Seconds that PySR may take to start. The first time it downloads and compiles Julia.
    grace : float, default=120
        Seconds beyond the time budget after which a search is stopped by force: time to compile
        and to finish an iteration. Without a budget there is no such limit.
    """

    name: ClassVar[str] = "pysr"
    trees: ClassVar[bool] = True
    # Losses, templates and options reach Julia as code; a job queue is a program.
    plain: ClassVar[frozenset[str]] = frozenset(
        {
            "niterations", "populations", "population_size", "maxsize", "rows", "deterministic",
            "procs", "batching", "precision", "denoise", "dimensional_constraint_penalty",
            "startup_timeout", "grace",
        }
    )  # fmt: skip
    # The program that searches. Not a setting: whoever chooses it runs anything.
    command: ClassVar[tuple[str, ...]] = (sys.executable, str(_WORKER))

    niterations: int | None = None
    populations: int = 15
    population_size: int = 27
    maxsize: float = 20.0
    rows: int | None = 2_000
    deterministic: bool | None = None
    procs: int | None = None
    cluster_manager: str | None = None
    batching: bool | Literal["auto"] | None = None
    precision: Literal[16, 32, 64] = 32
    template: PySRTemplate | Mapping[str, Any] | None = field(default=None, hash=False)
    elementwise_loss: str | None = None
    loss_function: str | None = None
    denoise: bool = False
    dimensional_constraint_penalty: float | None = None
    tensorboard: str | None = None
    hall_of_fame: str | None = None
    operators: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    startup_timeout: float = 900.0
    grace: float = 120.0

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "template", _read_template(self.template))
        set_(self, "options", dict(self.options))
        for name in ("niterations", "populations", "population_size", "maxsize", "rows", "procs"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ConfigError(f"{name} must be at least 1, got {value}.")
        for name in ("startup_timeout", "grace"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.precision not in (16, 32, 64):
            raise ConfigError(f"precision must be 16, 32 or 64, got {self.precision}.")
        if self.elementwise_loss is not None and self.loss_function is not None:
            raise ConfigError("Give an elementwise_loss or a loss_function, not both.")
        penalty = self.dimensional_constraint_penalty
        if penalty is not None and not penalty >= 0:
            raise ConfigError(f"dimensional_constraint_penalty is at least 0, got {penalty}.")
        if self.deterministic and self._wants_processes:
            raise ConfigError("A deterministic search has no use for procs and cluster_manager.")
        try:
            json.dumps(self.options)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"PySR's options must be numbers, texts, lists and mappings of them: {error}."
            ) from None

    @property
    def _wants_processes(self) -> bool:
        return self.procs is not None or self.cluster_manager is not None

    @property
    def _repeats(self) -> bool:
        """Whether equal seeds give equal answers."""
        return not self._wants_processes if self.deterministic is None else self.deterministic

    @property
    def limited(self) -> bool:
        """Whether iterations or seconds of its own end a search."""
        return self.niterations is not None or "timeout_in_seconds" in self.options

    def space(self, names: Sequence[str]) -> Grammar | None:
        return grammar_of(self.operators, names)

    def prepare(self) -> None:
        self._announce()
        try:
            pool.prepare(self.command)
        except BackendError:
            pass  # the search will say so

    def _announce(self) -> None:
        """Only the worker that comes with the package downloads Julia."""
        if self.command == PySR.command:
            announce_download()

    def describe(self) -> str:
        ready, found = julia_available()
        if not ready:
            raise BackendUnavailable(
                f"{found}; importing pysr would download Julia, and its packages to {depot()}."
            )
        return f"Julia is {found}, its packages are in {depot()}"

    def search(self, problem: Problem) -> Front:
        problem.rows()
        tasks, notes = requests.plan(problem, self._templates(problem))
        texts: list[list[str]] = [[] for _ in problem.outputs]
        todo = [task for task in tasks if task.columns]

        def starting(line: str) -> None:
            problem.report(line, 0.0)

        if todo:
            self._announce()
            with pool.borrow(self.command, self.startup_timeout, starting) as worker:
                done = 0
                for task in todo:
                    started = time.time()
                    try:
                        found, stopped = self._run(worker, task, problem, done), False
                    except KeyboardInterrupt:
                        found, stopped = self._kept(worker, task, started), True
                        if not any(found) and not any(texts):
                            raise
                        notes.append(StopNote.of())
                    for j, rows in zip(task.outputs, found, strict=True):
                        texts[j] = rows
                    if stopped:
                        break
                    done += len(task.outputs)
        own_loss = self.elementwise_loss is not None or self.loss_function is not None
        if own_loss:
            notes.append(
                "searched with a loss of your own; the losses reported here are squared errors"
            )
        else:
            problem.report("Refitting the equations on all rows", 1.0)
        return laws.front(problem, tasks, texts, notes, self.maxsize, not own_loss)

    def _templates(self, problem: Problem) -> Mapping[str, PySRTemplate]:
        if isinstance(self.template, PySRTemplate):
            return dict.fromkeys(problem.outputs, self.template)
        return self.template or {}

    def _run(
        self, worker: Worker, task: requests.PySRTask, problem: Problem, done: int
    ) -> list[list[str]]:
        """One search by the worker; the equations of each output of the task."""
        share = len(task.outputs) / len(problem.outputs)
        before = done / len(problem.outputs)
        seconds = problem.budget.seconds and problem.budget.seconds * share
        request = self.request(task, problem)
        request["data"] = str(Path(worker.directory) / "data.npz")
        arrays: dict[str, Any] = self._arrays(task, problem)
        np.savez(request["data"], **arrays)
        part, started = 0.0, math.inf
        printed = PrintedTable(task, problem)

        def report(line: str) -> None:
            nonlocal part, started
            if percent := _PERCENT.search(line):  # Julia has compiled and counts iterations
                started = min(started, problem.clock())
                part = max(part, float(percent[1]) / 100)
            if seconds and math.isfinite(started):
                part = max(part, (problem.clock() - started) / seconds)
            problem.report(printed.with_table(line), before + share * min(part, 0.99))

        limit = seconds + self.grace if seconds else float("inf")
        return worker.search(request, len(task.outputs), limit, report)

    def _kept(self, worker: Worker, task: requests.PySRTask, started: float) -> list[list[str]]:
        """What PySR wrote down of a search that is still running."""
        folder = Path(self.hall_of_fame or worker.directory)
        return kept_equations(folder, started, len(task.outputs))

    def request(self, task: requests.PySRTask, problem: Problem) -> dict[str, Any]:
        """What the worker is asked, apart from the data."""
        request = requests.search_space(task, problem, self.maxsize)
        seconds, iterations = problem.budget.seconds, problem.budget.iterations or self.niterations
        if iterations is None:
            iterations = _ENDLESS if seconds and not self._repeats else _ITERATIONS
        settings = request["settings"] | {
            "niterations": iterations,
            "populations": self.populations,
            "population_size": self.population_size,
            "tournament_selection_n": min(_TOURNAMENT, self.population_size),
            "precision": self.precision,
            "parallelism": "multithreading",
            # A list of equations now and then, rather than a bar that redraws itself.
            "verbosity": 1,
            "progress": False,
            "temp_equation_file": True,
            "input_stream": "devnull",
        }
        if self._repeats:
            settings |= {
                "deterministic": True,
                "parallelism": "serial",
                "random_state": problem.seed % 2**32,
            }
        elif self._wants_processes:
            settings |= {"parallelism": "multiprocessing", "procs": self.procs}
            if self.cluster_manager is not None:
                settings["cluster_manager"] = self.cluster_manager
        if seconds:
            settings["timeout_in_seconds"] = seconds * len(task.outputs) / len(problem.outputs)
        if self.batching is not None:
            settings["batching"] = self.batching
        more = extras(self, task, problem)
        request |= more
        request["settings"] = settings | more["settings"] | dict(self.options)
        requests.check_operators(request["settings"])
        request["warm"] = problem.warm is not None
        request["guesses"] = guess.guesses(task, problem)
        return request

    def _arrays(self, task: requests.PySRTask, problem: Problem) -> dict[str, np.ndarray]:
        """Inputs, targets and weights of the rows that the search sees."""
        inputs, targets = task.values(problem), problem.rows()[1][:, list(task.outputs)]
        usable = np.arange(len(inputs))
        if problem.weights is not None:
            usable = usable[problem.weights > 0]
        if self.rows is not None and len(usable) > self.rows:
            rng = np.random.default_rng(problem.seed % 2**32)
            usable = np.sort(rng.choice(usable, self.rows, replace=False))
        arrays = {"inputs": inputs[usable], "targets": targets[usable]}
        if problem.weights is not None:  # of the same shape as the targets, as PySR wants it
            arrays["weights"] = np.broadcast_to(
                problem.weights[usable, None], arrays["targets"].shape
            )
        if len(task.outputs) == 1:
            arrays |= {k: v[:, 0] for k, v in arrays.items() if k != "inputs"}
        return arrays


def _read_template(value: Any) -> PySRTemplate | dict[str, PySRTemplate] | None:
    """A template, plain data for one, or some of them by output."""
    if value is None or isinstance(value, PySRTemplate):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"A template is a PySRTemplate or a mapping, got {value!r}.")
    if isinstance(value.get("combine"), str):
        return _build_template(value)
    return {k: v if isinstance(v, PySRTemplate) else _build_template(v) for k, v in value.items()}


def _build_template(value: Mapping[str, Any]) -> PySRTemplate:
    try:
        return PySRTemplate(**value)
    except TypeError:
        raise ConfigError(
            f"A template has 'combine', 'expressions' and 'parameters', got {value!r}."
        ) from None
