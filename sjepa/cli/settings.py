"""Options that come from a file, values that come as text, arguments by the names of options."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from sjepa.errors import ConfigError, DataWarning, FormatError, SjepaError, did_you_mean


MAX_BYTES = 2**20


def _from_toml(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a TOML file the defaults of this command."""
    if path is not None:
        context.default_map = {
            **(context.default_map or {}),
            **read_settings(path, context.command),
        }
    return path


def read_settings(path: Path, command: Any) -> dict[str, Any]:
    """The settings of a file, by the names of a command's options; unknown ones are refused."""
    from sjepa.storage import read_bounded

    try:
        data = tomllib.loads(read_bounded(path, MAX_BYTES).decode("utf-8"))
    except FormatError as error:
        raise ConfigError(f"{error} --config takes a TOML file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from None
    # A file that could trust itself would need nobody's word.
    known = {p.name: p for p in command.params if p.name not in ("config", "help", "trust")}
    # Told by the function: what the parser knows of types differs between releases of typer.
    hints = get_type_hints(command.callback)
    places = {name for name in known if Path in (hints.get(name), *get_args(hints.get(name)))}
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        if name not in known:
            hint = did_you_mean(key, [n.replace("_", "-") for n in known])
            listing = ", ".join(n.replace("_", "-") for n in known)
            raise ConfigError(f"{path}: there is no option {key!r}.{hint} Options: {listing}.")
        if isinstance(value, dict):
            if name not in PARTS or "set" not in known:
                raise ConfigError(f"{path}: {name!r} is one value, not a table.")
            if "name" in value:
                found[name] = value["name"]
            rest = {k: v for k, v in value.items() if k != "name"}
            found["set"] = [*found.get("set", []), *_pairs(name, rest)]
        elif isinstance(value, list) and not known[name].multiple:
            found[name] = ",".join(map(str, value))
        else:
            found[name] = value
        if name in places:
            _check_place(path, key, str(value))
    return found


def _check_place(file: Path, key: str, value: str) -> None:
    """Refuse a path that leads out of the folder of the file and of the one we are in."""
    try:
        place = Path(value).resolve()
        if any(place.is_relative_to(p.resolve()) for p in (file.absolute().parent, Path())):
            return
    except (OSError, ValueError, RuntimeError):
        pass  # not a path at all
    raise ConfigError(
        f"{file}: {key} = {value!r:.200} leads out of the folder of this file; give it on the line."
    )


def _pairs(part: str, values: dict[str, Any]) -> list[str]:
    return [f"{part}.{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in values.items()]


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_from_toml, is_eager=True, metavar="FILE.toml",
        help="Read options from a TOML file; those on the line come first.",
    ),
]  # fmt: skip


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Accept code and paths among the settings of a run or a TOML file, and other users' "
        "runs that read elsewhere.",
    ),
]


# Options whose value is a name, and which have fields.
PARTS = ("backend", "search", "correction", "derivatives")

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PART.FIELD=VALUE",
        help="A field of the backend, search, correction or derivatives, as backend.max_terms=3; "
        "repeatable.",
    ),
]  # fmt: skip


def parts_of(
    context: typer.Context, texts: Sequence[str] | None, trust: bool, **names: str | None
) -> dict[str, Any]:
    """The parts of these names, as mappings with a name where they have fields.

    Fields come from a TOML file and from the line, which counts last. Of a backend in a file only
    plain fields are taken.
    """
    from sjepa.backend.registry import from_file

    source = context.get_parameter_source("set")
    typed = list(texts or ()) if source is None or source.name == "COMMANDLINE" else []
    filed = list((context.default_map or {}).get("set") or ())
    given = pairs_of(filed, "--set") | pairs_of(typed, "--set")
    found: dict[str, Any] = dict(names)
    for key, value in given.items():
        part, dot, field = key.partition(".")
        if not dot or part not in names:
            hint = did_you_mean(part, names)
            known = ", ".join(names)
            raise ConfigError(f"--set takes PART.FIELD=VALUE, got {key!r}.{hint} Parts: {known}.")
        if names[part] is None:
            raise ConfigError(f"--set {key} needs --{part}.")
        if not isinstance(found[part], dict):
            found[part] = {"name": found[part]}
        found[part][field] = value
    if any(text.startswith("backend.") for text in filed) and not trust:
        found["backend"] = from_file(found["backend"])
    return found


def words(text: str) -> list[str]:
    """Words separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def terms_of(text: str) -> list[str]:
    """Split at commas outside parentheses: max(x, y) is one term."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts = [p.strip() for p in [*parts, text[start:]]]
    if not all(parts):
        raise ConfigError(f"--library has an empty term: {text!r}.")
    return parts


def pairs_of(texts: Sequence[str] | None, option: str) -> dict[str, Any]:
    """``name=value`` texts as a mapping; values are read as JSON where they can be."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ConfigError(f"{option} takes name=value, got {text!r}.")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = {"True": True, "False": False, "None": None}.get(value, value)
    return found


def number_or_name(text: str | None) -> str | float | None:
    """A step in time, or the name of a column."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def in_options(error: SjepaError | DataWarning, known: Collection[str]) -> str:
    """The message, with the option of the command to change in place of the parameter.

    `known` are the parameters of the command. ``name=value`` and a name at the beginning are
    replaced where they stand; where the message does not name it so, the option comes at the end.
    """
    message, argument = str(error), error.argument
    if argument is None:
        return message
    name = {"u": "actions"}.get(argument, argument)
    if name in known:
        option, joint = f"--{name.replace('_', '-')}", " "
    elif "search" in known:
        option, joint = f"--set search.{name}", "="
    else:
        return message

    def written(match: re.Match[str]) -> str:
        value = (match["value"] or "").strip("'")
        return option if value in ("", "True", "...", "[...]") else f"{option}{joint}{value}"

    values = r"'\w+'|\[?\.\.\.\]?|[\w+-]+(?:\.\d+)?"
    pattern = rf"\b{argument}=(?P<value>{values})|^{argument}\b"
    found, count = re.subn(pattern, written, message)
    return found if count else f"{message} See {option}."
