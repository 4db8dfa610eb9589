"""How the costs of posterior draws become one number to minimise."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sjepa.errors import ConfigError


def expected(costs: Tensor) -> Tensor:
    """Mean over the draws, which are the leading axis."""
    return costs.mean(0)


@dataclass(frozen=True)
class CVaR:
    """Conditional value at risk: the mean of the worst 1 - level share of the draws.

    Level 0 is the mean, and towards 1 only the worst draw counts. Draws at the edge of the share
    count partly, so the value moves continuously with the level.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.level < 1:
            raise ConfigError(f"The level of CVaR is in [0, 1), got {self.level}.")

    def __call__(self, costs: Tensor) -> Tensor:
        count = max((1.0 - self.level) * len(costs), 1.0)
        worst = costs.sort(dim=0, descending=True).values
        weights = [min(1.0, max(0.0, count - i)) for i in range(len(costs))]
        total = costs.new_tensor(weights).reshape(-1, *[1] * (costs.ndim - 1))
        return (worst * total).sum(0) / count
