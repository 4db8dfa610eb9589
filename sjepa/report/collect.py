"""Make the data of a report from a fitted model, from a front, or from a law."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

import sjepa
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.report.content import MAX_SIMULATED, ReportData, history_table, simulated
from sjepa.report.svg import number
from sjepa.symbolic import Front, Law


def collect(
    source: Any, data: Any = None, t: Any = None, *, title: str = "", recipe: Sequence[str] = ()
) -> ReportData:
    """Whatever holds a law becomes the data of a report.

    Parameters
    ----------
    source : fitted SJEPA, Front or Law
    data : Trajectories, array or list of arrays, optional
        Observations for a model, states for a front or a law. Without them nothing is simulated.
    t : times, unless `data` is a Trajectories
    title : str
    recipe : lines that make the result again; written from the settings if left out
    """
    trajectories = None if data is None else Trajectories.of(data, t)
    if isinstance(source, Law):
        return _of_law(source, None, trajectories, title, recipe)
    if isinstance(source, Front):
        return _of_law(source.best(), source, trajectories, title, recipe)
    if hasattr(source, "law_"):
        return _of_model(source, trajectories, title, recipe)
    if hasattr(source, "fit"):
        raise ConfigError("The model is not fitted: call fit first.")
    raise ConfigError(f"A report is of a model, a front or a law, got {type(source).__name__}.")


def _of_law(
    law: Law,
    front: Front | None,
    states: Trajectories | None,
    title: str,
    recipe: Sequence[str],
    moved_by: Any = None,
) -> ReportData:
    """`moved_by` is the model whose paths are shown, where it is not the law alone."""
    trails, score = ((), np.nan) if states is None else simulated(moved_by or law, states)
    names = law.inputs[: trails[0].seen.shape[1]] if trails else ()
    facts = {"Complexity": _complexity(law), **_fit(law, front, score), **_data_facts(states)}
    if states is not None and len(states) > MAX_SIMULATED and "R² of simulated paths" in facts:
        facts["R² of simulated paths"] += f", {MAX_SIMULATED} trajectories at most"
    if front is not None and front.backend:
        facts["Backend"] = front.backend
    notes = [] if front is None else list(front.notes)
    return ReportData(
        title or "Equations of motion", law, front, (*_trail_notes(trails), *notes), trails, names,
        score, pd.DataFrame(), facts, tuple(recipe) or ("import sjepa", *_law_recipe(law)),
    )  # fmt: skip


def _of_model(
    model: Any, observations: Trajectories | None, title: str, recipe: Sequence[str]
) -> ReportData:
    coordinates = None
    if observations is not None:
        encoded = list(model.encode(observations))
        coordinates = Trajectories(encoded, observations.t, observations.u, ids=observations.ids)
    law, front = model.law_, getattr(model, "front_", None)
    corrected = getattr(model, "correction", None) is not None and observations is not None
    data = _of_law(law, front, coordinates, title or "Coordinates and law", recipe, model)
    facts = dict(data.facts)
    if observations is not None:
        shape = " × ".join(map(str, observations.obs_shape))
        facts["Observation"] = f"{shape} values"
    # What the search noted is among the model's own words already.
    notes = (*_trail_notes(data.trails), *map(str, getattr(model, "diagnostics_", ())))
    if corrected:
        notes = ("The simulated paths are those of the law and its neural correction.", *notes)
    history = getattr(model, "history_", None)
    return ReportData(
        data.title, law, front, notes, data.trails, data.names, data.score,
        pd.DataFrame() if history is None else history_table(history), facts,
        tuple(recipe) or tuple(_model_recipe(model)),
    )  # fmt: skip


def _complexity(law: Law) -> str:
    return f"{law.complexity('terms'):g} (terms), {law.complexity('tree'):g} (tree)"


def _fit(law: Law, front: Front | None, score: float) -> dict[str, str]:
    facts = {}
    if front is not None:
        losses = [c.loss for c in front if c.law == law]
        if losses:
            facts["Unexplained variance"] = number(losses[0])
    if not np.isnan(score):
        shown = f"{score:.4f}" if np.isfinite(score) else "−∞: a path does not reach its end"
        facts["R² of simulated paths"] = shown
    return facts


def _data_facts(data: Trajectories | None) -> dict[str, str]:
    if data is None:
        return {}
    word = "trajectory" if len(data) == 1 else "trajectories"
    return {"Shown data": f"{len(data)} {word}, {int(data.lengths.sum()):,} points"}


def _trail_notes(trails: Sequence[Any]) -> list[str]:
    notes = []
    for status, words in (
        ("diverged", "leave every bound before the data end"),
        ("budget", "were too slow to simulate to their end"),
    ):
        if count := sum(trail.status == status for trail in trails):
            notes.append(f"{count} of the {len(trails)} simulated paths shown here {words}.")
    return notes


def _law_recipe(law: Law) -> list[str]:
    equations = [f"    {text.split(' = ', 1)[1]!r}," for text in law.lines()]
    options = f"inputs={list(law.inputs)!r}, outputs={list(law.outputs)!r}"
    if law.dynamics != "continuous":
        options += f", dynamics={law.dynamics!r}"
    return ["law = sjepa.Law.from_string([", *equations, f"], {options})"]


def _model_recipe(model: Any) -> list[str]:
    """The call with the settings that differ from the defaults."""
    default = type(model)()
    changed = [
        f"{name}={_setting(value)}"
        for name, value in model.get_params(deep=False).items()
        if name not in ("progress", "callbacks", "verbose")
        and repr(value) != repr(getattr(default, name))
    ]
    call = f"model = sjepa.{type(model).__name__}({', '.join(changed)})"
    if len(call) > 78:
        listed = "".join(f"    {one},\n" for one in changed)
        call = f"model = sjepa.{type(model).__name__}(\n{listed})"
    return [
        "import sjepa",
        call,
        "model.fit(x, t)  # the same observations and times",
        *(f"# {line}" for line in versions()),
    ]


def _setting(value: Any) -> str:
    if isinstance(value, str | int | float | bool | None | list | tuple | dict):
        return repr(value)
    return f"<{getattr(value, '__qualname__', '') or type(value).__name__}>"


def versions() -> list[str]:
    """What the result was made with."""
    return [
        f"sjepa {sjepa.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}"
    ]
