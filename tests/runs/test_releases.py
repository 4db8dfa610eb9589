"""Files that earlier releases wrote are read by this one, with the results they had then.

Each folder in ``tests/data_files/releases`` is named after the release that wrote it and never changed
afterwards; ``python -m tests.test_releases`` adds the folder of the present one.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import sjepa
from sjepa import SJEPA, Law
from sjepa.callbacks import Callback, Step
from sjepa.data import Trajectories, read, write
from sjepa.runs import Run


RELEASES = Path(__file__).parents[1] / "data_files" / "releases"
EVERY = sorted(p for p in RELEASES.iterdir() if p.is_dir()) if RELEASES.exists() else []
OPTIONS = {
    "cycles": 2, "warm_epochs": 1, "dynamics_epochs": 1, "space_epochs": 1, "horizon": 3,
    "validate_every": 1, "batch": 64,
}  # fmt: skip


def observations() -> Trajectories:
    """Rotations, exact in every release: no numbers from a generator."""
    t = np.arange(12) * 0.1
    rows = []
    for k in range(6):
        a, b = np.cos(1.3 * t + k), -np.sin(1.3 * t + k)
        rows.append((1 + k / 6) * np.stack([a, b, a + b, a - b], axis=1))
    return Trajectories(rows, [t] * 6, names=["a", "b", "c", "d"])


@pytest.fixture(params=EVERY, ids=lambda p: p.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: resuming a run writes into its folder."""
    return Path(shutil.copytree(request.param, tmp_path / "files"))


def test_this_release_has_its_files() -> None:
    assert RELEASES / sjepa.__version__ in EVERY


def test_data_are_read_as_they_were_written(release: Path) -> None:
    wanted = observations()
    for path in sorted(release.glob("data.*")):
        found = read(path)
        for one, other in zip(found.x, wanted.x, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=path.name)


def test_laws_and_models_give_what_they_gave(release: Path) -> None:
    told = json.loads((release / "results.json").read_text())
    law = Law.from_json((release / "law.json").read_bytes())
    assert law.lines(digits=12) == told["law"]
    x = np.array(told["x"])
    np.testing.assert_allclose(law.numpy()(x), told["velocities"], rtol=1e-12)
    model = sjepa.load(release / "model")
    rows = observations().x[0]
    np.testing.assert_allclose(model.transform(rows), told["coordinates"], rtol=1e-6, atol=1e-9)
    assert model.law_.lines(digits=12) == told["model law"]
    assert len(model.front_) == told["front"]


def test_a_run_that_was_stopped_goes_on(release: Path) -> None:
    before = Run.open(release / "run")
    assert before.checkpoint.exists() and not before.finished
    _fit(release / "run")
    assert Run.open(release / "run").finished
    assert sjepa.load(release / "run").law_.inputs == ("z1", "z2")


def _fit(run: Path, *callbacks: Callback) -> SJEPA:
    model = SJEPA(search=sjepa.Alternating(**OPTIONS, device="cpu"), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(verbose=list(callbacks) or None).fit(observations(), run=run)


class _Stop(Callback):
    def on_cycle(self, step: Step) -> None:
        raise KeyboardInterrupt


def make(folder: Path) -> None:
    """Write one of every kind of file, and what they mean, in numbers."""
    folder.mkdir(parents=True)
    data = observations()
    for ending in ("csv", "parquet", "npz"):
        write(data, folder / f"data.{ending}")
    law = Law.from_string(["z2", "-0.9*sin(z1) - 0.1*z2 + max(z1, 0.25)"], ["z1", "z2"])
    (folder / "law.json").write_text(law.to_json())
    x = np.array([[0.5, -1.0], [2.0, 0.125]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = SJEPA(
            2, search=sjepa.Joint(structures=4, effort=0.1), encoder="auto", random_state=0
        )
        shown.fit(data).save(folder / "model")
    try:
        _fit(folder / "run", _Stop())
    except KeyboardInterrupt:
        pass
    for scrap in (".lock", "log.txt"):
        (folder / "run" / scrap).unlink(missing_ok=True)
    told = {
        "law": law.lines(digits=12),
        "x": x.tolist(),
        "velocities": law.numpy()(x).tolist(),
        "coordinates": shown.transform(data.x[0]).tolist(),
        "model law": shown.law_.lines(digits=12),
        "front": len(shown.front_),
    }
    (folder / "results.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    make(RELEASES / sjepa.__version__)
