"""Tiny networks with random weights, saved as their libraries save them."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sjepa.models.pretrained.packages import optional


SIDE = 16


def frames(n: int = 5, seed: int = 0, channels: tuple[int, ...] = ()) -> np.ndarray:
    return np.random.default_rng(seed).random((n, *channels, SIDE, SIDE)).astype(np.float32)


def vision_transformer(seed: int = 0) -> Any:
    transformers = optional("transformers")
    torch.manual_seed(seed)
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        image_size=SIDE, patch_size=8,
    )  # fmt: skip
    return transformers.ViTModel(config, add_pooling_layer=False).eval()


@functools.cache
def sentence_model() -> Any:
    """A one-block BERT over a vocabulary of a few words."""
    optional("transformers")
    package = optional("sentence_transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    words = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "the", "ball", "is", "high", "low"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.TemporaryDirectory() as folder:
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
        )
        fast.save_pretrained(folder)
        config = BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=16, max_position_embeddings=32,
        )  # fmt: skip
        BertModel(config).save_pretrained(folder)
        return package.SentenceTransformer(folder, device="cpu", local_files_only=True)


def scripted(path: Path) -> torch.nn.Module:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, 6), torch.nn.Tanh()
    ).eval()
    torch.jit.save(torch.jit.script(network), str(path))
    return network


def count_passes(model: torch.nn.Module) -> list[int]:
    """A list that grows by one with every forward pass of the network itself."""
    passes: list[int] = []
    model.register_forward_hook(lambda *_: passes.append(1))
    return passes
