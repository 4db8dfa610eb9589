"""The representation term R_IB: any weighted combination of terms, chosen by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, lookup
from sjepa.training.losses import admissibility, bottleneck, sigreg, vicreg


@dataclass(frozen=True)
class Term:
    """A function and the inputs it takes, in order; those in ``optional`` may be missing."""

    function: Callable[..., Tensor]
    needs: tuple[str, ...] = ("z",)
    optional: tuple[str, ...] = ()


VIEWS = ("view_a", "view_b")

REPRESENTATION_TERMS: Mapping[str, Term] = {
    "admissibility": Term(admissibility.admissibility),
    "barlow_twins": Term(bottleneck.barlow_twins, VIEWS),
    "covariance": Term(vicreg.covariance),
    "invariance": Term(vicreg.invariance, VIEWS),
    "mean": Term(vicreg.mean),
    "predictive_information": Term(bottleneck.predictive_information, ("predicted", "target")),
    "rank": Term(bottleneck.rank),
    "sigreg": Term(sigreg.sigreg),
    "variance": Term(vicreg.variance),
    "variational": Term(bottleneck.variational, ("posterior_mean", "posterior_log_var")),
    "within_trajectory": Term(admissibility.within_trajectory, ("trajectories",), ("mask",)),
}


class RepresentationLoss(nn.Module):
    """Weighted sum of representation terms, with each term's own value. The paper's is::

        weights = {"invariance": 2, "variance": 3, "covariance": 0.25, "mean": 0.01}
        loss = RepresentationLoss(weights)
        total, parts = loss(z, view_a=a, view_b=b)

    Parameters
    ----------
    weights : mapping from name to weight
        Names in ``REPRESENTATION_TERMS``. A weight of 0 leaves the term out.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        super().__init__()
        for name in weights:
            lookup(REPRESENTATION_TERMS, name, "representation term")
        if negative := sorted(name for name, weight in weights.items() if weight < 0):
            raise ConfigError(f"Weights must not be negative: {', '.join(negative)}.")
        self.weights = {name: float(weight) for name, weight in weights.items() if weight}

    def forward(
        self, z: Tensor, *, mask: Tensor | None = None, **others: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The total and the unweighted parts.

        z is (..., d), or (..., T, d) for trajectories; ``mask`` (...) is false at padding, which
        then enters no term. ``others`` are the inputs that single terms need: view_a and view_b
        (shaped like z), predicted and target, posterior_mean and posterior_log_var; the last four
        without padding.
        """
        inputs: dict[str, Tensor | None] = {"trajectories": z, "mask": mask, "z": z, **others}
        if mask is not None:
            for name in ("z", *VIEWS):
                if (value := inputs.get(name)) is not None:
                    inputs[name] = value[mask]
        parts = {name: self._evaluate(name, inputs) for name in self.weights}
        total = torch.zeros((), dtype=z.dtype, device=z.device)
        for name, value in parts.items():
            total = total + self.weights[name] * value
        return total, parts

    def _evaluate(self, name: str, inputs: Mapping[str, Tensor | None]) -> Tensor:
        term = REPRESENTATION_TERMS[name]
        if missing := [key for key in term.needs if inputs.get(key) is None]:
            raise ConfigError(
                f"Representation term {name!r} needs {' and '.join(missing)}; "
                "pass them by name or drop the term."
            )
        arguments = [inputs.get(key) for key in (*term.needs, *term.optional)]
        return term.function(*arguments)
