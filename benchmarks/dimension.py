"""How many coordinates does a system have? `SJEPA(latent_dim="auto")` is asked.

    python -m benchmarks.dimension --seeds 100

Ten systems of one to three dimensions, each seen as 12 noisy mixtures of its states and of their
squares and products, so that observations vary in more directions than there are states, and some
linear read-out undoes the sensors. CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np

from sjepa import SJEPA
from sjepa.data import Trajectories, simulate
from sjepa.data.synthetic.systems import SYSTEMS, System


LINES = [
    System("decay", ("x",), ("-0.8*x",), ((0.5,), (3.0,)), 0.05),
    System("logistic", ("x",), ("x - x**2",), ((0.02,), (1.8,)), 0.1),
    System("two_rests", ("x",), ("x - x**3",), ((-1.6,), (1.6,)), 0.05),
]
KNOWN = {**SYSTEMS, **{row.name: row for row in LINES}}
# Step and points; the systems' own ranges of starts.
CASES: dict[str, tuple[float, int]] = {
    "decay": (0.05, 80),
    "logistic": (0.1, 80),
    "two_rests": (0.05, 80),
    "pendulum": (0.1, 120),
    "duffing": (0.06, 120),
    "van_der_pol": (0.08, 120),
    "lotka_volterra": (0.08, 120),
    "double_well": (0.1, 120),
    "lorenz": (0.02, 150),
    "rossler": (0.05, 200),
}
VALUES, NOISE, TRAJECTORIES = 12, 0.002, 40


def observations(name: str, seed: int) -> tuple[Trajectories, int]:
    """Mixtures, and how many states there are."""
    step, points = CASES[name]
    row = replace(KNOWN[name], step=step, points=points, trajectories=TRAJECTORIES)
    states = np.stack(simulate(row, seed=seed).x)
    dim = states.shape[-1]
    states = (states - states.mean((0, 1))) / states.std((0, 1))
    rng = np.random.default_rng([seed, 3])
    pairs = np.triu_indices(dim)
    products = states[..., pairs[0]] * states[..., pairs[1]]
    x = states @ rng.normal(size=(dim, VALUES))
    x = x + 0.3 * products @ rng.normal(size=(len(pairs[0]), VALUES))
    x = x + NOISE * x.std((0, 1)) * rng.normal(size=x.shape)
    return Trajectories(list(x), step), dim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100])
    args = parser.parse_args()
    right = total = 0
    for seed in args.seeds:
        for name in args.systems:
            data, dim = observations(name, seed)
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = SJEPA("auto", random_state=seed).fit(data)
            right, total = right + (model.latent_dim_ == dim), total + 1
            print(
                f"{name:18} {seed} true {dim} found {model.latent_dim_} "
                f"{'adequate' if model.figures_['adequate'] else 'flagged '} "
                f"{time.process_time() - start:5.0f} s  {'; '.join(model.law_.lines(3))}",
                flush=True,
            )
            print(model.dimensions_.drop(columns="law").to_string(index=False), flush=True)
    print(f"{right} of {total}")


if __name__ == "__main__":
    main()
