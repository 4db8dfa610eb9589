"""What a law may be made of: the library or grammar of a call, and its units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import comb
from typing import Any, Literal

import numpy as np

from sjepa.backend import Backend
from sjepa.data import Trajectories
from sjepa.data.clock import TIME
from sjepa.data.names import state_names, with_velocity_names
from sjepa.errors import ConfigError, DataError
from sjepa.settings import texts_of as listed
from sjepa.symbolic import Grammar, Law, Library
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.known import texts_of
from sjepa.symbolic.parse import parse, symbol
from sjepa.symbolic.term_templates import TermTemplate, nonlinear_parameters, one_wave
from sjepa.symbolic.text import to_text


# Fewer observations than this for each candidate term call for a smaller default library.
POINTS_PER_TERM = 2
# More inputs than this would make a default library of hundreds of terms.
MAX_INPUTS = 16
# Data are positive if they keep this share of their range from 0: noise has either sign.
MARGIN = 0.01
# The time in a term.
_TIME = re.compile(rf"(?<![\w.]){TIME}(?!\w)(?!\s*\()")
# Libraries up to this many terms are searched exactly in about a second.
SMALL = 64


def takes_time(
    library: Library | Sequence[str] | str | None,
    grammar: Grammar | None,
    known: Law | str | Sequence[str] | None,
    data: Trajectories,
) -> bool:
    """Whether terms contain the time t, and not a column of that name."""
    if TIME in (data.names or ()):
        return False
    texts = [] if known is None else texts_of(known)
    if any(_TIME.search(text.replace("[t+1]", "")) for text in texts):
        return True
    space = library if grammar is None else grammar
    if isinstance(space, Library | Grammar):
        return TIME in space.inputs
    if space is None or isinstance(space, str):
        return False
    return any(isinstance(term, str) and _TIME.search(term) for term in space)


def opened(
    library: Library | Sequence[str] | str | None, data: Trajectories, order: int
) -> tuple[Library | Sequence[str] | None, list[TermTemplate] | Literal["wide"] | None]:
    """The terms of a library without nonlinear parameters, and those with."""
    if library == "wide":
        return None, "wide"
    if (
        library is None
        or isinstance(library, Library | str)
        or not all(isinstance(t, str) for t in library)
    ):
        return library, None  # type: ignore[return-value]
    assert data.names is not None
    states = with_velocity_names(data.names) if order == 2 else data.names
    names = [*states, *(data.action_names or ())]
    shapes = one_wave(
        [TermTemplate.read(t, names) for t in library if nonlinear_parameters(t, names)]
    )
    if not shapes:
        return library, None
    closed = [t for t in library if not nonlinear_parameters(t, names)]
    if closed:
        return Library.from_terms(closed, names), shapes
    nothing = Library.from_terms(["1"], names)
    return nothing.with_mask(np.zeros((1, data.obs_shape[0]), dtype=bool)), shapes


def space_of(
    data: Trajectories,
    order: int,
    library: Library | Sequence[str] | None,
    grammar: Grammar | None,
    backend: Backend,
) -> tuple[Library | Grammar, tuple[str, ...], tuple[str, ...]]:
    """What a law may be made of, its inputs, and its outputs."""
    d, actions = data.obs_shape[0], data.action_names or ()
    assert data.names is not None
    states = with_velocity_names(data.names) if order == 2 else data.names
    space: Library | Grammar | None = Library.of(library, [*states, *actions])
    if grammar is not None:
        space = grammar.of_inputs([*states, *actions])
    if library is not None and grammar is not None:
        raise ConfigError("Give a library or a grammar, not both.", "grammar")
    if space is None:
        space = backend.space([*states, *actions])
    if space is None:
        space = _default(backend, states, actions, data, order)
    if order == 2:
        if lost := set(actions) - set(space.inputs):
            raise ConfigError(f"The library lacks the action {min(lost)}: add it to its inputs.")
        states = state_names(space.inputs, d, actions)
    return space, (*states, *actions), states[-d:]


def without_factors(
    library: Library | Sequence[str] | None, data: Trajectories, order: int
) -> tuple[Library | Sequence[str] | None, dict[str, str]]:
    """Terms without the letters that they are multiplied with, and the term of each letter."""
    if library is None or isinstance(library, Library):
        return library, {}
    assert data.names is not None
    states = with_velocity_names(data.names) if order == 2 else data.names
    names = [*states, *(data.input_names or ())]
    kept, factors = [], {}
    for text in library:
        letters = nonlinear_parameters(text, names)
        term = parse(text, [*names, *letters])
        for letter in letters:
            term = term / symbol(letter)
            factors[letter] = to_text(term)
        if any(symbol(letter) in term.free_symbols for letter in letters) or len(letters) > 1:
            raise ConfigError(
                f"library: {text}: coefficients by trajectory stand before a term, not inside.",
                "library",
            )
        kept.append(to_text(term))
    return kept, factors


def varying_terms(
    given: Sequence[str] | str, library: Library, factors: Mapping[str, str]
) -> frozenset[int] | None:
    """The numbers of the terms that vary; None where the data decide."""
    if isinstance(given, str) and given == "auto":
        return None
    terms = [given] if isinstance(given, str) else listed(given, "per_trajectory", "terms")
    texts = [factors.get(text, text) for text in terms]
    wanted = [canonicalize(parse(text, library.inputs)).as_coeff_Mul()[1] for text in texts]
    for text, term in zip(texts, wanted, strict=True):
        if term not in library.terms:
            raise ConfigError(
                f"per_trajectory: {text} is no term of the library ({', '.join(library.names)}).",
                "per_trajectory",
            )
    return frozenset(library.terms.index(term) for term in wanted)


def units_of(
    given: Mapping[str, str],
    data: Trajectories,
    names: Sequence[str],
    outputs: Sequence[str],
    order: int,
    discrete: bool,
) -> dict[str, str]:
    """Units of a problem's inputs and targets from those of states, actions and time."""
    states, actions = names[: data.obs_shape[0]], data.action_names or ()
    known = list(dict.fromkeys([*states, *actions, *([] if discrete else [TIME])]))
    if missing := [n for n in known if n not in given]:
        raise ConfigError(f"units lacks {missing[0]}: give one for {', '.join(known)}.", "units")
    if unknown := sorted(set(given) - {*known, "t"}):
        raise ConfigError(f"units names {unknown[0]!r}; there are {', '.join(known)}.", "units")
    found = {n: given[n] for n in (*states, *actions)}
    for state, output in zip(states, outputs, strict=True):
        if order == 2:
            found[output] = f"({given[state] or 1}) / ({given['t']})"
        by = "" if discrete else f" / ({given['t']})" + ("**2" if order == 2 else "")
        found[f"{output}'"] = f"({given[state] or 1}){by}"
    return found


def _default(
    backend: Backend, states: Sequence[str], actions: Sequence[str], data: Trajectories, order: int
) -> Library | Grammar:
    """The default for a backend; a few observations allow only a few terms."""
    names = [*states, *actions]
    if len(names) > MAX_INPUTS:
        raise DataError(
            f"{len(names)} inputs are too many for the default library: give a library, or "
            "fewer columns. Rows are times: transpose x if its rows are quantities.",
            "library",
        )
    if backend.trees:
        # Velocities, which order 2 has among the states, have either sign.
        return Grammar.default(states, actions, positive=order == 1 and _positive(data))
    library, points = Library.default(states, actions), int(data.lengths.sum())
    for degree in (2, 1):
        if points < POINTS_PER_TERM * len(library):
            library = Library.polynomial(names, degree)
    return library


def _positive(data: Trajectories) -> bool:
    """Whether all states and actions stay away from 0, where quotients and logarithms end."""
    for series in filter(None, (data.x, data.u)):
        low = np.min([a.min(axis=0) for a in series], axis=0)
        high = np.max([a.max(axis=0) for a in series], axis=0)
        if not (low > MARGIN * (high - low)).all():
            return False
    return True


def small_or_large(data: Trajectories, library: Library | Sequence[str] | None) -> str:
    """The backend for a library of this size."""
    inputs = len(data.names or ()) + len(data.action_names or ())
    # Those of the default: monomials up to degree 3, and three functions of each state.
    terms = comb(inputs + 3, 3) + 3 * inputs if library is None else len(library)
    return "subset" if terms <= SMALL else "stlsq"


def kind_of(space: Library | Grammar) -> dict[str, Any]:
    return {"library" if isinstance(space, Library) else "grammar": space}
