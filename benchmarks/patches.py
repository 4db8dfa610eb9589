"""Masked prediction as a direct transition: what is at another place of the same image.

The context is one patch, the target another, and the exogenous inputs is where the target lies
from there. Both are encoded by the same encoder, and the law is a map F(z, ε) to the target's
coordinates, with no time and no integrator (the direct dynamics of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.backend import Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.names import numbered
from sjepa.errors import ConfigError, DataError
from sjepa.metrics import r2
from sjepa.models.pretrained.embedder import encode_all, pixels
from sjepa.models.pretrained.heads import HeadedEncoder, fit_head
from sjepa.symbolic import Front, Law, Library


# Names of the exogenous inputs: columns to the right and rows down, in patch sides.
OFFSETS = ("right", "down")


@dataclass(frozen=True, eq=False)
class PatchPairs:
    """Pairs of patches of the same image.

    ``context`` and ``target`` are (n, p, p), or (n, C, p, p); ``offset`` (n, 2) is the target's
    place as seen from the context, in patch sides; ``image`` (n,) says which image.
    """

    context: np.ndarray
    target: np.ndarray
    offset: np.ndarray
    image: np.ndarray

    def trajectories(self) -> Trajectories:
        """Each pair as two observations, the offset as the action between them.

        ``SJEPA(search="alternating", dynamics="discrete", options={"horizon": 1})`` learns encoder
        and law of these together.
        """
        x = np.stack([self.context, self.target], axis=1)
        u = np.stack([self.offset, np.zeros_like(self.offset)], axis=1)
        return Trajectories(list(x), [np.arange(2.0)] * len(x), list(u), input_names=OFFSETS)


def patch_pairs(images: Any, patch: int, pairs: int = 20, seed: int = 0) -> PatchPairs:
    """Draw `pairs` pairs of patches from each image (H, W) or (C, H, W), never the same place."""
    x = np.asarray(images, dtype=float)
    if x.ndim not in (3, 4):
        raise DataError(f"images are (n, H, W) or (n, C, H, W), got {x.shape}.")
    height, width = x.shape[-2:]
    if not 1 <= patch < min(height, width):
        raise DataError(f"a patch of {patch} must be smaller than images of {height} x {width}.")
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(len(x)), pairs)
    high = [height - patch + 1, width - patch + 1]
    begin = rng.integers(0, high, size=(len(image), 2))
    end = rng.integers(0, high, size=(len(image), 2))
    same = (begin == end).all(1)
    end[same] = (end[same] + 1) % high  # a target at the context would be no task

    def cut(corner: np.ndarray) -> np.ndarray:
        return np.stack([
            x[i, ..., r : r + patch, c : c + patch]
            for i, (r, c) in zip(image, corner, strict=True)
        ])  # fmt: skip

    offset = (end - begin)[:, ::-1] / patch
    return PatchPairs(cut(begin), cut(end), offset, image)


@dataclass(frozen=True, eq=False)
class SpatialLaw:
    """A law that says what lies elsewhere.

    Attributes
    ----------
    law : Law
        A map from (z, right, down) to the coordinates of the target.
    front : Front
    encoder : callable
        Patches (n, ...) to coordinates (n, d).
    r2 : float
        Of predicted target coordinates on images that were not used.
    copy_r2 : float
        The same for predicting that the target looks like the context.
    note : str
        What the head kept.
    """

    law: Law
    front: Front
    encoder: Callable[[Any], np.ndarray]
    r2: float
    copy_r2: float
    note: str

    def lines(self, digits: int = 6) -> list[str]:
        """The equations, one a line; the left side is the target's coordinate."""
        return [f"target {line.replace('[t+1]', '', 1)}" for line in self.law.lines(digits=digits)]

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def discover_spatial(
    images: Any,
    *,
    patch: int,
    latent_dim: int = 3,
    encoder: Callable[[Any], Any] | None = None,
    head: str = "pca",
    library: Library | Sequence[str] | None = None,
    delta: float | str = "auto",
    backend: Any = "subset",
    pairs: int = 20,
    seed: int = 0,
) -> SpatialLaw:
    """Find how the coordinates of patches depend on where they are, from whole images.

    Parameters
    ----------
    images : array (n, H, W) or (n, C, H, W)
    patch : int
        Side of a patch in pixels; offsets are measured in it.
    encoder : callable, optional
        Frozen; by default the pixels of a patch.
    head : "pca" or "whiten"
        How `latent_dim` coordinates are read off it.
    library : terms in z1, z2, ..., right, down
        By default coordinates, offsets, and products of one with the other.
    delta : float or "auto"
        Take the simplest law that leaves at most this share of the variance of the targets; "auto"
        takes the knee of the front.
    """
    if head not in ("pca", "whiten"):
        raise ConfigError(
            f"patches have no order in time: head is 'pca' or 'whiten', got {head!r}."
        )
    x = np.asarray(images, dtype=float)
    if len(x) < 5:
        raise DataError(f"needs at least 5 images, one of which is held out; got {len(x)}.")
    known = patch_pairs(x, patch, pairs, seed)
    train = known.image < round(0.8 * len(x))
    base = encoder if encoder is not None else pixels()
    embedded = encode_all(base, [known.context, known.target])
    encoded = [e[train] for e in embedded]
    reader = fit_head(head, encoded, [np.arange(len(e)) for e in encoded], latent_dim)
    whole = HeadedEncoder(base, reader)
    context, target = (whole.read(e) for e in embedded)
    names = numbered("z", latent_dim)
    if library is None:
        products = [f"{n}*{o}" for n in names for o in OFFSETS]
        library = ["1", *names, *OFFSETS, *products]
    library = Library.of(library, [*names, *OFFSETS])
    inputs = np.concatenate([context, known.offset], axis=1)
    problem = Problem(
        inputs[train], target[train], [*names, *OFFSETS], names, library=library,
        dynamics="discrete", seed=seed,
    )  # fmt: skip
    front = problem.solve(make_backend(backend))
    law = front.best() if delta == "auto" else front.select(delta=float(delta))
    guess = law.numpy()(inputs[~train])
    return SpatialLaw(
        law, front, whole, r2(guess, target[~train]), r2(context[~train], target[~train]),
        reader.note,
    )  # fmt: skip
