"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.learning.alternating import learn_alternating
from sjepa.learning.correction import check_correction, learn_correction, with_law
from sjepa.learning.elegant import learn_elegant
from sjepa.learning.frozen import learn_frozen
from sjepa.learning.result import Frozen, Learned, identity
from sjepa.learning.terms import default_terms


WAYS = ("elegant", "alternating")

__all__ = [
    "WAYS",
    "Frozen",
    "Learned",
    "check_correction",
    "default_terms",
    "identity",
    "learn_alternating",
    "learn_correction",
    "learn_elegant",
    "learn_frozen",
    "with_law",
]
