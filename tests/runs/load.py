"""Many calls in one process, and several processes in the same folders."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt


# What each of several processes does at once: the same embeddings through one cache, and a fit in
# one folder, which only one may hold.
WORKER = """
import sys, warnings
import numpy as np, torch
from sjepa import SJEPA
from sjepa.errors import SjepaError
from sjepa.models.pretrained import frozen

warnings.simplefilter("ignore")
cache, run = sys.argv[1:]
torch.manual_seed(0)
torch.set_num_threads(1)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6))
frames = np.random.default_rng(0).random((300, 8, 8), dtype=np.float32)
for part in range(6):
    embedding = frozen(network, name="linear", cached=cache)(frames[50 * part : 50 * part + 50])
    print("embedding", part, repr(np.asarray(embedding).tobytes().hex())[:64])
t = np.arange(120) * 0.05
x = [np.stack([np.cos(t + b), -np.sin(t + b)], axis=1) for b in (0, 1, 2)]
try:
    print("fitted", SJEPA(encoder="identity", random_state=0).fit(x, t, run=run).law_.lines())
except SjepaError as error:
    print("refused", error)
"""


def used() -> dict[str, float]:
    """Memory in megabytes, open files and threads of this process (Linux only)."""
    gc.collect()
    status = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in status)
    return {
        "MB": int(values["VmRSS"].split()[0]) / 1024,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": int(values["Threads"]),
        "Python threads": threading.active_count(),
    }


def soak(
    call: Callable[[int], object], count: int, seed: int, every: int
) -> list[dict[str, float]]:
    """What the process uses after each `every` calls; whatever a call says does not matter here."""
    found = [used()]
    for number in range(seed, seed + count):
        try:
            call(number)
        except Exception:  # other tests say which are right
            pass
        plt.close("all")  # figures are the caller's
        if (number + 1 - seed) % every == 0:
            found.append(used())
    return found


def together(place: Path, processes: int = 8) -> list[list[str]]:
    """What several processes say that share a cache and a folder of a run."""
    command = [sys.executable, "-c", WORKER, str(place / "cache"), str(place / "run")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    workers = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(processes)
    ]
    said = [worker.communicate(timeout=600) for worker in workers]
    errors = [err[-500:] for (_, err), w in zip(said, workers, strict=True) if w.returncode]
    assert not errors, errors
    return [out.splitlines() for out, _ in said]
