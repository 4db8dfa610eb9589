"""Conserved quantities: found in textbook systems that have some, none in those that lose energy.

    python benchmarks/invariants.py [--seeds 0,1,2]

Prints a table: the quantities, and how much each changes along simulated paths from three random
starts, as a share of its spread among the starts. The paths test what was found; they are computed
from the law alone.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import sympy

from sjepa import Law


@dataclass(frozen=True)
class System:
    """Equations, and how many independent quantities they conserve in closed form."""

    equations: tuple[str, ...]
    inputs: tuple[str, ...]
    conserved: int
    positive: bool = False

    @property
    def law(self) -> Law:
        return Law.from_string(self.equations, self.inputs)


_CENTRAL = "(x**2 + y**2)**(3/2)"
CONSERVATIVE = {
    "oscillator": System(("p", "-4*q"), ("q", "p"), 1),
    "pendulum": System(("p", "-9.81*sin(q)"), ("q", "p"), 1),
    "Duffing without friction": System(("p", "-q - 0.7*q**3"), ("q", "p"), 1),
    "double well": System(("p", "2*q - 4*q**3"), ("q", "p"), 1),
    "two coupled oscillators": System(
        ("p", "v", "-2*q + 0.5*x", "0.5*q - 3*x"), ("q", "x", "p", "v"), 2
    ),
    "Lotka-Volterra": System(("1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"), ("x", "y"), 1, True),
    "SIR": System(("-0.35*S*I", "0.35*S*I - 0.25*I", "0.25*I"), ("S", "I", "R"), 2, True),
    "rigid body": System(("-0.5*y*z", "1.3*x*z", "-0.2*x*y"), ("x", "y", "z"), 2),
    "Kepler": System(("v", "w", f"-x/{_CENTRAL}", f"-y/{_CENTRAL}"), ("x", "y", "v", "w"), 3, True),
    "Hénon-Heiles": System(("v", "w", "-x - 2*x*y", "-y - x**2 + y**2"), ("x", "y", "v", "w"), 1),
    "three species in a cycle": System(
        ("x*(y - z)", "y*(z - x)", "z*(x - y)"), ("x", "y", "z"), 2, True
    ),
    "Toda lattice": System(
        ("u", "v", "w", "exp(z - x) - exp(x - y)", "exp(x - y) - exp(y - z)",
         "exp(y - z) - exp(z - x)"),
        ("x", "y", "z", "u", "v", "w"), 3,
    ),
}  # fmt: skip
DISSIPATIVE = {
    "oscillator with friction": System(("p", "-q - 0.001*p"), ("q", "p"), 0),
    "pendulum with drag": System(("p", "-sin(q) - 0.1*p*abs(p)"), ("q", "p"), 0),
    "Van der Pol": System(("p", "1.5*(1 - q**2)*p - q"), ("q", "p"), 0),
    "Lorenz": System(("10*(y - x)", "x*(28 - z) - y", "x*y - 8/3*z"), ("x", "y", "z"), 0),
    "predators of bounded prey": System(
        ("x*(1 - 0.1*x) - 0.4*x*y", "0.1*x*y - 0.4*y"), ("x", "y"), 0, True
    ),
    "Brusselator": System(("1 + x**2*y - 4*x", "3*x - x**2*y"), ("x", "y"), 0, True),
    "two tanks": System(("-sqrt(x)", "sqrt(x) - sqrt(y)"), ("x", "y"), 0, True),
}


def change(system: System, quantity: sympy.Expr, seed: int) -> float:
    """How much a quantity changes along paths, as a share of its spread among their starts."""
    rng = np.random.default_rng(seed)
    size = len(system.inputs)
    values = Law([quantity], system.inputs, ["y"], "discrete", canonical=False).numpy()
    paths = []
    while len(paths) < 3:
        start = rng.uniform(0.3, 1.2, size) if system.positive else rng.uniform(-1, 1, size) * 0.6
        path = system.law.simulate(start, np.linspace(0, 5, 101), rtol=1e-11, atol=1e-13)
        if path.status == "ok":
            paths.append(values(path.z)[:, 0])
    spread = np.ptp([p[0] for p in paths])
    return float(max(np.ptp(p) for p in paths) / spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0")
    seeds = [int(s) for s in parser.parse_args().seeds.split(",")]
    right, systems = 0, {**CONSERVATIVE, **DISSIPATIVE}
    print("| system | conserved | change along paths | s |\n|---|---|---|---|")
    for name, system in systems.items():
        for seed in seeds:
            begun = time.process_time()
            invariants = system.law.invariants(seed=seed)
            seconds = time.process_time() - begun
            worst = max((change(system, q, seed + 1) for q in invariants), default=0.0)
            right += len(invariants) == system.conserved and worst < 1e-6
            listed = "; ".join(map(str, invariants)) or "none"
            print(f"| {name} | {listed} | {worst:.0e} | {seconds:.1f} |", flush=True)
    print(f"\n{right} of {len(systems) * len(seeds)} as expected.")


if __name__ == "__main__":
    main()
