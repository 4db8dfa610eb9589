"""Find backends by name; import one only when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from sjepa.backend import Backend
from sjepa.backend.objects import backend_of_object
from sjepa.backend.portfolio import Portfolio
from sjepa.errors import (
    BackendError,
    BackendUnavailable,
    ConfigError,
    UnknownBackend,
    did_you_mean,
)


@dataclass(frozen=True)
class Source:
    """Where a backend lives, and what has to be importable before it can be loaded."""

    target: str  # "package.module:Class"
    description: str
    needs: tuple[str, ...] = ()
    fix: str = ""

    def missing(self) -> list[str]:
        return [m for m in self.needs if importlib.util.find_spec(m) is None]

    def version(self) -> str:
        """Version of the package that does the work; empty when that is us."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(self.needs[0]) if self.needs else ""
        except PackageNotFoundError:
            return ""

    def load(self) -> type[Backend]:
        module, _, attribute = self.target.partition(":")
        try:
            cls: object = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise BackendUnavailable(f"{self.target} cannot be loaded: {error}.") from error
        if not (isinstance(cls, type) and issubclass(cls, Backend)):
            raise BackendError(f"{self.target} is registered as a backend but is not one.")
        return cls


# Strings, not classes: listing the backends must not import one, let alone start Julia.
BUILTIN: Mapping[str, Source] = {
    "stlsq": Source("sjepa_backends.stlsq:STLSQ", "own: thresholded least squares"),
    "subset": Source("sjepa_backends.subset:Subset", "own: exact best subset"),
    "pysindy": Source(
        "sjepa_backends.pysindy:PySINDy", "PySINDy", ("pysindy",), "pip install pysindy"
    ),
    "operon": Source(
        "sjepa_backends.operon:Operon",
        "Operon (C++ genetic programming)",
        ("pyoperon",),
        "pip install pyoperon",
    ),
    "gplearn": Source(
        "sjepa_backends.gplearn:GPLearn", "gplearn", ("gplearn",), "pip install 'sjepa[gplearn]'"
    ),
    "pysr": Source(
        "sjepa_backends.pysr:PySR",
        "PySR (SymbolicRegression.jl)",
        ("pysr",),
        "pip install pysr (downloads Julia at its first search)",
    ),
}


@cache
def sources() -> dict[str, Source]:
    """Ours first; a plugin may add names but never replace one of ours."""
    from importlib.metadata import entry_points

    plugins = {
        ep.name: Source(ep.value, ep.module, (ep.module.split(".")[0],), f"reinstall {ep.module}")
        for ep in entry_points(group="sjepa.backends")
    }
    return {**plugins, **BUILTIN}


def available_backends() -> dict[str, bool]:
    """Every known backend, and whether its packages are installed. Imports none of them.

    >>> available_backends()["stlsq"]
    True
    """
    return {name: not source.missing() for name, source in sorted(sources().items())}


class FromFile(dict[str, Any]):
    """Settings of a backend that a file holds, of which only the plain ones are taken.

    It stays what it is when an estimator is cloned, copied or sent to another process.
    """


def from_file(backend: Any) -> Any:
    """A backend as a file describes it, marked as such; see :attr:`Backend.plain`."""
    if isinstance(backend, Mapping):  # whose name may be a list of others
        return FromFile({k: from_file(v) if k == "name" else v for k, v in backend.items()})
    return [from_file(member) for member in backend] if isinstance(backend, list) else backend


def make_backend(
    backend: str | Mapping[str, Any] | type[Backend] | Backend | Sequence[Any] | object,
    **settings: Any,
) -> Backend:
    """Build a backend from a name, ``{"name": ..., option: ...}``, a class or an instance.

    An estimator of another package is one as well: a PySRRegressor, a pysindy optimizer or SINDy,
    a regressor of pyoperon or gplearn. What it sets stays set, what cannot be kept is refused.

    A list of them, or names joined as in ``"stlsq+operon"``, are searched one after the other and
    their fronts merged; see :class:`~sjepa.backend.portfolio.Portfolio`.

    Raises
    ------
    UnknownBackend
        If nothing carries that name; the message lists the names that exist.
    BackendUnavailable
        If it exists but cannot run here; the message ends with the command that fixes it.
    ConfigError
        If an option does not exist.

    Examples
    --------
    >>> make_backend({"name": "stlsq", "threshold": 0.05}).threshold
    0.05
    """
    if isinstance(backend, Backend):
        if settings:
            raise ConfigError("A backend instance already has its settings; got more of them.")
        return backend
    trusted = not isinstance(backend, FromFile)
    if isinstance(backend, Mapping):
        settings = {**backend, **settings}
        if "name" not in settings:
            raise UnknownBackend(f"A backend given as a mapping needs a 'name', got {settings!r}.")
        backend = settings.pop("name")
    if isinstance(backend, type) and issubclass(backend, Backend):
        return _build(backend, settings, trusted)
    if isinstance(backend, str) and "+" in backend:
        backend = backend.split("+")
    if isinstance(backend, list | tuple):
        if settings:
            raise ConfigError(
                "Settings for a list of backends belong to its members, as in "
                "[{'name': 'operon', 'runs': 2}, 'stlsq']."
            )
        return Portfolio(tuple(make_backend(member) for member in backend))
    if not isinstance(backend, str) and (adapted := backend_of_object(backend)) is not None:
        if settings:
            raise ConfigError("An estimator already has its settings; got more of them.")
        return adapted
    if not isinstance(backend, str):
        raise UnknownBackend(
            "A backend is a name, a mapping with a 'name', class, instance, an estimator of PySR, "
            "PySINDy, pyoperon or gplearn, or a list of them; "
            f"got {backend!r}."
        )
    return _build(_load(backend), settings, trusted)


def _load(name: str) -> type[Backend]:
    if name not in sources():
        hint = did_you_mean(name, sources())
        listing = ", ".join(
            n if ok else f"{n} (not installed)" for n, ok in available_backends().items()
        )
        raise UnknownBackend(f"No backend is called {name!r}.{hint} Known: {listing}.")
    source = sources()[name]
    if missing := source.missing():
        raise BackendUnavailable(
            f"Backend {name!r} needs {', '.join(missing)}, not installed here. "
            f"Fix: {source.fix}. Until then, 'stlsq' needs nothing beyond torch."
        )
    return source.load()


def _build(cls: type[Backend], settings: Mapping[str, Any], trusted: bool) -> Backend:
    known: list[str] = sorted(f.name for f in fields(cls)) if is_dataclass(cls) else []
    if known and (unknown := sorted(settings.keys() - set(known))):
        raise ConfigError(
            f"Backend {cls.name!r} has no option {unknown[0]!r}. Options: {', '.join(known)}."
        )
    if not trusted:
        _check_plain(cls, settings)
    hints = get_type_hints(cls) if settings else {}
    for name, value in settings.items():
        if not _fits(value, hints.get(name, Any)):
            wanted = str(next(f.type for f in fields(cls) if f.name == name))  # type: ignore[arg-type]
            raise ConfigError(f"{name} of backend {cls.name!r} is {wanted}, got {value!r:.60}.")
    try:
        return cls(**settings)
    except TypeError as error:
        raise ConfigError(f"Backend {cls.name!r}: {error!s:.200}.") from error


def _check_plain(cls: type[Backend], settings: Mapping[str, Any]) -> None:
    """Refuse what a file sets and the backend does not declare plain, unless it is the default."""
    known: tuple[Field[Any], ...] = fields(cls) if is_dataclass(cls) else ()
    defaults = {
        f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in known
    }
    for name, value in settings.items():
        if name not in cls.plain and not (name in defaults and value == defaults[name]):
            raise ConfigError(
                f"A file sets {name}={value!r:.200} of backend {cls.name!r}, which may be code, a "
                "path or a program: if you want that, add --trust, or set backend= in Python."
            )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that an option is declared as; whole numbers are numbers."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return any(_fits(value, part) for part in get_args(hint))
    kind = get_origin(hint) or hint
    if kind is Literal:
        return value in get_args(hint)
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool | np.bool_):
        return kind in (bool, object)
    if kind is float:
        return isinstance(value, Real) and math.isfinite(value)
    if kind is int:
        return isinstance(value, Integral) and abs(int(value)) < 2**63
    if isinstance(value, str) and kind is not str:  # a text is a sequence as well
        return False
    return isinstance(value, kind)
