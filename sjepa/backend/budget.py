"""How long a search may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from sjepa.errors import ConfigError


@dataclass(frozen=True)
class Budget:
    """How long a search may take; None leaves the backend's own default.

    Backends stop by themselves within about a tenth of `seconds` (at least one second) after it.
    With `cpu` they are seconds of this process's processor time, so that a busy machine does not
    change the answer; programs that a backend starts are held to the wall clock all the same.

    >>> Budget(seconds=30)
    Budget(seconds=30, iterations=None)
    """

    seconds: float | None = None
    iterations: int | None = None
    cpu: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"A budget needs a positive number of seconds, got {self.seconds}.")
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"A budget needs at least one iteration, got {self.iterations}.")
