"""Collinear columns of a library: drop those that duplicate simpler ones on these data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from sjepa.symbolic.law import Law
from sjepa.symbolic.library import Library


# Columns are the same if the cosine of their angle is this close to 1.
SAME = 1e-10
# A column is a sum of two others if they leave this share of its square, and of those two each
# must have so much of its own.
SUM, OWN = 1e-12, 1e-6
# What sums of squares of doubles tell of a column beside the constant is more than this.
RESOLVED = 1e-14
# Sums are looked for among at most so many terms: the work grows with the cube of their number.
MAX_TERMS = 200


class CopyNote(str):
    """Says that a term was left out since others say the same; of use where a law has those."""

    instead: tuple[sympy.Expr, ...]
    output: str | None

    @classmethod
    def of(cls, text: str, instead: Sequence[sympy.Expr], output: str | None = None) -> CopyNote:
        note = cls(text)
        note.instead, note.output = tuple(instead), output
        return note

    def concerns(self, law: Law) -> bool:
        """Whether the law could also be written with the term that was left out."""
        rows = zip(law.outputs, law.terms, strict=True)
        used = {t for name, row in rows if self.output in (None, name) for _, t in row}
        return used.issuperset(self.instead)


def drop_collinear(
    library: Library, outputs: Sequence[str], xx: np.ndarray
) -> tuple[np.ndarray, list[CopyNote]]:
    """Which output may use which term (terms, outputs), and a note for each copy left out.

    No data can choose between columns that agree to five digits, and both together are an
    ill-conditioned difference: of each such set the cheapest term stays. `xx` is the Gram matrix.
    """
    names, copies = library.names, list[CopyNote]()
    size = np.sqrt(np.diag(xx))
    usable = library.mask(outputs) & (size > 0)[:, None]
    if _independent(xx[np.ix_(size > 0, size > 0)]):
        return usable, copies
    cosine = xx / np.maximum(np.outer(size, size), 1e-300)
    beside, room, powers = _beside_constant(library, cosine)
    order = sorted(range(len(library)), key=lambda i: (library.weights[i], len(names[i]), i))
    alike = np.abs(cosine) >= 1.0 - SAME
    same_there = np.abs(beside) >= 1.0 - SAME - np.maximum.outer(room, room)
    alike &= same_there | ~np.outer(powers, powers)
    for j, output in enumerate(outputs):
        for position, i in enumerate(order):
            same = [k for k in order[:position] if alike[i, k] and usable[k, j]]
            if usable[i, j] and same:
                usable[i, j] = False
                text = f"in the equation of {output}, {names[i]} is {names[same[0]]} on these data"
                copies.append(CopyNote.of(text, [library.terms[same[0]]], output))
    left = [i for i in order if usable[i].any()]
    if len(library) <= MAX_TERMS:
        sums = _sums_of_two(library, cosine, np.zeros(len(room)), left)
        rest = [i for i in left if i not in sums and powers[i]]
        for i, (k, m) in (sums | _sums_of_two(library, beside, room, rest)).items():
            usable[i] = False
            text = f"on these data {names[i]} is a sum of {names[k]} and {names[m]}"
            copies.append(CopyNote.of(text, [library.terms[k], library.terms[m]]))
    return usable, copies


def _beside_constant(
    library: Library, cosine: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cosines of what columns add to the constant, how far rounding moves them, and for which.

    Far from the origin the powers of inputs all look like the constant, and like each other. Those
    that vary by no more than the sums are rounded are copies of the constant, as they were.
    """
    powers = np.array([t.is_polynomial() for t in library.terms], dtype=bool)
    if sympy.S.One not in library.terms:
        return cosine, np.zeros(len(cosine)), powers & False
    one = library.terms.index(sympy.S.One)
    beside = cosine - np.outer(cosine[:, one], cosine[one])
    own = np.maximum(np.diag(beside), 1e-300)
    varies = own > RESOLVED
    both = np.outer(varies, varies)
    beside = beside / np.sqrt(np.where(both, np.outer(own, own), 1.0))
    constant = cosine * ~varies[:, None] * ~varies
    return np.where(both, beside, constant), np.where(varies, RESOLVED / own, 0.0), powers


def _independent(xx: np.ndarray) -> bool:
    """Whether every column has more of its own than copies of others, and sums of two, have."""
    size = np.sqrt(np.diag(xx))
    try:
        # Of a unit column the others leave at least the smallest eigenvalue.
        np.linalg.cholesky(xx / np.outer(size, size) - 10 * max(SAME, SUM) * np.eye(len(xx)))
    except np.linalg.LinAlgError:
        return False
    return True


def _sums_of_two(
    library: Library, cosine: np.ndarray, room: np.ndarray, left: list[int]
) -> dict[int, tuple[int, int]]:
    """Products of inputs that two terms which weigh no more give exactly, and those two.

    As c**2 and 1 give s**2 for a cosine and a sine. Sums of inputs themselves are left alone:
    which of some shares that add up to 1 matters is for the search to say.
    """
    found: dict[int, tuple[int, int]] = {}
    for i in reversed(left):
        if not library.products[i]:
            continue
        rest = [
            k
            for k in left
            if k != i
            and k not in found
            and library.weights[k] <= library.weights[i]
            and room[k] <= max(10 * room[i], SAME)
        ]
        if len(rest) < 2:
            continue
        r, z = cosine[np.ix_(rest, rest)], cosine[rest, i]
        free = 1.0 - r * r
        np.fill_diagonal(free, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = 1.0 - (z[:, None] ** 2 + z**2 - 2.0 * r * np.outer(z, z)) / free
        lost[free < OWN] = 1.0
        k, m = sorted(int(n) for n in np.unravel_index(np.argmin(lost), lost.shape))
        if lost[k, m] < SUM + room[[i, rest[k], rest[m]]].max():
            found[i] = (rest[k], rest[m])
    return found
