"""The trade-off surface of both experiments, and the error held at δ beside the error weighted.

    python benchmarks/tradeoff.py exp2 --out DIR          # also exp1; writes surface.csv and .png
    python benchmarks/tradeoff.py constrained --out DIR   # laws of Experiment 2, both ways

Reduced: some of the training trajectories and short phases (see SIZES), one seed. Points that are
finished are files in DIR and are not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch

from sjepa import SJEPA, Library, Trajectories
from sjepa.data import paper_data
from sjepa.metrics import stretch_errors
from sjepa.studies.tradeoff import plot_surface, sweep


# Trajectories, and the options of the search.
SIZES: Mapping[str, tuple[int, dict[str, Any]]] = {
    "exp1": (
        60,
        {"batching": "trajectories", "passes": 5, "cycles": 2, "warm_epochs": 80,
         "dynamics_epochs": 30, "space_epochs": 40, "symbolic_rate": 5e-3, "refit": False},
    ),
    "exp2": (
        40,
        {"batching": "trajectories", "passes": 5, "dynamics_epochs": 150, "symbolic_rate": 5e-3,
         "neural_rate": 2e-3},
    ),
}  # fmt: skip
# What Experiment 2 allows without the drag, and with distractors and the drag.
INCOMPLETE = Library.from_terms(
    ["p", "sin(q)"], ["q", "p"], mask=np.array([[1, 0], [0, 1]], dtype=bool)
)
OPEN = Library.from_terms(["1", "q", "p", "sin(q)", "p*abs(p)", "q**2", "p**2"], ["q", "p"])
WEIGHTS = (1.5e-5, 1.5e-4, 1.5e-3)


def data_of(name: str) -> Trajectories:
    part = paper_data(name)["train"][: SIZES[name][0]]
    if name == "exp1":
        return Trajectories(part.x, part.t)
    return Trajectories(part.x, part.t, names=["q", "p"])


def surface(name: str, out: Path, seed: int) -> None:
    begin = process_time()
    settings: dict[str, Any] = {"integrator": "euler"}
    weights: dict[str, Sequence[float]]
    weights = {"lambda_s": WEIGHTS, "lambda_c": (0, 1.5e-3, 1.5e-2, 0.15)}
    if name == "exp2":
        settings |= {"encoder": "identity", "library": INCOMPLETE}
    else:
        weights = {"lambda_s": (2.5e-5, 2.5e-4, 2.5e-3), "lambda_c": (2e-2, 2e-1)}
    table = sweep(
        data_of(name), out=out, seed=seed, options=SIZES[name][1], **weights, **settings,
        progress=lambda line, _: print(f"{line}  {process_time() - begin:.0f} CPU s", flush=True),
    )  # fmt: skip
    plot_surface(table).savefig(out / "surface.png", dpi=110)
    print(table.to_string(float_format="%.3g"))


def constrained(out: Path, seed: int) -> None:
    """λ_s in four strengths, and δ in four sizes: held-out errors, Ω, and the law."""
    train, held_out = data_of("exp2").split((0.75, 0.25), seed=seed)
    rows = []
    plan: list[tuple[str, float, Callable[[float], dict[str, Any]]]] = [
        *(("λ_s", v, lambda v: {"options": {"lambda_s": v}}) for v in (*WEIGHTS, 1.5e-2)),
        *(("δ", v, lambda v: {"delta": v}) for v in (2e-6, 2e-5, 2e-4, 2e-3)),
    ]
    for what, value, given in plan:
        begin, settings = process_time(), given(value)
        options = {**SIZES["exp2"][1], **settings.pop("options", {})}
        model = SJEPA(
            encoder="identity", search="alternating", integrator="euler", library=OPEN,
            random_state=seed, verbose=False, options=options, **settings,
        ).fit(train)  # fmt: skip
        with torch.no_grad():
            errors = stretch_errors(model.transition_, held_out)
        rows.append({
            "held": f"{what} = {value:g}", "l_pred": float(errors[:, 0].mean()),
            "l_roll": float(errors.mean()), "omega": model.law_.complexity("terms"),
            "law": "; ".join(model.law_.lines(digits=3)), "cpu": process_time() - begin,
        })  # fmt: skip
        print(rows[-1], flush=True)
    out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(out / "constrained.csv", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["exp1", "exp2", "constrained"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "constrained":
        constrained(given.out, given.seed)
    else:
        surface(given.what, given.out, given.seed)


if __name__ == "__main__":
    main()
