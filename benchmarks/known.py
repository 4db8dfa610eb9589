"""Laws of known states: the 17 classic systems at several noise levels, and the warnings.

    python benchmarks/known.py [--seeds 100,101] [--noise 0,0.01,0.05,0.1] [--backend stlsq]

The default call, or one backend. A law is right if its terms are exactly the true ones; with
numbers inside them, as benchmarks/wide.py compares them. Right laws should come without a warning
and wrong ones with one. Five seeds take ten minutes on one core.
"""

from __future__ import annotations

import argparse
import time
import warnings

from wide import shapes

import sjepa
from sjepa import Law
from sjepa.data import SYSTEMS
from sjepa.data.synthetic.simulate import simulate
from sjepa.errors import NumericalWarning


def terms(law: Law) -> list[set[str]]:
    return [{str(term) for _, term in row} for row in law.terms]


def trial(name: str, seed: int, noise: float, backend: str | None) -> tuple[bool, bool, str, str]:
    """Whether the law is right, whether it is on the front, the first warning, and the law."""
    system = SYSTEMS[name]
    true = terms(Law.from_string(list(system.equations), [*system.inputs, *system.actions]))
    data = simulate(system, seed=seed, noise=noise)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        front = sjepa.discover(data, backend=backend)
    words = [str(w.message) for w in caught if issubclass(w.category, NumericalWarning)]
    whole = shapes(Law.from_string(list(system.equations), [*system.inputs, *system.actions]))
    right = terms(front.best()) == true or shapes(front.best()) == whole
    on_front = right or any(terms(c.law) == true for c in front)
    return right, on_front, (words or [""])[0], "; ".join(front.best().lines(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="100")
    parser.add_argument("--noise", default="0,0.01,0.05,0.1")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--backend", default=None)
    given = parser.parse_args()
    seeds, names = [int(s) for s in given.seeds.split(",")], given.systems.split(",")
    rows = []
    for noise in map(float, given.noise.split(",")):
        begin = time.process_time()
        found = []
        for name in names:
            for seed in seeds:
                right, on_front, words, law = trial(name, seed, noise, given.backend)
                found.append((right, on_front, bool(words)))
                if not right or words:
                    print(f"{'right' if right else 'WRONG'} {name} {noise:g} seed {seed}: {law}")
                    print(f"      {words or 'no warning'}", flush=True)
        right = sum(f[0] for f in found)
        rows.append(
            f"| {noise:.0%} | {right} of {len(found)} | {sum(f[1] for f in found)} "
            f"| {sum(f[0] and f[2] for f in found)} of {right} "
            f"| {sum(not f[0] and f[2] for f in found)} of {len(found) - right} "
            f"| {time.process_time() - begin:.0f} |"
        )
    print("\n| noise | right | on the front | right, warned | wrong, warned | CPU seconds |")
    print("|---|---|---|---|---|---|\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
