"""Training on two processes under torchrun is training on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sjepa.runs.folder import Run


SCRIPT = """
import json, os, sys, warnings
import numpy as np
from sjepa import SJEPA
from sjepa.data import Trajectories
warnings.simplefilter("ignore")
rng, t = np.random.default_rng(0), 0.1 * np.arange(40)
mix, data = rng.normal(size=(2, 12)), []
for _ in range(9):  # an odd number: shares of a batch are unequal
    a, p = rng.uniform(0.5, 1.5), rng.uniform(0, 6)
    data.append(np.stack([a * np.cos(t + p), -a * np.sin(t + p)], 1) @ mix)
model = SJEPA(
    search="alternating", device="cpu", random_state=0 if sys.argv[2] == "seed" else None,
    options={"cycles": 2, "warm_epochs": 3, "dynamics_epochs": 3, "space_epochs": 3,
             "horizon": 4, "batch": 64, "validate_every": 1},
)
model.fit(Trajectories(data, [t] * 9), run=sys.argv[1])
told = {"law": model.law_.lines(4), "history": model.history_.to_dict("list"),
        "encoded": model.transform(data[0]).tolist()}
place = sys.argv[1] + f".rank{os.environ.get('RANK', 0)}.json"
open(place, "w").write(json.dumps(told))
"""


def _fit(folder: Path, processes: int, seed: str = "seed") -> list[dict[str, Any]]:
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    script = folder.parent / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [*start, str(script), str(folder), seed], capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(Path(f"{folder}.rank{i}.json").read_text()) for i in range(processes)]


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    (one,) = _fit(tmp_path / "one", 1)
    first, second = _fit(tmp_path / "two", 2)
    assert first["law"] == second["law"] == one["law"]
    for key in ("stage", "cycle", "epoch", "metric"):
        assert first["history"][key] == one["history"][key]
    np.testing.assert_allclose(first["history"]["value"], one["history"]["value"], rtol=1e-5)
    np.testing.assert_allclose(first["encoded"], one["encoded"], rtol=1e-4, atol=1e-5)
    assert Run.open(tmp_path / "two").finished  # written once, by the first process


@pytest.mark.slow
def test_processes_agree_on_a_seed_that_was_drawn(tmp_path: Path) -> None:
    first, second = _fit(tmp_path / "two", 2, "none")
    assert first["law"] == second["law"]
    assert first["encoded"] == second["encoded"]
