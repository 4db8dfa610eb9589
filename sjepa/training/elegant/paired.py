"""Whether one law is clearly worse than another, the same held-out data considered."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.result import Found


# A difference counts from this many standard errors.
CLEARLY = 3.0


def standard_errors(
    score: Callable[[Found, Observed], float], one: Found, best: Found, held: Observed
) -> float:
    """By how many standard errors a score of one law is above that of another.

    Both are judged without each piece of the held-out data in turn (the jackknife): what makes a
    piece hard for one law mostly makes it hard for the other. Fewer than three pieces tell nothing.
    """
    count = len(held)
    if count < 3:
        return 0.0
    rows = torch.arange(count)
    apart = [
        score(one, part) - score(best, part)
        for part in (held.pick(rows[rows != i]) for i in range(count))
    ]
    mean = sum(apart) / count
    spread = math.sqrt((count - 1) / count * sum((a - mean) ** 2 for a in apart))
    return mean / max(spread, 1e-300)
