"""Encoders, their slowly moving target, and the transition that moves latent states."""

from sjepa.models.blur import Blur, choose_blur
from sjepa.models.ema import EMATarget
from sjepa.models.encoders import ENCODERS, make_encoder
from sjepa.models.fields import Correction, NeuralField
from sjepa.models.integrators import INTEGRATORS
from sjepa.models.simulation import Simulation, simulate
from sjepa.models.transition import Transition
from sjepa.models.whitening import Whitening
from sjepa.models.windows import HistoryWindow, sliding_windows


__all__ = [
    "ENCODERS",
    "INTEGRATORS",
    "Blur",
    "Correction",
    "EMATarget",
    "HistoryWindow",
    "NeuralField",
    "Simulation",
    "Transition",
    "Whitening",
    "choose_blur",
    "make_encoder",
    "simulate",
    "sliding_windows",
]
