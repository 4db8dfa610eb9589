"""Ctrl-C ends a search and keeps what it found: in Python, on the command line, in a list."""

import json
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa.backend.portfolio import Portfolio
from sjepa.backend.registry import make_backend
from sjepa_backends.operon.run import OperonRun
from sjepa_backends.pysr import PySR
from sjepa_backends.pysr.so_far import kept_equations
from tests.backends.test_pysr_backend import PENDULUM, Standin, pendulum, standin  # noqa: F401
from tests.command import run


RECORDED = Path(__file__).parents[1] / "data_files" / "pysr" / "ours" / "v20_run_two"


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C in the second run of Operon; the runs that were begun."""
    begun: list[int] = []
    search = OperonRun.expressions

    def press(self: OperonRun, *given: object, **named: object) -> object:
        begun.append(len(begun))
        if len(begun) == 2:
            signal.raise_signal(signal.SIGINT)
        return search(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(OperonRun, "expressions", press)
    return begun


def drag(noise: float = 0.0) -> pd.DataFrame:
    law = sjepa.Law.from_string(["-0.5*v*abs(v) + 9.81"], ["v"])
    t = np.arange(0, 2, 0.02)
    v = law.simulate([0.0], t).z[:, 0] + noise * np.random.default_rng(0).normal(size=len(t))
    return pd.DataFrame({"t": t, "v": v})


def test_discover_keeps_the_laws_until_ctrl_c(pressed: list[int]) -> None:
    data = drag(0.05)
    front = sjepa.discover(
        data[["v"]].to_numpy(), data["t"].to_numpy(), feature_names=["v"], budget=300,
        backend={"name": "operon", "runs": 50},
    )  # fmt: skip
    assert len(pressed) == 2 and len(front)
    assert any("stopped by Ctrl-C" in note for note in front.notes)


def test_the_command_prints_the_laws_until_ctrl_c(pressed: list[int], tmp_path: Path) -> None:
    drag(0.05).to_csv(tmp_path / "drag.csv", index=False)
    out = run("discover", tmp_path / "drag.csv", "--time", "t", "--backend", "operon",
              "--set", "backend.runs=50", "--budget", 300, "--all")  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert len(pressed) == 2
    assert out.stdout.startswith("v' = ") and "stopped by Ctrl-C" in out.stdout


def test_after_ctrl_c_a_list_of_backends_asks_nobody_else(pressed: list[int]) -> None:
    backends = Portfolio((make_backend({"name": "operon", "runs": 50}), make_backend("operon")))
    front = backends.search(pendulum(budget=sjepa.Budget(300, cpu=True)))
    assert len(pressed) == 2 and len(front)
    assert any("stopped by Ctrl-C" in note for note in front.notes)


def test_pysr_keeps_what_it_wrote_down_until_ctrl_c(standin: Standin) -> None:  # noqa: F811
    standin.set(FIT="hangs", KEPT="1", ROWS=json.dumps(PENDULUM))
    seen: list[str] = []

    def press(line: str, share: float) -> None:
        seen.append(line)
        if line.startswith("q = q  (loss"):
            signal.raise_signal(signal.SIGINT)

    front = PySR().search(pendulum(progress=press))
    assert any("complexity      loss  equation\n       2.5  3.045e+00  q = q" in s for s in seen)
    assert front.best().round(6) == sjepa.Law.from_string(["p", "-sin(q)"], ["q", "p"])
    assert any("stopped by Ctrl-C" in note for note in front.notes)


def test_a_real_hall_of_fame_is_read_while_it_is_written() -> None:
    first, second = kept_equations(RECORDED.parent, 0.0, 2)
    assert all(isinstance(text, str) and text for text in (*first, *second))
    assert len(second) > 1
    assert kept_equations(RECORDED.parent, 2e10, 2) == [[], []]
