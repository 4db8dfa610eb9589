"""Which terms stand in which equation: the structures a search tries, simplest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, permutations

import numpy as np
import sympy

from sjepa.errors import ConfigError
from sjepa.symbolic import Front, Law, Library


# For each output the positions of its terms in the library.
Support = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Structure:
    """A support and what it costs in the ``terms`` complexity."""

    support: Support
    cost: float

    def names(self, library: Library) -> str:
        return "; ".join(" + ".join(library.names[p] for p in row) for row in self.support)


class Symmetry:
    """Renaming the latent coordinates turns a law into an equal one; only one is searched."""

    def __init__(self, library: Library, latent_dim: int, actions: int = 0) -> None:
        self.dim, self.library = latent_dim, library
        position = {t: p for p, t in enumerate(library.terms)}
        self.maps: list[tuple[tuple[int, ...], list[int]]] = []
        mask = library.mask([f"z{j}" for j in range(latent_dim)]) if _unnamed(library) else None
        if mask is None or not (mask == mask[:, :1]).all():
            return  # outputs that may use different terms are not interchangeable
        for order, swap in renamings(library.inputs, latent_dim, actions):
            images = [position.get(t.subs(swap, simultaneous=True)) for t in library.terms]
            if all(image is not None for image in images):
                self.maps.append((order, [int(i) for i in images if i is not None]))

    def representative(self, support: Support) -> Support:
        """The same for all supports that differ only in the names of coordinates."""
        return min(self.versions(support))

    def versions(self, support: Support) -> list[Support]:
        """A support under all names of the coordinates."""
        versions = [support]
        for order, image in self.maps:
            renamed: list[tuple[int, ...]] = [()] * self.dim
            for j, row in enumerate(support):
                renamed[order[j]] = tuple(sorted(image[p] for p in row))
            versions.append(tuple(renamed))
        return versions

    def contains(self, long: Structure, short: Structure) -> bool:
        """Whether a law is another one, shifted, renamed or with terms added."""
        own = without_constants(self.library, short.support)
        return any(
            all(set(row) <= set(other) for row, other in zip(own, version, strict=True))
            for shifted in self.shifted(long.support)
            for version in self.versions(shifted)
        )

    def law(self, support: Support) -> Support:
        """The same for all supports that differ in names and origins of coordinates only."""
        free = without_constants(self.library, support)
        return min(self.representative(shifted) for shifted in self.shifted(free))

    def shifted(self, support: Support) -> list[Support]:
        """A support with the origins of some coordinates a quarter of a turn further.

        Where a coordinate stands inside sines and cosines only, that is the same law.
        """
        found = [support]
        for z in sympy.symbols(self.library.inputs[: self.dim], real=True):
            turned = [self._turned(one, z) for one in found]
            found += [one for one in turned if one is not None and one not in found]
        return found

    def _turned(self, support: Support, z: sympy.Symbol) -> Support | None:
        terms = self.library.terms
        images: dict[int, int] = {}
        for p in {p for row in support for p in row}:
            moved = sympy.expand_trig(terms[p].xreplace({z: z + sympy.pi / 2}))
            image = next((q for q, term in enumerate(terms) if moved in (term, -term)), None)
            if image is None:
                return None
            images[p] = image
        return tuple(tuple(sorted(images[p] for p in row)) for row in support)


def renamings(
    inputs: Sequence[str], latent_dim: int, actions: int
) -> Iterator[tuple[tuple[int, ...], dict[sympy.Symbol, sympy.Symbol]]]:
    """All orders of the coordinates, and what becomes of the inputs; actions keep their names."""
    symbols = sympy.symbols(inputs, real=True)
    # Positions alone, or positions and velocities.
    blocks = (len(inputs) - actions) // latent_dim
    for order in permutations(range(latent_dim)):
        yield (
            order,
            {
                symbols[b * latent_dim + i]: symbols[b * latent_dim + j]
                for b in range(blocks)
                for i, j in enumerate(order)
            },
        )


def without_constants(library: Library, support: Support) -> Support:
    """What is left of a law where the origin of the coordinates is free."""
    return tuple(tuple(p for p in row if library.terms[p].free_symbols) for row in support)


def _unnamed(library: Library) -> bool:
    return not isinstance(library.to_dict()["mask"], dict)


def enumerate_structures(
    library: Library,
    latent_dim: int,
    max_structures: int,
    max_terms: int = 2,
    outputs: Sequence[str] | None = None,
    actions: int = 0,
) -> list[Structure]:
    """The `max_structures` cheapest structures, each output with one to `max_terms` terms.

    An equation without terms would make its coordinate a constant of motion, and an equation
    that is only a constant would make it a clock: both are left out.
    """
    names = list(outputs or library.inputs[:latent_dim])
    if max_structures < 1:
        raise ConfigError(f"A search needs at least one structure, got {max_structures}.")
    symmetry = Symmetry(library, latent_dim, actions)
    allowed = library.mask(names)
    rows = [_rows(library, allowed[:, j], max_terms) for j in range(latent_dim)]
    found: dict[Support, Structure] = {}
    for cost, choice in _cheapest([[c for c, _ in row] for row in rows]):
        support = symmetry.representative(tuple(rows[j][i][1] for j, i in enumerate(choice)))
        if support not in found:
            found[support] = Structure(support, cost)
            if len(found) == max_structures:
                break
    return list(found.values())


def structures_of(front: Front | Sequence[Law], library: Library) -> list[Structure]:
    """The structures of laws that some backend proposed, without those of foreign terms."""
    laws = [c.law for c in front] if isinstance(front, Front) else list(front)
    result = []
    for law in laws:
        if library.covers(law):
            active = library.coefficients(law) != 0
            support = tuple(tuple(np.flatnonzero(column).tolist()) for column in active.T)
            if all(support):
                result.append(structure(library, support))
    return result


def structure(library: Library, support: Support) -> Structure:
    cost = float(sum(library.weights[p] for row in support for p in row))
    return Structure(support, cost)


def _rows(
    library: Library, allowed: np.ndarray, max_terms: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Supports of one equation with their costs, cheapest first."""
    found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for p in np.flatnonzero(allowed).tolist():
        weight = float(library.weights[p])
        found += [(c + weight, (*s, p)) for c, s in found if len(s) < max_terms]
    moving = [(c, s) for c, s in found if any(library.terms[p].free_symbols for p in s)]
    return sorted(moving)


def _cheapest(costs: Sequence[Sequence[float]]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Combinations of one entry from each ascending list, by increasing sum."""
    if not all(costs):
        return
    start = (0,) * len(costs)
    tie = count()
    heap = [(sum(c[0] for c in costs), next(tie), start)]
    seen = {start}
    while heap:
        total, _, choice = heapq.heappop(heap)
        yield total, choice
        for j, i in enumerate(choice):
            step = (*choice[:j], i + 1, *choice[j + 1 :])
            if i + 1 < len(costs[j]) and step not in seen:
                seen.add(step)
                heapq.heappush(heap, (total + costs[j][i + 1] - costs[j][i], next(tie), step))
