"""Many small nonlinear encoders trained at once, each for a structure of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sjepa.metrics.latents import soft_neighbour_test
from sjepa.models.encoders import LinearEncoder, ResidualEncoder
from sjepa.symbolic import Library
from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.restarts import Restarts, join_velocities
from sjepa.training.elegant.structures import Structure


# The network starts small beside the linear read-out, which extrapolates.
SCALE = 0.1
NEIGHBOUR_WEIGHT = 0.3
NEIGHBOUR_POINTS = 220


class NonlinearRestarts(Restarts):
    """R encoders z = x L + c + MLP(x) of whitened observations, batched along the first axis.

    `parameters` holds read-outs, offsets and the three layers.
    """

    def __init__(
        self,
        library: Library,
        structures: Sequence[Structure],
        parameters: Sequence[Tensor],
        order: int = 1,
    ) -> None:
        super().__init__(library, structures, parameters[0], order)
        others = [p.detach().clone().requires_grad_() for p in parameters[1:]]
        self.parameters += others

    @classmethod
    def from_readouts(
        cls,
        library: Library,
        structures: Sequence[Structure],
        readouts: Tensor,
        order: int,
        generator: torch.Generator,
        width: int = 48,
    ) -> NonlinearRestarts:
        """Networks with random weights beside given read-outs (R, rank, d)."""
        count, rank, dim = readouts.shape

        def random(*shape: int) -> Tensor:
            return torch.randn(count, *shape, generator=generator)

        layers = [
            random(rank, width) / rank**0.5,
            0.5 * random(1, width),
            random(width, width) * (2.0 / width) ** 0.5,
            torch.zeros(count, 1, width),
            SCALE * random(width, dim) / width**0.5,
        ]
        offset = torch.zeros(count, 1, dim)
        return cls(library, structures, [readouts.float(), offset, *layers], order)

    def encode(self, x: Tensor) -> Tensor:
        """(B, T, rank) -> (R, B, T, d)."""
        readout, offset, w1, b1, w2, b2, w3 = self.parameters
        flat = x.flatten(0, -2).expand(len(self), -1, -1)
        hidden = nn.functional.silu(torch.baddbmm(b1, flat, w1))
        hidden = nn.functional.silu(torch.baddbmm(b2, hidden, w2))
        z = torch.baddbmm(torch.baddbmm(offset, flat, readout), hidden, w3)
        return z.reshape(len(self), *x.shape[:-1], -1)

    def penalty(self, z: Tensor, observed: Observed, rows: Tensor, within: float) -> Tensor:
        """What keeps coordinates (R, B, T, d) from shortcuts while they are trained: (R,)."""
        raw, mask = observed.raw[rows], observed.grid.mask[rows]
        places = torch.nonzero(mask.flatten())[:, 0]
        places = places[:: max(1, len(places) // NEIGHBOUR_POINTS)]
        state = z
        if self.order == 2:
            state = join_velocities(z, observed.grid.times[rows].to(z.dtype))
        near = soft_neighbour_test(
            state.flatten(1, 2)[:, places], raw.flatten(0, 1)[places].to(z.dtype)
        )
        return super().penalty(z, observed, rows, within) + NEIGHBOUR_WEIGHT * near

    def _numbers(self) -> list[Tensor]:
        return [p.detach() for p in self.parameters]

    def keep(self, chosen: Sequence[int]) -> NonlinearRestarts:
        """The chosen restarts alone; an index may come twice."""
        return self.retitled(chosen, [self.structures[i] for i in chosen])

    def retitled(self, chosen: Sequence[int], structures: Sequence[Structure]) -> NonlinearRestarts:
        """The encoders of the chosen restarts with other structures."""
        index = torch.as_tensor(list(chosen))
        parameters = [p.detach()[index] for p in self.parameters]
        return NonlinearRestarts(self.library, structures, parameters, self.order)

    def mapped(self, i: int, matrix: Tensor, offset: Tensor) -> NonlinearRestarts:
        """One of the encoders in other coordinates z A + b; its structure stays."""
        one = self.keep([i])
        readout, own, *layers, last = one.parameters
        a = matrix.to(readout.dtype)
        moved = [readout @ a, own @ a + offset.to(own.dtype), *layers, last @ a]
        return NonlinearRestarts(self.library, one.structures, moved, self.order)

    def joined(self, other: NonlinearRestarts) -> NonlinearRestarts:
        """Both, one after the other."""
        parameters = [
            torch.cat([a.detach(), b.detach()])
            for a, b in zip(self.parameters, other.parameters, strict=True)
        ]
        structures = [*self.structures, *other.structures]
        return NonlinearRestarts(self.library, structures, parameters, self.order)

    def head(self, i: int) -> ResidualEncoder:
        """One of the encoders as a module in double precision."""
        readout, offset, w1, b1, w2, b2, w3 = (p.detach()[i].double() for p in self.parameters)
        rank, dim = readout.shape
        linear = LinearEncoder(rank, dim)
        head = ResidualEncoder(rank, dim, width=w1.shape[-1], linear=linear).double()
        layers = [m for m in head.residual.net if isinstance(m, nn.Linear)]
        values = [(readout, offset), (w1, b1), (w2, b2), (w3, torch.zeros_like(offset))]
        with torch.no_grad():
            for layer, (weight, bias) in zip([linear.linear, *layers], values, strict=True):
                layer.weight.copy_(weight.T)
                layer.bias.copy_(bias[0])
        return head
