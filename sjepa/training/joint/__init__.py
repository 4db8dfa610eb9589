"""Search structures and coordinates together; the default way of learning."""

from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.result import JointCandidate, SearchResult
from sjepa.training.joint.search import joint_search
from sjepa.training.joint.structures import Structure, enumerate_structures, structures_of


__all__ = [
    "JointCandidate",
    "SearchBudget",
    "SearchResult",
    "Structure",
    "enumerate_structures",
    "joint_search",
    "structures_of",
]
