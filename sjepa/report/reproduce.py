"""Lines of code that reproduce a result."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import torch

import sjepa
from sjepa.settings import Settings
from sjepa.symbolic import Law


def law_recipe(law: Law) -> list[str]:
    equations = [f"    {text!r}," for text in law.lines()]
    return ["law = sjepa.Law.from_string([", *equations, f"], inputs={list(law.inputs)!r})"]


def model_recipe(model: Any) -> list[str]:
    """The call with the settings that differ from the defaults."""
    default = type(model)()
    changed = [
        f"{name}={_setting(value)}"
        for name, value in model.get_params(deep=False).items()
        if name != "verbose" and repr(value) != repr(getattr(default, name))
    ]
    call = f"model = sjepa.{type(model).__name__}({', '.join(changed)})"
    if len(call) > 78:
        listed = "".join(f"    {one},\n" for one in changed)
        call = f"model = sjepa.{type(model).__name__}(\n{listed})"
    return [
        "import sjepa",
        call,
        "model.fit(X, y)  # the same table"
        if hasattr(model, "predict") and not hasattr(model, "encode")
        else "model.fit(x, t)  # the same observations and times",
        *(f"# {line}" for line in versions()),
    ]


def _setting(value: Any) -> str:
    if isinstance(value, Settings):
        return re.sub(r"(?<![\w.])([A-Z]\w*)\(", r"sjepa.\1(", repr(value))
    if isinstance(value, str | int | float | bool | None | list | tuple | dict):
        return repr(value)
    return f"<{getattr(value, '__qualname__', '') or type(value).__name__}>"


def versions() -> list[str]:
    """What the result was made with."""
    return [
        f"sjepa {sjepa.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}"
    ]
