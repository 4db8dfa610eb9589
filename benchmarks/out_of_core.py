"""Many rows in Parquet files through `discover(folder)`: time against reading, memory, workers.

    OMP_NUM_THREADS=1 python benchmarks/out_of_core.py --rows 10000000 [--folder DIR] [--dask]

Lorenz's system, one trajectory of a million states in each file, the derivatives not included.
The first figure is one pass of reading the files, the second `discover` on one process. With
`--dask` also one and two Dask workers, and two of which one is killed on the way; beside the clock,
which needs idle cores, what idle cores would need by CPU time: what is done here, and the busiest
worker. Files are kept in `--folder` for the next time.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sjepa
from sjepa import Library
from sjepa.data.files import read


PIECE, STEP, NAMES = 1_000_000, 0.002, ["x", "y", "z"]
LIBRARY = Library.polynomial(NAMES, 3)


def write(folder: Path, rows: int) -> list[Path]:
    """1,000 starts side by side, a thousand steps each, joined to trajectories in a file."""

    def field(s: np.ndarray) -> np.ndarray:
        x, y, z = s
        return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    files = [folder / f"part{i:04}.parquet" for i in range(-(-rows // PIECE))]
    for i, path in enumerate(files):
        if path.exists():
            continue
        s = np.random.default_rng(i).normal(size=(3, 1000)) * 8 + np.array([[0], [0], [25]])
        states = np.empty((1000, 3, 1000))
        for k in range(-500, 1000):
            if k >= 0:
                states[k] = s
            for _ in range(2):
                h = STEP / 2
                a = field(s)
                b = field(s + h / 2 * a)
                c = field(s + h / 2 * b)
                s = s + h / 6 * (a + 2 * b + 2 * c + field(s + h * c))
        columns = states.transpose(2, 0, 1).reshape(-1, 3)
        table = pd.DataFrame(columns, columns=NAMES)
        table.insert(0, "t", np.tile(STEP * np.arange(1000), 1000))
        table.insert(0, "trajectory", np.repeat(np.arange(1000), 1000))
        table.to_parquet(path, index=False)
    return files


def timed(what: str, run: Any) -> tuple[float, float, Any]:
    """Seconds by the clock and of CPU time in this process, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {wall:.1f} s, {cpu:.1f} s of CPU time here, peak {peak:.0f} MB", flush=True)
    return wall, cpu, result


def busiest(client: Any, before: dict[str, float] | None = None) -> Any:
    """CPU time of each worker; with that of before, the most that one of them has spent since."""
    now = client.run(time.process_time)
    return now if before is None else max(now[name] - before[name] for name in now)


def killed(client: Any) -> Any:
    """A run during which one worker is killed."""

    def kill() -> None:
        time.sleep(3)
        pids = list(client.run(os.getpid).values())
        os.kill(pids[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    front = sjepa.discover(arguments.folder, library=LIBRARY, budget=sjepa.Budget(executor=client))
    thread.join()
    return front


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--dask", action="store_true")
    arguments = parser.parse_args()
    if arguments.folder is None:
        arguments.folder = Path(tempfile.mkdtemp())
    arguments.folder.mkdir(parents=True, exist_ok=True)
    files = write(arguments.folder, arguments.rows)
    size = sum(f.stat().st_size for f in files) / 2**20
    print(f"{len(files)} files, {size:.0f} MB")
    _, reading, _ = timed("reading", lambda: [len(read(f)) for f in files])
    _, own, front = timed("discover", lambda: sjepa.discover(arguments.folder, library=LIBRARY))
    print(f"{own / reading:.1f} times one pass of reading\n{front.best()}", flush=True)
    if arguments.dask:
        from dask.distributed import Client, LocalCluster

        walls, needed = [], []
        for count in (1, 2):
            with (
                LocalCluster(
                    n_workers=count, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                before = busiest(client)
                wall, own, again = timed(
                    f"{count} Dask workers",
                    lambda client=client: sjepa.discover(
                        arguments.folder, library=LIBRARY, budget=sjepa.Budget(executor=client)
                    ),
                )
                walls.append(wall)
                needed.append(own + busiest(client, before))
                print(f"idle cores would need {needed[-1]:.1f} s", flush=True)
                assert again.to_dict() == front.to_dict()
                if count == 2:
                    *_, lost = timed("two, one killed", lambda client=client: killed(client))
                    print("the same front after a kill:", lost.to_dict() == front.to_dict())
        print(f"two workers are {walls[0] / walls[1]:.2f} times as fast as one by the clock")
        print(f"and {needed[0] / needed[1]:.2f} times on idle cores, by CPU time")
