"""timm models, with weights from a local file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, did_you_mean
from sjepa.models.pretrained.embedder import Embedder
from sjepa.models.pretrained.images import FrameInput
from sjepa.models.pretrained.packages import optional
from sjepa.models.pretrained.pooling import LayerTap


def timm(
    name_or_model: str | nn.Module,
    weights: str | Path | None = None,
    *,
    layer: int | str | None = None,
    pool: str = "mean",
    size: int | None = None,
    value_range: float = 1.0,
    batch_size: int = 32,
    cached: bool | str | Path = True,
    device: str = "cpu",
    **options: Any,
) -> Embedder:
    """A timm model without its classifier.

    Parameters
    ----------
    name_or_model : str, or a model
        Name of an architecture; `options` go to ``timm.create_model``.
    weights : file, optional
        ``.safetensors``, or ``.pth``/``.pt`` read as tensors only. Without it a named model has
        random weights from seed 0; nothing is downloaded.
    layer : int or str, optional
        Block counted by ``forward_intermediates``, or the name of a submodule; by default the
        features before the classifier.
    pool, size, value_range : as in :func:`sjepa.models.pretrained.huggingface`
    """
    package = optional("timm")
    if isinstance(name_or_model, nn.Module):
        model, name = name_or_model, type(name_or_model).__name__
        if weights is not None or options:
            raise ConfigError("weights and options are for named models; load the model first.")
    else:
        name = name_or_model
        model = _named(package, name_or_model, weights, options)
    if not hasattr(model, "forward_features"):
        raise ConfigError(f"{name} is no timm model; use encoders.frozen(module) for it.")
    facts = package.data.resolve_model_data_config(model)
    channels, *side = facts["input_size"]
    # A transformer has the size it was built with, whatever its recipe says.
    side = getattr(getattr(model, "patch_embed", None), "img_size", None) or side
    side = [size, size] if size is not None else side
    prepare = FrameInput(
        (int(side[0]), int(side[1])), channels, tuple(facts["mean"])[:channels],
        tuple(facts["std"])[:channels], value_range,
    )  # fmt: skip
    network = LayerTap(model, layer) if isinstance(layer, str) else _Features(model, layer)
    return Embedder(
        network, name, prepare=prepare, how=pool, options=f"timm {package.__version__} {layer}",
        batch_size=batch_size, cached=cached, device=device,
    )  # fmt: skip


class _Features(nn.Module):
    """Everything before the classifier, or one intermediate block."""

    def __init__(self, model: nn.Module, layer: int | None) -> None:
        super().__init__()
        self.model, self.layer = model, layer
        if layer is not None and not hasattr(model, "forward_intermediates"):
            raise ConfigError(
                f"{type(model).__name__} does not number its blocks; name a submodule as layer."
            )

    def forward(self, x: Tensor) -> Tensor:
        if self.layer is None:
            return self.model.forward_features(x)  # type: ignore[operator]
        try:
            _, found = self.model.forward_intermediates(x, indices=[self.layer])  # type: ignore[operator]
        except (AssertionError, IndexError) as error:
            raise ConfigError(f"The model has no block {self.layer}. {error}") from error
        return found[0]


def _named(
    package: Any, name: str, weights: str | Path | None, options: dict[str, Any]
) -> nn.Module:
    if not package.is_model(name):
        raise ConfigError(f"timm has no model {name!r}.{did_you_mean(name, package.list_models())}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = package.create_model(name, pretrained=False, num_classes=0, **options)
    if weights is not None:
        state = _read(Path(weights))
        try:
            missing, _ = model.load_state_dict(state, strict=False)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"{weights}: these weights do not fit {name}. {reason}") from error
        if missing:
            raise ConfigError(
                f"{weights}: {len(missing)} tensors of {name} are missing, the first {missing[0]}."
            )
    return model


def _read(path: Path) -> dict[str, Tensor]:
    """Tensors and nothing else."""
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; check the path.")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    found = torch.load(path, map_location="cpu", weights_only=True)
    return found.get("state_dict", found.get("model", found))
