"""How the cost of `discover` grows with rows and with terms: four sizes each, and the exponent.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [--most 800000]

CPU time of one thread. The exponent is the slope of log time over log size; below 1 the fixed cost
still shows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sjepa
from benchmarks.end_to_end import lorenz96
from sjepa import Library


def spent(run: Callable[[], Any], times: int = 2) -> float:
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def grown(what: str, sizes: Sequence[int], run: Callable[[int], Any]) -> None:
    seconds = [spent(lambda size=size: run(size)) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    last = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
    row = ", ".join(f"{n:,}: {s:.3f} s" for n, s in zip(sizes, seconds, strict=True))
    print(f"{what}: {row}; exponent {slope:.2f} (last step {last:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=800_000, help="rows of the largest size")
    most = parser.parse_args().most
    x, step = lorenz96(most)
    rng = np.random.default_rng(0)
    noisy = x + 0.01 * x.std(axis=0) * rng.normal(size=x.shape)
    names = [f"x{i}" for i in range(1, 6)]
    cubic = Library.polynomial(names, 3)
    sizes = [most // 64, most // 16, most // 4, most]
    sjepa.discover(x[:2000], step, library=cubic)
    grown("rows, clean", sizes, lambda n: sjepa.discover(x[:n], step, library=cubic))
    grown("rows, 1 % noise", sizes, lambda n: sjepa.discover(noisy[:n], step, library=cubic))
    libraries = {len(one): one for one in (Library.polynomial(names, k) for k in (1, 2, 3, 4))}
    grown(
        "terms, 20,000 rows",
        list(libraries),
        lambda n: sjepa.discover(x[:20_000], step, library=libraries[n]),
    )


if __name__ == "__main__":
    main()
