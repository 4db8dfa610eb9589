"""Tables as instruments and spreadsheets write them, and the command line on one with every vice."""

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from sjepa.data import read
from sjepa.errors import DataError, DataWarning
from tests.command import run as command


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "a.csv"
    path.write_bytes(text.encode(encoding))
    return path


PLAIN = "t,x,y\n0,1.5,2\n1,2.5,3\n2,3.5,5\n"
# The same table, each time in another hand.
HANDS = {
    "semicolons and decimal commas": "t;x;y\n0;1,5;2\n1;2,5;3\n2;3,5;5\n",
    "semicolons and points": "t;x;y\n0;1.5;2\n1;2.5;3\n2;3.5;5\n",
    "tabs": PLAIN.replace(",", "\t"),
    "bars and spaces": PLAIN.replace(",", " | "),
    "comments": "# a\n% b\n" + PLAIN.replace("2,3.5", "# c\n// d\n2,3.5"),
    "a header of numpy": f"# {PLAIN}",
    "separators at the ends": PLAIN.replace("\n", ",\n"),
    "a byte order mark": f"\ufeff{PLAIN}",
    "quotes": '"t","x","y"\n0,"1.5",2\n1,2.5,3\n2,3.5,5\n',
    "a line of Windows": PLAIN.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("text", HANDS.values(), ids=HANDS.keys())
def test_a_table_is_the_same_in_every_hand(text: str, tmp_path: Path) -> None:
    data = read(written(tmp_path, text))
    assert data.names == ("x", "y")
    np.testing.assert_array_equal(data.x[0], [[1.5, 2], [2.5, 3], [3.5, 5]])
    np.testing.assert_array_equal(data.t[0], [0, 1, 2])


START = datetime(2024, 3, 12, 23, 59, 58)
CLOCKS = {
    "%Y-%m-%d %H:%M:%S.%f": 0.5,
    "%Y-%m-%dT%H:%M:%S.%fZ": 0.5,
    "%d.%m.%Y %H:%M:%S,%f": 0.5,
    "%m/%d/%Y %H:%M:%S": 1.0,
    "%d/%m/%Y %H:%M": 3600.0,
    "%H:%M:%S.%f": 0.1,
    "%Y-%m-%d": 86400.0,
}


@pytest.mark.parametrize("name", ["time", "timestamp", "Zeitpunkt"])
@pytest.mark.parametrize(("form", "step"), CLOCKS.items(), ids=CLOCKS.keys())
def test_dates_become_seconds_since_the_first(
    name: str, form: str, step: float, tmp_path: Path
) -> None:
    if name == "Zeitpunkt" and "%d" not in form:
        pytest.skip("nothing says that a time of day is the time")
    rows = [f"{(START + timedelta(seconds=step * k)).strftime(form)};{k}" for k in range(8)]
    with pytest.warns(DataWarning, match="seconds since the first"):
        data = read(written(tmp_path, "\n".join([f"{name};x", *rows])))
    np.testing.assert_allclose(data.t[0], step * np.arange(8), atol=1e-9)


@pytest.mark.filterwarnings("ignore::sjepa.errors.DataWarning")  # the data are to be odd
def test_days_and_months_that_could_be_either_make_even_steps(tmp_path: Path) -> None:
    rows = [
        f"{(datetime(2024, 3, 1) + timedelta(days=k)).strftime('%d/%m/%Y')};{k}" for k in range(9)
    ]
    with pytest.warns(DataWarning, match="day/month") as said:
        data = read(written(tmp_path, "\n".join(["date;x", *rows])))
    assert len(said) == 2
    np.testing.assert_array_equal(data.t[0], 86400 * np.arange(9))


def test_a_cell_that_is_no_date_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "time,x\n2024-01-01,1\nyesterday,2\n2024-01-03,3\n")
    with pytest.raises(DataError, match="'yesterday' in row 1"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_units_and_odd_names_are_kept(encoding: str, tmp_path: Path) -> None:
    text = "t;Füllstand;flow rate;lambda;T [°C]\ns;cm;l/min;;\n0;1;2;3;4\n1;2;3;4;5\n2;3;4;5;6\n"
    path = written(tmp_path, text, encoding)
    with pytest.warns(DataWarning, match="is flow_rate"):
        data = read(path)
    assert [data.labels[n] for n in data.names or ()] == [
        "Füllstand (cm)", "flow rate (l/min)", "lambda", "T [°C]",
    ]  # fmt: skip
    assert sorted(data.units.values()) == ["cm", "l/min", "°C"]
    for asked in ("flow rate (l/min)", "flow rate", "flow_rate"):
        with pytest.warns(DataWarning):
            assert read(path, columns=[asked]).x[0].ravel().tolist() == [2, 3, 4]


def test_a_first_row_without_numbers_is_no_header_if_it_holds_values(tmp_path: Path) -> None:
    path = written(tmp_path, "trajectory,t,x\nrun,0,NA\nrun,1,2\nrun,2,3\nrun,3,3\n")
    with pytest.raises(DataError, match="row 0 of the table"):
        read(path)


def test_numbers_with_two_kinds_of_commas_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'x' does not hold numbers"):
        read(written(tmp_path, "t;x;y\n0;1,234;0.5\n1;1,235;0.7\n"))


# From the command line to a report --------------------------------------------------------------


def tank(count: int = 240, step: float = 0.25) -> str:
    """Level' = 0.4 flow - 0.5 level, lambda' = 0.6 level - 0.3 lambda, in all that can be odd."""
    fine = 20  # steps of the integration to one of the file
    h, z, rows = step / fine, np.array([2.0, 0.5]), []

    def flow(t: float) -> float:
        return 1 + 0.6 * np.sin(0.7 * t) + 0.3 * np.sin(0.23 * t)

    def field(t: float, z: np.ndarray) -> np.ndarray:
        return np.array([0.4 * flow(t) - 0.5 * z[0], 0.6 * z[0] - 0.3 * z[1]])

    for k in range(count * fine):
        t = k * h
        if k % fine == 0:
            when = (START + timedelta(seconds=t)).strftime("%d.%m.%Y %H:%M:%S,%f")[:-3]
            cells = [f"{v:.6f}".replace(".", ",") for v in (z[0], flow(t), z[1])]
            rows.append(";".join([when, *cells]) + ";")
        a = field(t, z)
        b = field(t + h / 2, z + h / 2 * a)
        c = field(t + h / 2, z + h / 2 * b)
        d = field(t + h, z + h * c)
        z = z + h / 6 * (a + 2 * b + 2 * c + d)
    rows.insert(50, "# battery changed")
    head = ["# logger 7", "% exported in März", "Zeitpunkt;Level 1 (cm);flow rate;lambda;"]
    return "\r\n".join([*head, "Datum;;l/min;1/s;", *rows])


def test_a_file_with_every_vice_goes_from_the_command_line_to_a_report(tmp_path: Path) -> None:
    (tmp_path / "tank.csv").write_bytes(tank().encode("cp1252"))
    found = command("discover", "tank.csv", "--actions=flow rate", "--out=run", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    first, second = found.stdout.splitlines()[:2]
    numbers = [float(n) for n in re.findall(r"\d\.\d+", first + second)]
    np.testing.assert_allclose(sorted(numbers), [0.3, 0.4, 0.5, 0.6], rtol=1e-3)
    for name in ("Level 1 (cm)", "flow rate (l/min)", "lambda (1/s)"):
        assert found.stderr.count(name) == 1
    report = command("report", "run", "--out=page.html", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "page.html").read_text()
    assert "Level 1 (cm)" in page and "Level_1: Level 1 (cm)" in page
    for also in (
        ["export", "run", "--to", "latex"],
        ["simulate", "run", "--data=tank.csv", "--out=path.csv"],
    ):
        done = command(*also, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_units_in_brackets_need_not_be_said_again(tmp_path: Path) -> None:
    pytest.importorskip("pint")
    (tmp_path / "tank.csv").write_bytes(tank().encode("cp1252"))
    given = ["discover", "tank.csv", "--actions=flow_rate", "--library=Level_1,lambda_,flow_rate"]
    done = command(*given, "--units=t=s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_front_is_printed_up_to_two_rows_after_the_law_and_nothing_twice(
    tmp_path: Path,
) -> None:
    (tmp_path / "tank.csv").write_bytes(tank().encode("cp1252"))
    given = ["discover", "tank.csv", "--actions=flow rate", "--backend=stlsq"]
    short, whole = (command(*given, *more, cwd=tmp_path) for more in ([], ["--all"]))

    def rows(text: str) -> list[str]:
        return re.findall(r"^[> ] +[\d.]+ +\d\.\d+e[+-]\d+ ", text, re.MULTILINE)

    chosen = next(i for i, row in enumerate(rows(whole.stdout)) if row.startswith(">"))
    assert rows(short.stdout) == rows(whole.stdout)[: chosen + 3]
    said = re.findall(r"note: (.*)", short.stdout + short.stderr)
    assert len(said) == len(set(said))


@pytest.mark.parametrize(("given", "path"), [(["discover"], "a.csv"), (["fit"], "nothing.csv")])
def test_a_wrong_path_or_column_is_reported_before_torch_is_imported(
    given: list[str], path: str, tmp_path: Path
) -> None:
    written(tmp_path, PLAIN)
    code = (
        "import sys; sys.modules['torch'] = None\n"  # importing it would fail
        f"sys.argv = ['sjepa', *{given!r}, {path!r}, '--columns=z']\n"
        "from sjepa.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        "no such file" in done.stderr if path == "nothing.csv" else "no column 'z'" in done.stderr
    )


def test_a_search_that_is_stopped_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sjepa.discovery.discover", stopped)
    written(tmp_path, PLAIN)
    done = command("discover", "a.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "sjepa: stopped.\n")
