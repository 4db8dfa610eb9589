"""N coherent draws from the posterior as one batched transition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from sjepa.bayes.structure_fit import Group
from sjepa.bayes.transitions import StepModel
from sjepa.errors import DataError
from sjepa.models.integrators import join
from sjepa.models.transition import schedule


class Draws(nn.Module):
    """N transitions, each with a structure, coefficients, correction and covariance of its own.

    Made by ``posterior.draws(n, seed)``. The first axis of every state counts the draws: draw b
    moves ``z[b]``, always with the same law and the same correction function, so a rollout is
    one possible world from beginning to end. Like :class:`sjepa.models.Transition` it is called
    with states, step sizes and actions, and is differentiable in all three::

        z = draws.expand(z0)                 # (..., d) to (N, ..., d)
        z = draws(z, dt, u)                  # mean of the next state, (N, ..., d)
        z = draws.sample(z, dt, u, generator)  # with transition noise
        path = draws.rollout(z0, dt, u)      # (N, ..., K + 1, d)

    Parameters of the draws are buffers in double precision; ``covariance`` is (N, d, d).
    """

    def __init__(self, groups: Sequence[Group], order: Tensor, step: StepModel) -> None:
        """`order` (N,) is the draw at each place of the groups one after the other."""
        super().__init__()
        self.groups = tuple(groups)
        self.step = step
        self.place: Tensor
        self.root: Tensor
        # Where in the concatenated groups each draw is.
        self.register_buffer("place", torch.argsort(order))
        self.register_buffer("root", torch.cat([g.root for g in groups])[self.place])
        sizes = [len(g) for g in groups]
        self.members = order.split(sizes)

    def __len__(self) -> int:
        return len(self.place)

    @property
    def covariance(self) -> Tensor:
        """Σ of each draw, (N, d, d), for steps of unit length where noise grows with time."""
        return self.root @ self.root.mT

    def expand(self, z: Tensor) -> Tensor:
        """The same states (..., d) for every draw: (N, ..., d)."""
        return z.expand(len(self), *z.shape)

    def forward(
        self, z: Tensor, dt: Tensor | float | None = None, u: Tensor | None = None
    ) -> Tensor:
        """Mean of the next state from z (N, ..., d).

        dt broadcasts against z[..., :1], u against (N, ..., m); both may leave out
        the axis of the draws. A map needs no dt.
        """
        step = self._checked(z, dt)

        def move(group: Group, zg: Tensor, sg: Tensor | None, i: Tensor) -> Tensor:
            return self._move(group, zg, sg, _of_draws(step, i, z))  # type: ignore[arg-type]

        return self._gather(z, u, move)

    def correction(self, z: Tensor, u: Tensor | None = None) -> Tensor:
        """The correction g of each draw at z (N, ..., d); zero where there is none."""

        def part(group: Group, zg: Tensor, sg: Tensor | None, i: Tensor) -> Tensor:
            return torch.zeros_like(zg) if group.paths is None else group.paths(join(zg, sg))

        return self._gather(z, u, part)

    def sample(
        self,
        z: Tensor,
        dt: Tensor | float | None = None,
        u: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The next state with noise."""
        return self.add_noise(self(z, dt, u), dt, generator)

    def add_noise(
        self, mean: Tensor, dt: Tensor | float | None, generator: torch.Generator | None = None
    ) -> Tensor:
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        noise = noise.flatten(1, -2) if mean.ndim > 2 else noise.unsqueeze(1)
        noise = (noise @ self.root.mT).reshape(mean.shape)
        return mean + self.step.spread(1.0 if dt is None else dt) * noise

    def walk(
        self,
        z0: Tensor,
        steps: Iterable[tuple[Tensor | float | None, Tensor | None]],
        generator: torch.Generator | None = None,
        noise: bool = True,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """(mean, state) after each (dt, u), for those who do not need all in memory at once."""
        z = self.expand(z0) if z0.ndim == 1 else z0
        observed = self.step.noise == "observation"
        if observed and noise:
            z = self.add_noise(z, None, generator)  # the state is not where it is seen
        for dt, u in steps:
            mean = self(z, dt, u)
            state = self.add_noise(mean, dt, generator) if noise else mean
            yield mean, state
            z = mean if observed else state

    def rollout(
        self,
        z0: Tensor,
        dt: Tensor | float | None = None,
        u: Tensor | None = None,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        noise: bool = True,
    ) -> Tensor:
        """Rollouts (N, ..., K + 1, d) from one z0 (d,) or from z0 (N, ..., d), z0 included.

        dt is (..., K) or one number, u (..., K, m); K comes from whichever has a time axis,
        else from `steps`.
        """
        states = [state for _, state in self.walk(z0, schedule(dt, u, steps), generator, noise)]
        return torch.stack([z0.expand(states[0].shape), *states], dim=-2)

    def _move(self, group: Group, z: Tensor, u: Tensor | None, dt: Tensor | float) -> Tensor:
        wide = _wide(group.coefficients, z)
        mean = self.step.mean(lambda inputs: group.structure(inputs, wide), z, dt, u)
        if group.paths is None:
            return mean
        return mean + self.step.gain(dt) * group.paths(join(z, u))

    def _gather(self, z: Tensor, u: Tensor | None, part: Callable[..., Tensor]) -> Tensor:
        """Each group's result for its own draws, back in the order of the draws."""
        results = [
            part(group, z[i], _of_draws(u, i, z), i)
            for group, i in zip(self.groups, self.members, strict=True)
        ]
        return torch.cat(results)[self.place]

    def _checked(self, z: Tensor, dt: Tensor | float | None) -> Tensor | float:
        if z.ndim < 2 or len(z) != len(self):
            raise DataError(
                f"States must be ({len(self)} draws, ..., d), got {tuple(z.shape)}; "
                "use draws.expand(z) to start all draws from the same state."
            )
        if self.step.dynamics == "discrete":
            return 1.0 if dt is None else dt
        if dt is None:
            raise DataError("A vector field needs a step size; pass dt.")
        return dt


def _wide(coefficients: Tensor, z: Tensor) -> Tensor:
    """(n, K) with axes of length 1, to broadcast against z (n, ..., d)."""
    return coefficients.reshape(len(coefficients), *[1] * (z.ndim - 2), -1)


def _of_draws(value: Tensor | float | None, i: Tensor, z: Tensor) -> Tensor | float | None:
    """The rows of the draws i, if the value has an axis for the draws."""
    if isinstance(value, Tensor) and value.ndim == z.ndim and len(value) == len(z):
        return value[i]
    return value
