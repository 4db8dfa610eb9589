"""The verdict on a result is shown wherever the result is: print, page, files, command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa import SJEPA
from sjepa.report import collect, render
from tests.command import run
from tests.estimator.test_history import SMALL, T, swings
from tests.report.test_page import Elements


# Nothing in it is a restoring force: whatever is found is wrong.
POOR = ["1", "z2**2"]


def states() -> list[np.ndarray]:
    return [np.stack([a * np.cos(T), -a * np.sin(T)], axis=1) for a in (0.5, 1.0, 1.5, 2.0, 2.5)]


@pytest.fixture(scope="module")
def doubtful() -> SJEPA:
    with pytest.warns(sjepa.errors.NumericalWarning):
        return SJEPA(encoder="identity", library=POOR, random_state=0).fit(states(), T)


def test_the_verdict_on_a_law_of_given_coordinates_is_that_of_the_model(
    doubtful: SJEPA, tmp_path: Path
) -> None:
    verdict = doubtful.front_.verdict
    assert verdict is not None and verdict.adequate is False
    assert doubtful.verdict_.adequate is False and doubtful.verdict_.law == doubtful.law_
    assert set(verdict.reasons) <= set(doubtful.verdict_.reasons)
    assert doubtful.warnings_ == list(verdict.reasons) != []
    assert all(reason in str(doubtful.front_) for reason in verdict.reasons)
    assert set(doubtful.warnings_) <= set(doubtful.diagnostics_)
    assert len(doubtful.diagnostics_) == len(set(doubtful.diagnostics_))
    assert all(f"! {warning}" in repr(doubtful) for warning in doubtful.warnings_)
    assert doubtful.figures_["residual_training"] == doubtful.front_.best_candidate().loss > 0.2
    doubtful.save(tmp_path / "m")
    again = sjepa.load(tmp_path / "m")
    assert again.front_ == doubtful.front_ and again.warnings_ == doubtful.warnings_
    assert again.front_.verdict == verdict and again.verdict_ == doubtful.verdict_
    sure = SJEPA(encoder="identity", random_state=0).fit(states(), T)
    assert sure.verdict_.adequate is True
    assert sure.warnings_ == [] and sure.figures_["residual_training"] < 1e-6


def test_doubts_stand_first_on_the_page_and_in_the_notebook(doubtful: SJEPA) -> None:
    content = collect(doubtful, states(), T)
    assert set(doubtful.warnings_) <= set(content.warnings)
    assert not set(content.warnings) & set(content.notes)
    page = Elements(render(content))
    words = page.text
    assert words.index("Warnings about this law") < words.index(doubtful.warnings_[0])
    assert "Warnings about this law" not in Elements(render(collect(doubtful.law_))).text
    assert f"<p>! {doubtful.warnings_[0]}" in doubtful._repr_html_()
    of_front = collect(doubtful.front_)
    verdict = doubtful.front_.verdict
    assert verdict is not None and of_front.warnings == verdict.reasons
    assert verdict.word in Elements(render(of_front)).text


def test_a_learned_head_has_the_doubts_and_figures_of_its_search() -> None:
    """The position alone of an oscillation has no law of first order."""
    seen = [x[:, :1] @ np.array([[1.0, 2.0, -1.0]]) for x in states()]
    library = sjepa.Library.from_terms(["z1", "z1**2"], ["z1"])
    model = SJEPA(1, encoder=sjepa.ReadOut(lambda x: x, "learned"), library=library, random_state=0)
    model.fit(seen, T)
    assert any("not white" in warning for warning in model.warnings_)
    assert model.figures_["adequate"] == 0.0 and "rollout_held_out" in model.figures_
    assert model.diagnostics_[0].startswith("head learned") and model.rivals_ == []


def table(tmp_path: Path, rows: list[np.ndarray], names: list[str]) -> Path:
    frames = [pd.DataFrame(x, columns=names).assign(t=T, run=i) for i, x in enumerate(rows)]
    pd.concat(frames).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")
def test_the_command_marks_doubts_and_tells_what_was_held_out(tmp_path: Path) -> None:
    data = [table(tmp_path, states(), ["q", "p"]), "--time", "t", "--id", "run"]
    poor = run("fit", *data, "--encoder", "identity", "--library", "1,p**2", "-o", tmp_path / "run")
    assert poor.returncode == 0, poor.stderr
    marked = [line for line in poor.stderr.splitlines() if line.startswith("! ")]
    assert [f"! {warning}" for warning in sjepa.load(tmp_path / "run").warnings_] == marked != []
    fine = run("fit", *data, "--encoder", "identity")
    assert "\n! " not in fine.stderr and "held out" in fine.stderr
    found = run("discover", *data, "--library", "1,p**2", "-o", tmp_path / "found")
    assert found.returncode == 0 and sjepa.load(tmp_path / "found").warnings_
    verdict = sjepa.load(tmp_path / "found").front_.verdict
    assert verdict is not None and verdict.adequate is False
    assert verdict.reasons[0] in found.stderr + found.stdout


def options(**less: int) -> list[str]:
    settings = SMALL | less
    return [
        part for name, value in settings.items() for part in ("--set", f"search.{name}={value}")
    ]


def test_the_command_reads_coordinates_off_several_rows(tmp_path: Path) -> None:
    file = table(tmp_path, swings()[:5], ["x"])
    out = run(
        "fit", file, "--time", "t", "--id", "run", "--history", "7",
        *options(structures=1, restarts=1),
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert "middle of 7 successive observations" in out.stderr
    assert "R2 of rollouts: 1.0000 held out, 1.0000 in training" in out.stderr
    wrong = run("fit", file, "--time", "t", "--id", "run", "--history", "some")
    assert wrong.returncode != 0 and "--history is a whole number or auto" in wrong.stderr


def test_the_command_finds_the_number_of_coordinates_and_shows_what_it_tried(
    tmp_path: Path,
) -> None:
    mixed = [x @ np.array([[1.0, 0.3, -0.5], [0.2, 1.0, 0.7]]) for x in states()]
    file = table(tmp_path, mixed, ["a", "b", "c"])
    out = run(
        "fit", file, "--time", "t", "--id", "run", "--latent-dim", "auto", *options(), "--json",
        "-o", tmp_path / "run",
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    told = json.loads(out.stdout)
    assert [row["dimension"] for row in told["dimensions"]] == [1, 2]
    assert [row["adequate"] for row in told["dimensions"]] == [False, True]
    assert told["figures"]["adequate"] == 1.0
    model = sjepa.load(tmp_path / "run")
    page = Elements(render(collect(model))).text
    assert "How many coordinates" in page and str(model.dimensions_["law"][0]) in page
    assert "Noise floor" in page and "in training" in page
