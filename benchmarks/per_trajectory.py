"""Eleven falling bodies of other drags: one structure, one g, eleven drags.

    python benchmarks/per_trajectory.py [--seeds 20] [--first 1000]

Heights 30 times at 1/15 s with noise of 1 cm. Held out: another fall of each body, predicted by
the law of its trajectory, beside the laws that `discover` finds for each body alone.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import sjepa
from sjepa import Law


def fall(drag: float, start: float, t: np.ndarray) -> np.ndarray:
    body = Law.from_string(f"-9.81 + {drag}*h_dot**2", ["h", "h_dot"], ["h_dot"])
    return body.simulate([start, 0.0], t).z[:, :1]


def error(law: Law, drags: float, start: float, t: np.ndarray) -> float:
    run = law.simulate([start, 0.0], t)
    if run.status != "ok":
        return float("inf")
    return float(np.sqrt(((run.z[:, 0] - fall(drags, start, t)[:, 0]) ** 2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    asked = parser.parse_args()
    t, longer = np.arange(30) / 15, np.arange(45) / 15
    right = half = adequate = 0
    ratios = []
    print("seed   g       worst drag  rms held out (m): together, alone  adequate  CPU s")
    for seed in range(asked.first, asked.first + asked.seeds):
        rng = np.random.default_rng(seed)
        drags = np.exp(rng.uniform(np.log(0.05), 0, 11))
        x = [fall(c, rng.uniform(20, 40), t) + 0.01 * rng.normal(size=(30, 1)) for c in drags]
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            front = sjepa.discover(x, t, order=2, feature_names=["h"], per_trajectory="auto")
            result = front.per_trajectory
            seconds = time.process_time() - start
            alone = [
                sjepa.discover(heights, t, order=2, feature_names=["h"]).best() for heights in x
            ]
        g = float(result.shared["value"].iloc[0]) if len(result.shared) == 1 else np.nan
        drags_found = result.differing["value"].abs().to_numpy()
        worst = (
            float(np.abs(drags_found / drags - 1).max())
            if len(drags_found) == len(drags)
            else np.nan
        )
        together = np.median(
            [error(law, c, 50.0, longer) for law, c in zip(result.laws, drags, strict=True)]
        )
        separate = np.median(
            [error(law, c, 50.0, longer) for law, c in zip(alone, drags, strict=True)]
        )
        right += abs(g / -9.81 - 1) < 0.02 and worst < 0.1
        half += bool(together <= separate / 2)
        ratios.append(together / separate)
        adequate += front.verdict.adequate is True
        print(
            f"{seed:5} {g:7.3f} {worst:10.1%} {together:17.3f} {separate:12.3f}"
            f"  {front.verdict.adequate!s:>8} {seconds:8.1f}", flush=True,
        )  # fmt: skip
    print(
        f"{right} of {asked.seeds} right (g within 2 %, drags within 10 %), {half} with half the "
        f"error of separate laws "
        f"(median {np.median(ratios):.2f} of it), {adequate} adequate"
    )


if __name__ == "__main__":
    main()
