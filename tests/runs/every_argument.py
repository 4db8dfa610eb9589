"""Every argument of the public calls exchanged for everything that it hardly means, one at a time.

Random calls meet a fault that one value of one argument makes once in ten thousand calls; this
goes through all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.runs import doors, law_doors
from tests.runs.arguments import Rng, all_junk
from tests.runs.fuzzing import only_our_errors


Door = Callable[[Rng], None]
# Calls of a door that are looked at for arguments: it draws which method it calls.
CALLS = 30


@dataclass
class Exchange:
    """Stands in for `Draw`: notes the arguments of a call, and exchanges one of them."""

    place: int = -1
    name: str = ""
    value: Any = None
    seen: list[tuple[str, ...]] = field(default_factory=list)
    sound: bool = False  # what is answered is compared elsewhere

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        if len(self.seen) == self.place:
            arguments[self.name] = self.value
        self.seen.append(tuple(arguments))
        return arguments


def _call(door: Door, seed: int, exchange: Exchange) -> None:
    with ExitStack() as stack:
        for module in (doors, law_doors):
            stack.enter_context(patch.object(module, "Draw", lambda rng: exchange))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        door(np.random.default_rng(seed))


def exchanges(door: Door) -> Iterator[tuple[int, int, str]]:
    """The calls of a door with the places and names of their arguments, each once."""
    known = set()
    for seed in range(CALLS):
        exchange = Exchange()
        with suppress(Exception):  # what it says is looked at with arguments exchanged
            _call(door, seed, exchange)
        for place, names in enumerate(exchange.seen):
            for name in names:
                if (place, names, name) not in known:
                    known.add((place, names, name))
                    yield seed, place, name


def foreign_errors(door: Door, seconds: float, every: int = 1, first: int = 0) -> Iterator[str]:
    """What is neither answered nor refused by us in this CPU time; of all calls each `every`-th."""
    number = 0
    for seed, place, name in exchanges(door):
        for k in range(len(all_junk())):
            number += 1
            if number % every != first:
                continue
            value = all_junk()[k]
            try:
                only_our_errors(partial(_call, door, seed, Exchange(place, name, value)), seconds)
            except Exception as error:
                where = f"{door.__name__}({seed}) {name}={value!r:.40}"
                yield f"{where}: {type(error).__name__}: {error!s:.200}"
