"""Data files that would shift columns, read other files, fill the memory or take for ever."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa.data import Trajectories, read, write
from sjepa.errors import MAX_MESSAGE, DataError, DataWarning


def refused(path: Path, part: str, **options: Any) -> None:
    with pytest.raises(DataError, match=part) as error:
        read(path, **options)
    assert str(path) in str(error.value) and len(str(error.value)) <= MAX_MESSAGE


@pytest.mark.parametrize(
    "rows", [["0,1,2", "1,2,3", "2,3,4"], ["0,1,2,3", "1,2,3,4"], ["0,1,2", "1,2", "2,3"]]
)
def test_a_row_with_a_value_more_than_the_header_is_refused(
    rows: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["t,x", *rows]) + "\n")
    refused(path, "row 0 has more values than the header has names")


def test_a_comma_at_the_end_of_each_row_is_no_value(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1,\n1,2,\n2,4,\n")
    np.testing.assert_array_equal(read(path).x[0][:, 0], [1, 2, 4])


def test_comments_before_the_header_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# made by, a logger\n#\nt,x\n0,1\n1,2\n2,4\n")
    np.testing.assert_array_equal(read(path).x[0][:, 0], [1, 2, 4])
    path.write_text("t,run,x\n0,a#1,1\n1,a#1,2\n0,b#2,3\n1,b#2,4\n")
    assert read(path, id="run").ids == ("a#1", "b#2")  # no comment there


def test_a_table_of_many_columns_is_read_in_linear_time(tmp_path: Path) -> None:
    """Twice the columns may not take four times the time."""

    def seconds(columns: int) -> float:
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(3, columns)))
        frame.columns = [f"c{i}" for i in range(columns)]
        frame.insert(0, "t", [0.0, 1.0, 2.0])
        path = tmp_path / f"{columns}.parquet"
        frame.to_parquet(path)
        start = time.process_time()
        with pytest.warns(UserWarning, match="more columns than rows"):
            assert read(path, time=0.1, columns=list(frame.columns)).obs_shape == (columns + 1,)
        return time.process_time() - start

    seconds(100)
    assert seconds(6_000) < 8 * seconds(1_500) + 1.0


@pytest.mark.parametrize("lengths", [[-3, 9], [0, 6], [7, -1], [2**62, 2**62, 2**63 - 2**63 + 6]])
def test_lengths_that_are_no_lengths_are_refused(lengths: list[int], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((6, 2)), t=np.arange(6.0), lengths=np.array(lengths))
    refused(path, "add up to the 6 rows")


def test_names_of_trajectories_survive(tmp_path: Path) -> None:
    x = [np.random.default_rng(i).normal(size=(4, 2)) for i in range(2)]
    data = Trajectories(x, 0.1, names=["q", "p"], ids=["exp-A", "exp-B"])
    for ending in ("csv", "parquet", "npz"):
        assert read(write(data, tmp_path / f"a.{ending}")).ids == ("exp-A", "exp-B")
    assert data[1].ids == ("exp-B",) and data.map(np.sin).ids == data.ids
    with pytest.warns(DataWarning):
        holed = Trajectories(
            [np.r_[x[0], [[np.nan, 0]], x[0]], x[1]], 0.1, ids=["a", "b"], missing="drop"
        )
    assert holed.ids == ("a", "a part 2", "b")


# HDF5 ------------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Numbers in another file, which no data file has a right to."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.arange(20.0).reshape(10, 2)
    np.arange(20.0).tofile(tmp_path / "secret.bin")
    return tmp_path


@pytest.mark.parametrize("kind", ["external link", "through a link", "external storage", "virtual"])
def test_hdf5_reads_no_other_file(secret: Path, kind: str) -> None:
    import h5py

    path = secret / "a.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(10.0)
        if kind == "external link":
            file["x"] = h5py.ExternalLink("secret.h5", "/x")
        elif kind == "through a link":
            file["aside"] = h5py.ExternalLink("secret.h5", "/")
            file["x"] = h5py.SoftLink("/aside/x")
        elif kind == "external storage":
            where = [(str(secret / "secret.bin"), 0, 160)]
            file.create_dataset("x", (10, 2), dtype="f8", external=where)
        else:
            layout = h5py.VirtualLayout((10, 2), dtype="f8")
            layout[:] = h5py.VirtualSource(str(secret / "secret.h5"), "x", (10, 2))
            file.create_virtual_dataset("x", layout)
    refused(path, "is a link|lies in other files")


def test_a_small_hdf5_file_does_not_become_a_large_array(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(10.0)
        file.create_dataset("x", (2**29,), dtype="f8", chunks=(2**20,), fillvalue=1.0)
    assert path.stat().st_size < 20_000
    refused(path, "claims to hold 4294967376 bytes")


# Parquet ---------------------------------------------------------------------------------------


def test_a_parquet_cell_is_bounded(tmp_path: Path) -> None:
    """One long text that stands for a hundred thousand rows: half a terabyte if written out."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    rows = 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, "int32")), ["x" * 5_000_000])
    path = tmp_path / "a.parquet"
    table = pa.table({"t": np.arange(rows) * 0.1, "x": np.zeros(rows), "who": texts})
    pyarrow.parquet.write_table(table, path)
    refused(path, "'who' holds a text of over")


def test_lists_in_a_parquet_cell_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"t": [0.0, 1.0], "x": [[1.0] * 3, [2.0] * 3]}).to_parquet(path)
    refused(path, "'x' holds lists")


def test_parquet_that_stands_for_much_more_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    zeros = pa.table({"t": np.zeros(50_000_000)})
    pyarrow.parquet.write_table(zeros, path, row_group_size=50_000_000)
    assert path.stat().st_size < 1_000_000
    refused(path, "claims to hold 400000000 bytes")


def test_text_columns_of_parquet_are_what_they_were(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": [0.0, 1, 0, 1], "x": [1.0, 2, 3, 4], "run": ["b", "b", "a", "a"]})
    frame.to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", id="run").ids == ("b", "a")


# Messages --------------------------------------------------------------------------------------


def test_messages_stay_short_and_keep_beginning_and_end(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": [0.0, 1.0], "x" * 100_000: ["a", "b"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError) as error:
        read(tmp_path / "a.csv")
    text = str(error.value)
    assert len(text) <= MAX_MESSAGE and text.startswith(str(tmp_path))
    assert text.endswith("name the columns to observe: columns=[...].")


def test_a_pipe_is_refused_and_not_awaited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    refused(tmp_path / "a.csv", "not a plain file")


# Tables ----------------------------------------------------------------------------------------


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# a logger\nt,a,a\n0,1,2\n1,2,3\n")
    refused(tmp_path / "a.csv", "two columns are called 'a'")


def test_a_spreadsheet_finds_no_formula_and_we_find_what_was_written(tmp_path: Path) -> None:
    """Names of trajectories come from others; '-1.5' is a number and stays one."""
    ids = ["=cmd|' /C calc'!A0", "+x", "-y", "@z", "'=a", "''", "-1.5", "exp-A"]
    data = Trajectories([np.ones((3, 1)) * i for i in range(8)], 0.1, names=["q"], ids=ids)
    path = write(data, tmp_path / "a.csv")
    cells = {row[0] for row in csv.reader(path.open(newline=""))}
    assert not [c for c in cells if c[0] in "=+@\t\r" or (c[0] == "-" and c != "-1.5")]
    assert read(path).ids == tuple(ids)
