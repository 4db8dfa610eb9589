"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.learning.alternating import learn_alternating
from sjepa.learning.elegant import learn_elegant
from sjepa.learning.frozen import learn_frozen
from sjepa.learning.result import Frozen, Learned, identity
from sjepa.learning.terms import default_terms
from sjepa.learning.transition import learn_transition, with_law


WAYS = ("elegant", "alternating")

__all__ = [
    "WAYS",
    "Frozen",
    "Learned",
    "default_terms",
    "identity",
    "learn_alternating",
    "learn_elegant",
    "learn_frozen",
    "learn_transition",
    "with_law",
]
