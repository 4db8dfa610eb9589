"""A network that somebody trained goes all the way through."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.encoders import diagnose
from sjepa import encoders
from sjepa.data import rendered
from tests.models.pretrained import networks


def load_helper() -> Any:
    path = Path(__file__).parents[3] / "benchmarks" / "pretrained.py"
    spec = importlib.util.spec_from_file_location("pretrained", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_pretrained_face_network_is_diagnosed_on_pendulum_videos(tmp_path: Path) -> None:
    helper = load_helper()
    try:
        network = helper.face_network(tmp_path)
    except OSError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    untrained = helper.FaceNetwork()
    data = rendered("pendulum", 0, trajectories=15, length=80, size=48)
    kept = {"cached": tmp_path / "cache"}
    given = {
        "trained": encoders.frozen(network, name="mtcnn", **kept),
        "untrained": encoders.frozen(untrained, name="random", **kept),
    }
    passes = [networks.count_passes(e.network) for e in given.values()]
    found = diagnose(given, data, head="slow", latent_dim=1, order=2)
    trained = found["trained"]
    assert trained.embedding == 256 and trained.head == "slow"
    # Where the mass is can be read off its features, though it was trained on faces.
    assert trained.probe_embedding > 0.95
    assert np.isfinite(trained.rollout.mse) and len(trained.complexity.curve) > 1
    made = [len(one) for one in passes]
    again = diagnose(given, data, head="slow", latent_dim=1, order=2)
    assert [len(one) for one in passes] == made > [0, 0]
    assert again["trained"].law == trained.law
    print(found.to_frame().to_string())
