"""Hidden factors: what a window of observations shows of a state that only multiplies them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data.history import derivative_filters
from sjepa.errors import ConfigError
from sjepa.models.layers import ObsShape, as_shape, flatten_observations


# Relative ridge on the regressions inside a window: at rest a factor is not seen at all.
RIDGE = 1e-6
SMALLEST = 5


class Ratios(nn.Module):
    """Windows (..., k, *obs) to values, derivatives and quotients in their middle (..., F).

    If x'' = 3 x w - x' and w is not measured, w is a quotient of derivatives by x. Where x passes
    through 0 a plain quotient breaks down, so derivatives are regressed on x times a parabola in
    time, over half a window, and what the parabola is in the middle is taken. Each observed value
    is a divisor of the derivatives of all, up to `order`, and of the other values.

    Parameters
    ----------
    k : int
        Observations in a window, `step` apart in time.
    """

    filters: Tensor
    parabola: Tensor

    def __init__(self, k: int, obs_shape: ObsShape, order: int = 1, step: float = 1.0) -> None:
        super().__init__()
        if k < SMALLEST:
            raise ConfigError(f"Quotients need a history of at least {SMALLEST}, got {k}.")
        self.k, self.order, self.step = k, order, float(step)
        self.obs_shape = as_shape(obs_shape)
        self.width = (k + 1) // 2  # of a filter; as many of them fit into a window
        self.places = k - self.width + 1
        filters = derivative_filters(self.width, order, self.step)
        self.register_buffer("filters", torch.tensor(filters))
        within = np.linspace(-1.0, 1.0, self.places)
        self.register_buffer("parabola", torch.tensor(np.vander(within, 3, increasing=True)))

    def forward(self, x: Tensor) -> Tensor:
        filters, parabola = self.filters.to(x), self.parabola.to(x)
        flat = flatten_observations(x, (self.k, *self.obs_shape)).unflatten(-1, (self.k, -1))
        windows = flat.unfold(-2, self.width, 1)  # (..., places, p, width)
        series = torch.einsum("...spw,nw->...snp", windows, filters)  # (..., places, n, p)
        middle = (
            series[..., (self.places - 1) // 2, :, :] + series[..., self.places // 2, :, :]
        ) / 2
        features = [middle.flatten(-2)]
        for i in range(series.shape[-1]):
            others = [series[..., 1:, :].flatten(-2)]
            others += [series[..., 0, j, None] for j in range(series.shape[-1]) if j != i]
            design = series[..., 0, i, None] * parabola  # (..., places, 3)
            gram = design.mT @ design
            size = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
            ridge = (RIDGE * size + 1e-300) * torch.eye(3).to(gram)
            moment = design.mT @ torch.cat(others, -1)
            features.append(torch.linalg.solve(gram + ridge, moment)[..., 0, :])
        return torch.cat(features, -1)
