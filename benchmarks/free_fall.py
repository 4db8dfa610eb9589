"""A constant rate under noise: g from a falling body, and what is said of the law.

    python benchmarks/free_fall.py [--seed 20261118]

Ten data sets each of 30 to 1,000 heights over two seconds, noise of 0.25 % of the span, second
order, library ["1"]. Right is g within 2 %; beside it the parabola of least squares.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import sjepa
from sjepa.errors import NumericalWarning


G, DURATION = 9.81, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261118)
    rng = np.random.default_rng(parser.parse_args().seed)
    total = np.zeros(3, dtype=int)
    for n in (30, 100, 200, 300, 1_000):
        t = np.linspace(0, DURATION, n)
        fall = G / 2 * t**2
        right = parabola = adequate = 0
        for _ in range(10):
            x = 20 - fall + 0.0025 * np.ptp(fall) * rng.normal(size=n)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NumericalWarning)
                front = sjepa.discover(
                    x[:, None], t, order=2, feature_names=["x"], library=["1"], verbose=False
                )
            rates = [c for c, _ in front.best().terms[0]]
            right += len(rates) == 1 and abs(-rates[0] / G - 1) < 0.02
            parabola += abs(-2 * np.polyfit(t, x, 2)[0] / G - 1) < 0.02
            assert front.verdict is not None
            adequate += front.verdict.adequate is True
        print(f"{n} points: g within 2 % in {right} of 10 (parabola {parabola}), "
              f"adequate {adequate}", flush=True)  # fmt: skip
        total += (right, parabola, adequate)
    print(f"\nright {total[0]} of 50 (parabola {total[1]}), adequate {total[2]} of 50")


if __name__ == "__main__":
    main()
