"""Read a fitted PySINDy model.

The coefficients are taken as numbers and the feature names as text, since what PySINDy prints is
rounded. Names such as ``x0^2 sin(1 x1)`` are turned into ordinary notation and read by the safe
parser; then every feature of the law is compared with the library's own values, so a name that
does not mean what it says is refused instead of believed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from sjepa.errors import LawError, ParseError
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.operators import SPELLINGS
from sjepa.symbolic.parse import check_names, parse


# Enough points to tell features apart, and the fewest at which both sides must be defined.
POINTS = 64
FEWEST = 8
# Both sides compute the same function in double precision by different routes.
TOLERANCE = 1e-8

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|([^\W\d]\w*)|(\*\*|[-+*/^(),|]))")


def law_from_pysindy(model: Any, terms: Mapping[str, str] | None = None) -> Law:
    """The law of a fitted ``pysindy.SINDy`` (a field) or ``DiscreteSINDy`` (a map).

    `terms` says what a feature means, by its name: ``{"f0(x0)": "exp(x0)"}``. Features whose
    coefficients are all zero are not looked at.
    """
    coefficients, names, inputs = _read(model)
    library = _plain_library(model.feature_library)
    terms = dict(terms or {})
    if unknown := sorted(terms.keys() - set(names)):
        raise LawError(
            f"The model has no feature {unknown[0]!r}. Its features: {', '.join(names)}."
        )
    active = np.flatnonzero(np.any(coefficients != 0, axis=0))
    expressions = {i: _feature(names[i], inputs, terms) for i in active.tolist()}
    _verify(library, expressions, names, inputs)
    rows = [
        sympy.Add(*(sympy.Float(row[i]) * e for i, e in expressions.items() if row[i]))
        for row in coefficients.tolist()
    ]
    dynamics: Dynamics = "discrete" if _is_a(model, "DiscreteSINDy") else "continuous"
    outputs = inputs[: len(rows)] if len(rows) <= len(inputs) else None
    return Law(rows, inputs, outputs, dynamics)


def library_from_pysindy(features: Any, inputs: Sequence[str]) -> Library:
    """The terms of a feature library of PySINDy, for inputs of these names.

    Every term is compared with the library's own values; the library itself is not changed.
    """
    library = copy.deepcopy(features)
    names = check_names(inputs, "input")
    library.fit(np.random.default_rng(0).uniform(0.5, 2.0, (POINTS, len(names))))
    texts = [str(n) for n in library.get_feature_names(list(names))]
    expressions = {i: _feature(text, names, {}) for i, text in enumerate(texts)}
    _verify(library, expressions, texts, names)
    return Library(list(expressions.values()), names)


def _read(model: Any) -> tuple[np.ndarray, list[str], tuple[str, ...]]:
    """Coefficients (outputs, features), the names of the features and those of the inputs."""
    for attribute in ("coefficients", "get_feature_names", "feature_library"):
        if not hasattr(model, attribute):
            raise LawError(
                f"Expected a fitted pysindy.SINDy model, got {type(model).__name__} "
                f"without {attribute!r}."
            )
    if _is_a(getattr(model, "optimizer", None), "SINDyPI"):
        raise LawError("SINDy-PI finds implicit equations, which cannot be written as x' = f(x).")
    if getattr(getattr(model, "optimizer", None), "coef_", None) is None:
        raise LawError("The PySINDy model is not fitted yet: call model.fit(x, t) first.")
    coefficients = np.atleast_2d(np.asarray(model.coefficients(), dtype=float))
    names = [str(n) for n in model.get_feature_names()]
    if coefficients.shape[1] != len(names):
        raise LawError(
            f"The model has {coefficients.shape[1]} coefficients for {len(names)} features."
        )
    if not np.isfinite(coefficients).all():
        raise LawError("The PySINDy model has coefficients that are not finite numbers.")
    return coefficients, names, check_names(model.feature_names, "input")


def _is_a(thing: object, name: str) -> bool:
    """Whether a class of this name is among the ancestors; PySINDy itself is never imported."""
    return any(c.__name__ == name for c in type(thing).__mro__)


def _plain_library(library: Any) -> Any:
    """The library of plain functions: what a weak or PDE library integrates."""
    if not (_is_a(library, "WeakPDELibrary") or _is_a(library, "PDELibrary")):
        return library
    if getattr(library, "num_derivatives", 0) or getattr(library, "implicit_terms", False):
        raise LawError(
            "The model contains derivatives of its variables (a partial differential equation); "
            "only libraries of plain functions can be read, that is derivative_order=0."
        )
    return library.function_library


def _feature(name: str, inputs: Sequence[str], terms: Mapping[str, str]) -> sympy.Expr:
    remedy = f"Say what it means: terms={{{name!r}: '...'}}."
    try:
        return parse(terms[name] if name in terms else readable(name, inputs), inputs)
    except ParseError as error:
        raise ParseError(f"The PySINDy feature {name!r} cannot be read: {error} {remedy}") from None


def readable(name: str, inputs: Sequence[str]) -> str:
    """A PySINDy feature name in ordinary notation.

    >>> readable("x0^2 sin(2 x1)", ["x0", "x1"]), readable("p|p|", ["p"])
    ('x0^2*sin(2*x1)', 'p*abs(p)')
    """
    tokens = _replace_bars(_tokens(name, inputs))
    text = ""
    for before, token in zip(["", *tokens], tokens, strict=False):
        call = token == "(" and before not in inputs and before[:1].isalpha()
        text += "*" if _ends_value(before) and _starts_value(token) and not call else ""
        text += token
    return text


def _replace_bars(tokens: Sequence[str]) -> list[str]:
    """|x| becomes abs(x); a bar closes if one is open at this depth and a value precedes it."""
    result: list[str] = []
    opened: list[int] = []
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token != "|":
            result.append(token)
        elif opened and opened[-1] == depth and _ends_value(result[-1]):
            opened.pop()
            result.append(")")
        else:
            opened.append(depth)
            result.append("abs(")
    return result


def _ends_value(token: str) -> bool:
    return token[-1:] == ")" or token[-1:].isalnum() or token[-1:] in ("_", ".")


def _starts_value(token: str) -> bool:
    return token[0].isalnum() or token[0] in "_.("


def _tokens(name: str, inputs: Sequence[str]) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(name.rstrip()):
        match = _TOKEN.match(name, position)
        if match is None:
            raise ParseError(f"Unexpected {name[position:].strip()[0]!r} (column {position + 1}).")
        number, word, sign = match.groups()
        tokens += _words(word, inputs) if word else [number or sign]
        position = match.end()
    return tokens


def _words(word: str, inputs: Sequence[str]) -> list[str]:
    """Split names that were written together, as in ``x0x1``; other words stay whole."""
    if word in inputs or word in SPELLINGS:
        return [word]
    joined = re.fullmatch(
        "(?:" + "|".join(map(re.escape, sorted(inputs, key=len, reverse=True))) + ")+", word
    )
    if joined is None:
        return [word]
    pieces: list[str] = []
    while word:
        longest = max((n for n in inputs if word.startswith(n)), key=len, default=word)
        pieces.append(longest)
        word = word[len(longest) :]
    return pieces


def _verify(
    library: Any, expressions: Mapping[int, sympy.Expr], names: Sequence[str], inputs: Sequence[str]
) -> None:
    """Compare our features with the library's on random points, half of them positive."""
    if not expressions:
        return
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 1.5, (POINTS, len(inputs)))
    z[::2] = rng.uniform(0.1, 2.5, z[::2].shape)
    with np.errstate(all="ignore"):
        theirs = np.asarray(library.transform(z), dtype=float)
    offset = len(names) - theirs.shape[1]  # a weak library puts its constant before the functions
    outputs = [f"f{i}" for i in expressions]
    ours = Law(list(expressions.values()), inputs, outputs, "discrete", canonical=False).numpy()(z)
    for column, i in enumerate(expressions):
        expected = theirs[:, i - offset] if i >= offset else np.ones(POINTS)
        found = ours[:, column]
        defined = np.isfinite(expected)
        if defined.sum() < FEWEST:
            raise LawError(
                f"The PySINDy feature {names[i]!r} is not defined on ordinary points, so what it "
                "means cannot be checked."
            )
        close = np.abs(found - expected) <= TOLERANCE * (1.0 + np.abs(expected))
        if (np.isfinite(found) != defined).any() or not close[defined].all():
            raise LawError(
                f"The PySINDy feature {names[i]!r} was read as {expressions[i]}, but the model "
                f"computes something else. Say what it means: terms={{{names[i]!r}: '...'}}."
            )
