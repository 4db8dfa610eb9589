"""What attacks leave: random calls, faults of the disk, spoilt files, memory for each byte of data.

    OMP_NUM_THREADS=1 python -m benchmarks.hardening discover 200     # that many random calls
    OMP_NUM_THREADS=1 python -m benchmarks.hardening fits 50 --seed 7
    OMP_NUM_THREADS=1 python -m benchmarks.hardening doors 3000 --seed 7   # all public calls
    OMP_NUM_THREADS=1 python -m benchmarks.hardening arguments 1      # each for all junk
    OMP_NUM_THREADS=1 python -m benchmarks.hardening soak 2000    # what they leave behind
    OMP_NUM_THREADS=1 python -m benchmarks.hardening together 8   # processes in the same folders
    OMP_NUM_THREADS=1 python -m benchmarks.hardening files 5          # times the tests' number
    OMP_NUM_THREADS=1 python -m benchmarks.hardening faults
    OMP_NUM_THREADS=1 python -m benchmarks.hardening kills 104        # and a fifth in a sweep
    OMP_NUM_THREADS=1 python -m benchmarks.hardening budgets          # seconds beyond a budget
    OMP_NUM_THREADS=1 python -m benchmarks.hardening memory 3000000   # rows of five columns

Run it from the top of the repository: the attacks are those of the tests.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import budgets
from sjepa import discover
from tests.robustness.torture import BACKENDS, SETTINGS as OPTIONS, discover_call, fit_call
from tests.runs.doors import DOORS, door_call
from tests.runs.every_argument import foreign_errors
from tests.runs.fuzzing import longest, only_our_errors, outcomes, peak_memory
from tests.runs.killing import kill_runs, kill_sweep
from tests.runs.load import soak, together
from tests.runs.test_faults import SETTINGS, inject


SECONDS = 20.0  # of CPU time, for one call


def calls(call: Callable[[int], object], count: int, seed: int) -> None:
    """Outcomes of random calls; whatever falls through is printed with the number that makes it."""
    _everything_imported()
    before = peak_memory()
    for number in range(seed, seed + count):
        record = longest[0]
        try:
            only_our_errors(partial(call, number), SECONDS)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            print(f"{call.__name__}({number}): {type(error).__name__} {place} {error!s:.100}")
        if longest[0] > max(record, 3.0):
            print(f"{call.__name__}({number}) took {longest[0]:.1f} s of CPU time")
        if (number + 1 - seed) % 250 == 0 or number + 1 == seed + count:
            _print_outcomes(f"{call.__name__} {seed} to {number}", before)


def arguments(every: int, seed: int) -> None:
    """Every argument exchanged for everything that makes no sense, or each `every`-th of those."""
    _everything_imported()
    for door in DOORS:
        before = sum(outcomes.values())
        wrong = list(foreign_errors(door, SECONDS, every, seed % every))
        print(*wrong, sep="\n", end="\n" if wrong else "")
        print(
            f"{door.__name__}: {sum(outcomes.values()) - before} calls, {len(wrong)} wrong",
            flush=True,
        )


def _everything_imported() -> None:
    t = np.arange(60) * 0.1
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    for name in BACKENDS:
        discover(x, 0.1, backend={"name": name, **OPTIONS[name]}, budget=1.0)


def _print_outcomes(what: str, before: float) -> None:
    grown = peak_memory() - before
    print(
        f"{what}: {dict(outcomes)}, longest {longest[0]:.1f} s CPU, {grown:.0f} MB more", flush=True
    )


def files(times: int) -> None:
    """Spoilt files of every kind: `times` the number of the tests, elsewhere every time."""
    _everything_imported()
    os.environ["SJEPA_FUZZ"] = str(times)
    before = peak_memory()
    failed = pytest.main(["-q", "-p", "no:xdist", "--show-capture=no", "tests/runs/test_fuzz.py"])
    _print_outcomes(f"spoilt files, exit {int(failed)}", before)


def faults() -> None:
    """Every operation fails once, and is once the last before a power cut."""
    for cut, search in product((False, True), reversed(SETTINGS)):
        with tempfile.TemporaryDirectory() as place:
            counts = inject(search, Path(place), 1, cut)
        print(f"{search}, {'power cut' if cut else 'error'}: {dict(counts)}", flush=True)


def kills(count: int, seed: int) -> None:
    """`kill -9` at random moments of runs of both searches, and of a sweep of a benchmark."""
    for search in SETTINGS:
        with tempfile.TemporaryDirectory() as place:
            print(
                f"{search} runs: {dict(kill_runs(search, Path(place), count // 2, seed))}",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as place:
        print(f"sweep: {dict(kill_sweep(Path(place), max(1, count // 5), seed))}")


def soaked(count: int, seed: int) -> None:
    """Memory, open files and threads along many calls of one process."""
    _everything_imported()
    every = max(1, count // 8)
    for i, found in enumerate(soak(door_call, count, seed, every)):
        print(f"after {i * every} calls: " + ", ".join(f"{v:.0f} {k}" for k, v in found.items()))


def shared(processes: int) -> None:
    """What processes say that share a cache of embeddings and a folder of a run."""
    with tempfile.TemporaryDirectory() as place:
        said = together(Path(place), processes)
    print(f"{len({tuple(lines[:-1]) for lines in said})} answers about embeddings")
    for end, count in Counter(lines[-1].replace(place, "") for lines in said).items():
        print(f"{count} times: {end}")


def memory(rows: int) -> None:
    """Peak of the resident memory over the size of the data, the data included (Linux only)."""
    t = np.arange(2000) * 0.01
    discover(np.stack([np.cos(t), -np.sin(t)], axis=1), 0.01)  # imports what it needs
    for noise in (0.0, 0.01):
        x, rng = np.empty((rows, 5)), np.random.default_rng(0)
        for i in range(0, rows, 100_000):
            t = 0.01 * np.arange(i, min(i + 100_000, rows))[:, None]
            x[i : i + len(t)] = np.cos(t * [1, 1, 2.3, 2.3, 0.7] - [0, 1.5, 0, 1.5, 0])
            x[i : i + len(t)] += noise * rng.normal(size=(len(t), 5))
        before = _resident("VmRSS") - x.nbytes
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        start = time.process_time()
        front = discover(x, 0.01)
        ratio = (_resident("VmHWM") - before) / x.nbytes
        took = time.process_time() - start
        print(f"{rows} rows, noise {noise}: {ratio:.2f} times the data, {front.form}, {took:.0f} s")


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "what", choices=["discover", "fits", "doors", "arguments", "files", "faults", "kills",
                         "budgets", "memory", "soak", "together"],
    )  # fmt: skip
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    match args.what:
        case "discover":
            calls(discover_call, args.count, args.seed)
        case "fits":
            calls(fit_call, args.count, args.seed)
        case "doors":
            calls(door_call, args.count, args.seed)
        case "arguments":
            arguments(args.count, args.seed)
        case "soak":
            soaked(args.count, args.seed)
        case "together":
            shared(args.count)
        case "files":
            files(args.count)
        case "faults":
            faults()
        case "kills":
            kills(args.count, args.seed)
        case "budgets":
            budgets.backends()
        case "memory":
            memory(args.count)


if __name__ == "__main__":
    main()
