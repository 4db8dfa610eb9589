"""Compare backends on one's own data."""

from sjepa.studies.compare.comparison import Comparison
from sjepa.studies.compare.run import compare


__all__ = ["Comparison", "compare"]
