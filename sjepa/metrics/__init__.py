"""Every figure that is reported about a model; plain arrays or tensors in, floats out."""

from sjepa.metrics.alignment import AffineMap, ProbeScore, probe_r2, r2
from sjepa.metrics.diagnostics import (
    Diagnostic,
    diagnose_latents,
    diagnose_law,
    diagnose_residual,
)
from sjepa.metrics.latents import (
    LatentSpread,
    WithinShare,
    latent_spread,
    neighbor_test,
    within_trajectory_share,
)
from sjepa.metrics.rollouts import (
    RolloutScore,
    correction_ratio,
    path_r2,
    rollout_score,
    segment_errors,
)
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport


__all__ = [
    "AffineMap",
    "CollapseChecks",
    "CollapseReport",
    "Diagnostic",
    "LatentSpread",
    "ProbeScore",
    "RolloutScore",
    "WithinShare",
    "correction_ratio",
    "diagnose_latents",
    "diagnose_law",
    "diagnose_residual",
    "latent_spread",
    "neighbor_test",
    "path_r2",
    "probe_r2",
    "r2",
    "rollout_score",
    "segment_errors",
    "within_trajectory_share",
]
