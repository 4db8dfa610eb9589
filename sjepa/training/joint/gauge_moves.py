"""Elementary changes of coordinates that trade one term of a polynomial law for another.

Annealing stops in whichever sparse gauge it meets first, and a law may have many of the same
length. Adding a multiple of one coordinate to another, or shifting one, changes every coefficient
as a polynomial of that multiple: its roots are the gauges in which some term vanishes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.polynomial.polynomial import polyroots
from numpy.polynomial.polyutils import trimcoef
from torch import Tensor

from sjepa.symbolic import Library
from sjepa.training.joint.gauge import Gauge, term_shares
from sjepa.training.joint.structures import Symmetry, structure
from sjepa.training.joint.subspace import Subspace


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
