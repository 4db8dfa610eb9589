"""What a formula of a table may be made of: libraries, parametric terms, operators, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np

from sjepa.backend import Backend
from sjepa.backend.registry import make_backend
from sjepa.data.names import numbered
from sjepa.errors import ConfigError
from sjepa.settings import texts_of
from sjepa.symbolic import Grammar, Library
from sjepa.symbolic.grammar import OPERATORS_AS
from sjepa.symbolic.known import with_free_terms
from sjepa.symbolic.library import TERMS
from sjepa.symbolic.operators import operator
from sjepa.symbolic.term_templates import TermTemplate, nonlinear_parameters


# A default library has at most this many terms, so that it can be searched exactly, and only as
# many as this share of the rows, so that they can be told apart.
MAX_TERMS = 60
TERMS_PER_ROW = 0.5
# PySR's binary operators, where only unary ones are given.
BINARY = ("+", "-", "*", "/")


@dataclass(frozen=True)
class Space:
    """A library, with parametric terms beside it, or a grammar."""

    library: Library | None = None
    grammar: Grammar | None = None
    templates: list[TermTemplate] | Literal["wide"] | None = None


def given_space(
    names: Sequence[str],
    outputs: int,
    library: Library | Sequence[str] | str | None,
    grammar: Grammar | None,
    operators: Sequence[str] | None,
) -> Space | None:
    """What the user asked for; None leaves it to :func:`default_space`."""
    given = {"library": library, "grammar": grammar, "operators": operators}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise ConfigError(f"Give {asked[0]} or {asked[1]}, not both.", asked[1])
    if operators is not None:
        return Space(grammar=Grammar(list(operators), names))
    if (checked := Grammar.of(grammar)) is not None:
        return Space(grammar=checked.of_inputs(names))
    if library is None or isinstance(library, str):
        if library not in (None, "wide"):
            raise ConfigError(
                f"library is a Library, a list of terms or 'wide', got {library!r:.60}.", "library"
            )
        return None
    return _with_templates(library, names, outputs)


def _with_templates(library: Library | Sequence[str], names: Sequence[str], outputs: int) -> Space:
    """Terms with nonlinear parameters apart from those without."""
    if isinstance(library, Library):
        return Space(library=library)
    library = texts_of(library, "library", TERMS)
    shapes = [TermTemplate.read(t, names) for t in library if nonlinear_parameters(t, names)]
    closed = [t for t in library if not nonlinear_parameters(t, names)]
    if not shapes:
        return Space(library=Library.of(library, names))
    if closed:
        return Space(Library.from_terms(closed, names), templates=shapes)
    nothing = Library.from_terms(["1"], names).with_mask(np.zeros((1, outputs), dtype=bool))
    return Space(nothing, templates=shapes)


def default_space(
    names: Sequence[str], X: np.ndarray, backend: Backend, library: str | None = None
) -> Space:
    """What the backend's settings say; else a default grammar for trees, or a default library."""
    own = backend.space(names) if library is None else None
    if own is not None:
        return Space(own) if isinstance(own, Library) else Space(grammar=own)
    if backend.trees:
        if library is not None:
            raise ConfigError(
                "library='wide' is for backends that combine terms; those that write trees find "
                "the parameters of terms themselves: leave it out.", "library",
            )  # fmt: skip
        return Space(grammar=default_grammar(names, X))
    return Space(default_library(names, X), templates="wide" if library == "wide" else None)


def with_known_terms(
    space: Space | None,
    terms: Sequence[tuple[str, str]],
    X: np.ndarray,
    names: Sequence[str],
    outputs: Sequence[str],
    backend: Backend | None,
    library: Library | Sequence[str] | str | None,
) -> Space:
    """The space with the terms of a known part whose numbers are to be found."""
    own = make_backend("subset") if backend is None else backend
    if space is None:
        space = default_space(names, X, own, library if isinstance(library, str) else None)
    base = space.library if space.grammar is None else space.grammar
    assert base is not None
    combines = not own.trees and (backend is not None or space.grammar is None)
    wider, templates = with_free_terms(base, space.templates, terms, outputs, combines, True)
    return Space(wider, templates=templates)


def operators_of(
    operators: Sequence[str] | None,
    unary: Sequence[str] | None,
    binary: Sequence[str] | None,
) -> list[str] | None:
    """One list of operators from either spelling; those of PySR are checked for their arity."""
    if operators is not None and not (unary is None and binary is None):
        raise ConfigError(
            "Give operators, or unary_operators and binary_operators, not both.", "operators"
        )
    if unary is None and binary is None:
        return None if operators is None else texts_of(operators, "operators", OPERATORS_AS)
    found = []
    for name, given, arity in (
        ("binary_operators", BINARY if binary is None else binary, 2),
        ("unary_operators", unary or (), 1),
    ):
        for text in texts_of(given, name, OPERATORS_AS):
            if operator(text).arity != arity:
                raise ConfigError(f"{name} has {text!r}, which takes another number of arguments.")
            found.append(text)
    return found


def units_of(
    units: Mapping[str, str] | None, names: Sequence[str], outputs: Sequence[str]
) -> dict[str, str] | None:
    """Units as a problem wants them, from those of columns and targets."""
    if units is None:
        return None
    if not isinstance(units, Mapping):
        raise ConfigError(f"units is a mapping of names to units, got {units!r:.60}.", "units")
    known = [*names, *outputs]
    if missing := [n for n in known if n not in units]:
        raise ConfigError(f"units lacks {missing[0]}: give one for {', '.join(known)}.", "units")
    if unknown := sorted(set(units) - set(known)):
        raise ConfigError(f"units names {unknown[0]!r}; there are {', '.join(known)}.", "units")
    return {n: units[n] for n in names} | {f"{o}'": units[o] for o in outputs}


def output_names(given: Sequence[object], y: np.ndarray, inputs: Sequence[str]) -> list[str]:
    """Those of a DataFrame or Series, or y; a formula is not called like a column of X."""
    count = 1 if y.ndim == 1 else y.shape[1]
    texts = [name for name in given if isinstance(name, str)]
    if len(texts) != count or len(given) != count:
        texts = ["y"] if count == 1 else list(numbered("y", count))
    return [name if name not in inputs else f"{name}_out" for name in texts]


def too_many_columns(rows: int, columns: int) -> bool:
    """Whether a default library has no room for the products of all columns."""
    return comb(columns + 2, 2) > min(MAX_TERMS, TERMS_PER_ROW * rows)


def default_library(names: Sequence[str], X: np.ndarray) -> Library:
    """Linear terms, then kind after kind of further ones as long as there are not too many."""
    positive = [n for n, low in zip(names, X.min(axis=0), strict=True) if low > 0]
    functions = [f"{f}({n})" for n in names for f in ("sin", "cos", "exp")]
    functions += [t.format(n) for n in positive for t in ("log({})", "sqrt({})", "1/{}")]
    library = Library.polynomial(names, 1)
    most = min(MAX_TERMS, TERMS_PER_ROW * len(X))
    # A library is built to be counted only if its size is not beyond reach from the start.
    for degree, texts in ((2, []), (1, functions), (3, [])):
        if len(names) ** degree / degree > most:
            continue
        grown = library + Library.polynomial(names, degree)
        if texts:
            more = Library.from_terms(texts, names)
            with np.errstate(all="ignore"):
                usable = np.isfinite(more.numpy()(X) ** 2).all(axis=0)
            grown += Library([t for t, ok in zip(more.terms, usable, strict=True) if ok], names)
        if len(grown) <= most:
            library = grown
    return library


def default_grammar(names: Sequence[str], X: np.ndarray) -> Grammar:
    """Arithmetic with functions that do not stand inside each other, as far as the signs allow."""
    low = X.min(axis=0)
    functions = ["sin", "cos", "exp", *(["log", "sqrt"] if (low > 0).any() else [])]
    inside = {f: {g: 0 for g in functions} for f in functions}
    signed = ["abs"] if (low < 0).any() else []
    return Grammar(["+", "-", "*", "/", *signed, *functions], names, nested=inside)
