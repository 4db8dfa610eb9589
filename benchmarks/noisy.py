"""The search for coordinates under noise: is the law found, and is it called adequate?

    python -m benchmarks.noisy --seeds 1 2 3 --noise 0.5 2 5 10

Four systems through 12 linear sensors, noise in percent of each value's spread, 48 trajectories of
120 observations for training and 20 clean ones for R2. A law is right if it has exactly the terms
of the system, whatever its coordinates are called. The ratio is what the law leaves of the variance
of changes to what noise alone would leave. CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np

from benchmarks.sensors_data import SAMPLING
from benchmarks.sensors_judge import OTHERS, same_structure, state_r2
from sjepa import SJEPA
from sjepa.data import Trajectories, simulate
from sjepa.data.synthetic.systems import SYSTEMS


NAMES = ("pendulum", "duffing", "van_der_pol", "double_well")
VALUES, TRAJECTORIES, TEST = 12, 48, 20
# The same flow, as short, with friction in the other equation: v - 0.15 x in the place of v.
OTHERS["duffing"] = ("v - x", "-x - x**3")


def data(system: str, noise: float, seed: int) -> tuple[Trajectories, Trajectories]:
    """Noisy observations for training, clean ones for the judge; states come along."""
    step, points = SAMPLING[system]
    row = replace(SYSTEMS[system], step=step, points=points, trajectories=TRAJECTORIES + TEST)
    states = np.stack(simulate(row, seed=seed).x)
    rng = np.random.default_rng([seed, 21])
    scaled = (states - states.mean((0, 1))) / states.std((0, 1))
    x = scaled @ rng.normal(size=(states.shape[-1], VALUES))
    x[:TRAJECTORIES] += noise * x.std((0, 1)) * rng.normal(size=x[:TRAJECTORIES].shape)
    whole = Trajectories(list(x), step, state=list(states))
    return whole[:TRAJECTORIES], whole[TRAJECTORIES:]


def run(system: str, noise: float, seed: int) -> tuple[bool, bool]:
    train, test = data(system, noise, seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SJEPA(random_state=seed).fit(train)
    seconds = time.process_time() - start
    right, figures = same_structure(model.law_, system), model.figures_
    ratio = figures["residual"] / max(figures["noise_floor"], 1e-300)
    print(
        f"{system:12} {100 * noise:4g} % {seed:4d} {'right' if right else 'WRONG'} "
        f"{'adequate' if figures['adequate'] else 'flagged '} ratio {ratio:6.2f} "
        f"R2 {state_r2(model, train, test):.4f} {seconds:4.0f} s  "
        f"{'; '.join(model.law_.lines(3))}",
        flush=True,
    )
    return right, bool(figures["adequate"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.5, 2, 5, 10], help="percent")
    args = parser.parse_args()
    for noise in args.noise:
        results = [run(s, noise / 100, seed) for s in args.systems for seed in args.seeds]
        right = sum(r for r, _ in results)
        wrong = sum(adequate and not r for r, adequate in results)
        print(f"{noise:g} %: {right} of {len(results)} right, {wrong} wrong called adequate")


if __name__ == "__main__":
    main()
