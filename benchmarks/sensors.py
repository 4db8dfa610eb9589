"""Laws and coordinates through curved sensors, and whether a wrong answer is said to be one.

``python benchmarks/sensors.py --systems pendulum duffing --sensors tanh6 camera --seeds 10 11``
prints a row a run and the shares asked for in the end. ``--compare`` adds the linear search alone
and PySINDy on principal components.
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from sensors_data import SAMPLING, SENSORS, observed
from sensors_judge import not_longer, same_structure, state_r2

from sjepa import SJEPA
from sjepa.data import Trajectories
from sjepa.data.synthetic.systems import SYSTEMS


def run(system: str, kind: str, seed: int, linear_only: bool = False) -> dict[str, Any]:
    train, test = observed(system, kind, seed)
    dim = len(SYSTEMS[system].inputs)
    start = process_time()
    options = {"grow": False} if linear_only else None
    model = SJEPA(dim, random_state=seed, options=options).fit(train)
    cpu = process_time() - start
    rivals = [r.law for r in model.rivals_]
    adequate = model.figures_["adequate"] > 0
    right = same_structure(model.law_, system)
    # An adequate law that is no longer than the true one cannot be told from it by these data.
    rival = adequate and not right and not_longer(model.law_, system)
    return {
        "system": system, "sensor": kind, "seed": seed, "right": right, "rival": rival,
        "r2": state_r2(model, train, test), "adequate": adequate,
        **{k: model.figures_[k] for k in ("noise_floor", "residual", "ratio")},
        "cpu": cpu, "law": "; ".join(model.law_.lines(digits=3)),
        "rivals": " | ".join("; ".join(law.lines(digits=2)) for law in rivals[:3]),
    }  # fmt: skip


def pysindy_on_components(train: Trajectories, dim: int) -> dict[str, Any]:
    """PySINDy's defaults with cubic terms on the leading principal components."""
    import pysindy

    rows = np.concatenate(train.x)
    mean = rows.mean(0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2]
    scale = ((rows - mean) @ basis[:dim].T).std(0)
    z = [(x - mean) @ basis[:dim].T / scale for x in train.x]
    model = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(3))
    model.fit(z, list(train.t))
    terms = int(np.count_nonzero(model.coefficients()))
    return {"pysindy_terms": terms, "pysindy_r2": float(model.score(z, list(train.t)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(SAMPLING), choices=list(SAMPLING))
    parser.add_argument("--sensors", nargs="+", default=list(SENSORS), choices=list(SENSORS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--out", help="a CSV file that is written after every run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows = []
    for system in options.systems:
        for kind in options.sensors:
            for seed in options.seeds:
                row = run(system, kind, seed)
                if options.compare:
                    alone = run(system, kind, seed, linear_only=True)
                    row |= {f"linear_{k}": alone[k] for k in ("right", "r2", "adequate", "cpu")}
                    train, _ = observed(system, kind, seed)
                    row |= pysindy_on_components(train, len(SYSTEMS[system].inputs))
                rows.append(row)
                print(", ".join(f"{k} {_text(v)}" for k, v in row.items()), flush=True)
                if options.out:
                    pd.DataFrame(rows).to_csv(options.out, index=False)
    summarise(pd.DataFrame(rows))


def summarise(table: pd.DataFrame) -> None:
    good = table["right"] | table["rival"]
    wrong, right = table[~good], table[good]
    print(f"\nright or rival: {int(good.sum())} of {len(table)}")
    print(f"of these, R2 at least 0.99: {int((right['r2'] >= 0.99).sum())} of {len(right)}")
    print(f"wrong and said not to be adequate: {int((~wrong['adequate']).sum())} of {len(wrong)}")
    print(f"right and said not to be adequate: {int((~right['adequate']).sum())} of {len(right)}")
    print(f"median CPU seconds: {table['cpu'].median():.0f}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
