"""Laws of known states: the 17 classic systems at several noise levels, and the warnings.

    python benchmarks/known.py [--seeds 100,101] [--noise 0,0.01,0.05,0.1] [--backend stlsq]

The default call, or one backend. A law is right if its terms are exactly the true ones; with
numbers inside them, as benchmarks/wide.py compares them. Right laws should come without a warning
and wrong ones with one. benchmarks/known_page.py makes tables of what `--out FILE` keeps. Five
seeds take ten minutes on one core.
"""

from __future__ import annotations

import argparse

from outcomes import Outcome, Record, add_option, outcome, table
from wide import shapes

import sjepa
from sjepa import Law
from sjepa.data import SYSTEMS
from sjepa.data.synthetic.simulate import simulate


def terms(law: Law) -> list[set[str]]:
    return [{str(term) for _, term in row} for row in law.terms]


def trial(name: str, seed: int, noise: float, backend: str | None) -> Outcome:
    system = SYSTEMS[name]
    true = Law.from_string(list(system.equations), [*system.inputs, *system.actions])
    data = simulate(system, seed=seed, noise=noise)
    return outcome(
        lambda: sjepa.discover(data, backend=backend, verbose=False),
        lambda law: terms(law) == terms(true) or shapes(law) == shapes(true),
        suite="17 systems", search=backend or "default", noise=noise, system=name, seed=seed,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="100")
    parser.add_argument("--noise", default="0,0.01,0.05,0.1")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--backend", default=None)
    add_option(parser)
    args = parser.parse_args()
    record = Record(args.out)
    for seed in map(int, args.seeds.split(",")):
        for noise in map(float, args.noise.split(",")):
            for name in args.systems.split(","):
                record.add(trial(name, seed, noise, args.backend))
    print("\n" + table(record.outcomes))


if __name__ == "__main__":
    main()
