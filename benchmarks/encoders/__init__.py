"""How good the coordinates of encoders are for a law: one or several side by side."""

from benchmarks.encoders.comparison import Comparison
from benchmarks.encoders.diagnose import diagnose
from benchmarks.encoders.measure import Diagnosis


__all__ = ["Comparison", "Diagnosis", "diagnose"]
