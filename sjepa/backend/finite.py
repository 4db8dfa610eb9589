"""A grammar as a library, for backends that choose among terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from sjepa.symbolic.complexity import tree_complexity, weights_for_tree
from sjepa.symbolic.gram import CHUNK, MAX_SIZE
from sjepa.symbolic.grammar import Grammar
from sjepa.symbolic.library import Library


# At most so many terms, fewer where there are few rows, but these many always.
MAX_TERMS, TERMS_PER_ROW, FEW_TERMS = 200, 0.5, 40


def finite_library(grammar: Grammar, outputs: Sequence[str], rows: np.ndarray | None) -> Library:
    """The grammar's simplest terms, as many as the rows can tell apart.

    Terms that are not defined on the rows are left out. The others weigh what they add to the
    complexity that orders the front: in a tree that is the term, its coefficient and the sign that
    joins it to the others.
    """
    max_terms, weights = MAX_TERMS, grammar.weights
    if rows is not None:
        max_terms = max(FEW_TERMS, min(max_terms, int(TERMS_PER_ROW * len(rows))))
    finite = grammar.library(outputs, max_terms=max_terms)
    defined = np.ones(len(finite), dtype=bool)
    if rows is not None:
        run = finite.numpy()
        with np.errstate(all="ignore"):
            for i in range(0, len(rows), CHUNK):
                defined &= (np.abs(run(rows[i : i + CHUNK])) <= MAX_SIZE).all(axis=0)
    joined = weights_for_tree(weights)["add"]
    terms = [t for t, ok in zip(finite.terms, defined, strict=True) if ok]
    added = [tree_complexity(sympy.Float(1.5) * t, weights) + joined for t in terms]
    return Library(terms, finite.inputs, added, finite.mask(outputs)[defined], canonical=False)
