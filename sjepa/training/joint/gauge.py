"""The affine gauge: the basis and origin of a latent space in which its law has fewest terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial.polynomial import polyroots
from numpy.polynomial.polyutils import trimcoef
from torch import Tensor, nn

from sjepa.symbolic import Library
from sjepa.training.joint.structures import Symmetry, structure
from sjepa.training.joint.subspace import Subspace


# Contributions, as shares of an equation's size, that may count as present.
THRESHOLDS = (0.1, 0.05, 0.02, 0.01)
# Two coordinates more parallel than this determinant allows are one.
MIN_DETERMINANT = 0.1


@dataclass(frozen=True, eq=False)
class Gauge:
    """Coordinates y = z A + b of a subspace, and the shares (terms, d) of its law's terms."""

    matrix: Tensor
    offset: Tensor
    shares: Tensor

    def support(self, threshold: float) -> tuple[tuple[int, ...], ...]:
        present = self.shares > threshold
        return tuple(tuple(torch.nonzero(c)[:, 0].tolist()) for c in present.T)


def search_gauge(
    subspace: Subspace,
    points: Tensor,
    library: Library,
    *,
    restarts: int = 64,
    steps: int = 500,
    seed: int = 0,
) -> list[Gauge]:
    """Gauges in which the dense law of a subspace is sparse, the sparsest first.

    `points` are whitened observations (n, rank) to measure the size of terms on. The law is
    carried from one gauge to the next exactly: monomials of the old coordinates are combinations
    of those of the new ones. The penalty goes from smooth L1 to smooth L0.
    """
    generator = torch.Generator().manual_seed(seed)
    z = points @ subspace.readout  # (n, d), unit covariance
    d = z.shape[1]
    features = library.torch()
    velocity = features(z) @ subspace.coefficients  # (n, d)
    weight = torch.tensor(
        [1.0 if t.free_symbols else 1.2 for t in library.terms], dtype=torch.float64
    )
    matrix = torch.randn(restarts, d, d, generator=generator, dtype=torch.float64)
    matrix = (matrix / matrix.norm(dim=1, keepdim=True)).requires_grad_()
    offset = 0.5 * torch.randn(restarts, d, generator=generator, dtype=torch.float64)
    offset.requires_grad_()
    optimizer = torch.optim.Adam([matrix, offset], lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=5e-4)
    for step in range(steps):
        width = 0.5 * (0.01 / 0.5) ** (step / steps)
        basis = matrix / matrix.norm(dim=1, keepdim=True).clamp_min(1e-9)
        shares, _ = term_shares(features, z, velocity, basis, offset)
        penalty = (shares.square() / (shares.square() + width**2)).mul(weight[:, None])
        if step < steps // 3:  # broad first: every term pulls toward zero a little
            penalty = shares * weight[:, None]
        flat = torch.relu(MIN_DETERMINANT - torch.linalg.det(basis).abs())
        loss = penalty.sum((1, 2)) + 50.0 * flat
        optimizer.zero_grad()
        loss.sum().backward()
        for p in (matrix, offset):
            assert p.grad is not None
            p.grad.nan_to_num_(0.0).clamp_(-10.0, 10.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        basis = matrix / matrix.norm(dim=1, keepdim=True).clamp_min(1e-9)
        shares, _ = term_shares(features, z, velocity, basis, offset)
        price = ((shares > THRESHOLDS[-1]) * weight[:, None]).sum((1, 2))
        apart = torch.linalg.det(basis).abs() > 0.5 * MIN_DETERMINANT
        price = torch.where(apart, price, torch.inf) + 1e-3 * shares.sum((1, 2))
    order = price.argsort().tolist()
    return [Gauge(basis[i], offset.detach()[i], shares[i]) for i in order]


def term_shares(
    features: nn.Module, z: Tensor, velocity: Tensor, basis: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    """Shares and coefficients (R, terms, d) of the law of y = z A + b.

    z (n, d) moves with `velocity` (n, d). A share is the root mean square of a term over that
    of its equation.
    """
    y = z @ basis + offset[:, None]  # (R, n, d)
    columns = features(y)  # (R, n, P)
    size = columns.square().mean(1).sqrt().clamp_min(1e-12)  # (R, P)
    scaled = columns / size[:, None]
    gram = scaled.mT @ scaled / len(z) + 1e-12 * torch.eye(size.shape[1], dtype=z.dtype)
    moved = velocity @ basis  # (R, n, d)
    contribution = torch.linalg.solve(gram, scaled.mT @ moved / len(z))  # in rms of the term
    unit = moved.square().mean(1).sqrt().clamp_min(1e-12)
    return (contribution / unit[:, None]).abs(), contribution / size[..., None]


PRESENT = 0.01
LARGEST = 20.0  # multiples beyond this make coordinates that are nearly parallel
Score = tuple[int, bool, float]


class GaugeMoves:
    """Breadth-first search over the sparse gauges that elementary moves connect."""

    def __init__(self, subspace: Subspace, points: Tensor, library: Library) -> None:
        self.library = library
        self.z = points @ subspace.readout
        self.features = library.torch()
        self.velocity = self.features(self.z) @ subspace.coefficients
        self.dim = self.z.shape[1]
        self.symmetry = Symmetry(library, self.dim)
        degree = max(int(sum(t.as_powers_dict().values())) for t in library.terms[1:])
        # A shear enters the monomials, and once more the velocity it is added to.
        self.nodes = np.cos(np.pi * (np.arange(degree + 3) + 0.5) / (degree + 3))
        self.interpolate = np.linalg.inv(np.vander(self.nodes, increasing=True))

    def improve(self, start: Gauge, rounds: int = 4, slack: int = 1, width: int = 12) -> Gauge:
        """The best gauge within reach; on the way a law may be `slack` terms longer."""
        best, frontier = start, [start]
        seen = {self._key(start)}
        for _ in range(rounds):
            found: list[Gauge] = []
            largest = self.score(best)[0] + slack
            for near in (n for gauge in frontier for n in self._neighbors(gauge)):
                short = sum(map(len, near.support(PRESENT))) <= largest
                if short and (key := self._key(near)) not in seen:
                    seen.add(key)
                    found.append(near)
            found.sort(key=self.score)
            if found and self.score(found[0]) < self.score(best):
                best = found[0]
            frontier = found[:width]
        return best

    def gauge(self, matrix: Tensor, offset: Tensor) -> Gauge:
        """The gauge y = z A + b, measured."""
        shares, _ = term_shares(self.features, self.z, self.velocity, matrix[None], offset[None])
        return Gauge(matrix, offset, shares[0])

    def score(self, gauge: Gauge) -> Score:
        """Fewest terms; then an origin at rest, without constants; then the complexity."""
        support = gauge.support(PRESENT)
        constant = any(not self.library.terms[p].free_symbols for row in support for p in row)
        return sum(map(len, support)), constant, structure(self.library, support).cost

    def _key(self, gauge: Gauge) -> object:
        return self.symmetry.representative(gauge.support(PRESENT))

    def _neighbors(self, gauge: Gauge) -> Iterator[Gauge]:
        pairs = [(i, j) for i in range(self.dim) for j in range(self.dim + 1) if i != j]
        matrices, offsets = [], []
        for i, j in pairs:
            for a in self._roots(gauge, i, j):
                matrix, offset = self._moved(gauge, i, j, float(a))
                matrices.append(matrix)
                offsets.append(offset)
        if not matrices:
            return
        basis, offset = torch.stack(matrices), torch.stack(offsets)
        shares, _ = term_shares(self.features, self.z, self.velocity, basis, offset)
        for m, o, s in zip(basis, offset, shares, strict=True):
            if bool(s.isfinite().all()):
                yield Gauge(m, o, s)

    def _moved(self, gauge: Gauge, i: int, j: int, a: float) -> tuple[Tensor, Tensor]:
        """Coordinate i plus a times coordinate j, or plus a where j is one past the last."""
        matrix, offset = gauge.matrix.clone(), gauge.offset.clone()
        if j == self.dim:
            offset[i] += a
        else:
            matrix[:, i] += a * gauge.matrix[:, j]
            offset[i] += a * gauge.offset[j]
        return matrix, offset

    def _roots(self, gauge: Gauge, i: int, j: int) -> list[float]:
        """Multiples at which a term that is now present vanishes."""
        moved = [self._moved(gauge, i, j, a) for a in self.nodes]
        basis = torch.stack([m for m, _ in moved])
        offset = torch.stack([o for _, o in moved])
        _, law = term_shares(self.features, self.z, self.velocity, basis, offset)
        values = law.flatten(1).numpy()  # (nodes, terms d)
        present = np.flatnonzero((gauge.shares > PRESENT).flatten().numpy())
        curves = values[:, present]
        curves = curves[:, np.isfinite(curves).all(axis=0)]
        found: set[float] = set()
        for coefficients, size in zip(
            (self.interpolate @ curves).T, np.abs(curves).max(0), strict=True
        ):
            roots = polyroots(trimcoef(coefficients, 1e-6 * size)).astype(complex)
            real = roots.real[np.abs(roots.imag) < 1e-3 * (1 + np.abs(roots))]
            found |= {round(float(r), 6) for r in real if 1e-3 < abs(r) < LARGEST}
        return sorted(found)
