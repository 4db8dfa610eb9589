"""How costs grow: `discover` with rows and terms, the searches for coordinates and the posterior
with rows; four sizes each, and the exponent.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [--most 800000] [--only joint]

CPU time of one thread. The exponent is the slope of log time over log size; below 1 the fixed cost
still shows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import sjepa
from benchmarks.end_to_end import lorenz96
from sjepa import Library
from sjepa.bayes import posterior
from sjepa.data import Trajectories
from sjepa.training.joint import SearchBudget, joint_search


def spent(run: Callable[[], Any], times: int = 2) -> float:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def grown(what: str, sizes: Sequence[int], run: Callable[[int], Any]) -> None:
    seconds = [spent(lambda size=size: run(size)) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    last = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
    row = ", ".join(f"{n:,}: {s:.3f} s" for n, s in zip(sizes, seconds, strict=True))
    print(f"{what}: {row}; exponent {slope:.2f} (last step {last:.2f})", flush=True)


def sensors(count: int) -> Trajectories:
    """Pendulums through six sensors, a hundred points each."""
    rng, t = np.random.default_rng(0), 0.07 * np.arange(100)
    q = rng.uniform(0.3, 2.0, (count, 1)) * np.cos(t + rng.uniform(0, 6, (count, 1)))
    states = np.stack([q, np.gradient(q, t, axis=1)], axis=-1)
    return Trajectories(list(states @ rng.normal(size=(2, 6))), [t] * count)


def joint() -> None:
    library = Library.from_terms(["z1", "z2", "sin(z1)", "sin(z2)"], ["z1", "z2"])
    budget = SearchBudget(
        structures=8, restarts=4, effort=0.2, finalists=3, refinement=20, rollout=5, grow=False
    )
    sizes = [4_000, 8_000, 16_000, 32_000]
    grown(
        "joint, rows",
        sizes,
        lambda n: joint_search(sensors(n // 100), library, 2, budget=budget),
    )

    grown(
        "joint, restarts (6,000 rows)",
        [2, 4, 8, 16],
        lambda n: joint_search(sensors(60), library, 2, budget=replace(budget, restarts=n)),
    )


def alternating() -> None:
    options = {
        "cycles": 1, "warm_epochs": 1, "dynamics_epochs": 1, "space_epochs": 1, "horizon": 5
    }  # fmt: skip
    model = sjepa.SJEPA(search=sjepa.Alternating(**options, device="cpu"), random_state=0)
    sizes = [1_000, 2_000, 4_000, 8_000]
    grown("alternating, rows", sizes, lambda n: model.fit(sensors(n // 100)))


def weighed() -> None:
    names = ["x", "y"]
    law = sjepa.Law.from_string(["y", "-x - 0.2*y"], names)
    rng = np.random.default_rng(0)
    path = np.asarray(law.simulate([1.0, 0.0], 0.05 * np.arange(4_000)).z)
    x = path + 1e-3 * rng.normal(size=path.shape)
    terms = ["1", "x", "y", "x**3"]
    sizes = [500, 1_000, 2_000, 4_000]
    grown(
        "posterior, rows", sizes,
        lambda n: posterior(
            x[:n], 0.05, library=terms, feature_names=names, n_bootstrap=0, max_candidates=4
        ),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=800_000, help="rows of the largest size")
    parser.add_argument("--only", choices=["discover", "joint", "alternating", "posterior"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], None]] = {
        "discover": lambda: discovered(args.most),
        "joint": joint, "alternating": alternating, "posterior": weighed,
    }  # fmt: skip
    for name, run in parts.items():
        if args.only in (None, name):
            run()


def discovered(max_rows: int) -> None:
    x, step = lorenz96(max_rows)
    rng = np.random.default_rng(0)
    noisy = x + 0.01 * x.std(axis=0) * rng.normal(size=x.shape)
    names = [f"x{i}" for i in range(1, 6)]
    cubic = Library.polynomial(names, 3)
    sizes = [max_rows // 64, max_rows // 16, max_rows // 4, max_rows]
    sjepa.discover(x[:2000], step, library=cubic)
    grown("rows, clean", sizes, lambda n: sjepa.discover(x[:n], step, library=cubic))
    grown("rows, 1 % noise", sizes, lambda n: sjepa.discover(noisy[:n], step, library=cubic))
    libraries = {
        len(library): library for library in (Library.polynomial(names, k) for k in (1, 2, 3, 4))
    }
    grown(
        "terms, 20,000 rows",
        list(libraries),
        lambda n: sjepa.discover(x[:20_000], step, library=libraries[n]),
    )


if __name__ == "__main__":
    main()
