"""Levenberg and Marquardt's method for encoders that are linear in their weights.

The residuals of the integral form are smooth functions of a few hundred numbers, with derivatives
that are integrals too. Some ten steps reach the bottom where a quasi-Newton method crawls for
hundreds, so that structures can be compared at what they really leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce

import torch
from torch import Tensor

from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.batched_encoders import degeneracy, join_velocities
from sjepa.training.joint.objective import coarse, rows_of, valid_starts
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import Head, StructureTask
from sjepa.training.joint.whitened_trajectories import Observed


# Final weight of the curvature: a coordinate without a linear part counts as this much risk.
CURVATURE_PENALTY = 1e-3
# Samples that the sums run over for encoders of many parameters.
MAX_SAMPLES = 8_000
# Steps that are tried with more and more damping before it ends; what a step must gain.
TRIES, WORTHWHILE = 6, 1e-3


def levenberg_marquardt(
    head: Head,
    task: StructureTask,
    observed: Observed,
    *,
    curvature_penalty: float,
    steps: int,
    stride: int,
) -> float:
    """Minimize risk plus `curvature_penalty` times mean curvature; changes `head`, returns it.

    Linear encoders have no curvature. Polynomials may be shifted along the flow without a change
    of the law, so a law alone does not determine them: of equal ones those of least curvature are
    taken.
    """
    if isinstance(head, PolynomialEncoder):
        observed = observed.thinned(MAX_SAMPLES)
    sums = NormalSums(head, task, observed, curvature_penalty, stride)
    damping, lowest = 1e-2, sums.loss()
    for _ in range(steps):
        gram, slope = sums.normal_equations()
        scale = gram.diagonal().clamp_min(1e-12).diag()
        start = head.linear.weight.detach().clone(), head.linear.bias.detach().clone()
        before = lowest
        for _ in range(TRIES):
            step = torch.linalg.solve(gram + damping * scale, -slope)
            sums.move(start, step)
            lowest = sums.loss()
            if lowest < before:
                break
            damping *= 4.0
        else:
            sums.move(start, torch.zeros_like(slope))
            return before
        damping = max(damping / 5.0, 1e-7)
        if lowest > (1 - WORTHWHILE) * before:
            break
    return lowest


def refine_encoder(
    head: Head, task: StructureTask, observed: Observed, iterations: int, stride: int
) -> None:
    """The best numbers for a structure."""
    levenberg_marquardt(
        head, task, observed, curvature_penalty=CURVATURE_PENALTY, steps=iterations, stride=stride
    )


class NormalSums:
    """Loss and normal equations of an encoder's numbers and the coefficients of its law."""

    def __init__(
        self,
        head: Head,
        task: StructureTask,
        observed: Observed,
        curvature_penalty: float,
        stride: int,
    ) -> None:
        self.head, self.task, self.observed = head, task, observed
        self.curvature_penalty, self.stride = curvature_penalty, stride
        self.terms = task.features
        grid, order = observed.grid, task.order
        with torch.no_grad():
            p = head.features(observed.x) if isinstance(head, PolynomialEncoder) else observed.x
        self.p = torch.cat([p, torch.ones_like(p[..., :1])], dim=-1)  # (N, T, F), 1 is the last
        self.wide = len(task.library.inputs) - grid.actions > head.linear.out_features
        self.times, self.mask = grid.times[:, ::stride], grid.mask[:, ::stride]
        self.spans = coarse(task.horizons, stride, self.times.shape[1], order)
        self.parts = [self.p.movedim(-1, 0).contiguous()]  # of positions, and of velocities
        if self.wide:
            self.parts.append(join_velocities(self.p, grid.times)[..., self.p.shape[-1] :])
            self.parts[1] = self.parts[1].movedim(-1, 0).contiguous()
        self.moved = [self._differences(self.parts[0], k) for k in self.spans]
        # Integrals of what changes linearly are the same in every step.
        self.whole = [self._integrals(partial(_same, part), self.latents()) for part in self.parts]

    def _differences(self, values: Tensor, k: int) -> Tensor:
        """Changes (..., n) over k strides of values (..., N, T)."""
        order = self.task.order
        changes = difference(values[..., :: self.stride], self.times, k, order)
        return rows_of(changes, valid_starts(self.mask, k, order))

    def _inputs(self, z: Tensor) -> Tensor:
        return join_velocities(z, self.observed.grid.times) if self.wide else z

    def _integrals(self, terms: Callable[[Tensor], Tensor], z: Tensor) -> list[Tensor]:
        """Changes (..., n) of the integrals of terms (..., N, T), for every horizon."""
        values = self.observed.grid.integrals(terms, self._inputs(z), self.task.order)
        return [self._differences(values, k) for k in self.spans]

    def move(self, start: tuple[Tensor, Tensor], step: Tensor) -> None:
        weight, bias = start
        d = len(bias)
        own = step[: d * self.p.shape[-1]].reshape(d, -1)
        with torch.no_grad():
            self.head.linear.weight.copy_(weight + own[:, :-1])
            self.head.linear.bias.copy_(bias + own[:, -1])

    @torch.no_grad()
    def latents(self) -> Tensor:
        linear = self.head.linear
        return self.p @ torch.cat([linear.weight, linear.bias[:, None]], dim=1).T

    @torch.no_grad()
    def loss(self) -> float:
        z = self.latents()
        fit = self.task.fit(self.terms, z, self.observed, stride=self.stride)
        kept = degeneracy(z[None], self.task.within)[0]
        value = float(fit.risk[0] + kept)
        if isinstance(self.head, PolynomialEncoder):
            value += self.curvature_penalty * float(self.head.curvature_penalty().mean())
        return value if value == value else float("inf")

    def normal_equations(self) -> tuple[Tensor, Tensor]:
        """Sums over all residuals of products of their derivatives, and with themselves.

        Numbers of the encoder come first, equation by equation, then the coefficients.
        """
        z = self.latents()
        d, size = z.shape[-1], self.p.shape[-1]
        active = self.terms.active[0]  # (d, S)
        place = torch.full(active.shape, -1)
        place[active] = d * size + torch.arange(int(active.sum()))
        total = d * size + int(active.sum())
        gram, slope = z.new_zeros(total, total), z.new_zeros(total)
        fit = self.task.fit(self.terms, z, self.observed, stride=self.stride)
        numbers = fit.coefficients[0]
        columns = self._integrals(lambda q: self._terms(q).detach(), z)  # each (d, S, n)
        for j in range(d):
            pushed = self._pushed(numbers[j], j, z)
            for h, moved in enumerate(self.moved):
                change = self._differences(z[..., j], self.spans[h])
                design = columns[h][j][active[j]]
                spread = change.var(correction=0).clamp_min(1e-12)
                unit = (spread * len(change) * len(self.spans) * d).rsqrt()
                left = unit * (change - numbers[j, active[j]] @ design)
                jacobian = z.new_zeros(total, len(change))
                for i, one in enumerate(pushed):
                    jacobian[i * size : (i + 1) * size] = -unit * one[h]
                # The residual is measured in units of the change, which moves as well.
                growth = moved @ (change - change.mean()) / (len(change) * spread)
                jacobian[j * size : (j + 1) * size] += unit * moved - growth[:, None] * left
                jacobian[place[j, active[j]]] = -unit * design
                gram += jacobian @ jacobian.T
                slope += jacobian @ left
        if isinstance(self.head, PolynomialEncoder):
            self._add_curvature_penalty(gram, slope, self.head.curvature)
        return gram, slope

    def _terms(self, inputs: Tensor) -> Tensor:
        """(N, T, inputs) -> (d, S, N, T)."""
        return self.terms.arranged(self.terms.evaluate(inputs[None]))[0]

    def _slopes(self, numbers: Tensor, j: int, inputs: Tensor) -> Tensor:
        """Derivatives (N, T, inputs) of the right-hand side of equation j."""
        q = inputs.detach().requires_grad_()
        field = torch.einsum("s,s...->...", numbers, self._terms(q)[j])
        return torch.autograd.grad(field.sum(), q)[0]

    def _pushed(self, numbers: Tensor, j: int, z: Tensor) -> list[list[Tensor]]:
        """What the numbers (F, n) of each coordinate do to the integrals of equation j."""
        grid, d, blocks = self.observed.grid, z.shape[-1], range(len(self.parts))
        known = self._slopes(numbers, j, grid.with_actions(self._inputs(z)))
        result = []
        for i in range(d):
            places = [b * d + i for b in blocks]
            own = known[..., places].flatten(0, -2)
            if bool((own == own[0]).all()):
                spans = range(len(self.spans))
                result.append([_total(own[0, b] * self.whole[b][h] for b in blocks) for h in spans])
                continue

            def changed(inputs: Tensor, places: list[int] = places) -> Tensor:
                # Held actions are read at both ends of a step.
                slopes = self._slopes(numbers, j, inputs) if grid.actions else known
                return _total(
                    slopes[..., p] * part for p, part in zip(places, self.parts, strict=True)
                )

            result.append(self._integrals(changed, z))
        return result

    def _add_curvature_penalty(self, gram: Tensor, slope: Tensor, curvature: Tensor) -> None:
        """The nonlinear parts of each coordinate, in units of its spread, as residuals."""
        weight, d = self.head.linear.weight.detach(), self.head.linear.out_features
        size, features = self.p.shape[-1], weight.shape[1]
        for i, own in enumerate(weight):
            spread = own.square().sum().clamp_min(1e-300)
            unit = (self.curvature_penalty * curvature / (d * spread)).sqrt()
            left = unit * own
            jacobian = unit.diag() - torch.outer(own / spread, left)
            part = slice(i * size, i * size + features)
            gram[part, part] += jacobian @ jacobian.T
            slope[part] += jacobian @ left


def _same(part: Tensor, inputs: Tensor) -> Tensor:
    return part


def _total(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, parts)
