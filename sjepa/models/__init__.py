"""Encoders, their slowly moving target, and the transition that moves latent states."""

from sjepa.models.affine import AffineHead
from sjepa.models.blur import Blur, choose_blur
from sjepa.models.driven import follow, iterate, right_side, simulate_held, with_actions
from sjepa.models.ema import EMATarget
from sjepa.models.encoders import ENCODERS, make_encoder
from sjepa.models.fields import Correction, NeuralField
from sjepa.models.integrators import INTEGRATORS
from sjepa.models.laws import SparseLaw, TreeLaw
from sjepa.models.motion import Motion
from sjepa.models.scaled import Residual, Scaled
from sjepa.models.simulation import Simulation, simulate
from sjepa.models.stochastic import GaussianEncoder
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
    "Motion",
    "NeuralField",
    "Residual",
    "Scaled",
    "Simulation",
    "SparseLaw",
    "Transition",
    "TreeLaw",
    "Whitening",
    "choose_blur",
    "follow",
    "iterate",
    "make_encoder",
    "right_side",
    "simulate",
    "simulate_held",
    "sliding_windows",
    "with_actions",
]
