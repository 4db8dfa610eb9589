"""Files: what is written is read back; what is broken is refused with its name."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sjepa.data import Trajectories, read, write
from sjepa.errors import DataError, MissingDependency


def example(named: bool = True) -> Trajectories:
    rng = np.random.default_rng(0)
    lengths = (3, 5, 4)
    return Trajectories(
        [rng.normal(size=(n, 2)) for n in lengths],
        [np.cumsum(rng.uniform(0.1, 1, size=n)) for n in lengths],
        [rng.normal(size=(n, 1)) for n in lengths],
        state=[rng.normal(size=(n, 3)) for n in lengths],
        names=["q", "p"] if named else None,
        input_names=["push"] if named else None,
    )


def assert_same(a: Trajectories, b: Trajectories, rtol: float) -> None:
    assert a.names == b.names and a.input_names == b.input_names
    for what in ("x", "t", "u", "state"):
        for left, right in zip(getattr(a, what), getattr(b, what), strict=True):
            np.testing.assert_allclose(left, right, rtol=rtol, atol=0)


# Bit for bit, but for text: pandas 2 may be off in the last digit when it reads numbers.
@pytest.mark.parametrize("ending, rtol", [("csv", 1e-15), ("parquet", 0), ("npz", 0)])
def test_what_is_written_is_read_back(ending: str, rtol: float, tmp_path: Path) -> None:
    data = example()
    path = write(data, tmp_path / f"data.{ending}")
    assert_same(read(path), data, rtol)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # nothing unfinished is left


def test_frames_survive_in_npz_and_do_not_fit_into_tables(tmp_path: Path) -> None:
    frames = Trajectories(np.arange(4 * 6, dtype=np.uint8).reshape(4, 2, 3), 0.5)
    np.testing.assert_array_equal(read(write(frames, tmp_path / "a.npz")).x[0], frames.x[0])
    with pytest.raises(DataError, match=r"do not fit into a table; write \.npz"):
        write(frames, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = write(example(), tmp_path / "a.csv")
    before = path.read_bytes()
    with pytest.raises(DataError, match="rename it"):
        write(example().map(lambda x: x, names=["t", "p"]), path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_columns_have_roles(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "run,seconds,a,b,push,comment\n1,0,1,2,3,x\n1,1,1,2,3,y\n2,0,5,6,7,z\n2,2,8,9,1,\n"
    )
    data = read(path, time="seconds", id="run", columns=["a", "b"], actions=["push"])
    assert data.names == ("a", "b")
    assert data.x[1].tolist() == [[5, 6], [8, 9]]
    assert data.t[1].tolist() == [0, 2]
    assert data.u is not None and data.u[0].tolist() == [[3], [3]]


def test_a_constant_step_replaces_the_time_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n3\n")
    np.testing.assert_allclose(read(path, time=0.1).t[0], [0, 0.1, 0.2])


def test_a_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    for i in (10, 2, 1):
        pd.DataFrame({"time": [0, 1], "x": [i, i]}).to_csv(tmp_path / f"run{i}.csv", index=False)
    (tmp_path / "notes.txt").write_text("ignored")
    assert [int(x[0, 0]) for x in read(tmp_path).x] == [1, 2, 10]


def test_files_in_a_folder_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n")
    (tmp_path / "b.csv").write_text("t,y\n0,1\n1,2\n")
    with pytest.raises(DataError, match=r"names are \('y',\) in .*b\.csv but \('x',\) in .*a\.csv"):
        read(tmp_path)


def test_npz_of_others_may_be_stacked(tmp_path: Path) -> None:
    x, t = np.zeros((3, 5, 2)), np.tile(np.arange(5), (3, 1))
    np.savez(tmp_path / "a.npz", x=x, t=t)
    assert read(tmp_path / "a.npz").lengths.tolist() == [5, 5, 5]
    np.savez(tmp_path / "b.npz", x=x[0], when=t[0])
    assert read(tmp_path / "b.npz", time="when").lengths.tolist() == [5]


def test_hdf5_holds_arrays_or_a_group_per_trajectory(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    x, t = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["t"], file["u"] = x, t, t
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        for i in (10, 9):
            file[f"run{i}/x"], file[f"run{i}/t"] = x + i, t
    one = read(tmp_path / "a.h5")
    np.testing.assert_array_equal(one.x[0], x)
    assert one.input_names == ("u1",)
    assert [xi[0, 0] for xi in read(tmp_path / "b.hdf5").x] == [9, 10]


def test_hdf5_without_h5py_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.h5").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependency, match="pip install h5py"):
        read(tmp_path / "a.h5")


class Bomb:
    """Anything that is unpickled from a file would set it off."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (sys.exit, ("a file was executed",))


def _csv(text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "a.csv").write_text(text)
        return folder / "a.csv"

    return make


def _npz(**arrays: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        np.savez(folder / "a.npz", **arrays)  # type: ignore[arg-type]
        return folder / "a.npz"

    return make


def _raw(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _cut(ending: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = write(example(), folder / f"a.{ending}")
        path.write_bytes(path.read_bytes()[:-200])
        return path

    return make


X, T = np.zeros((5, 2)), np.arange(5.0)
BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "no.csv", "no such file"),
    "folder without data": (lambda folder: folder, "holds none of"),
    "unknown ending": (_raw("a.xlsx", b"x"), "unknown file ending"),
    "no ending": (_raw("a", b"x"), "unknown file ending"),
    "empty": (_raw("a.csv", b""), "empty"),
    "header only": (_csv("t,x\n"), "no rows"),
    "blank lines": (_csv("\n\n"), "no header"),
    "not text": (_raw("a.csv", bytes(range(128, 256))), "cannot be read as csv"),
    "uneven rows": (_csv("t,x\n0,1\n1,2,3,4\n"), "cannot be read as csv"),
    "a name twice": (_csv("t,a,a\n0,1,1\n1,2,2\n"), "two columns are called 'a'"),
    "no time": (_csv("a,b\n0,1\n1,2\n"), "no column is called t or time; .*as time=...: a, b"),
    "text in a number column": (_csv("t,x\n0,1\n1,2\n2,oops\n"), "'x' holds 'oops' in row 2"),
    "missing value": (_csv("t,x\n0,1\n1,\n2,3\n"), "NaN.*row 1 of the table"),
    "text column": (_csv("t,x,who\n0,1,a\n1,2,b\n"), "'who' does not hold numbers"),
    "csv called parquet": (_raw("a.parquet", b"t,x\n0,1\n"), "cannot be read as parquet"),
    "cut parquet": (_cut("parquet"), "cannot be read as parquet"),
    "cut npz": (_cut("npz"), "not an NPZ archive, or it is cut short"),
    "text called npz": (_raw("a.npz", b"hello"), "not an NPZ archive"),
    "pickle called npz": (_raw("a.npz", pickle.dumps(Bomb())), "not an NPZ archive"),
    "object array": (_npz(x=np.array([Bomb(), 1], dtype=object), t=T), "cannot be read as npz"),
    "npz without x": (_npz(X=X, t=T), "no array 'x'; found: X, t"),
    "npz without t": (_npz(x=X), "no array 't'.*Give a step: time="),
    "npz of text": (_npz(x=np.array(["a", "b"]), t=T[:2]), "holds text"),
    "npz lengths": (_npz(x=X, t=T, lengths=np.array([2, 2])), "add up to the 5 rows"),
    "npz mismatch": (_npz(x=X, t=T[:4]), "5 observations but t has 4"),
    "not hdf5": (_raw("a.h5", b"hello"), "cannot be read as h5"),
}


@pytest.mark.parametrize("make, message", BROKEN.values(), ids=BROKEN)
def test_a_bad_file_is_refused_by_name_in_one_line(
    make: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    if "hdf5" in message:
        pytest.importorskip("h5py")
    path = make(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_roles_are_for_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="are for tables"):
        read(_npz(x=X, t=T)(tmp_path), columns=["q"])


def test_writing_says_which_endings_it_knows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"use \.csv, \.parquet, \.npz"):
        write(example(), tmp_path / "a.h5")
    with pytest.raises(DataError, match="does not exist; create it first"):
        write(example(), tmp_path / "no" / "a.csv")


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_a_damaged_file_is_read_or_refused_but_never_raises_anything_else(
    ending: str, tmp_path: Path
) -> None:
    path = write(example(), tmp_path / f"a.{ending}")
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(good)
        for where in rng.integers(len(good), size=3):
            damaged[where] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            read(path)
        except DataError:
            refused += 1
    assert refused > 0
