"""Do the intervals of ``discover(..., n_bootstrap=N)`` hold?

    python benchmarks/bootstrap.py [--sets 50] [--seed 1000] [--resamples 100]

Noisy data sets of classic systems, one seed each, noise 1, 2, 5 and 10 % in turn; every second one
is a single trajectory. Over the data sets
whose structure came out right: how many true coefficients lie in their 90 % intervals. Over all of
them: how many true terms are chosen in more than nine of ten resamples, and how many false ones.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import sjepa
from sjepa import Law
from sjepa.data import SYSTEMS
from sjepa.data.synthetic.simulate import simulate


NAMES = (
    "damped_pendulum", "van_der_pol", "lotka_volterra", "duffing", "lorenz", "fitzhugh_nagumo",
    "brusselator", "thomas", "rossler", "sir",
)  # fmt: skip
NOISE = (0.01, 0.02, 0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--skip", type=int, default=0, help="sets to leave out at the beginning")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--systems", default=",".join(NAMES))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = args.systems.split(",")
    covered = numbers = right = 0
    true_sure = true_all = false_sure = false_all = 0
    begin = time.process_time()
    for i in range(args.skip, args.sets):
        name, noise = names[i % len(names)], NOISE[i // 2 % len(NOISE)]
        system = SYSTEMS[name]
        law = Law.from_string(list(system.equations), [*system.inputs, *system.actions])
        true = {
            (o, str(term)): c
            for o, row in zip(law.outputs, law.terms, strict=True)
            for c, term in row
        }
        data = simulate(system, seed=args.seed + i, noise=noise)
        if i % 2:
            data = data[np.array([0])]
        front = sjepa.discover(data, n_bootstrap=args.resamples)
        rows = {(r.output, r.term): r for r in front.intervals}
        chosen = {key for key, r in rows.items() if r.coefficient}
        good = chosen == set(true)
        if good:
            inside = {key: rows[key].low <= c <= rows[key].high for key, c in true.items()}
            covered, numbers, right = (
                covered + sum(inside.values()),
                numbers + len(inside),
                right + 1,
            )
            missed = [f"{k} {true[k]:g} {rows[k]}" for k, ok in inside.items() if not ok]
        sure = {key for key, r in rows.items() if r.inclusion > 0.9}
        true_sure, true_all = true_sure + len(sure & set(true)), true_all + len(true)
        false_sure, false_all = (
            false_sure + len(sure - set(true)),
            false_all + len(chosen - set(true)),
        )
        words = "; ".join(missed) if good else "WRONG " + "; ".join(front.best().lines(3))
        if not good:
            words += " | " + ", ".join(f"{k} {r.inclusion:.0%}" for k, r in rows.items())
        print(f"{i} {name} {noise:.0%} {front.form}: {words}", flush=True)
    print(f"\nstructures right: {right} of {args.sets - args.skip}")
    print(f"true coefficients in their intervals: {covered} of {numbers}, {covered / numbers:.0%}")
    print(f"true terms with inclusion above 0.9: {true_sure} of {true_all}")
    print(
        f"false terms with inclusion above 0.9: {false_sure} ({false_all} false terms in the laws)"
    )
    print(f"CPU seconds: {time.process_time() - begin:.0f}")


if __name__ == "__main__":
    main()
