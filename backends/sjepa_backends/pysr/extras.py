"""What PySR can do and other backends cannot, by name: losses, units, logs, its hall of fame."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sjepa.backend import Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.text import to_text
from sjepa.symbolic.units import DimensionCheck
from sjepa_backends.pysr.request import PySRTask


if TYPE_CHECKING:
    from sjepa_backends.pysr import PySR


# How Julia's DynamicQuantities writes what pint calls by its dimension.
_BASE = {
    "[length]": "m", "[time]": "s", "[mass]": "kg", "[current]": "A", "[temperature]": "K",
    "[substance]": "mol", "[luminosity]": "cd",
}  # fmt: skip


def extras(backend: PySR, task: PySRTask, problem: Problem) -> dict[str, Any]:
    """Further parts of a request: ``settings`` and what the worker has to build itself."""
    settings: dict[str, Any] = {}
    request: dict[str, Any] = {"settings": settings}
    if backend.elementwise_loss is not None:
        settings["elementwise_loss"] = backend.elementwise_loss
    if backend.loss_function is not None:
        # One of trees is not given the functions of a template.
        name = "loss_function" if task.template is None else "loss_function_expression"
        settings[name] = backend.loss_function
    if backend.denoise:
        settings["denoise"] = True
    if backend.hall_of_fame is not None:  # written by PySR after every iteration
        folder = str(Path(backend.hall_of_fame).absolute())
        settings |= {"output_directory": folder, "temp_equation_file": False}
    if backend.tensorboard is not None:
        request["logger"] = {"log_dir": str(Path(backend.tensorboard).absolute())}
    penalty = backend.dimensional_constraint_penalty
    if problem.units is None:
        if penalty is not None:
            raise ConfigError("dimensional_constraint_penalty needs units of the data.", "units")
    elif not task.linear:  # the terms of a list are chosen by their units before
        request["units"] = unit_texts(task, problem)
        settings["dimensionless_constants_only"] = problem.dimensionless_constants
        if penalty is not None:
            settings["dimensional_constraint_penalty"] = penalty
    return request


def unit_texts(task: PySRTask, problem: Problem) -> dict[str, Any]:
    """``X_units`` and ``y_units`` of PySR's fit, in base units: only dimensions are compared."""
    assert problem.units is not None
    dimensions = DimensionCheck(problem.units).dimensions
    targets = [_unit(dimensions[f"{problem.outputs[j]}'"]) for j in task.outputs]
    columns = [_unit(dimensions.get(to_text(c), {})) for c in task.columns]
    return {"X_units": columns, "y_units": targets[0] if len(targets) == 1 else targets}


def _unit(dimension: Mapping[str, Fraction]) -> str:
    parts = []
    for name, power in sorted(dimension.items()):
        if name not in _BASE:
            raise ConfigError(f"PySR has no unit of {name.strip('[]')}.", "units")
        whole = power.denominator == 1
        text = f"{power.numerator}" if whole else f"({power.numerator}//{power.denominator})"
        parts.append(_BASE[name] if power == 1 else f"{_BASE[name]}^{text}")
    return "*".join(parts) or "1"
