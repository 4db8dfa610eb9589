"""Noise of observation: do intervals of predictions and coefficients hold?

    python benchmarks/observed.py [--sets 20] [--first 500] [--noise 0.03]

Exact paths of the damped pendulum, seen with noise; half of the trajectories are kept back. The
model of noise="observation" beside that of noise="step", which takes all noise for motion.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from sjepa import Law
from sjepa.bayes import posterior
from sjepa.data.synthetic.simulate import simulate


TERMS = ["q", "p", "sin(q)", "p*abs(p)", "q**3"]
TRUE = Law.from_string(["p", "-sin(q) - 0.25*p"], ["q", "p"])
HORIZONS = (1, 10, 50)


def terms(law: Law) -> list[dict[str, float]]:
    return [{str(term): c for c, term in row} for row in law.terms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--noise", type=float, default=0.03)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for model in ("observation", "step"):
        right, covered, width, inside = 0, [], [], []
        for seed in range(args.first, args.first + args.sets):
            data = simulate("damped_pendulum", seed=seed, noise=args.noise)
            result = posterior(data[:4], library=TERMS, noise=model, backend="subset")
            table = result.calibration(data[4:], horizons=HORIZONS, draws=300, starts=100)
            covered.append([table.coverage(h) for h in HORIZONS])
            width.append([table.width[h].mean() for h in HORIZONS])
            if [set(row) for row in terms(result.law)] == [set(row) for row in terms(TRUE)]:
                right += 1
                draws = [terms(law) for law in _laws(result)]
                for j, row in enumerate(terms(TRUE)):
                    for term, c in row.items():
                        low, high = np.quantile([d[j][term] for d in draws], [0.05, 0.95])
                        inside.append(low <= c <= high)
        shares = ", ".join(f"{v:.2f}" for v in np.mean(covered, axis=0))
        widths = ", ".join(f"{v:.2f}" for v in np.mean(width, axis=0))
        print(f"{model}: right structure heaviest {right} of {args.sets}; 90 % intervals hold")
        print(f"  {shares} after {HORIZONS} steps, {widths} deviations of the states wide;")
        print(f"  {sum(inside)} of {len(inside)} true coefficients", flush=True)


def _laws(result: object, n: int = 400) -> list[Law]:
    """Laws with coefficients drawn from the heaviest structure."""
    import torch

    best = result.fits[0]  # type: ignore[attr-defined]
    (group,) = best.draw(n, torch.Generator().manual_seed(0))
    return [best.structure.law_at(c) for c in group.coefficients]


if __name__ == "__main__":
    main()
