"""SIGReg: pull the embeddings toward an isotropic Gaussian (LeJEPA)."""

import torch
from torch import Tensor

from sjepa.training.losses.admissibility import rows


# Random projections, points of the integral and its end, and rows that are looked at.
PROJECTIONS, POINTS, END, MAX_ROWS = 64, 17, 5.0, 2048


def sigreg(z: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Mean Epps-Pulley distance of random one-dimensional projections of z from N(0, 1).

    Each is ∫ |φ_z(t) - e^{-t²/2}|² e^{-t²/2} dt with φ_z the empirical characteristic function,
    integrated by the trapezoidal rule up to t = 5. Fixes mean, scale
    and shape at once and so blocks constant and redundant coordinates, but bounded orbits are
    not Gaussian: it distorts true coordinates a little, and it does not see folding. For n
    independent Gaussian rows the expected value is 1.06 / n, not 0.

    Without a generator the directions are the same at every call. Pass one to draw new
    directions each time, which matters when d is large against their number.
    """
    z = rows(z, MAX_ROWS)
    if generator is None:
        generator = torch.Generator(z.device).manual_seed(0)
    shape = (z.shape[-1], PROJECTIONS)
    directions = torch.randn(shape, generator=generator, dtype=z.dtype, device=z.device)
    t = torch.linspace(0.0, END, POINTS, dtype=z.dtype, device=z.device)
    gauss = torch.exp(-0.5 * t.square())
    angles = (z @ (directions / directions.norm(dim=0))).unsqueeze(-1) * t  # (n, projections, t)
    real, imaginary = angles.cos().mean(0), angles.sin().mean(0)
    distance = ((real - gauss).square() + imaginary.square()) * gauss
    # The integrand is even: twice the integral over t >= 0.
    return 2.0 * torch.trapezoid(distance, t).mean()
