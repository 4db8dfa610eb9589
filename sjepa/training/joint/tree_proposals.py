"""Laws outside the library: what a backend that writes trees finds in the coordinates of a search.

Their terms join the library of a second search. The scale of a coordinate is free, so a number
before it inside a term goes into the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import sympy
import torch

from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.complexity import split_terms, term_weight
from sjepa.symbolic.front import EXACT
from sjepa.symbolic.library import distinct, kept_apart
from sjepa.training.joint.structures import (
    Structure,
    enumerate_structures,
    renamings,
    structure,
    structures_of,
)


# Of the laws that leave up to this multiple of what the best one leaves, the simplest few.
NEAR, MAX_PROPOSED = 30.0, 4
# Terms must be defined this share of the data's range further out; places that are looked at.
BEYOND, PLACES = 0.5, 2000
# Structures of the terms that were found, besides those that were found.
CHEAPEST = 40


# An encoder and the structure that it starts.
WarmStart = tuple[LinearEncoder, Structure]


def proposed(
    front: Front,
    library: Library,
    head: LinearEncoder,
    inputs: np.ndarray,
    grammar: Grammar,
    actions: int = 0,
) -> tuple[Library, list[Structure], list[WarmStart]]:
    """What the best laws of a front are made of: a library with their terms, and structures.

    The front was found on rows of `inputs`, whose coordinates `head` made; each law comes with
    this encoder in its own units. Laws with a pole, or the end of a domain, among these rows or
    near them are left out. The cheapest structures of the same terms are proposed as well: the
    coordinates at hand are not those in which the law is shortest.
    """
    limit = max(NEAR * min((c.loss for c in front), default=0.0), EXACT)
    box, dim = _box(inputs), head.linear.out_features
    chosen: dict[tuple[sympy.Expr, ...], tuple[Law, np.ndarray]] = {}
    for law in (c.law for c in front if c.loss <= limit):
        if len(chosen) < MAX_PROPOSED and _is_defined(law, box):
            own, scales = in_own_units(law, dim)
            chosen.setdefault(own.with_free_terms().skeleton[0], (own, scales))
    if not chosen:
        return library, [], []
    laws = [law for law, _ in chosen.values()]
    names = laws[0].inputs
    own_terms = _terms(laws)
    plain = _renamed([_plain(t, laws[0].symbols[:dim]) for t in own_terms], names, dim, actions)
    every = [*plain, *_renamed(own_terms, names, dim, actions)]
    wider = _with_terms(library, every, names, dim, grammar)
    begun = [
        (_scaled(head, scales), own)
        for law, scales in chosen.values()
        for own in structures_of([Law(law.expressions, names, names[:dim])], wider)
    ]
    structures = _cheapest(wider, plain, len(library), dim, actions)
    return wider, [own for _, own in begun] + structures, begun


def _terms(laws: Sequence[Law]) -> list[sympy.Expr]:
    return distinct(term for law in laws for e in law.expressions for _, term in split_terms(e))


def _renamed(
    terms: Sequence[sympy.Expr], inputs: Sequence[str], dim: int, actions: int
) -> list[sympy.Expr]:
    """Terms under all names of the coordinates."""
    swaps = [swap for _, swap in renamings(inputs, dim, actions)]
    return distinct(t.subs(swap, simultaneous=True) for t in terms for swap in swaps)


def _plain(term: sympy.Expr, coordinates: Sequence[sympy.Symbol]) -> sympy.Expr:
    """With a coordinate in place of a sum of them inside a function: others can be such sums."""

    def is_sum(node: sympy.Basic) -> bool:
        if not (isinstance(node, sympy.Function) and len(node.args) == 1):
            return False
        inside, names = node.args[0], node.args[0].free_symbols
        linear = bool(names) and names <= set(coordinates) and inside.is_polynomial(*names)
        return linear and sympy.total_degree(inside, *names) == 1

    return term.replace(is_sum, lambda node: node.func(min(node.free_symbols, key=str)))


def _cheapest(
    library: Library, terms: Sequence[sympy.Expr], known: int, dim: int, actions: int
) -> list[Structure]:
    """The cheapest structures of some terms that hold one beyond the first `known`."""
    position = {term: p for p, term in enumerate(library.terms)}
    places = sorted(position[t] for t in terms if t in position)
    allowed = library.mask(library.inputs[:dim])[places]
    few = Library(
        [library.terms[p] for p in places], library.inputs, library.weights[places].tolist(),
        allowed, canonical=False,
    )  # fmt: skip
    found = [
        structure(library, tuple(tuple(places[q] for q in row) for row in one.support))
        for one in enumerate_structures(few, dim, 10 * CHEAPEST, actions=actions)
    ]
    return [one for one in found if any(p >= known for row in one.support for p in row)][:CHEAPEST]


def in_own_units(law: Law, dim: int) -> tuple[Law, np.ndarray]:
    """The law in coordinates whose scales take up a number inside a term, and the scales.

    >>> law = Law.from_string(["z2", "1 - exp(0.5*z1)"], ["z1", "z2"])
    >>> in_own_units(law, 2)[0]
    z1' = 0.5*z2
    z2' = 1 - exp(z1)
    """
    scales = [sympy.S.One] * dim
    nodes = [
        node
        for expr in law.expressions
        for _, term in split_terms(expr)
        for node in sympy.preorder_traversal(term)
        if isinstance(node, sympy.Expr)
    ]
    for i, coordinate in enumerate(law.symbols[:dim]):
        numbers = [n for n, rest in (node.as_coeff_Mul() for node in nodes) if rest == coordinate]
        scales[i] = next((n for n in numbers if n != 1), sympy.S.One)
    # Velocities, if there are any, come after the coordinates, and have their scales.
    moving = law.symbols[: 2 * dim] if law.outputs[0] != law.inputs[0] else law.symbols[:dim]
    swap = {s: s / scales[i % dim] for i, s in enumerate(moving)}
    moved = [c * e.xreplace(swap) for c, e in zip(scales, law.expressions, strict=True)]
    return Law(moved, law.inputs, law.outputs), np.array([float(c) for c in scales])


def _box(inputs: np.ndarray) -> np.ndarray:
    """Places (PLACES, inputs) all over the range of the rows and some way beyond."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    room = BEYOND * (high - low)
    return np.random.default_rng(0).uniform(low - room, high + room, (PLACES, inputs.shape[1]))


def _is_defined(law: Law, box: np.ndarray) -> bool:
    """Whether all values are finite, and no denominator changes its sign."""
    below = {
        part.base
        for expr in law.expressions
        for part in expr.atoms(sympy.Pow)
        if part.exp.could_extract_minus_sign()
    }
    with np.errstate(all="ignore"):
        if not np.isfinite(law.numpy()(box)).all():
            return False
        if not below:
            return True
        bases = sorted(below, key=sympy.default_sort_key)
        names = [f"f{i}" for i in range(len(bases))]
        signs = np.sign(Law(bases, law.inputs, names, canonical=False).numpy()(box))
    return bool((signs == signs[0]).all())


def _with_terms(
    library: Library, terms: Sequence[sympy.Expr], inputs: Sequence[str], dim: int, grammar: Grammar
) -> Library:
    """A library and more terms, which may be terms of velocities that it does not have."""
    new = kept_apart(t for t in terms if t not in library.terms)
    outputs = inputs[:dim]
    own = [[grammar.refusal(t, o) is None for o in outputs] for t in new]
    weights = [*library.weights, *map(term_weight, new)]
    allowed = [*library.mask(outputs), *own]
    return Library([*library.terms, *new], inputs, weights, allowed, canonical=False)


def _scaled(head: LinearEncoder, scales: np.ndarray) -> LinearEncoder:
    own, factor = deepcopy(head), torch.as_tensor(scales)
    with torch.no_grad():
        own.linear.weight.mul_(factor[:, None])
        own.linear.bias.mul_(factor)
    return own
