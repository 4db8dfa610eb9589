"""Frozen encoders beside coordinates that are trained, on videos of a pendulum.

``python -m benchmarks.vision compare [--seeds 0 1 2]``: C_dyn, rollouts and probes of frozen
encoders and of end-to-end learning, with one library, one tolerance and new videos for each seed.
``python -m benchmarks.vision large``: 10,000 frames of 64 x 64, end to end: seconds and memory.
``python -m benchmarks.vision sharp``: a small pendulum mass, blurred or not, noisy pixels, and a
still textured background, added to what moves or hiding it where it is the brighter of both.
``python -m benchmarks.vision masked``: the law of what lies elsewhere in an image.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import torch

from benchmarks.encoders import diagnose
from benchmarks.encoders.random_cnn import random_cnn
from benchmarks.patches import discover_spatial
from benchmarks.pretrained import face_network
from sjepa import SJEPA, Library, encoders
from sjepa.data import rendered
from sjepa.metrics import AffineMap, r2
from sjepa.training.joint import joint_search


DELTA = 0.01


def compare(seeds: list[int], folder: Path | None) -> None:
    """One coordinate, a law for its second derivative; heads and laws never see the test videos."""
    tables = []
    for seed in seeds:
        start, cpu = perf_counter(), process_time()
        train = rendered("pendulum", seed, trajectories=40, length=100)
        test = rendered("pendulum", 1000 + seed, trajectories=10, length=100)
        encoders_given = {
            "pixels": (encoders.pixels(), "pca"),
            "pixels, slow": (encoders.pixels(), "slow"),
            "random CNN": (random_cnn(seed), "pca"),
            "random CNN, slow": (random_cnn(seed), "slow"),
            "random CNN, learned": (random_cnn(seed), "learned"),
            **_pretrained(),
            "end to end": ("identity", "learned"),
        }
        comparison = diagnose(
            encoders_given, train, test=test, latent_dim=1, order=2, delta=DELTA, seed=seed
        )
        table = comparison.to_frame().assign(seed=seed)
        tables.append(table)
        print(f"\nseed {seed}: {perf_counter() - start:.0f} s, {process_time() - cpu:.0f} s of CPU")
        columns = ["encoder", "embedding", "C_dyn", "rollout", "rollout_state", "probe_r2", "law"]
        print(table[columns].to_string(index=False), flush=True)
        if folder is not None:
            comparison.save(folder / f"seed{seed}")
    both = pd.concat(tables)
    print("\nover seeds (lowest, highest)")
    figures = both.groupby("encoder", sort=False)[["C_dyn", "rollout", "probe_r2"]]
    print(figures.agg(["min", "max"]).to_string())


def _pretrained() -> dict[str, tuple[encoders.Embedder, str]]:
    """The face network, where the index can be reached."""
    folder = Path(tempfile.gettempdir()) / "sjepa-pretrained"
    folder.mkdir(exist_ok=True)
    try:
        network = encoders.frozen(face_network(folder), name="face network")
    except OSError as error:
        print(error)
        return {}
    return {"face network, slow": (network, "slow")}


def large(seed: int, threads: int) -> None:
    """From frames to law, everything counted: search, refinement, diagnostics."""
    torch.set_num_threads(threads)
    train = rendered("pendulum", seed, trajectories=100, length=100, size=64)
    test = rendered("pendulum", 1000 + seed, trajectories=10, length=100, size=64)
    before = _peak()
    start, cpu = perf_counter(), process_time()
    library = Library.paper(["z1"], velocities=["z1_dot"])
    model = SJEPA(1, order=2, library=library, random_state=seed).fit(train)
    seconds, busy = perf_counter() - start, process_time() - cpu
    z = np.concatenate(model.encode(test.x))  # type: ignore[arg-type]
    angle = np.concatenate(test.state or [])[:, :1]
    print("; ".join(model.law_.lines(digits=5)))
    print(f"probe R2 of the angle {r2(AffineMap.fit(z, angle)(z), angle):.5f}")
    print(f"score of whole held-out rollouts {model.score(test):.5f}")
    print(
        f"{train.lengths.sum()} frames of {train.obs_shape}: {seconds:.0f} s, {busy:.0f} s of CPU"
    )
    print(f"peak memory {_peak():.2f} GB ({before:.2f} GB before the search)")


def sharp(seed: int) -> None:
    """What blurring and smoothing are for, and where they end."""
    library = Library.paper(["z1"], velocities=["z1_dot"])
    texture = 0.5 * np.random.default_rng([seed, 2]).uniform(size=(32, 32))
    cases: list[tuple[str, float, float, Callable[[np.ndarray], np.ndarray]]] = [
        ("sharp, not blurred", 0.45, 0.0, lambda x: x),
        ("sharp, blurred", 0.45, 0.0, lambda x: x),
        ("noise 0.1", 1.0, 0.1, lambda x: x),
        ("texture added", 1.0, 0.0, lambda x: x + texture),
        ("texture in front", 1.0, 0.0, lambda x: np.maximum(x, texture)),
        ("sharp, texture in front", 0.45, 0.0, lambda x: np.maximum(x, texture)),
    ]
    for name, width, noise, background in cases:
        train, test = (
            rendered("pendulum", s, trajectories=n, width=width, noise=noise).map(background)
            for s, n in ((seed, 40), (1000 + seed, 10))
        )
        cpu, called = process_time(), ""
        if "not" in name:
            result = joint_search(train, library, 1, order=2, seed=seed)
            law, encoder = result.law, result.encoder.double()
        else:
            model = SJEPA(1, order=2, library=library, random_state=seed).fit(train)
            law, encoder = model.law_, model.encoder_
            called = "adequate, " if model.figures_["adequate"] else "not adequate, "
        with torch.no_grad():
            z = np.concatenate([np.asarray(encoder(torch.tensor(x).double())) for x in test.x])
        angle = np.concatenate(test.state or [])[:, :1]
        score = r2(AffineMap.fit(z, angle)(z), angle)
        busy = process_time() - cpu
        print(
            f"{name}: {law}, {called}probe R2 of the angle {score:.5f}, {busy:.0f} s of CPU",
            flush=True,
        )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def masked(seed: int) -> None:
    """Images of planes: a brightness and two slopes, with noise."""
    rng = np.random.default_rng(seed)
    level, right, down = rng.normal(size=(3, 500, 1, 1))
    rows, columns = np.mgrid[:24, :24] - 12
    images = level + 0.06 * right * columns + 0.02 * down * rows
    images += 0.002 * rng.normal(size=images.shape)
    law = discover_spatial(images, patch=6, pairs=6, delta=0.005, seed=seed)
    print(law)
    print(f"R2 on other images {law.r2:.4f}; copying the context {law.copy_r2:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "large", "masked", "sharp"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for tables and plots")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.what == "compare":
        compare(options.seeds, options.out)
    elif options.what == "large":
        large(options.seeds[0], options.threads)
    elif options.what == "sharp":
        sharp(options.seeds[0])
    else:
        masked(options.seeds[0])


if __name__ == "__main__":
    main()
