"""Recovery of known laws by each backend: the table in the README.

    python benchmarks/backends.py [--backends stlsq,subset,pysindy,operon] [--seeds 0,1,2]

Every backend gets the same simulated data, the default library (sparse backends) or grammar (tree
backends) of ``sjepa.discover``, and one minute. A law counts as recovered when its terms are
exactly the true ones and every coefficient is within 10 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from sjepa.data import SYSTEMS
from sjepa.studies.backends import benchmark, matrix, plot_results, summary


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="stlsq,subset,pysindy")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--noise", default="0,0.01")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    table = benchmark(
        given.systems.split(","),
        given.backends.split(","),
        [float(n) for n in given.noise.split(",")],
        [int(s) for s in given.seeds.split(",")],
        seconds=given.seconds,
        workers=given.workers,
        out=given.out,
        progress=lambda row, done, total: print(
            f"{done}/{total} {row['system']} {row['backend']} noise {row['noise']:g}: "
            f"{'found' if row['recovered'] else row['error'] or 'not found'} "
            f"({row['seconds']:.1f} s)  {row['equation'] if not row['recovered'] else ''}",
            flush=True,
        ),
    )
    with pd.option_context("display.width", 200, "display.max_columns", 20):
        print(matrix(table).to_string(index=False))
        print(summary(table).to_string(index=False))
    if given.out is not None:
        plot_results(table).savefig(given.out / "results.png", dpi=150)


if __name__ == "__main__":
    main()
