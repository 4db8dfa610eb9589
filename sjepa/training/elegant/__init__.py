"""Search structures and coordinates together; the default way of learning."""

from sjepa.training.elegant.budget import SearchBudget
from sjepa.training.elegant.result import Found, SearchResult
from sjepa.training.elegant.search import elegant_search
from sjepa.training.elegant.structures import Structure, enumerate_structures, structures_of


__all__ = [
    "Found",
    "SearchBudget",
    "SearchResult",
    "Structure",
    "elegant_search",
    "enumerate_structures",
    "structures_of",
]
