"""Experiment 2: three seeds, every condition.

python benchmarks/experiment2.py --out results/exp2 --profile paper
"""

import argparse
from time import perf_counter

from sjepa.studies.paper import run


def main(name: str) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--profile", default="paper")
    parser.add_argument("--backend", default="stlsq")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 19, 37])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start = perf_counter()
    run(
        name, options.seeds, options.backend, options.profile, options.out, n_jobs=options.jobs,
        progress=lambda task, line, share: print(f"{task} {share:4.0%} {line}", flush=True),
    )  # fmt: skip
    print(f"{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main("exp2")
