"""Compare encoders on the same data: C_dyn curve, law, rollouts, probes, collapse.

    python -m benchmarks.encoders video:pendulum pixels random-cnn --heads slow learned --out DIR

The data are a file or folder that `sjepa fit` reads, a video, or ``video:NAME`` for a rendered one
(pendulum, spring_mass). Encoders are ``pixels`` and ``random-cnn``;
``end-to-end`` trains coordinates and law together. For any other call `diagnose` with a function
or module; docs/howto/images.md shows how to load some.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.encoders.diagnose import diagnose
from benchmarks.encoders.random_cnn import random_cnn
from sjepa import encoders
from sjepa.data import Trajectories, read, rendered
from sjepa.errors import SjepaError


def data_of(text: str, step: float | None, seed: int) -> Trajectories:
    if text.startswith("video:"):
        return rendered(text.removeprefix("video:"), seed)
    return read(text, time=step)


ENCODERS = {"pixels": encoders.pixels, "random-cnn": random_cnn}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.encoders", description=__doc__)
    parser.add_argument("data")
    parser.add_argument("encoders", nargs="+", choices=[*ENCODERS, "end-to-end"])
    parser.add_argument("--heads", nargs="+", default=["auto"], help="none, pca, slow, learned ...")
    parser.add_argument("--latent-dim", type=int, default=2)
    parser.add_argument("--order", type=int, default=1, help="2 for laws of accelerations")
    parser.add_argument("--delta", type=float, default=0.01, help="adequate unexplained share")
    parser.add_argument("--step", type=float, help="time between frames or rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for table, JSON and plot")
    args = parser.parse_args()
    try:
        chosen: dict[str, Any] = {}
        for name in args.encoders:
            if name == "end-to-end":
                chosen[name] = ("identity", "learned")
            else:
                encoder = ENCODERS[name]()
                chosen |= {f"{name}, {head}": (encoder, head) for head in args.heads}
        comparison = diagnose(
            chosen, data_of(args.data, args.step, args.seed), latent_dim=args.latent_dim,
            order=args.order, delta=args.delta, seed=args.seed,
        )  # fmt: skip
        if args.out is not None:
            comparison.save(args.out)
    except SjepaError as error:
        parser.exit(2, f"{error}\n")
    print(comparison)
    for row in comparison:
        print("", row.name, *row.notes, *row.findings, sep="\n  ")


if __name__ == "__main__":
    main()
