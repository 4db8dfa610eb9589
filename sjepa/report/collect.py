"""Make the data of a report from a fitted model, from a front, or from a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sjepa.data import Trajectories
from sjepa.data.history import middle_of
from sjepa.errors import ConfigError
from sjepa.report.comparison import MAX_SIMULATED, SimulatedLaws, near
from sjepa.report.content import ReportData, entries_of
from sjepa.report.history import history_table
from sjepa.report.reproduce import law_recipe, model_recipe
from sjepa.report.table import is_formula, law_of, with_table
from sjepa.report.text import FORMS, data_facts, model_facts, model_held_out, path_notes
from sjepa.report.video import as_video, video_of
from sjepa.symbolic import Front, Law


def collect(
    source: Any,
    data: Any = None,
    t: Any = None,
    u: Any = None,
    *,
    held_out: Any = None,
    title: str = "",
    recipe: Sequence[str] = (),
    video: Any = None,
) -> ReportData:
    """Whatever holds a law becomes the data of a report.

    Parameters
    ----------
    source : fitted SJEPA, Front or Law
    data : Trajectories, array or list of arrays, optional
        Observations for a model, states for a front or a law. Without them nothing is simulated.
        Of a formula y = f(X) the inputs X (n, d), and then y in place of `t`.
    t, u : times and actions, unless `data` is a Trajectories
    held_out : Trajectories, or a tuple (x, t) or (x, t, u), optional
        Data that the search did not see; every law gets a score on them.
    title : str
    recipe : lines that make the result again; written from the settings if left out
    video : frames ``(T, *obs)`` or Trajectories, optional
        What is shown of a model in place of the first of the data, as an episode under control;
        the id of a trajectory is its caption.
    """
    law = law_of(source)
    if data is not None and law is not None and is_formula(law):
        if u is not None or held_out is not None or video is not None:
            raise ConfigError("A page about y = f(X) takes X and y, and no u, held_out or video.")
        made = with_table(collect(source), data, t)
        return replace(made, title=title or made.title, recipe=tuple(recipe) or made.recipe)
    trajectories = None if data is None else Trajectories.of(data, t, u)
    others = None
    if held_out is not None:
        others = Trajectories.of(*(held_out if isinstance(held_out, tuple) else (held_out,)))
    if isinstance(source, Law):
        made = _of_law(source, None, trajectories, others)
    elif isinstance(source, Front):
        made = _of_law(source.best(), source, trajectories, others)
    elif hasattr(source, "law_"):
        made = _of_model(source, trajectories, others)
    elif hasattr(source, "fit"):
        raise ConfigError("The model is not fitted: call fit first.")
    else:
        raise ConfigError(f"A report is of a model, a front or a law, got {type(source).__name__}.")
    if video is not None:
        names = made.names or tuple(made.law.inputs)
        made = replace(made, video=as_video(source, video), names=names)
    if trajectories is not None and (labels := trajectories.labels):
        legend = "; ".join(f"{symbol}: {label}" for symbol, label in labels.items())
        made = replace(
            made, names=tuple(labels.get(n, n) for n in made.names),
            facts={**made.facts, "Names": legend},
        )  # fmt: skip
    return replace(made, title=title or made.title, recipe=tuple(recipe) or made.recipe)


def _of_law(
    law: Law,
    front: Front | None,
    states: Trajectories | None,
    held_out: Trajectories | None,
    moved_by: Any = None,
    follow: bool = True,
) -> ReportData:
    """`moved_by` is the model whose paths are shown, where it is not the law alone.

    Without `follow` the other laws of the front are in coordinates of their own.
    """
    entries, start = entries_of(law, front)
    form = "" if front is None else front.form
    data = ReportData("Equations of motion", law, front, entries, start)
    facts = data_facts(states, law.inputs)
    beside = None if states is None else SimulatedLaws.of(moved_by or law, states, form)
    judge = None if held_out is None else SimulatedLaws.of(moved_by or law, held_out, form)
    followed = near(entries, start) if follow else {start}
    if judge is not None:
        entries = tuple(
            replace(e, held_out=judge.score(e, i == start)) if i in followed else e
            for i, e in enumerate(entries)
        )
        facts["Held-out data"] = data_facts(held_out, ())["Shown data"]
    if beside is not None:
        entries = tuple(
            beside.filled(e, i == start) if i in followed else e for i, e in enumerate(entries)
        )
        trails = beside.trails
        data = replace(
            data, trails=trails, trajectories=beside.ids, points=beside.points,
            names=beside.simulator.names,
        )  # fmt: skip
        if states is not None and len(states) > MAX_SIMULATED:
            facts["Simulated"] = f"{len(beside.data)} of the trajectories, evenly chosen"
    if form in FORMS:
        facts["Fitted to"] = FORMS[form]
    if front is not None and front.backend:
        facts["Backend"] = front.backend
    verdict = None if front is None else front.verdict
    reasons = () if verdict is None else verdict.reasons
    warnings = reasons if verdict is not None and verdict.adequate is False else ()
    notes = () if front is None else front.notes
    if verdict is not None:
        facts["Verdict"] = verdict.word
    return replace(
        data, entries=entries, facts=facts, warnings=(*path_notes(entries[start]), *warnings),
        notes=(*(r for r in reasons if r not in warnings), *notes),
        recipe=("import sjepa", *law_recipe(law)),
    )  # fmt: skip


def _of_model(
    model: Any, observations: Trajectories | None, held_out: Trajectories | None
) -> ReportData:
    law, front = model.law_, getattr(model, "front_", None)
    z, others = (
        None if observed is None else model.coordinates(observed)
        for observed in (observations, held_out)
    )
    # Where states were given, or an encoder, all laws are about the same coordinates. A search for
    # coordinates has others for each law, and keeps those of the chosen one.
    same = bool(front is not None and front.form)
    data = _of_law(law, front, z, others, model, follow=same)
    facts = {**data.facts, **model_facts(model)}
    warnings = getattr(model, "warnings_", ())
    notes = [str(n) for n in getattr(model, "diagnostics_", ()) if n not in warnings]
    video = None
    if observations is not None and z is not None:
        shape = " × ".join(map(str, observations.obs_shape))
        facts["Observation"] = f"{shape} values"
        video = video_of(observations, z.x[0], middle_of(getattr(model, "history_length_", 1)))
        if getattr(model, "correction", None) is not None:
            notes.insert(0, "The simulated paths are those of the law and its neural correction.")
    history = getattr(model, "history_", None)
    return replace(
        data, title="Coordinates and law", facts=facts, notes=tuple(notes), video=video,
        warnings=(*path_notes(data.entries[data.start]), *map(str, warnings)),
        dimensions=getattr(model, "dimensions_", data.dimensions),
        history=data.history if history is None else history_table(history),
        held_out=model_held_out(model), recipe=tuple(model_recipe(model)),
    )  # fmt: skip
