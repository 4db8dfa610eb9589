"""The front door, in scikit-learn's manner."""

from sjepa.estimator.model import SJEPA, load
from sjepa.estimator.regressor import SymbolicRegressor


__all__ = ["SJEPA", "SymbolicRegressor", "load"]
