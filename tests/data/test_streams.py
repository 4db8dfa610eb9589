"""Data that are not in memory give the law that they give in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa import Library
from sjepa.backend.executors import run_on
from sjepa.errors import ConfigError, DataError, MissingDependency


STEP, NAMES = 0.02, ["q", "p"]
LIBRARY = Library.polynomial(NAMES, 3)


def trajectories(count: int = 6, noise: float = 0.0) -> list[np.ndarray]:
    """A Duffing oscillator from several starts, by small steps of the classic method."""

    def field(s: np.ndarray) -> np.ndarray:
        return np.stack([s[1], s[0] - s[0] ** 3 - 0.2 * s[1]])

    rng = np.random.default_rng(0)
    s, rows = rng.uniform(-1.5, 1.5, (2, count)), []
    for _ in range(400):
        rows.append(s)
        for _ in range(4):
            h = STEP / 4
            a = field(s)
            b = field(s + h / 2 * a)
            c = field(s + h / 2 * b)
            s = s + h / 6 * (a + 2 * b + 2 * c + field(s + h * c))
    stacked = np.stack(rows) + noise * rng.normal(size=(400, 2, count))
    return [stacked[:, :, i] for i in range(count)]


def table(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"t": STEP * np.arange(len(x)), "q": x[:, 0], "p": x[:, 1]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, x in enumerate(trajectories()):
        table(x).to_parquet(tmp_path / f"part{i}.parquet")
    return tmp_path


def in_memory(**options: Any) -> sjepa.Law:
    data = trajectories()
    return sjepa.discover(data, STEP, feature_names=NAMES, library=LIBRARY, **options).best()


def same(law: sjepa.Law, other: sjepa.Law) -> bool:
    return law.round(6) == other.round(6)


def test_a_folder_of_parquet_files_and_an_iterator_give_the_law_of_the_arrays(folder: Path) -> None:
    front = sjepa.discover(folder, library=LIBRARY)
    assert same(front.best(), in_memory())
    assert front.form == "derivative" and front.best_candidate().certified
    one_by_one = sjepa.discover(
        iter(trajectories()), STEP, feature_names=NAMES, library=LIBRARY
    ).best()
    assert same(one_by_one, in_memory())


def test_noisy_streams_are_fitted_in_the_weak_form() -> None:
    data = trajectories(noise=0.01)
    front = sjepa.discover(iter(data), STEP, feature_names=NAMES, library=LIBRARY)
    whole = sjepa.discover(data, STEP, feature_names=NAMES, library=LIBRARY)
    assert front.form == whole.form == "weak"
    assert [{t for _, t in row} for row in front.best().terms] == [
        {t for _, t in row} for row in whole.best().terms
    ]


def test_an_iterator_is_read_once_and_a_few_pieces_ahead() -> None:
    """What is opened and not yet summed up stays bounded, whatever the length of the stream."""
    taken = summed = ahead = 0

    def source() -> Iterator[int]:
        nonlocal taken, ahead
        for i in range(200):
            taken += 1
            ahead = max(ahead, taken - summed)
            yield i

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        for i, result in enumerate(run_on(pool, lambda number, item: (number, item), source())):
            summed += 1
            assert result == (i, i)
    assert summed == 200 and ahead < 10


def test_rows_for_trees_are_a_fair_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from sjepa.data import streams

    monkeypatch.setattr(streams, "SAMPLE", 2000)
    sizes = (500, 4000, 15_500)
    pieces = [np.arange(n, dtype=float) + 100_000 * i for i, n in enumerate(sizes)]

    def part(number: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        keys = np.random.default_rng([0, number]).random(len(rows))
        kept = np.argsort(keys)[:2000]
        return keys[kept], rows[kept, None], rows[kept, None]

    drawn, _ = streams._drawn(iter(part(i, p) for i, p in enumerate(pieces)))
    assert len(drawn) == 2000 and len(np.unique(drawn)) == 2000
    share = np.bincount((drawn[:, 0] // 100_000).astype(int)) / 2000
    assert share == pytest.approx(np.array(sizes) / 20_000, abs=0.03)


def test_what_streams_cannot_do_is_refused() -> None:
    for options in (
        {"derivatives": "discrete"},
        {"u": np.zeros(400)},
        {"x_dot": np.zeros((400, 2))},
    ):
        with pytest.raises(ConfigError, match="not in memory"):
            sjepa.discover(iter(trajectories()), STEP, **options)
    with pytest.raises(DataError, match="empty"):
        sjepa.discover(iter(()), STEP)
    with pytest.raises(ConfigError, match="local, dask, ray"):
        sjepa.discover(iter(trajectories()), STEP, budget=sjepa.Budget(executor="slurm"))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, package in (("ray", "'ray'"), ("dask", "'dask\\[distributed\\]'")):
        monkeypatch.setitem(sys.modules, "ray" if name == "ray" else "dask.distributed", None)
        with pytest.raises(MissingDependency, match=f"pip install {package}"):
            list(run_on(name, lambda number, item: item, [1]))


def _die_once(number: int, item: tuple[str, int]) -> int:
    """The worker of the third item is killed the first time."""
    mark, value = item
    if number == 2 and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os._exit(1)
    return value * value


def test_dask_workers_give_the_same_bytes_and_may_be_lost(folder: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("dask.distributed")
    dataframe = pytest.importorskip("dask.dataframe")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        alone = sjepa.discover(folder, library=LIBRARY)
        pair = sjepa.discover(folder, library=LIBRARY, budget=sjepa.Budget(executor=client))
        assert pair.to_dict() == alone.to_dict()
        frame = dataframe.read_parquet(folder)
        named = sjepa.discover(frame, library=LIBRARY, budget=sjepa.Budget(executor="dask"))
        assert same(named.best(), alone.best())
        items = [(str(tmp_path / "killed"), i) for i in range(6)]
        assert list(run_on(client, _die_once, items)) == [i * i for i in range(6)]
        assert (tmp_path / "killed").exists()


@pytest.mark.slow
def test_ray_workers_give_the_same_bytes_and_may_be_lost(folder: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    alone = sjepa.discover(folder, library=LIBRARY)
    try:
        ray_workers = sjepa.Budget(executor="ray", workers=2)
        pair = sjepa.discover(folder, library=LIBRARY, budget=ray_workers)
        assert pair.to_dict() == alone.to_dict()
        data = ray.data.from_pandas([table(x) for x in trajectories()])
        there = sjepa.discover(data, library=LIBRARY, budget=ray_workers)
        assert same(there.best(), alone.best())
        items = [(str(tmp_path / "killed"), i) for i in range(6)]
        assert list(run_on("ray", _die_once, items)) == [i * i for i in range(6)]
    finally:
        ray.shutdown()
