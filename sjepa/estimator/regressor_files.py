"""A fitted regressor as a folder with one file of plain data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sjepa.errors import FormatError
from sjepa.estimator.files import from_plain, plain_params
from sjepa.storage import make_folder, read_json, write_json
from sjepa.symbolic import Front, Law


if TYPE_CHECKING:
    from sjepa.estimator.regressor import SymbolicRegressor

FILE, KIND, VERSION = "regressor.json", "sjepa-regressor", 1


def save_regressor(model: SymbolicRegressor, folder: Path) -> None:
    """Write the settings, the front and the chosen law; an older regressor there is replaced."""
    if folder.exists() and not (folder / FILE).exists() and any(folder.iterdir()):
        raise FormatError(f"{folder} holds something else; choose another folder.")
    make_folder(folder)
    facts = {
        "settings": plain_params(model),
        "front": model.front_.to_dict(),
        "law": model.law_.to_dict(),
        "n_features_in": model.n_features_in_,
        "feature_names_in": list(getattr(model, "feature_names_in_", [])),
        "single": model._single,
        "seed": model.seed_,
    }
    write_json(folder / FILE, KIND, VERSION, facts)


def load_regressor(model: SymbolicRegressor, folder: Path) -> SymbolicRegressor:
    """Make a regressor what was saved; nothing in the file is executed."""
    path = folder / FILE
    data: dict[str, Any] = read_json(path, KIND, VERSION)
    settings, names, count = (
        data.get(k) for k in ("settings", "feature_names_in", "n_features_in")
    )
    seed, single = data.get("seed"), data.get("single")
    if not (
        isinstance(settings, dict) and isinstance(names, list) and type(count) is int
        and type(seed) is int and type(single) is bool and isinstance(data.get("front"), dict)
        and all(isinstance(n, str) for n in names)
    ):  # fmt: skip
        raise FormatError(f"{path} is damaged: its facts are not as they should be.")
    if unknown := sorted(set(settings) - set(model.get_params(deep=False))):
        raise FormatError(f"{path} has a setting {unknown[0]!r} that this release has not.")
    model.set_params(**{k: from_plain(k, v) for k, v in settings.items()})
    model.front_, model.law_ = Front.from_dict(data["front"]), Law.from_dict(data.get("law"))
    if len(model.law_.inputs) != count or (single and len(model.law_.outputs) != 1):
        raise FormatError(f"{path} is damaged: its law is not one of its {count} columns.")
    model.verdict_ = model.front_.verdict
    model.n_features_in_, model._single, model.seed_ = count, single, seed
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
