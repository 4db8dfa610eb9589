"""A fitted model as four plain files.

==================  ==========================================================================
model.safetensors   the numbers of encoder, head and correction, as far as there are any
law.json            the law; ``sjepa export`` and :meth:`Law.from_json` read it
metrics.parquet     the history of the fit: stage, cycle, epoch, metric, value
config.json         the settings, the front, what to build, and checksums of the other files
==================  ==========================================================================

``config.json`` is written last: a folder without it is unfinished. Reading executes nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from sjepa.errors import ConfigError, FormatError
from sjepa.models import Transition
from sjepa.models.serialization import from_spec, to_spec
from sjepa.storage import (
    digest_of,
    read_bounded,
    read_json,
    write_json,
    write_whole,
    writing_folder,
)
from sjepa.storage.tensors import read_state, write_state
from sjepa.symbolic import Front, Law


KIND, VERSION = "sjepa-model", 1
FILES = ("model.safetensors", "law.json", "metrics.parquet", "config.json")
METRICS = ("stage", "cycle", "epoch", "metric", "value")
MAX_LAW, MAX_METRICS = 8 * 2**20, 256 * 2**20


@dataclass(eq=False)
class Saved:
    """Everything a fitted model is made of, as plain data, laws and networks.

    ``encoder`` is None when the user gave it: then ``given`` says what it was, and ``head`` is what
    was measured or trained behind it.
    """

    params: dict[str, Any]
    law: Law
    front: Front
    encoder: nn.Module | None
    given: str = ""
    head: nn.Module | None = None
    transition: Transition | None = None
    metrics: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(METRICS)))
    facts: dict[str, Any] = field(default_factory=dict)


def save(folder: Path, saved: Saved) -> None:
    """Write a model as a folder of its own; an older model there is replaced at the end.

    A folder that holds anything else is refused.
    """
    if folder.exists():
        _check_replaceable(folder)
    if not folder.absolute().parent.is_dir():
        raise ConfigError(f"{folder.absolute().parent} does not exist; create that folder first.")
    with writing_folder(folder) as draft:
        write_files(draft, saved)


def _check_replaceable(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file; save to a folder of another name.")
    names = {p.name for p in folder.iterdir()}
    if "run.json" in names:
        raise ConfigError(f"{folder} is the folder of a run; save to another one.")
    if names and not names <= set(FILES):
        other = min(names - set(FILES))
        raise ConfigError(f"{folder} holds other things, such as {other}; save to a new folder.")


def write_files(folder: Path, saved: Saved) -> None:
    """Write the four files into a folder, ``config.json`` last."""
    parts = {"encoder": saved.encoder, "head": saved.head}
    described = {name: _described(name, part) for name, part in parts.items()}
    tensors: dict[str, Any] = {
        name: {} if part is None else dict(part.state_dict()) for name, part in parts.items()
    }
    tensors["correction"] = {}
    transition = None
    if saved.transition is not None:
        transition = _describe_transition(saved.transition)
        if saved.transition.correction is not None:
            tensors["correction"] = dict(saved.transition.correction.state_dict())
    content = {
        "model.safetensors": write_state(folder / "model.safetensors", KIND, VERSION, tensors),
        "law.json": saved.law.to_json().encode(),
        "metrics.parquet": _parquet(saved.metrics),
    }
    write_whole(folder / "law.json", content["law.json"])
    write_whole(folder / "metrics.parquet", content["metrics.parquet"])
    config = {
        "sjepa": _release(),
        "params": saved.params,
        **described,
        "given_encoder": saved.given,
        "transition": transition,
        "front": saved.front.to_dict(),
        "facts": saved.facts,
        "checksums": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    write_json(folder / "config.json", KIND, VERSION, config)


def read(folder: Path) -> Saved:
    """Read what :func:`save` wrote; whatever is damaged, foreign or too new is refused."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise FormatError(f"{folder} {what}; give the folder of a saved model or of a run.")
    if not os.path.lexists(folder / "config.json"):
        if os.path.lexists(folder / "run.json"):
            raise FormatError(
                f"The run in {folder} has not finished: resume it with sjepa fit --resume {folder}"
            )
        raise FormatError(f"{folder} is not a saved model: there is no config.json in it.")
    config = read_json(folder / "config.json", KIND, VERSION)
    law = Law.from_json(_verified(folder, config, "law.json", MAX_LAW))
    metrics = _read_metrics(folder, config)
    _verified(folder, config, "model.safetensors", None)
    tensors = read_state(folder / "model.safetensors", KIND, VERSION)
    get = _getter(folder, config)
    return Saved(
        params=get("params", dict),
        law=law,
        front=_within(folder, lambda: Front.from_dict(get("front", dict))),
        encoder=_rebuilt(folder, config.get("encoder"), tensors, "encoder"),
        given=get("given_encoder", str),
        head=_rebuilt(folder, config.get("head"), tensors, "head"),
        transition=_read_transition(folder, config.get("transition"), law, tensors),
        metrics=metrics,
        facts=get("facts", dict),
    )


def _getter(folder: Path, config: Mapping[str, Any]) -> Callable[[str, type], Any]:
    def get(name: str, kind: type) -> Any:
        if not isinstance(config.get(name), kind):
            raise FormatError(f"{folder}/config.json is damaged: {name!r} is not as it should be.")
        return config[name]

    return get


def _within(folder: Path, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except FormatError as error:
        raise FormatError(f"{folder} is damaged. {error}") from None


def _verified(folder: Path, config: Mapping[str, Any], name: str, max_bytes: int | None) -> bytes:
    """The bytes of a file that matches its checksum (none are returned for large files)."""
    sums = config.get("checksums")
    wanted = sums.get(name) if isinstance(sums, dict) else None
    if max_bytes is None:
        found, content = digest_of(folder / name), b""
    else:
        content = read_bounded(folder / name, max_bytes)
        found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise FormatError(f"{folder / name} is damaged, or of another model than config.json.")
    return content


def _rebuilt(folder: Path, description: Any, tensors: Any, name: str) -> nn.Module | None:
    if description is None:
        return None
    stored = tensors.get(name) if isinstance(tensors, dict) else None
    if not isinstance(stored, dict):
        raise FormatError(f"{folder}/model.safetensors is damaged: it holds no {name}.")
    module: nn.Module = _within(folder, lambda: from_spec(description, stored))
    return module


def _described(name: str, part: nn.Module | None) -> Any:
    if part is None:
        return None
    if (description := to_spec(part)) is None:
        kind = type(part).__name__
        raise ConfigError(f"A part ({name}) of type {kind} cannot be stored as plain data.")
    return description


def _describe_transition(transition: Transition) -> dict[str, Any]:
    return {
        "kind": transition.dynamics,
        "integrator": transition.integrator,
        "order": transition.order,
        "law": transition.symbolic is not None,
        "correction": _described("correction", transition.correction),
    }


def _read_transition(folder: Path, data: Any, law: Law, tensors: Any) -> Transition | None:
    if data is None:
        return None
    if not isinstance(data, dict) or set(data) != {
        "kind", "integrator", "order", "law", "correction",
    }:  # fmt: skip
        raise FormatError(f"{folder}/config.json is damaged: no description of a transition.")
    correction = _rebuilt(folder, data["correction"], tensors, "correction")
    module = law.torch(trainable=False).double() if data["law"] else None
    try:
        return Transition(module, correction, data["kind"], data["integrator"], data["order"])
    except (ConfigError, TypeError) as error:
        raise FormatError(f"{folder} is damaged. {error}") from None


def _parquet(metrics: pd.DataFrame) -> bytes:
    memory = io.BytesIO()
    metrics.to_parquet(memory, index=False)
    return memory.getvalue()


def _read_metrics(folder: Path, config: Mapping[str, Any]) -> pd.DataFrame:
    import pyarrow
    import pyarrow.parquet

    content = _verified(folder, config, "metrics.parquet", MAX_METRICS)
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        # A few bytes of Parquet can stand for billions of rows.
        if file.metadata.num_rows > MAX_METRICS // 8:
            raise ValueError("too many rows")
        frame = file.read().to_pandas()
    except Exception as error:
        raise FormatError(f"{folder}/metrics.parquet is damaged ({error!s:.80}).") from None
    if tuple(frame.columns) != METRICS:
        raise FormatError(f"{folder}/metrics.parquet has other columns than {', '.join(METRICS)}.")
    return frame


def _release() -> str:
    from sjepa import __version__

    return __version__
