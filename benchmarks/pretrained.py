"""Networks whose trained weights ship inside packages on the index."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional


PACKAGE = "facenet-pytorch==2.6.0"


class FaceNetwork(nn.Module):
    """The last stage of MTCNN (Zhang et al. 2016) up to its 256 features, on 48 x 48 frames.

    It was trained on photographs to find faces and their landmarks. Gray frames between 0 and 1
    are repeated to three channels, resized and scaled as in its training.
    """

    def __init__(self) -> None:
        super().__init__()
        shapes = [(3, 32, 3), (32, 64, 3), (64, 64, 3), (64, 128, 2)]
        for i, (n_in, n_out, kernel) in enumerate(shapes, start=1):
            setattr(self, f"conv{i}", nn.Conv2d(n_in, n_out, kernel))
            setattr(self, f"prelu{i}", nn.PReLU(n_out))
        self.pools = nn.ModuleList(
            [nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(3, 2, ceil_mode=True),
             nn.MaxPool2d(2, 2, ceil_mode=True), nn.Identity()]
        )  # fmt: skip
        self.dense5 = nn.Linear(1152, 256)
        self.prelu5 = nn.PReLU(256)

    def forward(self, x: Tensor) -> Tensor:
        x = (255.0 * x - 127.5) / 128.0
        x = x[:, None].expand(-1, 3, -1, -1) if x.ndim == 3 else x
        if x.shape[-2:] != (48, 48):
            x = functional.interpolate(x, (48, 48), mode="bilinear", align_corners=False)
        for i, pool in enumerate(self.pools, start=1):
            x = pool(getattr(self, f"prelu{i}")(getattr(self, f"conv{i}")(x)))
        x = x.permute(0, 3, 2, 1).flatten(1)  # the order in which it was trained
        return self.prelu5(self.dense5(x))


def face_network(folder: Path) -> FaceNetwork:
    """With its trained weights, read as tensors from the wheel; raises OSError without an index.

    The package itself is not installed: it asks for an old torch, and only its weights are needed.
    """
    if not (wheels := list(folder.glob("facenet_pytorch-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--disable-pip-version-check", "--dest", str(folder), PACKAGE]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{PACKAGE} cannot be had here: {done.stderr.strip()[-200:]}")
        wheels = list(folder.glob("facenet_pytorch-*.whl"))
    with zipfile.ZipFile(wheels[0]) as wheel:
        weights = wheel.read("facenet_pytorch/data/onet.pt")
    state = torch.load(io.BytesIO(weights), weights_only=True)
    network = FaceNetwork()
    wanted = network.state_dict().keys()
    network.load_state_dict({k: v for k, v in state.items() if k in wanted})
    return network.eval()
