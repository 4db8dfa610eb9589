"""Heads: from an embedding of hundreds of values to the few coordinates a law can be about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError, did_you_mean, lookup
from sjepa.models import AffineHead, Whitening
from sjepa.models.pretrained.embedder import encode_all
from sjepa.settings import Settings


# A slow direction is looked for among components that carry this share of the variance.
EXPLAINED = 0.999
MAX_COMPONENTS = 64

Series = Sequence[np.ndarray]


def fit_head(kind: str, series: Series, times: Series, dim: int) -> AffineHead:
    """Measure a head of `dim` coordinates on embeddings (T, D) of trajectories.

    ========  ====================================================================================
    pca       leading principal components, their relative sizes kept, the first of variance 1
    whiten    leading principal components, each of variance 1
    slow      the directions that change most slowly for their variance (slow-feature analysis)
    ========  ====================================================================================
    """
    fit, size = lookup(HEADS, kind, "head"), series[0].shape[1]
    if not 1 <= dim <= size:
        raise ConfigError(
            f"A head of {dim} coordinates does not fit an embedding of {size} values."
        )
    rows = torch.as_tensor(np.concatenate(list(series)))
    if not bool(torch.isfinite(rows).all()):
        raise DataError("The encoder returned NaN or infinity; check its input range.")
    if float(rows.var(0).sum()) <= 1e-12 * float(rows.square().mean()):
        raise DataError("The encoder gives the same embedding for every observation.")
    return fit(rows, series, times, dim)


def _principal(rows: Tensor, dim: int, whiten: bool) -> AffineHead:
    whitening = Whitening.fit(rows, rows.shape[1], rank=dim, max_rank=dim)
    if whiten:
        return _affine(rows, whitening.mean, whitening.matrix, "whiten", dim)
    spread = 1.0 / whitening.matrix.norm(dim=0)  # a column is a direction over its spread
    return _affine(rows, whitening.mean, whitening.matrix * (spread / spread[0]), "pca", dim)


def _slow(rows: Tensor, series: Series, times: Series, dim: int) -> AffineHead:
    """Unit variance, uncorrelated, with the smallest mean square of the time derivative."""
    max_values = min(MAX_COMPONENTS, *rows.shape)
    whitening = Whitening.fit(rows, rows.shape[1], explained=EXPLAINED, max_rank=max_values)
    if whitening.rank < dim:
        whitening = Whitening.fit(rows, rows.shape[1], rank=dim, max_rank=dim)
    moment = torch.zeros(whitening.rank, whitening.rank, dtype=torch.float64)
    count = 0
    for z, t in zip(series, times, strict=True):
        y = whitening(torch.as_tensor(z))
        slope = y.diff(dim=0) / torch.as_tensor(np.diff(t))[:, None]
        moment += slope.T @ slope
        count += len(slope)
    _, axes = torch.linalg.eigh(moment / count)  # ascending: the slowest first
    return _affine(rows, whitening.mean, whitening.matrix @ axes[:, :dim], "slow", dim)


def _affine(rows: Tensor, mean: Tensor, matrix: Tensor, kind: str, dim: int) -> AffineHead:
    if matrix.shape[1] < dim:
        raise DataError(
            f"The embeddings vary in {matrix.shape[1]} directions only; "
            f"ask for latent_dim={matrix.shape[1]} or fewer."
        )
    # Signs of eigenvectors are arbitrary; the largest entry positive makes runs comparable.
    top = matrix.abs().argmax(0)
    matrix = matrix * torch.sign(matrix[top, torch.arange(dim)])
    centered = rows - mean
    basis = torch.linalg.qr(matrix).Q
    explained = float((centered @ basis).square().sum() / centered.square().sum())
    what = {"pca": "principal component", "whiten": "whitened component", "slow": "slow feature"}
    head = AffineHead(
        rows.shape[1], dim,
        f"head {kind}: {dim} {what[kind]}{'s' if dim > 1 else ''} of an embedding of "
        f"{rows.shape[1]} values; {explained:.1%} of its variance is kept, the law "
        "sees nothing else.",
    )  # fmt: skip
    head.mean.copy_(mean)
    head.matrix.copy_(matrix)
    return head


HEADS: Mapping[str, Callable[[Tensor, Series, Series, int], AffineHead]] = {
    "pca": lambda rows, series, times, dim: _principal(rows, dim, whiten=False),
    "whiten": lambda rows, series, times, dim: _principal(rows, dim, whiten=True),
    "slow": _slow,
}


@dataclass(frozen=True, repr=False)
class ReadOut(Settings):
    """A given encoder, and how `latent_dim` coordinates are read off what it gives.

    Parameters
    ----------
    encoder : "identity", or a callable or nn.Module
    head : "auto", "none", "pca", "whiten", "slow" or "learned"
        "learned" trains the read-out together with the law. "auto" is "pca" where the encoder
        gives more values than `latent_dim`, or names; with "identity" beyond 16 columns.

    Examples
    --------
    >>> ReadOut("identity", "pca")
    ReadOut(head='pca')
    """

    encoder: str | Callable[[Any], Any] = "identity"
    head: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = ("auto", "none", *HEADS, "learned")
        if self.head not in known:
            hint = did_you_mean(str(self.head), known)
            raise ConfigError(f"head is one of {', '.join(known)}; got {self.head!r:.60}.{hint}")
        if self.encoder != "identity" and (
            isinstance(self.encoder, str) or not callable(self.encoder)
        ):
            raise ConfigError(
                f"encoder is 'identity', a callable or a module, got {self.encoder!r:.60}."
            )

    @classmethod
    def of(cls, encoder: Any) -> ReadOut:
        """The estimator's argument, other than "auto"."""
        return encoder if isinstance(encoder, cls) else cls(encoder)


def choose_head(
    kind: str | None, series: Series, times: Series, latent_dim: int, max_values: int
) -> AffineHead | None:
    """The requested head; "auto" keeps up to `max_values` values as they are, else is "pca"."""
    size = series[0].shape[1]
    if kind == "auto":
        kind = None if size <= max_values else "pca"
    if kind is None or kind == "none":
        return None
    return fit_head(kind, series, times, latent_dim)


class HeadedEncoder:
    """An encoder and the head behind it: observations (n, ...) to coordinates (n, d)."""

    def __init__(self, encoder: Callable[[Any], Any], head: nn.Module) -> None:
        self.encoder, self.head = encoder, head

    def __repr__(self) -> str:
        return f"<{self.encoder!r} with {getattr(self.head, 'note', 'a learned head')}>"

    def __call__(self, x: Any) -> np.ndarray:
        array = x.numpy() if isinstance(x, Tensor) else np.asarray(x)
        return self.read(encode_all(self.encoder, [array])[0])

    def read(self, embeddings: np.ndarray) -> np.ndarray:
        """The head alone: embeddings (n, D) to coordinates (n, d)."""
        with torch.no_grad():
            return self.head(torch.as_tensor(embeddings)).numpy()
