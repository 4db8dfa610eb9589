"""What checkpoints and saved models cost: bytes and seconds, beside the training they belong to.

python benchmarks/runs.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

import sjepa
from sjepa.callbacks import Callback, Step
from sjepa.data import paper_data
from sjepa.runs.recorder import RunRecorder


class Checkpoints(Callback):
    """Notes what every checkpoint took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def watch(self) -> None:
        save = RunRecorder.save

        def timed(recorder: RunRecorder, state: object) -> None:
            start = time.process_time()
            save(recorder, state)  # type: ignore[arg-type]
            self.seconds.append(time.process_time() - start)

        RunRecorder.save = timed  # type: ignore[method-assign]


class Epochs(Callback):
    def __init__(self) -> None:
        self.count = 0

    def on_step(self, step: Step) -> None:
        self.count += 1


def main() -> None:
    torch.set_num_threads(1)
    data = paper_data("exp1")["train"][:40]
    options = {"cycles": 1, "warm_epochs": 8, "dynamics_epochs": 4, "space_epochs": 4}
    checkpoints, epochs = Checkpoints(), Epochs()
    checkpoints.watch()
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        model = sjepa.SJEPA(search=sjepa.Alternating(**options), verbose=[epochs], random_state=0)
        start = time.process_time()
        model.fit(data, run=run)
        training = time.process_time() - start
        spent, count = sum(checkpoints.seconds), len(checkpoints.seconds)
        print(f"{epochs.count} epochs in {training:.1f} s of CPU time, {count} checkpoints")
        print(f"checkpoints: {1000 * spent / count:.1f} ms each, {100 * spent / training:.2f} %")
        start = time.process_time()
        model.save(Path(place) / "model")
        saving = time.process_time() - start
        start = time.process_time()
        sjepa.load(Path(place) / "model")
        loading = time.process_time() - start
        size = sum(p.stat().st_size for p in (Path(place) / "model").iterdir())
        print(f"model: {size / 1024:.0f} kB, saved in {saving:.3f} s, loaded in {loading:.3f} s")


if __name__ == "__main__":
    main()
