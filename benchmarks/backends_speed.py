"""Speed and memory of the backends on Gram matrices.

Prints: stlsq against PySINDy's STLSQ on the same 300,000 x 56 features, supports compared;
100 million rows streamed through stlsq with the peak memory; subset at 30 terms with its proof.

    python benchmarks/backends_speed.py [--rows 100000000]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np
import pysindy

from sjepa.backend import Problem
from sjepa.backend.registry import make_backend
from sjepa.symbolic import Gram, Library


NAMES = ["a", "b", "c", "d", "e"]


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def against_pysindy(rows: int = 300_000, threshold: float = 0.05, ridge: float = 1e-5) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (rows, 5))
    library = Library.polynomial(NAMES, 3)
    truth = np.where(
        rng.random((len(library), 5)) < 0.1, rng.uniform(0.3, 2, (len(library), 5)), 0.0
    )
    features = library.numpy()(x)
    targets = features @ truth + 0.1 * rng.normal(size=(rows, 5))

    start = time.perf_counter()
    gram = Gram.from_features(features, targets)
    backend = make_backend("stlsq", threshold=threshold, ridge=ridge)
    law = backend.search(Problem(gram=gram, library=library, outputs=NAMES)).best()
    ours = time.perf_counter() - start

    optimizer = pysindy.STLSQ(threshold=threshold, alpha=ridge)
    start = time.perf_counter()
    optimizer.fit(features, targets)
    theirs = time.perf_counter() - start
    same = ((library.coefficients(law) != 0) == (optimizer.coef_.T != 0)).all()
    right = ((optimizer.coef_.T != 0) == (truth != 0)).all()
    print(f"{rows} rows x {len(library)} terms x 5 outputs, threshold {threshold}")
    print(f"  PySINDy STLSQ {theirs:.2f} s, stlsq {ours:.3f} s: {theirs / ours:.0f} times faster")
    print(f"  same support: {same}; it is the true one: {right}")


def streamed(rows: int, chunk: int = 1_000_000) -> None:
    """Rows are made on the fly, so that only the accumulation can need memory."""
    library = Library.paper(["q", "p"])
    before = peak_mb()

    def chunks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(0)
        left = rows
        while left > 0:
            z = rng.uniform(-2, 2, (min(chunk, left), 2))
            yield z, np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)
            left -= chunk

    start = time.perf_counter()
    gram = Gram.from_chunks(library, chunks())
    front = make_backend("stlsq").search(Problem(gram=gram, library=library, outputs=["q", "p"]))
    seconds = time.perf_counter() - start
    print(f"{gram.rows:,} rows streamed in {seconds:.0f} s: {'; '.join(front.best().lines(6))}")
    print(f"  peak memory {peak_mb():.0f} MB, {peak_mb() - before:.0f} MB above the start")


def proof(terms: int = 30, active: int = 5) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(3000, terms)) @ (np.eye(terms) + 0.3 * rng.normal(size=(terms, terms)))
        chosen = np.sort(rng.choice(terms, active, replace=False))
        y = x[:, chosen] @ rng.uniform(0.5, 2, active) + 0.3 * rng.normal(size=3000)
        library = Library.polynomial([f"x{i}" for i in range(terms)], 1, bias=False)
        start = time.perf_counter()
        front = make_backend("subset").search(Problem(x, y, library=library, outputs=["y"]))
        seconds = time.perf_counter() - start
        best = front.best_candidate()
        support = np.flatnonzero(library.coefficients(best.law)[:, 0])
        print(
            f"subset, {terms} terms, seed {seed}: {seconds:.2f} s, proven {best.certified}, "
            f"true support {support.tolist() == chosen.tolist()}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows to stream")
    arguments = parser.parse_args()
    streamed(arguments.rows)  # first, so that its peak memory is its own
    against_pysindy()
    proof()
