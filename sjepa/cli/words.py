"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Collection

from sjepa.errors import SjepaError


# Parameters whose option has another name.
_OPTIONS = {
    "allow_nan": "drop_nan", "library": "terms", "random_state": "seed", "u": "actions",
    "budget": "seconds", "options": "option",
}  # fmt: skip


def in_options(error: SjepaError, known: Collection[str]) -> str:
    """The message, with the option of the command to change in place of the parameter.

    `known` are the parameters of the command. ``name=value`` and a name at the beginning are
    replaced where they stand; where the message does not name it so, the option comes at the end.
    """
    message, argument = str(error), error.argument
    if argument is None:
        return message
    name = _OPTIONS.get(argument, argument)
    if name in known:
        option, joint = f"--{name.replace('_', '-')}", " "
    elif "option" in known:
        option, joint = f"--option {name}", "="
    else:
        return message

    def written(match: re.Match[str]) -> str:
        value = (match["value"] or "").strip("'")
        return option if value in ("", "True", "...", "[...]") else f"{option}{joint}{value}"

    values = r"'\w+'|\[?\.\.\.\]?|[\w+-]+(?:\.\d+)?"
    pattern = rf"\b{argument}=(?P<value>{values})|^{argument}\b"
    found, count = re.subn(pattern, written, message)
    return found if count else f"{message} See {option}."
