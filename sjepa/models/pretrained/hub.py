"""Hugging Face models from a local folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError
from sjepa.models.pretrained.embedder import Embedder
from sjepa.models.pretrained.images import FrameInput
from sjepa.models.pretrained.packages import optional
from sjepa.models.pretrained.pooling import LayerTap


IMAGES, CLIPS = "pixel_values", "pixel_values_videos"


def huggingface(
    path_or_model: str | Path | nn.Module,
    *,
    layer: int | str | None = None,
    pool: str = "mean",
    size: int | None = None,
    value_range: float = 1.0,
    batch_size: int = 32,
    cached: bool | str | Path = True,
    device: str = "cpu",
) -> Embedder:
    """A transformers model for images, clips or waveforms.

    Parameters
    ----------
    path_or_model : folder, or a model
        The folder holds ``config.json`` and ``model.safetensors``; a name is looked up in the
        local cache of the hub. Nothing is downloaded, no code from the folder is run and pickled
        weights are refused.
    layer : int or str, optional
        Which hidden states: 0 are the embedded patches, -1 the last block; or the name of a
        submodule. By default what the model returns.
    pool : "mean", "cls", "max" or "flatten"
        How tokens become one vector.
    size : int, optional
        Side of the frames that the network sees; by default what it was trained with.
    value_range : float
        White: 1 for frames of our loaders, 255 for bytes.
    """
    name = "huggingface model"
    folder: Path | None = None
    if isinstance(path_or_model, nn.Module):
        model = path_or_model
    else:
        folder = Path(path_or_model)
        name = folder.name
        model = _load(path_or_model)
    config: Any = getattr(model, "config", None)
    if config is None:
        raise ConfigError("This is no transformers model; use encoders.frozen(module) for it.")
    kind = getattr(model, "main_input_name", IMAGES)
    prepare = _frames(config, folder, size, value_range, kind) if kind in (IMAGES, CLIPS) else None
    if isinstance(layer, str):
        network: nn.Module = _Named(LayerTap(model, layer), kind)
    else:
        network = _Named(model, kind, layer)
    version = optional("transformers").__version__
    return Embedder(
        network, name, prepare=prepare, how=pool, options=f"transformers {version} {layer}",
        batch_size=batch_size, cached=cached, device=device,
    )  # fmt: skip


class _Named(nn.Module):
    """Calls a model by the name of its input and picks hidden states."""

    def __init__(self, model: nn.Module, input_name: str, layer: int | None = None) -> None:
        super().__init__()
        self.model, self.input_name, self.layer = model, input_name, layer
        count = getattr(getattr(model, "config", None), "num_hidden_layers", None)
        if layer is not None and count is not None and not -count - 1 <= layer <= count:
            raise ConfigError(f"layer must lie between {-count - 1} and {count}, got {layer}.")

    def forward(self, x: Tensor) -> Any:
        if isinstance(self.model, LayerTap):
            return self.model(**{self.input_name: x})
        output = self.model(
            **{self.input_name: x}, output_hidden_states=self.layer is not None, return_dict=True
        )
        if self.layer is None:
            return output
        hidden = getattr(output, "hidden_states", None)
        if not hidden:
            raise ConfigError("The model returns no hidden states; name a submodule as layer.")
        return hidden[self.layer]


def _load(path: str | Path) -> nn.Module:
    if not Path(path).is_dir() and (Path(path).is_absolute() or str(path).startswith(".")):
        raise ConfigError(f"{path}: there is no such folder; check the path.")
    transformers = optional("transformers")
    chatter = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        # What the file lacks is drawn at random: from a seed, so that the hash stays the same.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, report = transformers.AutoModel.from_pretrained(
                str(path), local_files_only=True, use_safetensors=True, trust_remote_code=False,
                output_loading_info=True,
            )  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{path}: no local model with config.json and safetensors weights. {reason}"
        ) from error
    finally:
        transformers.utils.logging.set_verbosity(chatter)
    # A pooler comes after the hidden states, which are all that is used here.
    if lacking := sorted(k for k in report["missing_keys"] if not k.startswith("pooler.")):
        raise ConfigError(
            f"{path}: the file lacks {len(lacking)} tensors of the model, the first {lacking[0]}."
        )
    return model


def _frames(
    config: Any, folder: Path | None, size: int | None, value_range: float, kind: str
) -> FrameInput:
    side: Any = size or getattr(config, "image_size", None) or getattr(config, "crop_size", None)
    if isinstance(side, int):
        side = (side, side)
    channels = int(getattr(config, "num_channels", 0) or getattr(config, "in_chans", 0) or 3)
    mean, std = _normalisation(folder, channels)
    return FrameInput(
        None if side is None else (int(side[0]), int(side[1])), channels, mean, std, value_range,
        kind == CLIPS,
    )  # fmt: skip


def _normalisation(folder: Path | None, channels: int) -> tuple[list[float], list[float]]:
    """As in the model's preprocessor file; without one, to between -1 and 1."""
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        if folder is not None and (folder / name).is_file():
            found = json.loads((folder / name).read_text(encoding="utf-8"))
            mean, std = found.get("image_mean"), found.get("image_std")
            if mean and std and len(mean) == len(std) == channels:
                return [float(v) for v in mean], [float(v) for v in std]
    return [0.5] * channels, [0.5] * channels
