"""Diagnostics: which shortcut, if any, a result has taken, and the figure that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.metrics.arrays import as_array
from sjepa.metrics.latents import latent_spread, neighbor_test
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport, narrowest


# The paper's rule: a trace of the covariance below this is a constant representation.
CONSTANT_TRACE = 0.10
# A correction that carries more than this share of the velocity has absorbed the law.
CORRECTION_SHARE = 0.5
# A residual beyond this multiple of the noise floor is not noise; one below RESIDUAL is about
# what integration errors leave of an exact law.
NOT_NOISE = 5.0
RESIDUAL = 3e-4
# The same for nonlinear encoders, which can be fitted to many laws: only a residual near the noise
# separates a true law from a wrong one there.
NONLINEAR_NOT_NOISE = 2.0
NONLINEAR_RESIDUAL = 2e-5
# Largest rollout error over a horizon, as a share of the variance of the coordinates. Coordinates
# can satisfy a law along their own paths although rollouts diverge from them.
MAX_ROLLOUT_ERROR = 0.2
# Laws of more units of complexity than this for each coordinate (and order) are long: nonlinear
# coordinates, or noisy ones, satisfy many of them.
SHORT = 3.0
# Neighbors whose futures differ by this share of what those of random pairs do are no states.
UNDECIDED = 0.3
# Beyond this many values the nearest neighbors are no longer near.
NEAR_VALUES = 6


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic: its name, the figure, its limit, and a sentence."""

    name: str
    value: float
    threshold: float
    sentence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def diagnose_latents(
    z: Any,
    observations: Any,
    mask: Any = None,
    checks: CollapseChecks | None = None,
    actions: Any | None = None,
) -> list[Diagnostic]:
    """Name what is wrong with coordinates (B, T, d) of observations (B, T, ...).

    An empty list means that no shortcut was seen. Constant latents and those that repeat each
    other are reported as that alone, since the other figures follow from it.
    """
    checks = checks or CollapseChecks()
    z = as_array(z)
    flags = np.ones(z.shape[:2], bool) if mask is None else as_array(mask) > 0
    rows = z[flags]
    spread = latent_spread(rows)
    if spread.covariance_trace < CONSTANT_TRACE:
        return [constant_collapse(spread.covariance_trace)]
    ratio = narrowest(rows)
    if ratio < checks.variance:
        return [dimensional_collapse(ratio, checks.variance, z.shape[-1], spread)]
    return shortcuts(checks.check(z, observations, flags, actions=actions), checks)


def shortcuts(check_report: CollapseReport, checks: CollapseChecks) -> list[Diagnostic]:
    """Conserved quantities and folding, from what the checks measured.

    Coordinates that hardly move also fail the neighbor test; that is then not called folding.
    """
    findings = []
    if check_report.within < checks.within:
        findings.append(
            Diagnostic(
                "conserved-quantity collapse", check_report.within, checks.within,
                f"some direction of the latent space is nearly constant along every trajectory: "
                f"only {check_report.within:.1%} of its variance is motion (at least "
                f"{checks.within:.0%} is asked for). It encodes which trajectory this is, for "
                "instance its energy, not where the system is on it.",
            )
        )  # fmt: skip
    if not check_report.neighbor <= checks.neighbor and not findings:
        findings.append(
            Diagnostic(
                "folding", check_report.neighbor, checks.neighbor,
                f"different states share one latent point: observations of nearest neighbors "
                f"differ by {check_report.neighbor:.0%} of what random pairs differ by (at most "
                f"{checks.neighbor:.0%} is asked for). Squares and products of the true "
                "coordinates do this; they move at twice the frequency.",
            )
        )  # fmt: skip
    return findings


def constant_collapse(trace: float) -> Diagnostic:
    return Diagnostic(
        "constant collapse", trace, CONSTANT_TRACE,
        f"the encoder maps all observations to nearly one point: the total variance is "
        f"{trace:.2g} (at least {CONSTANT_TRACE:g} is asked for). Any law predicts that "
        "perfectly and says nothing.",
    )  # fmt: skip


def dimensional_collapse(ratio: float, limit: float, dim: int, spread: Any) -> Diagnostic:
    return Diagnostic(
        "dimensional collapse", ratio, limit,
        f"the {dim} coordinates vary in about {spread.effective_rank:.1f} directions: the "
        f"narrowest has a variance of {ratio:.1e} where 1 is the mean (at least {limit:g} is "
        "asked for). Some of them repeat the others.",
    )  # fmt: skip


def diagnose_law(
    risk: float, delta: float, noise_floor: float = 0.0, correction_share: float | None = None
) -> list[Diagnostic]:
    """Diagnose a law: its residual is too large, or a correction does its work.

    `risk` is the unexplained share of the variance of the increments; `correction_share` the part
    of the predicted velocity, in mean square, that a neural correction contributes.
    """
    findings = []
    if risk > delta:
        noise = f"; the noise floor is {noise_floor:.2g}" if noise_floor else ""
        findings.append(
            Diagnostic(
                "under-fit law", risk, delta,
                f"the unexplained variance of the increments is {risk:.2g}, more than the adequate "
                f"{delta:.2g}{noise}. Offer more terms, more "
                "coordinates or a larger budget.",
            )
        )  # fmt: skip
    if correction_share is not None and correction_share > CORRECTION_SHARE:
        findings.append(
            Diagnostic(
                "correction absorbing the law", correction_share, CORRECTION_SHARE,
                f"the neural correction contributes {correction_share:.0%} of the velocity (at "
                f"most {CORRECTION_SHARE:.0%} is asked for): the equation printed is not what "
                "moves the state. Penalize the correction more, or offer more terms.",
            )
        )  # fmt: skip
    return findings


def largest_residual(noise_floor: float, linear: bool = True) -> float:
    """Largest unexplained variance of the increments (1 - R²) of an adequate law."""
    if linear:
        return max(NOT_NOISE * noise_floor, RESIDUAL)
    return max(NONLINEAR_NOT_NOISE * noise_floor, NONLINEAR_RESIDUAL)


def diagnose_residual(risk: float, noise_floor: float) -> list[Diagnostic]:
    """Whether the residual of a law is far above the noise floor: then the law is not adequate."""
    limit = largest_residual(noise_floor)
    if not risk > limit:
        return []
    return [
        Diagnostic(
            "not adequate", risk, limit,
            f"the law is not adequate: the unexplained variance of the increments is {risk:.2g}, "
            f"{times_noise(risk, noise_floor)}. Law or coordinates are approximate "
            f"at best. Offer more terms or coordinates, more data, or a larger budget "
            "(search=Joint(effort=3)).",
        )
    ]  # fmt: skip


def diagnose_hidden(
    observations: Any, mask: Any, ahead: int, actions: Any | None = None
) -> list[Diagnostic]:
    """Whether observations (B, T, values) do not determine the next ones: then a state is hidden.

    With actions (B, T, m): what comes next under the same actions.
    """
    x = as_array(observations)[..., :NEAR_VALUES]
    flags = as_array(mask) > 0
    ahead = max(1, min(ahead, x.shape[1] // 2))
    if (flags[:, :-ahead] & flags[:, ahead:]).sum() < 3:
        return []
    shares = []
    # Half a period ahead an oscillator is where its place alone says, whatever its velocity.
    for steps in {ahead, max(1, ahead // 4)}:
        change = x - np.roll(x, steps, axis=1)  # what is rolled in at the start is not looked at
        shares.append(neighbor_test(x, change, flags, ahead=steps, actions=actions))
    open_share = max(shares)
    if not open_share > UNDECIDED:
        return []
    return [
        Diagnostic(
            "hidden state", open_share, UNDECIDED,
            "observations do not determine the next ones: similar observations diverge "
            f"{open_share:.0%} as much as random ones. A state is hidden; read it off "
            "several successive observations (history='auto'), or measure more.",
        )
    ]  # fmt: skip


def times_noise(risk: float, noise_floor: float) -> str:
    """A residual as a multiple of the noise floor."""
    times = risk / max(noise_floor, 1e-300)
    if times >= 1000:
        return f"where the noise floor is {noise_floor:.2g}"
    size = f"{times:.0f} times" if times >= 9.5 else f"{times:.1f} times"
    return f"{size} the noise floor ({noise_floor:.2g})"
