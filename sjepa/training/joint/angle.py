"""Circular coordinates: whether the observations wind around a circle, their angle, and its law.

The slowest two read-outs of a thing that turns are nearly the cosine and the sine of its angle: an
ellipse, which linear algebra makes a circle. Harmonics of the angle distort that circle, so the
read-outs are then trained until the angle moves as a rotor does: its acceleration explained by its
sine and cosine, its speed and the actions, in the weak form, which asks for no derivative.
"""

from __future__ import annotations

import math

import numpy as np
import sympy
import torch
from torch import Tensor, nn

from sjepa.backend import Problem, Progress
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.names import with_velocity_names
from sjepa.errors import ConfigError
from sjepa.metrics.diagnostics import diagnose_law, diagnose_residual, times_noise
from sjepa.models.angle import Angle
from sjepa.models.whitening import Whitening
from sjepa.symbolic import Law, Library
from sjepa.symbolic.parse import symbol
from sjepa.training.joint.angle_weak_form import SHORTEST, AngleRows, WeakTestFunction, window_of
from sjepa.training.result import FitResult
from sjepa.training.whitening import MAX_RANK


# Components among which the slowest two are looked for: those of the first few harmonics.
LEADING = 12
# Frames that components are measured on.
ROWS = 2_000
# A circle is seen where no arc of this size is left out (radians) and radii differ little.
WIDEST_GAP, SMALLEST_RADIUS = 0.8, 0.5
# Training of the read-outs: updates, rate, and the weight of the circle constraint.
STEPS, RATE, ROUND = 200, 0.002, 0.05


def angle_of(
    trajectories: Trajectories, effort: float = 1.0, progress: Progress | None = None
) -> nn.Sequential | None:
    """The encoder of an angle that goes all the way round, or None where nothing does.

    `effort` multiplies the updates of its read-outs.
    """
    steps, size = np.concatenate(trajectories.steps), int(np.prod(trajectories.obs_shape))
    step = float(np.median(steps))
    if size < 3 or trajectories.lengths.min() < 2 * SHORTEST:
        return None
    if not np.allclose(steps, step, rtol=1e-3):
        return None
    # The few components that decide whether a coordinate is circular are cheap.
    _, first = _whitened(trajectories, LEADING)
    start = _circle(first)
    if start is None or not _winds_around(start, first):
        return None
    whitening, seen = _whitened(trajectories, MAX_RANK)
    start = _circle(seen)
    if start is None:
        return None
    angle = Angle(whitening.rank).double()
    angle.weight.zero_()
    angle.weight[: len(start.weight)], angle.offset[:] = start.weight, start.offset
    _train(angle, seen, trajectories.u, step, max(1, round(effort * STEPS)), progress)
    return nn.Sequential(whitening, angle) if _winds_around(angle, seen) else None


def _whitened(trajectories: Trajectories, rank: int) -> tuple[Whitening, list[Tensor]]:
    """Leading components of frames, measured on some of them."""
    every = -(-int(trajectories.lengths.sum()) // ROWS)
    some = np.concatenate([x[::every] for x in trajectories.x])
    whitening = Whitening.fit(torch.as_tensor(some).double(), trajectories.obs_shape, max_rank=rank)
    whitening = whitening.double()
    return whitening, [whitening(torch.as_tensor(x).double()) for x in trajectories.x]


def fit_angle(
    trajectories: Trajectories,
    encoder: nn.Sequential,
    library: Library,
    delta: float | str = "auto",
    select: str | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    progress: Progress | None = None,
) -> FitResult:
    """The law of an angle: of its acceleration, by terms that are 2π-periodic.

    Windows are more than a turn long, so that errors of the angle, which come from shapes that are
    not round, average out. How far read-outs are off the circle tells how large these errors are.
    Angle and law are fitted to all data; their error is estimated with a second pair, fitted to
    four fifths of the trajectories and judged on the rest (of a single one, on its end).
    """
    name, *others = library.inputs
    z = symbol(name)
    same = [t for t in library.terms if t.xreplace({z: z + 2 * sympy.pi}) == t]
    if not same:
        raise ConfigError(
            "The coordinate is circular but no library term is 2π-periodic: add "
            f"sin({name}) or cos({name}).",
            "library",
        )
    (velocity,) = with_velocity_names([name])[1:]
    library = Library(same, [name, velocity, *(n for n in others if n != velocity)])
    rows = AngleRows.of(trajectories, encoder, library)
    problem = Problem(
        targets=rows.targets[:, None], features=rows.features, names=library.inputs,
        outputs=[velocity], library=library,
    )  # fmt: skip
    front = problem.solve(make_backend("subset"))
    law = front.best()
    if select == "mdl":
        law = front.shortest(int(trajectories.lengths.sum()))
    elif not isinstance(delta, str):
        law = front.select(delta)
    best = front[front.position(law) or 0]
    figures = _judged(trajectories, best.law, library, seed, effort, progress)
    notes = ["the coordinate is circular: an unwrapped angle."]
    over = f"of the variance of accelerations over {rows.test_function.k} steps"
    if figures is None:
        figures = {"noise_floor": rows.floor, "residual": best.loss}
        notes.append("nothing was held out: a part of the data winds too little to be evaluated")
        said = f"unexplained: {best.loss:.2g} {over}"
        notes.append(f"{said}, {times_noise(best.loss, rows.floor)}")
    else:
        said = f"unexplained: {figures['residual']:.2g} {over} of held-out data"
        said += f", {times_noise(figures['residual'], figures['noise_floor'])}"
        notes.append(f"{said}, and {figures['residual_training']:.2g} in training")
        notes.append(
            f"rollout error over {rows.test_function.k} steps: {figures['rollout_held_out']:.2g} "
            f"of the variance of the angle held out, {figures['rollout_training']:.2g} in training"
        )
    residual, floor = figures["residual"], figures["noise_floor"]
    warnings = [found.sentence for found in diagnose_residual(residual, floor)]
    if not isinstance(delta, str):  # whoever says what is enough is not told that it is not
        warnings = [found.sentence for found in diagnose_law(residual, delta, floor)]
    figures |= {"ratio": residual / max(floor, 1e-300), "adequate": float(not warnings)}
    _tell(progress, "done", 1.0)
    return FitResult(best.law, front, encoder, notes, warnings, figures)


def _judged(
    trajectories: Trajectories,
    law: Law,
    library: Library,
    seed: int,
    effort: float,
    progress: Progress | None,
) -> dict[str, float] | None:
    """What a law of these terms leaves of data that neither it nor its angle was fitted to.

    None where too little is left to fit or to judge by.
    """
    if len(trajectories) == 1 and trajectories.lengths[0] < 10 * SHORTEST:
        return None
    train, holdout = trajectories.split((0.8, 0.2), seed=seed)
    later = None if progress is None else lambda line, share: progress(line, 0.5 + share)
    encoder = angle_of(train, effort, later)
    if encoder is None:
        return None
    fitted = AngleRows.of(train, encoder, library)
    # Windows of the same length, so that the same is asked of both.
    longest = int(holdout.lengths.min()) - 1
    if longest < fitted.test_function.k:
        fitted = AngleRows.of(train, encoder, library, longest)
    others = AngleRows.of(holdout, encoder, library, fitted.test_function.k)
    own = [library.terms.index(term) for _, term in law.terms[0]]
    numbers = np.linalg.lstsq(fitted.features[:, own], fitted.targets, rcond=None)[0]
    coefficients = np.zeros((len(library), 1))
    coefficients[own, 0] = numbers
    again = library.law(coefficients, law.outputs)
    again = Law(again.expressions, law.inputs, again.outputs, canonical=False)
    return {
        "noise_floor": others.floor,
        "residual": others.missed(coefficients[:, 0]),
        "residual_training": fitted.missed(coefficients[:, 0]),
        "rollout_held_out": others.rollout(again),
        "rollout_training": fitted.rollout(again),
    }


def _tell(progress: Progress | None, line: str, share: float) -> None:
    if progress is not None:
        progress(line, share)


def followed(angle: Tensor) -> Tensor:
    """Unwrapped angles along time (T,)."""
    plain = angle.detach().numpy()
    return angle + torch.as_tensor(np.unwrap(plain) - plain)


def _circle(seen: list[Tensor]) -> Angle | None:
    """The angle of two read-outs of the leading components that lie on a unit circle."""
    if seen[0].shape[1] < 2:
        return None
    first = [x[:, :LEADING].numpy() for x in seen]
    moved = np.concatenate([np.diff(x, axis=0) for x in first])
    slowest = np.linalg.eigh(moved.T @ moved)[1][:, :2]
    z = np.concatenate(first) @ slowest
    # The ellipse z·Az + b·z = 1 through the points, by least squares.
    a, both, c, *b = np.linalg.lstsq(
        np.column_stack([z[:, 0] ** 2, 2 * z[:, 0] * z[:, 1], z[:, 1] ** 2, z]),
        np.ones(len(z)), rcond=None,
    )[0]  # fmt: skip
    matrix = np.array([[a, both], [both, c]])
    if np.linalg.eigvalsh(matrix).min() <= 0:
        return None
    center = -np.linalg.solve(matrix, b) / 2
    root = np.linalg.cholesky(matrix / (1 + center @ matrix @ center))
    angle = Angle(len(slowest)).double()
    angle.weight[:], angle.offset[:] = (
        torch.as_tensor(a) for a in (slowest @ root, -center @ root)
    )
    return angle


def _winds_around(angle: Angle, seen: list[Tensor]) -> bool:
    """Whether some path goes all the way round the center, and none comes near it."""
    points = angle.point(torch.cat(seen))
    paths = [followed(angle(x)[:, 0]) for x in seen]
    if max(float(p.max() - p.min()) for p in paths) < 2 * math.pi:
        return False
    directions = torch.atan2(points[:, 1], points[:, 0]).sort().values
    gaps = directions.diff(append=directions[:1] + 2 * math.pi)
    radii = points.norm(dim=1)
    near = radii.quantile(0.01) < SMALLEST_RADIUS * radii.median()
    return bool(gaps.max() < WIDEST_GAP) and not bool(near)


def _train(
    angle: Angle,
    seen: list[Tensor],
    u: list[np.ndarray] | None,
    step: float,
    steps: int,
    progress: Progress | None,
) -> None:
    weight, offset = (p.clone().requires_grad_() for p in (angle.weight, angle.offset))
    test_function = WeakTestFunction(window_of([followed(angle(x)[:, 0]) for x in seen]), step)
    actions = [None] * len(seen) if u is None else [torch.as_tensor(one).double() for one in u]
    optimizer = torch.optim.Adam([weight, offset], lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, steps)
    for done in range(steps):
        _tell(progress, "training the read-outs of a circular coordinate", 0.45 * done / steps)
        left, right, off_circle = [], [], torch.zeros(())
        for x, own in zip(seen, actions, strict=True):
            points = x @ weight + offset
            off_circle = off_circle + (points.square().sum(1) - 1).square().mean() / len(seen)
            path = followed(torch.atan2(points[:, 1], points[:, 0]))
            left.append(test_function.acceleration(path))
            right.append(test_function.causes(path, own))
        target, causes = torch.cat(left), torch.cat(right)
        solved = torch.linalg.lstsq(causes, target[:, None]).solution[:, 0]
        missed = target - causes @ solved
        optimizer.zero_grad()
        (missed.square().mean() / target.var() + ROUND * off_circle).backward()
        optimizer.step()
        schedule.step()
    # Zero is the equilibrium, so that the law is -sin alone.
    sine, cosine = solved[:2].tolist()
    rest = torch.tensor(math.pi + math.atan2(cosine, sine), dtype=torch.float64)
    turned = torch.stack([rest.cos(), rest.sin(), -rest.sin(), rest.cos()]).reshape(2, 2)
    angle.weight.copy_(weight.detach() @ turned)
    angle.offset.copy_(offset.detach() @ turned)
