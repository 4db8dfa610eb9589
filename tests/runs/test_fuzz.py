"""Whatever is in a file: success or our own error class, in bounded time and memory."""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import sjepa
import sjepa.callbacks
from sjepa import SJEPA, Law
from sjepa.cli.settings import read_settings
from sjepa.data import Trajectories, read, write
from sjepa.errors import FormatError
from sjepa.models.serialization import from_spec
from sjepa.runs.recorder import KIND, VERSION, RunRecorder
from sjepa.storage.tensors import read_state, write_state
from sjepa.symbolic.parse import parse

from .fuzzing import anything, changed, edits, only_our_errors, peak_memory, spoil
from .small import OPTIONS, oscillators


# The slow suite runs every target this many times as often: 20,000 cases and more in all.
CASES = int(os.environ.get("SJEPA_FUZZ", "1"))
checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


def fuzz(cases: int) -> Callable[[Any], Any]:
    # Spoilt files are small as they are; looking for smaller ones would take minutes.
    phases = (Phase.explicit, Phase.generate)
    return settings(
        max_examples=cases * CASES,
        suppress_health_check=checks,
        phases=phases,
        derandomize=CASES == 1,  # the long run looks elsewhere every time, and prints its blob
    )


@pytest.fixture(autouse=True)
def quiet_and_bounded() -> Iterator[None]:
    before = peak_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert peak_memory() - before < 1000, "a file of a few kilobytes took more than 1 GB"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files of every kind, a good model, a good run and a good checkpoint."""
    place = tmp_path_factory.mktemp("good")
    rng = np.random.default_rng(0)
    data = Trajectories(
        [rng.normal(size=(n, 2)) for n in (6, 9)],
        [np.arange(n) * 0.1 for n in (6, 9)],
        [rng.normal(size=(n, 1)) for n in (6, 9)],
        names=["q", "p"],
    )
    for ending in ("csv", "parquet", "npz"):
        write(data, place / f"data.{ending}")
    h5py = pytest.importorskip("h5py")
    with h5py.File(place / "data.h5", "w") as file:
        file["x"], file["t"] = data.x[0], data.t[0]
    t = np.arange(0, 5, 0.05)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    SJEPA(encoder="identity").fit([x, 2 * x], [t, t]).save(place / "model")
    mixed = Trajectories.from_frame(oscillators(6, 12), time="t", id="run")
    options = {**OPTIONS, "cycles": 1, "warm_epochs": 1, "dynamics_epochs": 1, "space_epochs": 1}
    model = SJEPA(search=sjepa.Alternating(**options), verbose=[_Stop()], random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(mixed, run=place / "run")
    return place


class _Stop(sjepa.callbacks.Callback):
    def on_step(self, step: Any) -> None:
        if step.cycle:
            raise KeyboardInterrupt


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "h5"])
def test_spoilt_data_files(ending: str, folder: Path, tmp_path: Path) -> None:
    good = (folder / f"data.{ending}").read_bytes()
    path = tmp_path / f"data.{ending}"

    @fuzz(30)
    @given(edits, st.sampled_from(["raise", "drop"]))
    def check(changes: Any, missing: Any) -> None:
        path.write_bytes(spoil(good, changes))
        only_our_errors(lambda: read(path, missing=missing))

    check()


cells = (
    st.floats() | st.integers() | st.text(max_size=4) | st.sampled_from(["", "1e400", "nan", "0x1"])
)


@fuzz(40)
@given(
    st.lists(st.lists(cells, min_size=1, max_size=4), max_size=6),
    st.sampled_from(["t,x,y", "t,x", "time,x,x", "trajectory,t,x", "a;b;c", "", "t,action.u,x"]),
    st.sampled_from([None, "t", "x", 0.1, "nowhere", -1.0, math.nan]),
)
def test_any_table(tmp_path: Path, rows: list[list[Any]], header: str, time: Any) -> None:
    path = tmp_path / "data.csv"
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    only_our_errors(lambda: read(path, time=time))


@fuzz(60)
@given(
    st.text(alphabet="z12.+-*/^(),e sincoabxp<>=", max_size=40)
    | st.text(max_size=30)
    | st.sampled_from(
        ["(" * 500, "z1" + "**z1" * 50, "9" * 5000, "z1." * 9, "exp(" * 90 + "z1" + ")" * 90]
    )
)
def test_any_text_as_an_equation(text: str) -> None:
    only_our_errors(lambda: parse(text, ["z1", "z2"]))
    only_our_errors(lambda: Law.from_string(text, ["z1", "z2"]))


@fuzz(30)
@given(edits)
def test_spoilt_laws(changes: Any) -> None:
    good = Law.from_string(["z2", "-0.9*sin(z1) - 0.1*z2"], ["z1", "z2"]).to_json().encode()
    only_our_errors(lambda: Law.from_json(spoil(good, changes)))


@fuzz(30)
@given(st.floats(0, 1), anything, st.booleans())
def test_laws_with_a_wrong_value_anywhere(where: float, value: Any, remove: bool) -> None:
    good = json.loads(Law.from_string(["z2", "-0.9*sin(z1)"], ["z1", "z2"]).to_json())
    only_our_errors(lambda: Law.from_json(json.dumps(changed(good, where, value, remove))))


@pytest.mark.parametrize(
    "name", ["config.json", "law.json", "model.safetensors", "metrics.parquet"]
)
def test_spoilt_models(name: str, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder / "model", place)
    good = (place / name).read_bytes()

    @fuzz(20)
    @given(edits)
    def check(changes: Any) -> None:
        (place / name).write_bytes(spoil(good, changes))
        only_our_errors(lambda: sjepa.load(place))

    check()


def test_models_with_a_wrong_value_anywhere(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder / "model", place)
    good = json.loads((place / "config.json").read_text())
    x = np.zeros((3, 2))

    @fuzz(60)
    @given(st.floats(0, 1), anything, st.booleans())
    def check(where: float, value: Any, remove: bool) -> None:
        (place / "config.json").write_text(json.dumps(changed(good, where, value, remove)))
        if only_our_errors(lambda: sjepa.load(place)):
            only_our_errors(lambda: sjepa.load(place).predict(x))

    check()


@fuzz(40)
@given(
    st.sampled_from(["linear", "mlp", "cnn", "ratios", "whitening", "correction"]),
    st.dictionaries(
        st.sampled_from(["obs_shape", "latent_dim", "width", "depth", "rank", "k", "bound"]),
        st.integers(-1, 2**40) | st.lists(st.integers(0, 2**33), max_size=4) | anything,
        max_size=4,
    ),
)
def test_any_description_of_a_network(kind: str, arguments: dict[str, Any]) -> None:
    only_our_errors(lambda: from_spec({"type": kind, **arguments}, {}))


def test_spoilt_checkpoints(folder: Path, tmp_path: Path) -> None:
    good = (folder / "run" / "checkpoint.safetensors").read_bytes()
    path = tmp_path / "checkpoint.safetensors"

    @fuzz(40)
    @given(edits)
    def check(changes: Any) -> None:
        path.write_bytes(spoil(good, changes))
        only_our_errors(lambda: RunRecorder(path=path).restore())

    check()


def test_checkpoints_with_a_wrong_value_anywhere(folder: Path, tmp_path: Path) -> None:
    """Well-formed, with a right checksum, and still not what a run expects."""
    place = tmp_path / "run"
    shutil.copytree(folder / "run", place)
    good = read_state(place / "checkpoint.safetensors", KIND, VERSION)
    mixed = Trajectories.from_frame(oscillators(6, 12), time="t", id="run")
    asked = json.loads((place / "run.json").read_text())["asked"]["settings"]
    spots = list(_spots(good))

    @fuzz(5)
    @given(st.integers(0, len(spots) - 1), st.sampled_from([None, -1, "x", [], {}, 1e9, [1]]))
    def check(spot: int, value: Any) -> None:
        state = _replaced(good, spots[spot], value)
        write_state(place / "checkpoint.safetensors", KIND, VERSION, state)
        model = SJEPA(search=asked["search"], verbose=[_Stop()], random_state=0)
        try:
            only_our_errors(lambda: model.fit(mixed, run=place))
        except KeyboardInterrupt:  # it went on, and was stopped at its first step
            pass

    check()


def _spots(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _spots(value, (*path, key))
    elif isinstance(data, list | tuple):
        for key, value in enumerate(data):
            yield from _spots(value, (*path, key))


def _replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(data, dict):
        return {k: _replaced(v, tuple(rest), value) if k == first else v for k, v in data.items()}
    new = [_replaced(v, tuple(rest), value) if k == first else v for k, v in enumerate(data)]
    return tuple(new) if isinstance(data, tuple) else new


@fuzz(30)
@given(
    st.text(max_size=60)
    | st.builds(
        lambda k, v: f"{k} = {v!r}", st.sampled_from(["seed", "out", "latent-dim", "sed"]), anything
    )
)
def test_any_file_of_settings(tmp_path: Path, text: str) -> None:
    import typer

    from sjepa.cli.fit import fit

    alone = typer.Typer()
    alone.command()(fit)
    command = typer.main.get_command(alone)
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    only_our_errors(lambda: read_settings(path, command))


def test_any_nested_data_survives_storage(tmp_path: Path) -> None:
    path = tmp_path / "state"

    @fuzz(40)
    @given(anything)
    def check(data: Any) -> None:
        write_state(path, "test", 1, data)
        assert _same(read_state(path, "test", 1), data)

    check()
    with pytest.raises(FormatError, match="not plain data"):
        write_state(path, "test", 1, {"f": print})


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, float) and math.isnan(b):
        return isinstance(a, float) and math.isnan(a)
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and a == b


def test_any_frame(tmp_path: Path) -> None:
    columns = st.lists(
        st.floats()
        | st.integers(-(2**70), 2**70)
        | st.none()
        | st.text(max_size=3)
        | st.booleans(),
        min_size=0,
        max_size=5,
    )

    @fuzz(30)
    @given(st.dictionaries(st.sampled_from(["t", "x", "y", "id"]), columns, max_size=4))
    def check(table: dict[str, list[Any]]) -> None:
        longest = max(map(len, table.values()), default=0)
        frame = pd.DataFrame(
            {k: v + [None] * (longest - len(v)) for k, v in table.items()}, dtype=object
        )
        only_our_errors(
            lambda: Trajectories.from_frame(frame, time="t", id="id" if "id" in table else None)
        )

    check()


@pytest.mark.slow
def test_all_of_this_forty_times_over() -> None:
    """About 24,000 cases, in a process of its own: a crash of a library shows as well."""
    import subprocess
    import sys

    out = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--show-capture=no", __file__],
        env={**os.environ, "SJEPA_FUZZ": "40"},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert out.returncode == 0, out.stdout[-4000:]
