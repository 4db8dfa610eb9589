"""Neighbors of a law: those of brute force."""

from __future__ import annotations

from itertools import product

import numpy as np

from sjepa import Law, Library
from sjepa.backend import Problem
from sjepa.search.regression_neighbors import exchanges, extensions


NAMES = ["q", "p"]


def terms(one: Law) -> list[set[str]]:
    return [{str(t) for _, t in row} for row in one.terms]


def test_neighbors_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 2))
    y = np.sin(x[:, :1]) + 0.3 * x[:, 1:] + 0.2 * rng.normal(size=(300, 1))
    library = Library.from_terms(["q", "p", "q**3", "sin(q)", "sin(p)"], NAMES)
    problem = Problem(x, y, NAMES, ["q"], library=library)
    one = Law.from_string(["sin(q) + 0.3*p"], NAMES, outputs=["q"])
    features = library.numpy()(x)

    def loss(support: list[int]) -> float:
        left = y[:, 0] - features[:, support] @ np.linalg.lstsq(features[:, support], y[:, 0])[0]
        return float((left**2).mean() / y.var())

    own = [library.names.index(n) for n in ("sin(q)", "p")]
    now = problem.losses(one)[0]
    swaps = {
        frozenset({library.names[i], library.names[keep]})
        for keep, i in product(own, range(5))
        if i not in own
        and library.weights[i] <= library.weights[next(k for k in own if k != keep)]
        and loss([keep, i]) <= 1.25 * now
    }
    assert swaps
    assert {frozenset(terms(n)[0]) for n in exchanges(problem, one)} == swaps
    wider = [terms(n)[0] for n in extensions(problem, one)]
    falls = {library.names[i]: loss([*own, i]) for i in range(5) if i not in own}
    assert [(w - {"sin(q)", "p"}).pop() for w in wider] == sorted(falls, key=falls.__getitem__)
