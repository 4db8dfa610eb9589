"""Bayesian SJEPA, measured.

    python -m benchmarks.bayes evidence|structures|coverage|correction|speed

`structures` also writes its figure (--figure PATH).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.bayes_data import STEPS, TERMS, drag_pendulum, is_true
from sjepa import Law, Library, Trajectories
from sjepa.bayes import Posterior, posterior
from sjepa.bayes.candidates import propose
from sjepa.errors import NumericalWarning
from tests.bayes.nested import nested_evidence


NOISE = 0.005
LIBRARY = Library.from_terms(TERMS, ["q", "p"])
BACKENDS = ["stlsq", "subset"]
MOST = 20
TRUTH = Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"])
SIZES = (25, 50, 100, 200, 400)


def evidence(args: argparse.Namespace) -> None:
    """Log evidence of three small problems by Laplace and nested sampling."""
    rng = np.random.default_rng(0)

    def walk(matrix: np.ndarray, root: np.ndarray, n: int) -> Trajectories:
        z = [rng.normal(size=len(matrix))]
        for _ in range(n):
            z.append(matrix @ z[-1] + root @ rng.normal(size=len(matrix)))
        return Trajectories([np.array(z)], 1.0)

    drag = drag_pendulum(0, 3, 20, NOISE)
    problems = {
        "linear map, 1 coordinate": (
            walk(np.array([[0.8]]), np.array([[0.3]]), 30),
            Law.from_string(["0.8*x"], ["x"], dynamics="discrete"),
            "diagonal",
        ),
        "linear map, 2 coordinates, full Σ": (
            walk(np.array([[0.9, 0.2], [-0.2, 0.9]]), np.array([[0.3, 0.0], [0.2, 0.2]]), 40),
            Law.from_string(["0.9*x + 0.2*y", "-0.2*x + 0.9*y"], ["x", "y"], dynamics="discrete"),
            "full",
        ),
        "drag pendulum, Euler, own Δt": (
            drag,
            TRUTH,
            "diagonal",
        ),
    }
    if args.only:
        problems = {k: v for k, v in problems.items() if args.only in k}
    print(f"{'problem':36} {'laplace':>9} {'nested':>9}   difference")
    for name, (data, law, covariance) in problems.items():
        (fit,) = posterior(
            data, candidates=law, covariance=covariance, integrator="euler",
            feature_names=list(law.outputs),
        ).fits  # fmt: skip
        laplace, nested = fit.log_evidence, nested_evidence(fit.joint)[0]
        print(f"{name:36} {laplace:9.2f} {nested:9.2f}   {abs(laplace - nested):.2f}", flush=True)


def structures(args: argparse.Namespace) -> None:
    """Weights of structures as the evidence grows, candidates fixed."""
    rows = []  # for each data set and size: weight of the true structure, heaviest, how many
    for seed in range(args.first, args.first + args.sets):
        weights = _kept(args, f"structures-{seed}", lambda seed=seed: _weights(seed, args.observed))
        rows.append(weights)
        by_size = ", ".join(f"n={n} {w:.2f}" for n, (w, _, _) in zip(SIZES, weights, strict=True))
        print(f"set {seed}: weight of the true structure {by_size}", flush=True)
    table = np.array(rows)  # (sets, sizes, 3)
    print(f"\n{args.sets} data sets, transition noise {NOISE}, observation noise {args.observed}")
    print("   n   true heaviest   mean weight of true   median effective number of structures")
    for k, n in enumerate(SIZES):
        weight, first, spread = table[:, k].T
        print(f"{n:4d}   {first.sum():6.0f} of {args.sets}   {weight.mean():19.2f}   "
              f"{np.median(spread):37.1f}")  # fmt: skip
    shown = _posteriors(args.first, args.observed, (50,))[0]
    print("\nfirst data set, n = 50")
    print(shown)
    if args.figure:
        _figure(args.figure, table, shown)


def _posteriors(seed: int, observed: float, sizes: tuple[int, ...]) -> list[Posterior]:
    proposals = drag_pendulum(1000 + seed, 16, 25, NOISE, observed)
    fronts = propose(proposals, BACKENDS, library=LIBRARY, n_bootstrap=2, seed=seed)
    data = drag_pendulum(2000 + seed, max(SIZES) // 25, 25, NOISE, observed)
    return [
        posterior(
            data[: n // 25],
            candidates=fronts,
            proposal_data=proposals,
            library=LIBRARY,
            max_candidates=MOST,
        )
        for n in sizes
    ]


def _weights(seed: int, observed: float) -> list[list[float]]:
    weights = []
    for result in _posteriors(seed, observed, SIZES):
        pairs = zip(result.weights, result.fits, strict=True)
        weight = float(sum(w for w, f in pairs if is_true(f.law)))
        weights.append([weight, float(is_true(result.law)), result.effective_structures])
    return weights


def _kept(args: argparse.Namespace, name: str, compute: Callable[[], Any]) -> Any:
    """What an earlier run with the same --keep folder found, or a new result."""
    if args.keep is None:
        return compute()
    path = args.keep / f"{name}-{NOISE}-{args.observed}.json"
    if not path.exists():
        args.keep.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(compute()))
    return json.loads(path.read_text())


def _figure(path: Path, table: np.ndarray, shown: Posterior) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["w", "s"], ["b", "b"]], figsize=(9, 6.4), layout="constrained"
    )
    for key, column, label in (
        ("w", 0, "weight of the true structure"),
        ("s", 2, "effective number of structures"),
    ):
        values = table[:, :, column].T
        axes[key].plot(SIZES, values, color="#1f5a96", alpha=0.25, lw=1)
        axes[key].plot(SIZES, values.mean(axis=1), color="#1f5a96", lw=2.2, marker="o")
        axes[key].set(xscale="log", xlabel="transitions n in the evidence split", ylabel=label)
        axes[key].set_xticks(SIZES, [str(n) for n in SIZES])
        axes[key].minorticks_off()
        axes[key].spines[["top", "right"]].set_visible(False)
    axes["w"].set_ylim(0, 1.02)
    axes["s"].set_ylim(bottom=0)
    shown.plot(axes["b"], max_structures=6)
    axes["b"].set_title("one data set, n = 50", fontsize=9)
    figure.savefig(path, dpi=110)
    print(f"figure: {path}")


def coverage(args: argparse.Namespace) -> None:
    """Coverage of 90 % intervals on held-out trajectories, over simulated data sets."""
    horizons = (1, 10, 50)
    rows = []
    for seed in range(args.first, args.first + args.sets):
        results = _kept(
            args, f"coverage-{seed}-{args.found}", lambda seed=seed: _coverage(seed, args, horizons)
        )
        rows.append(results)
        shares = ", ".join(f"{h} steps {c:.3f}" for h, c in zip(horizons, results, strict=False))
        print(f"set {seed}: {shares}", flush=True)
    table = np.array(rows)
    print(f"\n{args.sets} data sets of 300 transitions (half for candidates), transition noise "
          f"{NOISE}, observation noise {args.observed}")  # fmt: skip
    print("horizon   coverage of 90 % intervals: mean, lowest, highest   mean calibration error")
    for i, h in enumerate(horizons):
        c = table[:, i]
        error = table[:, i + 3].mean()
        print(f"{h:7d}   {c.mean():31.3f}, {c.min():.3f}, {c.max():.3f}   {error:22.3f}")


def _coverage(seed: int, args: argparse.Namespace, horizons: tuple[int, ...]) -> list[float]:
    data = drag_pendulum(3000 + seed, 12, 25, NOISE, args.observed)
    held_out = drag_pendulum(4000 + seed, 12, 70, NOISE, args.observed)
    first, second = data.split((0.5, 0.5), seed=seed)
    fronts = propose(first, BACKENDS, library=LIBRARY, seed=seed)
    truth = [] if args.found else [TRUTH]
    # Well specified means that the true structure takes part: nothing is left out before.
    max_candidates = MOST if args.found else 100
    result = posterior(
        second,
        candidates=[*fronts, *truth],
        proposal_data=first,
        library=LIBRARY,
        max_candidates=max_candidates,
    )
    calibration = result.calibration(held_out, horizons=horizons, draws=200, starts=60, seed=seed)
    return [calibration.coverage(h) for h in horizons] + [calibration.error(h) for h in horizons]


def correction(args: argparse.Namespace) -> None:
    """A law without drag, plus a Gaussian process: does the process become the drag?"""
    law = Law.from_string(["p", "-sin(q)"], ["q", "p"])
    states = np.concatenate(drag_pendulum(5000, 60, 60, 0.0).x)
    truth = -0.4 * states[:, 1] * np.abs(states[:, 1])
    print("outputs       n   seed   R2 of drag   std inside   std at |p| = 4   CPU seconds")
    for outputs in args.outputs:
        for seed in range(2):
            data = drag_pendulum(6000 + seed, 12, 25, args.noise)
            start = time.process_time()
            result = posterior(data, candidates=law, correction=outputs)
            seconds = time.process_time() - start
            mean, std = result.correction(states[::9], draws=200)
            r2 = 1 - np.mean((mean[:, 1] - truth[::9]) ** 2) / truth.var()
            far = np.array([[q, p] for q in (-2.0, 0.0, 2.0) for p in (-4.0, 4.0)])
            outside = result.correction(far, draws=200)[1][:, 1].mean()
            print(f"{outputs:11} {300:4d} {seed:6d} {r2:12.3f} {std[:, 1].mean():12.3f} "
                  f"{outside:16.3f} {seconds:13.1f}", flush=True)  # fmt: skip


def speed(args: argparse.Namespace) -> None:
    """1,000 rollouts of 100 steps with a correction of 1,000 points."""
    law = Law.from_string(["p", "-sin(q)"], ["q", "p"])
    data = drag_pendulum(7000, 20, 50, NOISE)
    start = time.perf_counter()
    result = posterior(data, candidates=law, correction="independent")
    print(f"fit of {20 * 50} transitions: {time.perf_counter() - start:.1f} s (not counted)")
    t = np.concatenate([[0.0], np.resize(STEPS, 100).cumsum()])
    for repeat in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        run = result.rollout(data.x[0][0], t, draws=1000, seed=repeat)
        print(f"rollouts {run.z.shape}: {time.perf_counter() - wall:.1f} s wall, "
              f"{time.process_time() - cpu:.1f} s CPU, {torch.get_num_threads()} threads, "
              f"{run.diverged:.1%} diverged", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", choices=["evidence", "structures", "coverage", "correction", "speed"]
    )
    parser.add_argument("--sets", type=int, default=20, help="simulated data sets")
    parser.add_argument(
        "--first",
        type=int,
        default=100,
        help="first data set; those below 100 were looked at while the code was written",
    )
    parser.add_argument("--observed", type=float, default=0.0, help="noise of observation")
    parser.add_argument(
        "--noise", type=float, default=0.005, help="transition noise of `correction`"
    )
    parser.add_argument("--outputs", nargs="+", default=["independent", "shared", "multi"])
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--found",
        action="store_true",
        help="`coverage` without the true structure unless a search finds it",
    )
    parser.add_argument("--only", help="problems of `evidence` whose name has this in it")
    parser.add_argument("--keep", type=Path, help="folder of finished data sets, to resume from")
    args = parser.parse_args()
    warnings.simplefilter("ignore", NumericalWarning)
    {"evidence": evidence, "structures": structures, "coverage": coverage,
     "correction": correction, "speed": speed}[args.what](args)  # fmt: skip


if __name__ == "__main__":
    main()
