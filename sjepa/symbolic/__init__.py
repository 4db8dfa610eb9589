"""Expressions apart from any network or search."""

from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.grammar import Grammar
from sjepa.symbolic.law import Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.parse import parse
from sjepa.symbolic.refit import refit


__all__ = [
    "Candidate",
    "Front",
    "Gram",
    "Grammar",
    "Law",
    "Library",
    "canonicalize",
    "parse",
    "refit",
]
