"""What the default call of `SymbolicRegressor` makes of tables: classic formulas, and pure noise.

    python -m benchmarks.tables formulas [--cells 0] [--seed 0] [--seconds 30] [--out FILE]
    python -m benchmarks.tables noise [--tables 200] [--seed 0] [--out FILE]

`formulas` runs the static suite of `sjepa benchmark` at four noise levels, in random order, with
the default call and with single backends. These are given what the default call has to find out,
the loss that the noise leaves of the true formula. Recovered is the suite's rule; a law is flagged
where the verdict says that it is not adequate. `noise` draws tables whose target has nothing to do
with their 3 to 30 columns, of 60 to 1,000 rows. Finished rows are kept in `--out`, and read again.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sjepa import SymbolicRegressor
from sjepa.backend.budget import cpu_time
from sjepa.studies.backends import PROBLEMS
from sjepa.studies.backends.cells import TEST_SEED, Cell, run_cell
from sjepa.studies.backends.problems import noisy_sample, static_scores


NOISE = (0.0, 0.001, 0.01, 0.1)
DEFAULT = "default"


def default_call(cell: Cell) -> dict[str, Any]:
    """A row of the default call: what it chose, and what it says of it."""
    problem = PROBLEMS[cell.system]
    x, y = noisy_sample(problem, cell.noise, cell.seed)
    start = cpu_time()
    model = SymbolicRegressor(
        budget=cell.seconds, random_state=cell.seed, feature_names=problem.inputs, verbose=False
    ).fit(x, y)
    seconds = cpu_time() - start
    verdict = model.verdict_
    truth = static_scores(model.law_, problem, cell.noise, TEST_SEED + cell.seed)
    rivals = () if verdict is None else verdict.rivals
    among = any(
        static_scores(r.law, problem, cell.noise, TEST_SEED + cell.seed)["recovered"]
        for r in rivals
    )
    return truth | {
        "adequate": said(model), "truth_among_rivals": among, "seconds": seconds,
        "equation": "; ".join(model.law_.lines(digits=5)), "error": "",
    }  # fmt: skip


def said(model: SymbolicRegressor) -> str:
    adequate = None if model.verdict_ is None else model.verdict_.adequate
    return {True: "adequate", False: "not adequate", None: "undecided"}[adequate]


def formulas(arguments: argparse.Namespace) -> Iterator[tuple[tuple[Any, ...], Callable[..., Any]]]:
    rng = np.random.default_rng(arguments.seed)
    cells = list(product(arguments.problems or PROBLEMS, arguments.noise))
    order = rng.permutation(len(cells))
    for i in order[: arguments.cells or None]:
        problem, noise = cells[i]
        for backend in (DEFAULT, *arguments.backends):
            name = "subset" if backend == DEFAULT else backend
            cell = Cell(problem, name, noise, arguments.seed, seconds=arguments.seconds)
            run = default_call if backend == DEFAULT else run_cell
            yield (problem, noise, backend), lambda run=run, cell=cell: run(cell)


def report_formulas(table: pd.DataFrame) -> None:
    table["recovered"] = table["recovered"].astype(str) == "True"
    names = list(dict.fromkeys(table["backend"]))
    whole = table.groupby(["problem", "noise"])["backend"].transform("nunique") == len(names)
    for noise, part in table[whole].groupby("noise"):
        texts = [
            f"{b} {int(p['recovered'].sum())} ({p['seconds'].median():.1f} s)"
            for b in names
            for p in [part[part["backend"] == b]]
        ]
        print(f"noise {noise:g}, of {part['problem'].nunique()} problems: {', '.join(texts)}")
    own = table[table["backend"] == DEFAULT]
    for right, part in own.groupby("recovered"):
        counts = part["adequate"].value_counts().to_dict()
        print(f"{'right' if right else 'wrong'} laws of the default call, {len(part)}: {counts}")
    silent = own[~own["recovered"] & (own["adequate"] == "adequate")]
    print(f"wrong ones called adequate beside the true law as a rival: "
          f"{int((silent['truth_among_rivals'].astype(str) == 'True').sum())}")  # fmt: skip


def noise_table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = round(np.exp(rng.uniform(np.log(60), np.log(1000))))
    columns = int(rng.integers(3, 31))
    x = [rng.normal, lambda size: rng.uniform(0.5, 4.0, size), rng.uniform][rng.integers(3)](
        size=(rows, columns)
    )
    y = [rng.normal, rng.uniform, lambda size: rng.standard_t(3, size)][rng.integers(3)](size=rows)
    return x, 10 ** rng.uniform(-3, 3) * (y + rng.uniform(-5, 5))


def search_noise(seed: int, number: int) -> dict[str, Any]:
    x, y = noise_table(np.random.default_rng([seed, number]))
    start = cpu_time()
    model = SymbolicRegressor(random_state=number, verbose=False).fit(x, y)
    return {
        "rows": len(x), "columns": x.shape[1], "adequate": said(model),
        "constant": not model.law_.expressions[0].free_symbols, "seconds": cpu_time() - start,
        "equation": "; ".join(model.law_.lines(digits=3)),
    }  # fmt: skip


def noise(arguments: argparse.Namespace) -> Iterator[tuple[tuple[Any, ...], Callable[..., Any]]]:
    for i in range(arguments.tables):
        yield (arguments.seed, i), lambda i=i: search_noise(arguments.seed, i)


def report_noise(table: pd.DataFrame) -> None:
    constant = table["constant"].astype(str) == "True"
    counts = table[~constant]["adequate"].value_counts().to_dict()
    times = f"{table['seconds'].median():.1f} (median), {table['seconds'].max():.1f} (longest)"
    print(f"{len(table)} tables: {int(constant.sum())} constants, laws {counts}; CPU s {times}")
    print(table[~constant].to_string())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    ways = parser.add_subparsers(dest="way", required=True)
    first, second = ways.add_parser("formulas"), ways.add_parser("noise")
    for way in (first, second):
        way.add_argument("--seed", type=int, default=0)
        way.add_argument("--out", type=Path)
        way.add_argument("--report", action="store_true", help="only print what --out has")
    first.add_argument("--cells", type=int, default=0, help="problems x noises; 0 for all")
    first.add_argument("--seconds", type=float, default=30.0)
    first.add_argument("--noise", type=float, nargs="+", default=NOISE)
    first.add_argument("--problems", nargs="+")
    first.add_argument("--backends", nargs="*", default=["operon", "subset"])
    second.add_argument("--tables", type=int, default=200)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    is_noise = arguments.way == "noise"
    keys = ["seed", "table"] if is_noise else ["problem", "noise", "backend"]
    rows: list[dict[str, Any]] = []
    if arguments.out and arguments.out.exists():
        rows = pd.read_csv(arguments.out).to_dict("records")
    done = {tuple(row[k] for k in keys) for row in rows}
    for key, run in () if arguments.report else (noise if is_noise else formulas)(arguments):
        if key in done:
            continue
        row = dict(zip(keys, key, strict=True)) | {
            k: v for k, v in run().items() if k not in ("backend", "noise", "seed", "system")
        }
        rows.append(row)
        print(*row.values(), flush=True)
        if arguments.out:
            pd.DataFrame(rows).to_csv(arguments.out, index=False)
    (report_noise if is_noise else report_formulas)(pd.DataFrame(rows))


if __name__ == "__main__":
    main()
