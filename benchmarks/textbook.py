"""Clean textbook systems: is the exact structure chosen?

    python benchmarks/textbook.py [--seed 20261118]

Twenty systems of two and three states, one trajectory of 500 points each, no noise, the default
call. The seed draws the starts. A law is right if its terms are exactly the true ones. Where it is
wrong the table says whether the true law is on the front.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from known import terms
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law


# Equations, a typical start, the duration; states are x, y, z.
SYSTEMS: dict[str, tuple[list[str], list[float], float]] = {
    "harmonic oscillator": (["y", "-2*x"], [1, 0], 15),
    "pendulum": (["y", "-sin(x)"], [2, 0], 20),
    "damped pendulum": (["y", "-sin(x) - 0.2*y"], [2.5, 0], 20),
    "Duffing": (["y", "-0.5*x - x**3 - 0.1*y"], [1.5, 0], 20),
    "double well": (["y", "x - x**3"], [0.4, 0.5], 20),
    "van der Pol": (["y", "1.5*y - 1.5*x**2*y - x"], [1, 0.5], 20),
    "Lotka-Volterra": (["x - 0.5*x*y", "0.4*x*y - 0.8*y"], [3, 1.5], 20),
    "competition": (["x - 0.7*x**2 - 0.3*x*y", "0.8*y - 0.5*y**2 - 0.4*x*y"], [0.2, 0.3], 20),
    "epidemic": (["-0.8*x*y", "0.8*x*y - 0.3*y"], [2, 0.1], 15),
    "FitzHugh-Nagumo": (["x - 0.3333*x**3 - y + 0.5", "0.08*x + 0.056 - 0.064*y"], [-1, 0.5], 80),
    "Brusselator": (["1 - 4*x + x**2*y", "3*x - x**2*y"], [1.5, 2], 20),
    "Selkov": (["-x + 0.1*y + x**2*y", "0.6 - 0.1*y - x**2*y"], [1, 1], 30),
    "Hopf": (["0.5*x - 2*y - 0.5*x**3 - 0.5*x*y**2", "2*x + 0.5*y - 0.5*x**2*y - 0.5*y**3"],
             [0.1, 0.2], 15),
    "Lorenz": (["10*y - 10*x", "28*x - y - x*z", "x*y - 2.6667*z"], [1, 3, 20], 10),
    "Roessler": (["-y - z", "x + 0.2*y", "0.2 + x*z - 5.7*z"], [3, 2, 0.1], 40),
    "Sprott B": (["y*z", "x - y", "1 - x*y"], [0.5, 0.4, 0.2], 40),
    "Halvorsen": (["-1.4*x - 4*y - 4*z - y**2", "-1.4*y - 4*z - 4*x - z**2",
                   "-1.4*z - 4*x - 4*y - x**2"], [-1.5, 0.5, 0.3], 12),
    "Thomas": (["sin(y) - 0.2*x", "sin(z) - 0.2*y", "sin(x) - 0.2*z"], [1, 0.3, 2], 50),
    "rigid body": (["-y*z", "1.5*x*z", "-0.5*x*y"], [1, 0.5, 1.2], 15),
    "food chain": (["x - x**2 - 0.8*x*y", "0.9*x*y - 0.2*y - 0.7*y*z", "0.6*y*z - 0.1*z"],
                   [0.7, 0.4, 0.5], 60),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--points", type=int, default=500)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    right, reachable, seconds = 0, 0, []
    for name, (equations, start, duration) in SYSTEMS.items():
        states = ["x", "y", "z"][: len(start)]
        true = Law.from_string(equations, states)
        f, t = true.numpy(), np.linspace(0, duration, args.points)
        begin = np.array(start) * rng.uniform(0.9, 1.1, len(start))
        x = solve_ivp(
            lambda _, z, f=f: f(z[None])[0], (0, duration), begin, t_eval=t, rtol=1e-9, atol=1e-11
        ).y.T
        before = time.process_time()
        front = sjepa.discover(x, t, feature_names=states, verbose=False)
        seconds.append(time.process_time() - before)
        law, verdict = front.best(), front.verdict
        good = terms(law) == terms(true)
        there = any(terms(c.law) == terms(true) for c in front)
        right += good
        reachable += there
        word = "none" if verdict is None else verdict.word
        print(f"{name}: {'right' if good else 'WRONG'}, {word}, {seconds[-1]:.1f} s", flush=True)
        if not good:
            print(f"    {'on the front' if there else 'not on the front'}: {law.lines(digits=3)}")
    print(f"\n{right} of {len(SYSTEMS)} right, {reachable} on the front; CPU seconds: median "
          f"{np.median(seconds):.1f}, most {max(seconds):.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
