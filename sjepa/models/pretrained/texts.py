"""Sentence embeddings: one text per time step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sjepa.errors import ConfigError, DataError
from sjepa.models.pretrained import cache
from sjepa.models.pretrained.embedder import _folder
from sjepa.models.pretrained.packages import optional


def sentence_transformers(
    path_or_model: str | Path | nn.Module,
    *,
    batch_size: int = 32,
    cached: bool | str | Path = True,
    device: str = "cpu",
) -> TextEmbedder:
    """A sentence-transformers model from a local folder, safetensors weights only.

    Texts are no numbers, so embed them first and take the embeddings as observations::

        encoder = encoders.sentence_transformers("models/minilm")
        x = [encoder(texts) for texts in conversations]
        SJEPA(encoder="identity", head="slow").fit(x, t)
    """
    package = optional("sentence_transformers")
    if isinstance(path_or_model, nn.Module):
        model: Any = path_or_model
        name = "sentence-transformers model"
    else:
        name = Path(path_or_model).name
        try:
            model = package.SentenceTransformer(
                str(path_or_model), device=device, local_files_only=True, trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )  # fmt: skip
        except (OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"{path_or_model}: no local sentence-transformers model. {reason}"
            ) from error
    return TextEmbedder(model.eval().requires_grad_(False), name, batch_size, _folder(cached))


class TextEmbedder:
    """Texts to embeddings (n, D), from the disk where they have been computed before."""

    def __init__(self, model: Any, name: str, batch_size: int, folder: Path | None) -> None:
        self.model, self.name, self.batch_size, self.folder = model, name, batch_size, folder

    def __repr__(self) -> str:
        return f"<encoder {self.name}>"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        if isinstance(texts, str) or not len(texts) or not all(isinstance(t, str) for t in texts):
            raise DataError("Expected a list of texts, one for each time step.")
        if self.folder is None:
            return self._run(texts)
        words: dict[str, int] = getattr(getattr(self.model, "tokenizer", None), "get_vocab", dict)()
        own = cache.digest([cache.weights_digest(self.model), sorted(words.items())])
        name = cache.digest([cache.FORMAT, "texts", own, len(texts), *texts])
        return cache.cached(self.folder, name, lambda: self._run(texts)).astype(float)

    def _run(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(
            self.model.encode(
                list(texts), batch_size=self.batch_size, show_progress_bar=False,
                convert_to_numpy=True,
            ),
            dtype=np.float32,
        )  # fmt: skip
