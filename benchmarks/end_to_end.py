"""`discover` against PySINDy's `fit`, end to end on the same arrays: CPU time, support, memory.

    OMP_NUM_THREADS=1 python benchmarks/end_to_end.py [--rows 200000] [--memory 3000000]

Lorenz 96 with five states: 56 monomials, four true terms in each equation. Then 1,000 rows of a
Van der Pol oscillator, and of Lorenz 96. The default backend proves that no shorter law fits as
well and lists a law for every length; beside it `stlsq` with PySINDy's threshold, which is the same
algorithm. `--memory` gives the peak for so many rows as a multiple of the input.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp


THRESHOLD = 0.05


def lorenz96(rows: int, step: float = 0.002) -> tuple[np.ndarray, float]:
    def field(t: float, x: np.ndarray) -> np.ndarray:
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8.0

    pieces, x = [], np.array([8.01, 8.0, 8.0, 8.0, 8.0])
    size = 50_000  # a piece at a time: the solver keeps what it interpolates between
    for first in range(0, rows, size):
        t = step * np.arange(min(size, rows - first) + 1)
        path = solve_ivp(field, (0, t[-1]), x, "DOP853", t, rtol=1e-10, atol=1e-10).y.T
        pieces.append(path[:-1])
        x = path[-1]
    return np.concatenate(pieces), step


def van_der_pol(rows: int) -> tuple[np.ndarray, float]:
    t = 0.02 * np.arange(rows)
    solved = solve_ivp(
        lambda t, s: [s[1], (1 - s[0] ** 2) * s[1] - s[0]], (0, t[-1]), [0.5, 0.0], "DOP853", t,
        rtol=1e-10, atol=1e-10,
    )  # fmt: skip
    return solved.y.T, 0.02


def cpu(runs: dict[str, Callable[[], Any]], times: int) -> dict[str, tuple[float, Any]]:
    """The least of a few runs of each, in turns, after one that is not counted; and the result."""
    results = {name: run() for name, run in runs.items()}
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(times):
        for name, run in runs.items():
            start = time.process_time()
            run()
            spent[name].append(time.process_time() - start)
    return {name: (min(spent[name]), results[name]) for name in runs}


def compare(what: str, x: np.ndarray, step: float, times: int) -> None:
    import pysindy

    import sjepa
    from sjepa import Library

    names = [f"x{i}" for i in range(x.shape[1])]
    library = Library.polynomial(names, 3)

    def ours(backend: Any = None) -> Any:
        return sjepa.discover(x, step, library=library, feature_names=names, backend=backend)

    def theirs() -> Any:
        model = pysindy.SINDy(
            optimizer=pysindy.STLSQ(threshold=THRESHOLD),
            feature_library=pysindy.PolynomialLibrary(3),
        )
        return model.fit(x, t=step, feature_names=names)

    alike = {"name": "stlsq", "threshold": THRESHOLD}
    seconds = cpu(
        {"PySINDy": theirs, "discover": ours, "with stlsq and threshold": lambda: ours(alike)},
        times,
    )
    other, model = seconds.pop("PySINDy")
    wanted = support(sjepa.Law.from_pysindy(model))
    for name, (spent, front) in seconds.items():
        print(
            f"{what}: {name} {spent:.4f} s, PySINDy {other:.4f} s of CPU time, "
            f"ratio {other / spent:.2f}, same support {support(front.best()) == wanted}",
            flush=True,
        )


def support(law: Any) -> list[set[Any]]:
    return [{t for _, t in row} for row in law.terms]


def memory(rows: int) -> None:
    """Peak above the start, in multiples of the input."""
    code = (
        "import resource, sys, numpy as np, sjepa\n"
        "from sjepa import Library\n"
        "from benchmarks.end_to_end import lorenz96\n"
        "x, step = lorenz96(20_000)\n"
        "library = Library.polynomial([f'x{i}' for i in range(1, 6)], 3)\n"
        "sjepa.discover(x, step, library=library)\n"
        f"x = np.concatenate([x] * (-(-{rows} // 20_000)))[:{rows}]\n"
        "x = [x[i:i + 20_000] for i in range(0, len(x), 20_000)]\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = peak(); sjepa.discover(x, step, library=library)\n"
        f"print(f'{rows:,} x 5: peak', round((peak() - before) / sum(a.nbytes for a in x), 2),\n"
        "      'times the input above it')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0, help="rows for the peak memory")
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.memory)
    compare(f"{arguments.rows:,} x 5, 56 terms", *lorenz96(arguments.rows), arguments.times)
    compare("1,000 x 2, 10 terms", *van_der_pol(1_000), 10 * arguments.times)
    compare("1,000 x 5, 56 terms", *lorenz96(1_000, 0.02), 3 * arguments.times)
