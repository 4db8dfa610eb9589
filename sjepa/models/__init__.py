"""Encoders, their slowly moving target, and the transition that moves latent states."""

from sjepa.models.blur import Blur, choose_blur
from sjepa.models.ema import EMATarget
from sjepa.models.encoders import ENCODERS, GaussianEncoder, make_encoder
from sjepa.models.fields import Correction, NeuralField
from sjepa.models.integrators import INTEGRATORS
from sjepa.models.laws import SparseLaw, TreeLaw
from sjepa.models.layers import AffineHead, Residual, Scaled
from sjepa.models.simulate import Simulation, Simulator, integrate
from sjepa.models.transition import Transition
from sjepa.models.whitening import Whitening
from sjepa.models.windows import HistoryWindow, sliding_windows


__all__ = [
    "ENCODERS",
    "INTEGRATORS",
    "AffineHead",
    "Blur",
    "Correction",
    "EMATarget",
    "GaussianEncoder",
    "HistoryWindow",
    "NeuralField",
    "Residual",
    "Scaled",
    "Simulation",
    "Simulator",
    "SparseLaw",
    "Transition",
    "TreeLaw",
    "Whitening",
    "choose_blur",
    "integrate",
    "make_encoder",
    "sliding_windows",
]
