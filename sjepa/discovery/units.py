"""Units of states, inputs and time, and whether coefficients may have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sjepa.errors import ConfigError
from sjepa.settings import Settings


@dataclass(frozen=True, repr=False)
class Units(Settings):
    """Units of what a law is made of, as pint reads them.

    Parameters
    ----------
    of_names : mapping
        Units of states, control inputs and time, as in ``{"q": "rad", "t": "s"}``.
    dimensionless_constants : bool
        Whether numbers in the law have no unit. Otherwise a coefficient has the unit that its
        term needs.

    Examples
    --------
    >>> Units({"q": "rad", "t": "s"}, dimensionless_constants=True)
    Units(of_names={'q': 'rad', 't': 's'}, dimensionless_constants=True)
    """

    of_names: Mapping[str, str] = field(default_factory=dict)
    dimensionless_constants: bool = False

    @classmethod
    def of(cls, given: Any) -> Units | None:
        """Units as they were given, or those of a mapping."""
        if given is None or isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(f"units is a mapping of names to units, got {given!r:.60}.", "units")
        return cls(dict(given))
