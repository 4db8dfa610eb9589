"""Progress is shown where somebody looks, on standard error, and nowhere else."""

import io
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa.callbacks import ProgressBar


T = np.arange(0, 5, 0.05)
X = np.stack([np.cos(T), -np.sin(T)], axis=1)
LIBRARY = ["x1", "x2", "x1**2"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_written_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    sjepa.discover(X, T, library=LIBRARY)
    sjepa.SJEPA(encoder="identity", library=["z1", "z2"]).fit([X, 2 * X], [T, T])
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_by_default_and_none_when_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for verbose, shown in ((None, True), (False, False)):
        monkeypatch.setattr(sys, "stderr", Terminal())
        sjepa.discover(X, T, library=LIBRARY, verbose=verbose)
        model = sjepa.SJEPA(encoder="identity", library=["z1", "z2"], verbose=verbose)
        model.fit([X, 2 * X], [T, T])
        assert ("%" in sys.stderr.getvalue()) is shown  # type: ignore[attr-defined]


def test_verbose_writes_lines_for_a_batch_job(capsys: pytest.CaptureFixture[str]) -> None:
    sjepa.discover(X, T, backend="stlsq", library=LIBRARY, verbose=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(line[3:6] == " % " for line in captured.err.splitlines()) and captured.err


def test_a_notebook_gets_one_output_that_is_replaced_and_then_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda html: shown.append(html))
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: handle)
    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    with ProgressBar() as bar:
        bar.show("a < b", 0.25)
    assert shown == ["<progress value='0.250'></progress> a &lt; b", ""]


def test_a_search_inside_another_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar() as outer, ProgressBar() as inner:
        assert outer.listener is not None and inner.listener is None
    with ProgressBar() as after:
        assert after.listener is not None


def test_a_function_of_ones_own_takes_the_place_of_the_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    heard: list[Any] = []
    sjepa.discover(
        X, T, backend="stlsq", library=LIBRARY, verbose=lambda line, share: heard.append(share)
    )
    assert heard and sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_verbose_is_checked() -> None:
    with pytest.raises(sjepa.errors.ConfigError, match="verbose"):
        sjepa.SJEPA(verbose="loud").fit([X, 2 * X], [T, T])


def test_the_bar_needs_no_display_package_at_import() -> None:
    code = "import sys, sjepa.callbacks; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


def test_ctrl_c_ends_a_search_of_trees_and_keeps_what_it_found() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 2))
    y = np.sin(1.7 * x[:, 0]) * np.exp(0.4 * x[:, 1]) + 0.1 * rng.normal(size=300)
    seen: list[str] = []

    def press(line: str, share: float) -> None:
        seen.append(line)
        if "run 2" in line:
            signal.raise_signal(signal.SIGINT)

    backend = {"name": "operon", "runs": 50}
    model = sjepa.SymbolicRegressor(backend, budget=300, verbose=press).fit(x, y)
    assert not any("run 3" in line for line in seen)
    assert any("stopped by Ctrl-C" in note for note in model.front_.notes)
    assert model.score(x, y) > 0.5


def test_the_laws_so_far_stand_below_the_bar() -> None:
    view = SimpleNamespace(
        shown=[], draw=lambda *parts: view.shown.append(parts), close=lambda: None
    )
    bar = ProgressBar(True)
    bar._view = view
    bar.show("operon: y, run 1 of 5\ncomplexity  loss  equation\n1  0.5  x", 0.2)
    bar.show("operon: y done", 1.0)
    assert view.shown[0] == ("operon: y, run 1 of 5", 0.2, "complexity  loss  equation\n1  0.5  x")
    assert view.shown[1][2] == view.shown[0][2]
