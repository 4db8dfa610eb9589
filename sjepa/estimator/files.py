"""Between the estimator and its files: parameters as plain data, fitted attributes and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from torch import nn

from sjepa.backend import Backend
from sjepa.backend.registry import from_file, make_backend
from sjepa.errors import ConfigError, FormatError, SjepaError, printable
from sjepa.estimator.parameter_types import is_identity
from sjepa.models.pretrained.heads import HeadedEncoder, ReadOut
from sjepa.runs.saving import METRICS, Saved
from sjepa.settings import Settings, settings_of
from sjepa.symbolic import Grammar, Law, Library
from sjepa.symbolic.verdict import Verdict
from sjepa.training import Dimension, Frozen, identity
from sjepa.training.correction import CORRECTIONS
from sjepa.training.searches import SEARCHES


Model = TypeVar("Model", bound=Any)
# Not settings of the search, and not data.
_LEFT_OUT = ("verbose", "propose")
# What the names of settings in a file stand for.
_PARTS: Mapping[str, Mapping[str, Any]] = {"search": SEARCHES, "correction": CORRECTIONS}


def plain_params(model: Any) -> dict[str, Any]:
    """The parameters of an estimator as JSON can hold them; what cannot be held is named only."""
    params = model.get_params(deep=False)
    return {k: _plain(v) for k, v in sorted(params.items()) if k not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    if isinstance(value, ReadOut):
        return {"encoder": _plain(value.encoder), "head": value.head}
    if isinstance(value, Settings):
        try:
            return value.plain()
        except (TypeError, ValueError):
            return {"given": _name_of(value)}
    if isinstance(value, Law):
        value = value.lines()
    if isinstance(value, Library):
        return {"library": value.to_dict()}
    if isinstance(value, Grammar):
        return {"grammar": value.to_dict()}
    if isinstance(value, Backend) and is_dataclass(value):
        value = {"name": value.name, **asdict(value)}
    if isinstance(value, type) and issubclass(value, Backend):
        value = value.name
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        value = dict(value)
    if isinstance(value, tuple):
        value = list(value)
    try:
        # Sorted: a run that is resumed from its file saves the same bytes.
        return json.loads(json.dumps(value, allow_nan=False, sort_keys=True))
    except (TypeError, ValueError):
        return {"given": _name_of(value)}


def _name_of(value: Any) -> str:
    named = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def with_settings(model: Model, asked: Mapping[str, Any], trust: bool = False) -> Model:
    """Give an estimator the settings that a run was begun with.

    Of its backend only plain options are taken, unless `trust` says that others may be.
    """
    given = asked.get("settings")
    if not isinstance(given, dict):
        raise FormatError("The run's run.json is damaged: it holds no settings.")
    known = model.get_params(deep=False)
    for name, value in given.items():
        if name not in known:
            raise FormatError(f"The run has a setting {name!r} that this release has not.")
        inner = value.get("encoder", value) if isinstance(value, dict) else value
        if isinstance(inner, dict) and set(inner) == {"given"}:
            raise ConfigError(
                f"The run was begun in Python with {name} {inner['given']!r:.60}, which a file "
                "cannot hold; resume there, with fit(..., run=folder)."
            )
    model.set_params(**{k: from_plain(k, v) for k, v in given.items()})
    if trust:
        model.backend = given.get("backend", model.backend)
    make_backend(model.backend)  # refused before any data are read
    return model


def finite(figures: Mapping[str, float]) -> dict[str, float]:
    """Those of the figures that are numbers: JSON has no NaN and no infinity."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def dimension_rows(model: Any) -> list[dict[str, Any]]:
    """The rows of `dimensions_` as JSON can hold them, none without such; None is not a number."""
    table = getattr(model, "dimensions_", pd.DataFrame()).to_dict("records")
    return [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in table
    ]


def saved_from(model: Any) -> Saved:
    """What :mod:`sjepa.runs.saving` writes, from a fitted estimator."""
    encoder: Any = model.encoder_
    given, head = "", None
    if isinstance(encoder, HeadedEncoder):
        head, encoder = encoder.head, encoder.encoder
    if isinstance(encoder, Frozen):
        encoder = encoder.module
    if encoder is identity:
        encoder = None
    elif not isinstance(model.encoder, str) and not is_identity(model.encoder):
        encoder, given = None, _name_of(ReadOut.of(model.encoder).encoder)
    facts = {
        "diagnostics": list(model.diagnostics_),
        "warnings": list(getattr(model, "warnings_", ())),
        "figures": finite(getattr(model, "figures_", {})),
        "verdict": model.verdict_.to_dict() if getattr(model, "verdict_", None) else None,
        "n_features_in": model.n_features_in_,
        "obs_shape": list(model.obs_shape_),
        "history_length": model.history_length_,
        "dimensions": dimension_rows(model),
        "feature_names_in": list(getattr(model, "feature_names_in_", [])),
        "frozen": isinstance(model.encoder_, Frozen),
        "action_names": list(model.action_names_),
        "step": model.step_,
        "seed": model.seed_,
    }
    return Saved(
        params=plain_params(model),
        law=model.law_,
        front=model.front_,
        encoder=encoder,
        given=given,
        head=head,
        transition=model.transition_,
        metrics=_with_result(model),
        facts=facts,
    )


def _with_result(model: Any) -> pd.DataFrame:
    """The history, and what the law is in the end."""
    law = model.law_
    final = {
        "omega_terms": law.complexity(
            "terms", model.library if isinstance(model.library, Library) else None
        ),
        "omega_tree": law.complexity("tree"),
        "coefficients": len(law.coefficients),
        "front_size": len(model.front_),
    }
    rows = [("final", 0, 0, name, float(value)) for name, value in final.items()]
    ending = pd.DataFrame(rows, columns=list(METRICS))
    before = model.history_[model.history_["stage"] != "final"]
    return pd.concat([before, ending], ignore_index=True) if len(before) else ending


def apply_saved(model: Model, saved: Saved, encoder: Any) -> Model:
    """Make an estimator what was saved; `encoder` is the user's own, if it was one."""
    encoder = encoder.encoder if isinstance(encoder, ReadOut) else encoder
    if saved.given:
        if encoder is None or isinstance(encoder, str):
            raise FormatError(
                f"The encoder of this model ({saved.given}) is the user's own and not stored; "
                "give it again: sjepa.load(folder, encoder=...)."
            )
        function = Frozen(encoder) if isinstance(encoder, nn.Module) else encoder
    elif saved.encoder is None:
        function, encoder = identity, "identity"
    else:
        frozen = saved.facts.get("frozen") is True
        function, encoder = (Frozen(saved.encoder) if frozen else saved.encoder), "auto"
    if saved.head is not None:
        function = HeadedEncoder(function, saved.head)
    known = model.get_params(deep=False)
    if unknown := sorted(set(saved.params) - set(known)):
        raise FormatError(f"This model has a parameter {unknown[0]!r} that this release has not.")
    plain = saved.params.get("encoder")
    if isinstance(plain, dict) and "head" in plain:
        encoder = from_plain("encoder", {**plain, "encoder": encoder})
    params = {k: from_plain(k, v) for k, v in saved.params.items() if k != "encoder"}
    if params.get("search") is None:  # settings that a file cannot hold
        params["search"] = "joint"
    model.set_params(**{k: v for k, v in params.items() if k in known}, encoder=encoder)
    model.law_, model.encoder_ = saved.law, function
    model.history_ = saved.metrics
    if saved.transition is not None:
        model._moved_by = (saved.law, saved.transition)
    facts = saved.facts
    notes, names, actions = (
        facts.get(k) for k in ("diagnostics", "feature_names_in", "action_names")
    )
    warnings, figures = facts.get("warnings", []), facts.get("figures", {})
    count, step = facts.get("n_features_in"), facts.get("step")
    shape, length = facts.get("obs_shape", [count]), facts.get("history_length", 1)
    numbers = isinstance(count, int) and isinstance(step, float) and isinstance(shape, list)
    numbers = numbers and all(isinstance(n, int) for n in (*shape, facts.get("seed", 0), length))
    numbers = numbers and isinstance(figures, dict)
    numbers = numbers and all(isinstance(n, float) for n in figures.values())
    if not numbers or not all(_texts(given) for given in (notes, names, actions, warnings)):
        raise FormatError(
            "The model's config.json is damaged: its facts are not as they should be."
        )
    notes, warnings = list(_shown(notes or ())), list(_shown(warnings))
    front = saved.front
    model.front_ = replace(front, notes=_shown(front.notes), verdict=_readable(front.verdict))
    model.diagnostics_, model.n_features_in_, model.obs_shape_ = notes, count, tuple(shape)
    model.history_length_ = length
    model.latent_dim_ = len(saved.law.outputs)
    if facts.get("dimensions"):
        try:
            rows: list[dict[str, Any]] = [
                {k: math.nan if v is None else v for k, v in row.items()}
                for row in facts["dimensions"]
            ]
            tried = [Dimension(**row) for row in rows]
        except (AttributeError, TypeError):
            raise FormatError("The model's config.json is damaged: its dimensions.") from None
        model.dimensions_ = pd.DataFrame([asdict(one) for one in tried])
    model.warnings_, model.figures_, model.rivals_ = warnings, figures, []
    verdict = facts.get("verdict")
    model.verdict_ = model.front_.verdict
    if verdict is not None:
        model.verdict_ = _readable(Verdict.from_dict(verdict))
    model.action_names_, model.step_ = tuple(actions or ()), step
    model.seed_ = facts.get("seed", 0)
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _readable(verdict: Verdict | None) -> Verdict | None:
    return None if verdict is None else replace(verdict, reasons=_shown(verdict.reasons))


def _shown(texts: Iterable[str]) -> tuple[str, ...]:
    """Remarks, which are printed, without what a terminal would obey."""
    return tuple(map(printable, texts))


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def from_plain(name: str, value: Any) -> Any:
    """A parameter as it was given; one that could not be stored is None."""
    if isinstance(value, dict) and set(value) == {"given"}:
        return None
    if name == "backend":
        return from_file(value)
    if not isinstance(value, dict):
        return value
    try:
        if "library" in value and name == "library":
            return Library.from_dict(value["library"])
        if "grammar" in value and name == "grammar":
            return Grammar(**value["grammar"])
        if name == "encoder":
            return ReadOut(**value)
        if name in _PARTS:
            return settings_of(value, name, _PARTS[name])
    except (SjepaError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"The model's {name} cannot be read ({error!s:.80}).") from None
    return value
