"""Encoders, their slowly moving target, and the transition that moves latent states."""

from typing import TYPE_CHECKING

from sjepa import _lazy


if TYPE_CHECKING:
    from sjepa.models.blur import Blur, choose_blur
    from sjepa.models.ema import EMATarget
    from sjepa.models.encoders import ENCODERS, GaussianEncoder, make_encoder
    from sjepa.models.integrators import INTEGRATORS
    from sjepa.models.layers import AffineHead, Residual, Scaled
    from sjepa.models.neural_fields import Correction, NeuralField
    from sjepa.models.simulate import Simulator
    from sjepa.models.solvers import SimulatedPath, integrate
    from sjepa.models.trainable_laws import SparseLaw, TreeLaw
    from sjepa.models.transition import Transition
    from sjepa.models.whitening import Whitening


__all__ = [
    "ENCODERS",
    "INTEGRATORS",
    "AffineHead",
    "Blur",
    "Correction",
    "EMATarget",
    "GaussianEncoder",
    "NeuralField",
    "Residual",
    "Scaled",
    "SimulatedPath",
    "Simulator",
    "SparseLaw",
    "Transition",
    "TreeLaw",
    "Whitening",
    "choose_blur",
    "integrate",
    "make_encoder",
]

# Imported at first use: most of them need torch, which free runs of a law do not.
__getattr__, __dir__ = _lazy(
    __name__,
    {
        "AffineHead": "sjepa.models.layers:AffineHead",
        "Blur": "sjepa.models.blur:Blur",
        "Correction": "sjepa.models.neural_fields:Correction",
        "EMATarget": "sjepa.models.ema:EMATarget",
        "ENCODERS": "sjepa.models.encoders:ENCODERS",
        "GaussianEncoder": "sjepa.models.encoders:GaussianEncoder",
        "INTEGRATORS": "sjepa.models.integrators:INTEGRATORS",
        "NeuralField": "sjepa.models.neural_fields:NeuralField",
        "Residual": "sjepa.models.layers:Residual",
        "Scaled": "sjepa.models.layers:Scaled",
        "SimulatedPath": "sjepa.models.solvers:SimulatedPath",
        "Simulator": "sjepa.models.simulate:Simulator",
        "SparseLaw": "sjepa.models.trainable_laws:SparseLaw",
        "Transition": "sjepa.models.transition:Transition",
        "TreeLaw": "sjepa.models.trainable_laws:TreeLaw",
        "Whitening": "sjepa.models.whitening:Whitening",
        "choose_blur": "sjepa.models.blur:choose_blur",
        "integrate": "sjepa.models.solvers:integrate",
        "make_encoder": "sjepa.models.encoders:make_encoder",
    },
)
