"""The rows of a problem, checked before a backend gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sjepa.errors import DataError
from sjepa.settings import array_of
from sjepa.symbolic.gram import MAX_SIZE


if TYPE_CHECKING:
    from sjepa.backend.problem import Problem


def check_rows(problem: Problem) -> dict[str, np.ndarray]:
    """Inputs or features, targets and weights as arrays that fit together, by their names."""
    field, columns = "inputs", len(problem.names)
    if problem.features is not None:
        if problem.library is None or problem.inputs is not None:
            raise DataError("Features stand for the terms of a library, without inputs.")
        field, columns = "features", len(problem.library)
    given = getattr(problem, field)
    if given is None or problem.targets is None:
        raise DataError("A problem needs inputs and targets, or the sums of them as `gram`.")
    inputs, targets = _matrix(given, field), _matrix(problem.targets, "targets")
    if inputs.shape[1] != columns:
        raise DataError(f"The {field} have {inputs.shape[1]} columns, expected {columns}.")
    if len(inputs) != len(targets):
        raise DataError(f"Got {len(inputs)} rows of {field} and {len(targets)} of targets.")
    if len(inputs) < 2:
        raise DataError("A search needs at least two rows.")
    rows = {field: inputs, "targets": targets}
    if problem.weights is not None:
        weights = array_of(problem.weights, "sample_weight")
        if weights.shape != (len(inputs),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise DataError(f"Sample weights must be {len(inputs)} numbers of at least 0.")
        if not weights.any():
            raise DataError("All sample weights are 0.")
        rows["weights"] = weights
    return rows


def _matrix(values: np.ndarray, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"The {what} must be numbers.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(f"The {what} must be a table (rows, columns), got shape {array.shape}.")
    if array.size and not (-MAX_SIZE <= array.min() and array.max() <= MAX_SIZE):
        row, column = np.argwhere(~(np.abs(array) <= MAX_SIZE))[0]
        raise DataError(
            f"The {what} contain {array[row, column]:.4g} in row {row}, column {column}; leave "
            "such rows out, or rescale the data."
        )
    return array
