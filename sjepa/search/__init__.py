"""Search structures and coordinates together; the default way of learning."""

from sjepa.search.budget import SearchBudget
from sjepa.search.diagnostics import Finding, diagnose_latents, diagnose_law, plain
from sjepa.search.elegant import elegant_search
from sjepa.search.gates import Admission, Gates
from sjepa.search.result import Found, SearchResult
from sjepa.search.structures import Structure, enumerate_structures, structures_of


__all__ = [
    "Admission",
    "Finding",
    "Found",
    "Gates",
    "SearchBudget",
    "SearchResult",
    "Structure",
    "diagnose_latents",
    "diagnose_law",
    "elegant_search",
    "enumerate_structures",
    "plain",
    "structures_of",
]
