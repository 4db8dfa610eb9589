"""How good the coordinates of encoders are for a law: one or several side by side."""

from sjepa.studies.encoders.comparison import Comparison
from sjepa.studies.encoders.diagnose import diagnose
from sjepa.studies.encoders.measure import Diagnosis


__all__ = ["Comparison", "Diagnosis", "diagnose"]
