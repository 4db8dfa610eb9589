"""Networks as plain data: a specification of the module, and its tensors.

Only what stands in the table below can be stored; whatever else is used as an encoder has
to be given again, since rebuilding it would mean running code from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.errors import FormatError, SjepaError
from sjepa.models.angle import Angle
from sjepa.models.blur import Blur
from sjepa.models.encoders import (
    FrameEncoder,
    GaussianEncoder,
    IdentityEncoder,
    LinearEncoder,
    MLPEncoder,
    ResidualEncoder,
)
from sjepa.models.layers import AffineHead, Residual, Scaled
from sjepa.models.neural_fields import BoundedField, Correction, NeuralField
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.models.ratios import Ratios
from sjepa.models.whitening import Whitening


ModuleSpec = dict[str, Any]
# No network here is larger; it keeps a hostile file from asking for one that is.
MAX_VALUE = 2**31
MAX_PARTS = 64
LIMITS = {"depth": MAX_PARTS, "degree": MAX_PARTS, "k": 10_000, "order": 10}


def _shape(module: Any) -> ModuleSpec:
    return {"obs_shape": list(module.obs_shape)}


def _mlp(module: MLPEncoder) -> ModuleSpec:
    layers = [m for m in module.net if isinstance(m, nn.Linear)]
    size = {"width": layers[0].out_features, "depth": len(layers) - 1}
    return _shape(module) | {"latent_dim": layers[-1].out_features} | size


def _polynomial(module: PolynomialEncoder) -> ModuleSpec:
    features, degree = module.factors.shape
    dim = module.linear.out_features
    return {"rank": module.rank, "latent_dim": dim, "features": features, "degree": degree}


def _frame(module: FrameEncoder) -> ModuleSpec:
    first: Any = module.features[0]
    inner: Any = module.head[0]
    last: Any = module.head[-1]
    size = {"channels": first.out_channels, "width": inner.out_features}
    return _shape(module) | {"latent_dim": last.out_features} | size


def _field(module: BoundedField) -> ModuleSpec:
    first: Any = module.net[0]
    last: Any = module.net[-1]
    return {
        "latent_dim": first.in_features,
        "width": first.out_features,
        "bound": float(module.bound),
        "output_dim": last.out_features,
    }


# Name in the file, class, and how to find the arguments that build one like it.
TABLE: Mapping[str, tuple[type[nn.Module], Callable[[Any], ModuleSpec]]] = {
    "linear": (LinearEncoder, lambda m: _shape(m) | {"latent_dim": m.linear.out_features}),
    "mlp": (MLPEncoder, _mlp),
    "residual": (ResidualEncoder, lambda m: _mlp(m.residual)),
    "polynomial": (PolynomialEncoder, _polynomial),
    "cnn": (FrameEncoder, _frame),
    "identity": (IdentityEncoder, lambda m: _shape(m) | {"latent_dim": prod(m.obs_shape)}),
    "whitening": (Whitening, lambda m: _shape(m) | {"rank": m.rank}),
    "ratios": (Ratios, lambda m: _shape(m) | {"k": m.k, "order": m.order, "step": m.step}),
    "blur": (Blur, lambda m: _shape(m) | {"width": m.width}),
    "angle": (Angle, _shape),
    "affine": (AffineHead, lambda m: {"size": m.matrix.shape[0], "dim": m.matrix.shape[1]}),
    "neural_field": (NeuralField, _field),
    "correction": (Correction, _field),
}


def _build_scaled(part: nn.Module, inputs: int, outputs: int) -> nn.Module:
    return Scaled(part, torch.empty(inputs), torch.empty(inputs), torch.empty(outputs))


# The same for what is wrapped around one other network: class, its part, arguments, builder.
WRAPPERS: Mapping[str, tuple[type[nn.Module], str, Callable[[Any], ModuleSpec], Any]] = {
    "gaussian": (GaussianEncoder, "encoder", lambda m: {}, GaussianEncoder),
    "residual_map": (Residual, "field", lambda m: {"latent_dim": m.latent_dim}, Residual),
    "scaled": (
        Scaled, "net", lambda m: {"inputs": len(m.mean), "outputs": len(m.size)}, _build_scaled
    ),
}  # fmt: skip


def to_spec(module: nn.Module) -> ModuleSpec | None:
    """What :func:`rebuild` needs besides the tensors; None if the module cannot be stored."""
    for name, (cls, part, arguments, _) in WRAPPERS.items():
        if type(module) is cls:
            inner = to_spec(getattr(module, part))
            return None if inner is None else {"type": name, "part": inner, **arguments(module)}
    if type(module) is nn.Sequential:
        parts = [to_spec(part) for part in module]
        return None if None in parts else {"type": "sequential", "parts": parts}
    for name, (cls, arguments) in TABLE.items():
        if type(module) is cls:
            try:
                return {"type": name, **arguments(module)}
            except (AttributeError, IndexError, TypeError):
                return None
    return None


def from_spec(description: Any, tensors: Mapping[str, Tensor]) -> nn.Module:
    """The module of a description, filled with tensors.

    It is laid out without memory first, so that a file can ask for no more than it holds.
    """
    try:
        with torch.device("meta"):
            module = _build(description)
        module.load_state_dict(dict(tensors), strict=True, assign=True)
        for part in module.modules():
            if isinstance(part, PolynomialEncoder):
                part.check()
    except (SjepaError, LookupError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FormatError(f"Its network cannot be rebuilt ({reason}).") from None
    return module.requires_grad_(False).eval()


def _build(description: Any, depth: int = 0) -> nn.Module:
    if not isinstance(description, dict) or depth > 4:
        raise FormatError("no description of a network")
    arguments = dict(description)
    kind = arguments.pop("type", None)
    if kind == "sequential":
        parts = arguments.get("parts")
        if not isinstance(parts, list) or len(parts) > MAX_PARTS:
            raise FormatError("no list of parts")
        return nn.Sequential(*(_build(part, depth + 1) for part in parts))
    if kind in WRAPPERS:
        inner = _build(arguments.pop("part", None), depth + 1)
        for name, value in arguments.items():
            _check_argument(name, value)
        wrapped: nn.Module = WRAPPERS[kind][3](inner, **arguments)
        return wrapped
    if kind not in TABLE:
        raise FormatError(f"no network is called {kind!r:.40}")
    for name, value in arguments.items():
        _check_argument(name, value)
    return TABLE[kind][0](**arguments)


def _check_argument(name: str, value: Any) -> None:
    values = value if isinstance(value, list) else [value]
    if len(values) > 8 or not all(type(v) in (int, float) and 0 < v < MAX_VALUE for v in values):
        raise FormatError(f"{name} is {value!r:.40}")
    if value_limit := LIMITS.get(name):
        if value > value_limit:
            raise FormatError(f"{name} is {value!r}")
