"""Laws and coordinates from observations alone, on problems whose answer is known.

``python benchmarks/joint.py exp1|lorenz|pendulum|reaction [--seeds 0 1 2]`` prints a row a seed.
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import pandas as pd
import torch
from joint_problems import PROBLEMS

from sjepa.callbacks import Step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=sorted(PROBLEMS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    problem = PROBLEMS[options.problem]
    rows = []
    for seed in options.seeds or problem.seeds:
        start, cpu = perf_counter(), process_time()
        row = problem.run(seed, print_progress if options.verbose else None)
        row |= {"seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu}
        rows.append({"seed": seed, **row})
        print(", ".join(f"{k} {_text(v)}" for k, v in rows[-1].items()), flush=True)
    table = pd.DataFrame(rows)
    print(f"\nright structure: {int(table['right'].sum())} of {len(table)}")
    print(
        table.drop(columns=["seed", "right"]).describe().loc[["mean", "min", "max"]].T.to_string()
    )


def print_progress(step: Step) -> None:
    print(f"  {step.share:4.0%} {step.text}", flush=True)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
