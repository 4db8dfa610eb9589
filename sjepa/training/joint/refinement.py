"""From a promising restart to the best encoder and coefficients for its structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch import Tensor, nn

from sjepa.data import noise_level
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.symbolic import Library
from sjepa.symbolic.parse import symbol
from sjepa.training.joint.batched_encoders import join_velocities
from sjepa.training.joint.objective import ActiveFeatures, IntegralFit, coarse, integral_fit
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.structures import Structure
from sjepa.training.joint.whitened_trajectories import Observed


Head = LinearEncoder | PolynomialEncoder
# Terms whose sizes add up to this many times the size of their sum cancel each other.
CANCELING = 10.0


@dataclass(frozen=True)
class StructureTask:
    """What stays the same while encoders for one structure are compared."""

    library: Library
    structure: Structure
    order: int
    horizons: tuple[int, ...]
    within: float = 0.15

    @property
    def features(self) -> ActiveFeatures:
        return ActiveFeatures(self.library, [self.structure.support])

    def fit(
        self,
        features: ActiveFeatures,
        z: Tensor,
        observed: Observed,
        coefficients: Tensor | None = None,
        stride: int = 1,
    ) -> IntegralFit:
        """The integral form on the latents (N, T, d) of all trajectories."""
        grid = observed.grid.to(z.dtype)
        wide = len(self.library.inputs) - grid.actions > z.shape[-1]
        inputs = join_velocities(z, grid.times)[None] if wide else None
        return integral_fit(
            features, z[None], grid, self.horizons, order=self.order, inputs=inputs,
            coefficients=coefficients, stride=stride,
        )  # fmt: skip

    @torch.no_grad()
    def risk(self, head: nn.Module, train: Observed, validation: Observed) -> IntegralFit:
        """Coefficients from the training data, losses on the validation data."""
        features = self.features
        fitted = self.fit(features, head(train.x), train)
        return self.fit(features, head(validation.x), validation, fitted.coefficients)


@torch.no_grad()
def canceling(head: nn.Module, task: StructureTask, observed: Observed) -> tuple[str, ...]:
    """A reason to refuse a law whose terms are far larger than their sum, if it is such a one.

    The difference of two nearly equal terms is a third one in disguise: z - sin(z) is a cube.
    """
    z, grid = head(observed.x), observed.grid
    features = task.features
    numbers = task.fit(features, z, observed).coefficients[0]
    wide = len(task.library.inputs) - grid.actions > z.shape[-1]
    inputs = grid.with_actions(join_velocities(z, grid.times) if wide else z)
    terms = features.arranged(features.evaluate(inputs[None]))[0][..., grid.mask]  # (d, S, n)
    parts = numbers[..., None] * terms
    whole = parts.sum(1).square().mean(-1).sqrt()
    share = parts.square().mean(-1).sqrt().sum(1) / whole.clamp_min(1e-300)
    return ("its terms cancel each other",) if float(share.max()) > CANCELING else ()


def linear_head(readout: Tensor) -> LinearEncoder:
    """A read-out (rank, d) as a module in double precision, with an offset that starts at 0."""
    head = LinearEncoder(readout.shape[0], readout.shape[1]).double()
    with torch.no_grad():
        head.linear.weight.copy_(readout.T)
        head.linear.bias.zero_()
    return head


def minimize(loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], steps: int) -> float:
    """LBFGS with line search; ends at the best parameters met."""
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=steps, max_eval=int(1.3 * steps) + 1, history_size=20,
        tolerance_grad=1e-9, tolerance_change=1e-12, line_search_fn="strong_wolfe",
    )  # fmt: skip
    lowest = float("inf")
    best = [p.detach().clone() for p in parameters]

    def closure() -> Tensor:
        nonlocal lowest, best
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if float(value.detach()) < lowest:
            lowest, best = float(value.detach()), [p.detach().clone() for p in parameters]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p, found in zip(parameters, best, strict=True):
            p.copy_(found)
    return lowest


def unit_scale(head: Head, task: StructureTask, observed: Observed) -> None:
    """Give coordinates whose scale the law leaves free unit variance: the scale convention."""
    names = task.library.inputs[: len(task.structure.support)]
    free = [scale_is_free(task.library, task.structure, name) for name in names]
    with torch.no_grad():
        std = head(observed.x)[observed.grid.mask].std(0).clamp_min(1e-12)
        factor = torch.where(torch.tensor(free), 1.0 / std, torch.ones_like(std))
        head.linear.weight.mul_(factor[:, None])
        head.linear.bias.mul_(factor)


def scale_is_free(library: Library, structure: Structure, name: str) -> bool:
    """Whether a change of unit of the coordinate only changes coefficients.

    So it is when the coordinate, or its velocity, stands in the terms as a factor or a power,
    never inside a function.
    """
    position = library.inputs.index(name)
    mine = [library.inputs[position]]
    if len(library.inputs) >= 2 * len(structure.support):
        mine.append(library.inputs[position + len(structure.support)])
    symbols = {symbol(n) for n in mine}
    for p in {p for row in structure.support for p in row}:
        for factor in sympy.Mul.make_args(library.terms[p]):
            base = factor.base if factor.is_Pow else factor
            if factor.free_symbols & symbols and base not in symbols:
                return False
    return True


@torch.no_grad()
def noise_floor(head: nn.Module, task: StructureTask, observed: Observed) -> float:
    """The risk of the exact law in these coordinates under white noise alone."""
    z = head(observed.x)
    if observed.noise is not None:
        noise = head(observed.x + observed.noise) - z
    else:
        lengths = observed.grid.mask.sum(1).tolist()
        series = [own[:n].numpy() for own, n in zip(z, lengths, strict=True)]
        times = [own[:n].numpy() for own, n in zip(observed.grid.times, lengths, strict=True)]
        # A nonlinear encoder amplifies noise where it is steep, and risks are means of squares.
        nonlinear = isinstance(head, PolynomialEncoder)
        level = torch.tensor(noise_level(series, times, mean_square=nonlinear))
        generator = torch.Generator().manual_seed(0)
        noise = level * torch.randn(z.shape, generator=generator, dtype=z.dtype)
    return _share(z, noise - _carried(z, noise, task, observed), task, observed)


def _carried(z: Tensor, noise: Tensor, task: StructureTask, observed: Observed) -> Tensor:
    """What the law's right-hand side, integrated, takes of the noise (N, T, d)."""
    features = task.features
    numbers = task.fit(features, z, observed).coefficients[0]
    grid = observed.grid
    wide = len(task.library.inputs) - grid.actions > z.shape[-1]

    def integral(own: Tensor) -> Tensor:
        inputs = join_velocities(own, grid.times) if wide else own
        values = grid.integrals(lambda q: features.evaluate(q[None]), inputs, task.order)
        return torch.einsum("ds,ds...->...d", numbers, features.arranged(values)[0])

    return integral(z + noise) - integral(z)


def _share(z: Tensor, noise: Tensor, task: StructureTask, observed: Observed) -> float:
    """Differences of the noise as shares of the variance of those of z."""
    shares = []
    for k in coarse(task.horizons, 1, z.shape[1], task.order):
        valid = observed.grid.mask[:, task.order * k :]
        if valid.sum() < 2:  # too far for these data: one difference has no spread
            continue
        moved = difference(z.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        blur = difference(noise.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        shares.append(blur.square().mean(1) / moved.var(1).clamp_min(1e-12))
    return float(torch.stack(shares).mean()) if shares else 0.0
