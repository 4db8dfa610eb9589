"""The front door, in scikit-learn's manner."""

from sjepa.estimator.model import SJEPA, load


__all__ = ["SJEPA", "load"]
