"""Diagnosis of encoders, as a function and as a command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.encoders import diagnose
from benchmarks.encoders.__main__ import main
from benchmarks.encoders.measure import rollouts
from sjepa import encoders
from sjepa.data import Trajectories, rendered, with_history, write
from sjepa.errors import ConfigError, DataError
from sjepa.symbolic import Law, Library


T = np.arange(0.0, 8.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in zip(np.linspace(0.5, 1.5, 10), range(10), strict=True)
]
MIXING = np.random.default_rng(0).normal(size=(2, 30))
DATA = Trajectories([s @ MIXING for s in STATES], T, state=STATES)


def test_a_good_encoder_is_told_from_a_bad_one() -> None:
    back = np.linalg.pinv(MIXING)
    cubic = lambda x: np.sign(x @ back) * np.abs(x @ back) ** 3  # noqa: E731
    energy = lambda x: np.stack([(x @ back) @ [1, 0], ((x @ back) ** 2).sum(1)], 1)  # noqa: E731
    found = diagnose({"good": lambda x: x @ back, "bent": cubic, "energy": energy}, DATA)
    good, bent, shortcut = found
    assert good.complexity.value == 2.0 and good.complexity.certificate == "exact"
    assert good.law.lines(3) == ["z1' = 1.3*z2", "z2' = -1.3*z1"]
    assert good.rollout.mse < 1e-4 and good.probe > 0.9999 and not good.findings
    assert bent.complexity.value == np.inf and bent.rollout.mse > 100 * good.rollout.mse
    assert bent.probe < 0.95  # a straight line through a cubic
    assert [f.name for f in shortcut.findings] == ["conserved-quantity collapse"]


def test_heads_are_compared_on_the_same_embedding() -> None:
    wide = encoders.pixels()
    found = diagnose({"pca": (wide, "pca"), "slow": (wide, "slow"), "auto": wide}, DATA)
    assert [row.head for row in found] == ["pca", "slow", "pca"]
    assert all(row.embedding == 30 and row.probe > 0.9999 for row in found)
    assert "2 principal components of an embedding of 30 values; 100.0%" in found["pca"].notes[0]
    assert found["pca"].law == found["auto"].law


def test_the_table_the_figure_and_the_files_agree(tmp_path: Path) -> None:
    found = diagnose({"a": encoders.pixels(), "b": (encoders.pixels(), "whiten")}, DATA)
    frame = found.to_frame()
    assert frame["encoder"].tolist() == ["a", "b"]
    found.save(tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert [row["C_dyn"] for row in saved["encoders"]] == frame["C_dyn"].tolist()
    assert saved["encoders"][0]["curve"][-1]["complexity"] >= frame["C_dyn"][0]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "diagnosis.json", "diagnosis.png", "table.csv",
    ]  # fmt: skip
    assert "law" in repr(found) and found["b"].head == "whiten"
    with pytest.raises(KeyError, match="no encoder 'c'"):
        found["c"]
    left, right = found.plot().axes
    assert len(left.lines) == 3 and len(right.lines[0].get_xdata()) == found.horizon


def test_rollouts_start_inside_held_out_trajectories_and_match_the_closed_form() -> None:
    """A law that is wrong by a known amount gives the error that the closed form says."""
    data = Trajectories(STATES, T, names=["z1", "z2"])
    wrong = Law.from_string(["1.2*z2", "-1.2*z1"], ["z1", "z2"])
    path, goal, where = rollouts(wrong, data, 1, 20)
    steps = 0.05 * np.arange(1, 21)
    for p, g, (i, k) in zip(path, goal, where, strict=True):
        start = STATES[i][k]
        radius, phase = np.hypot(*start), np.arctan2(-start[1], start[0])
        np.testing.assert_allclose(p[:, 0], radius * np.cos(phase + 1.2 * steps), atol=1e-5)
        np.testing.assert_allclose(g[:, 0], radius * np.cos(phase + 1.3 * steps), atol=1e-9)


def test_second_order_from_frames_separates_trained_coordinates_from_frozen_ones() -> None:
    data = rendered("spring_mass", 0, trajectories=16, length=60, size=16)
    library = Library.from_terms(["1", "z1", "z1_dot", "sin(z1)"], ["z1", "z1_dot"])
    frozen = {"pca": (encoders.pixels(), "pca"), "trained": ("identity", "learned")}
    found = diagnose(frozen, data, latent_dim=1, order=2, library=library, delta=0.01)
    trained, pca = found["trained"], found["pca"]
    assert trained.complexity.value == 1.0
    assert trained.law.lines(2) == ["z1'' = -2*z1"]
    assert trained.rollout.mse < 1e-3 < pca.rollout.mse
    assert pca.complexity.value > 1.0
    assert trained.probe > 0.999 and pca.probe_embedding > 0.999


@pytest.mark.slow
def test_two_frames_show_a_velocity_to_a_first_order_law() -> None:
    data = with_history(rendered("spring_mass", 0, trajectories=16, length=60, size=16), 2)
    found = diagnose({"trained": ("identity", "learned")}, data, latent_dim=2)
    assert found["trained"].complexity.value == 2.0 and found["trained"].probe > 0.99


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"encoders": {}}, ConfigError, "at least one encoder"),
        ({"delta": 0.0}, ConfigError, "positive number"),
        ({"order": 3}, ConfigError, "order must be 1 or 2"),
        ({"horizon": 500}, ConfigError, "does not fit"),
        ({"head": "none"}, ConfigError, "30 values, the library or grammar is for 2"),
        ({"head": "pcaa"}, ConfigError, "Did you mean 'pca'"),
        ({"latent_dim": 40}, ConfigError, "embedding has 30 values"),
        ({"encoders": {"constant": lambda x: np.ones((len(x), 20))}}, DataError, "same embedding"),
    ],
)
def test_wrong_requests_are_refused(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    given = {"encoders": {"pixels": encoders.pixels()}, "data": DATA} | options
    with pytest.raises(error, match=message):
        diagnose(**given)  # type: ignore[arg-type]


def test_the_command_compares_encoders_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(DATA, tmp_path / "data.npz")

    def command(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["encoders", *map(str, arguments)])
        main()

    command(tmp_path / "data.npz", "pixels", "--heads", "pca", "slow", "--out", tmp_path / "out")
    assert "z1' =" in capsys.readouterr().out
    saved = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert [row["head"] for row in saved["encoders"]] == ["pca", "slow"]
    with pytest.raises(SystemExit) as stop:
        command("absent.npz", "pixels")
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
