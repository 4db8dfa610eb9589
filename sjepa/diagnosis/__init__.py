"""How good the coordinates of encoders are for a law: one or several side by side."""

from sjepa.diagnosis.comparison import Comparison
from sjepa.diagnosis.diagnose import diagnose, second_order_library
from sjepa.diagnosis.measure import Diagnosis


__all__ = ["Comparison", "Diagnosis", "diagnose", "second_order_library"]
