"""Package data: the Julia definitions of the domain-safe operators.

Reading them needs no Julia; :func:`definitions` returns the source lines by name.
"""

from functools import cache
from importlib.resources import files


@cache
def definitions() -> dict[str, str]:
    """The one-line definitions in operators.jl, by the name they define."""
    text = (files(__name__) / "operators.jl").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    return {line.split("(", 1)[0]: line for line in lines if line and not line.startswith("#")}
