"""Whether Julia is here, without importing PySR, which would start or even download it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path


# PySR 1.5 and 2.x ask for this or later within Julia 1; newer releases may still be refused by
# the OpenSSL that Python was built with, which only juliapkg can tell.
OLDEST = (1, 10, 3)


def julia_available() -> tuple[bool, str]:
    """Whether PySR would find Julia here, and the executable or the reason why not.

    Looks where juliapkg looks, in its order, and asks each candidate for its version; takes a
    fraction of a second.
    """
    if importlib.util.find_spec("pysr") is None:
        return False, "pysr is not installed (pip install pysr)"
    executable, reason = find_julia()
    return (True, executable) if executable else (False, reason)


@cache
def announce_download() -> None:
    """Warn, once in a process, that PySR is about to download Julia."""
    executable, reason = find_julia()
    if importlib.util.find_spec("pysr") is not None and not executable:
        warnings.warn(
            f"PySR downloads Julia now, once; that takes minutes ({reason}; packages go to "
            f"{depot()}). backend='operon' searches expression trees without it.",
            stacklevel=3,
        )


def depot() -> str:
    """Where Julia keeps its packages."""
    return os.environ.get("JULIA_DEPOT_PATH", "").split(os.pathsep)[0] or str(
        Path.home() / ".julia"
    )


def find_julia() -> tuple[str, str]:
    """The first usable Julia executable, or an empty text and the reason."""
    reason = (
        "no Julia: not set for juliacall or juliapkg, not installed by juliapkg or juliaup, "
        "not on PATH"
    )
    for where, executable in _candidates():
        version = _version(executable)
        if version is None:
            reason = f"{where} {executable} is not a Julia executable"
        elif not OLDEST <= version < (2,):
            number = ".".join(map(str, version))
            reason = f"{where} {executable} is Julia {number}, which PySR does not run on"
        else:
            return executable, ""
        if where.startswith("PYTHON_"):  # juliacall and juliapkg look no further either
            break
    return "", reason


def _candidates() -> Iterator[tuple[str, str]]:
    # juliacall asks juliapkg only if it was not told both of these.
    options = [_option("juliacall-exe"), _option("juliacall-project")]
    if all(options):
        yield "PYTHON_JULIACALL_EXE", options[0]
    if chosen := _option("juliapkg-exe"):
        yield "PYTHON_JULIAPKG_EXE", chosen
    prefix = _project() / "pyjuliapkg"
    try:
        recorded = json.loads((prefix / "meta.json").read_text()).get("executable")
    except (OSError, ValueError, AttributeError):
        recorded = None
    if recorded:
        yield "juliapkg's", str(recorded)
    name = "julia.exe" if os.name == "nt" else "julia"
    installed = prefix / "install" / "bin" / name
    if installed.exists():
        yield "juliapkg's", str(installed)
    if shutil.which("juliaup"):
        yield from (("juliaup's", path) for path in _juliaup(name))
    if found := shutil.which("julia"):
        yield "the PATH's", found


def _option(name: str) -> str:
    """An option of the interpreter, as in ``python -X name=...``, or its environment variable."""
    variable = "PYTHON_" + name.upper().replace("-", "_")
    return str(sys._xoptions.get(name) or os.environ.get(variable) or "")


def _project() -> Path:
    """Where juliapkg keeps its Julia environment."""
    if chosen := _option("juliapkg-project"):
        return Path(chosen)
    prefix = sys.prefix if sys.prefix != sys.base_prefix else os.environ.get("CONDA_PREFIX")
    if prefix:
        return Path(prefix) / "julia_env"
    return Path(depot()) / "environments" / "pyjuliapkg"


def _juliaup(name: str) -> Iterator[str]:
    home = Path(os.environ.get("JULIAUP_DEPOT_PATH") or Path.home() / ".julia") / "juliaup"
    try:
        versions = json.loads((home / "juliaup.json").read_text())["InstalledVersions"]
        for info in versions.values():
            binary = info.get("BinaryPath") or str(Path(info["Path"]) / "bin" / name)
            yield str((home / binary).resolve())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return


def _version(executable: str) -> tuple[int, ...] | None:
    try:
        run = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"julia version (\d+)\.(\d+)\.(\d+)", run.stdout, re.IGNORECASE)
    return tuple(int(part) for part in found.groups()) if found else None
