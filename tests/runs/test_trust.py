"""What a run folder or a configuration file may decide, and what only the person at the keyboard."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sklearn.base import clone

import sjepa
from sjepa.backend import Backend, Problem, registry
from sjepa.errors import ConfigError
from sjepa.symbolic import Front
from tests.command import run as command

from .small import oscillators


FIT = ("fit", "data.csv", "--id=run", "--encoder=identity")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trust")
    oscillators(4, 40, mixed=False).to_csv(folder / "data.csv", index=False)
    out = command(*FIT, "--out=run", cwd=folder)
    assert out.returncode == 0, out.stderr
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A finished run and its data, with the times they had."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    said["asked"]["data"]["path"] = str(tmp_path / "data.csv")
    (tmp_path / "run" / "run.json").write_text(json.dumps(said))
    return tmp_path


@pytest.fixture
def pysr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if PySR were installed; it is never imported."""
    (tmp_path / "site" / "pysr").mkdir(parents=True)
    (tmp_path / "site" / "pysr" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path / "site")


def begun_with(place: Path, **settings: Any) -> Path:
    """The run, edited to ask for these settings and not to be finished."""
    path = place / "run" / "run.json"
    said = json.loads(path.read_text())
    said["asked"]["settings"] |= settings
    path.write_text(json.dumps(said))
    (place / "run" / "config.json").unlink(missing_ok=True)
    return path.parent


def refused(*given: object, cwd: Path) -> str:
    out = command(*given, cwd=cwd)
    assert out.returncode == 2, (out.returncode, out.stdout, out.stderr)
    assert out.stderr.count("\n") == 1 and not out.stdout, out
    return out.stderr


CODE = {
    "command": ["/bin/sh", "-c", "touch ran"],
    "elementwise_loss": 'f(x, y) = (run(`touch ran`); abs(x - y))',
    "loss_function": "f(tree, dataset, options) = run(`touch ran`)",
    "options": {"binary_operators": ["g(x, y) = (run(`touch ran`); x)"]},
    "template": {"combine": "f(q) #= =#; run(`touch ran`)", "expressions": ["f"]},
    "cluster_manager": "slurm",
    "hall_of_fame": "ran",
    "tensorboard": "ran",
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_code_programs_and_paths_in_files_are_refused_whoever_wrote_them(
    place: Path, name: str, pysr: None
) -> None:
    settings = {"name": "pysr", name: CODE[name]}
    text = ", ".join(f"{k} = {_toml(v)}" for k, v in settings.items())
    (place / "fit.toml").write_text(f"backend = {{ {text} }}\n")
    refused("fit", f"--resume={begun_with(place, backend=settings)}", cwd=place)
    for backend in (["stlsq", settings], {"name": [settings]}):
        with pytest.raises(ConfigError):
            registry.make_backend(registry.from_file(backend))
    said = refused(*FIT, "--config=fit.toml", cwd=place)
    assert name in said
    refused("discover", "data.csv", "--id=run", "--config=fit.toml", cwd=place)
    assert not (place / "ran").exists() and not (place / "run" / "ran").exists()


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def test_no_setting_of_pysr_is_a_program() -> None:
    from sjepa_backends.pysr import PySR

    with pytest.raises(TypeError):
        PySR(command=["true"])  # type: ignore[call-arg]


def test_the_line_and_trust_say_what_a_file_may_not(place: Path) -> None:
    """PySINDy's options are passed on as they are: plain on the line, not in a file."""
    pytest.importorskip("pysindy")
    text = 'backend = { name = "pysindy", options = { threshold = 0.2 } }\n'
    (place / "fit.toml").write_text(text)
    discover = ("discover", "data.csv", "--id=run")
    assert "--trust" in refused(*discover, "--config=fit.toml", cwd=place)
    (place / "self.toml").write_text(text + "trust = true\n")
    assert "trust" in refused(*discover, "--config=self.toml", cwd=place)
    trusted = command(*discover, "--config=fit.toml", "--trust", cwd=place)
    option = '--set=backend.options={"threshold": 0.2}'
    typed = command(*discover, "--backend=pysindy", option, cwd=place)
    assert trusted.returncode == typed.returncode == 0, trusted.stderr + typed.stderr
    assert trusted.stdout == typed.stdout


@pytest.mark.parametrize("key", ["out", "tensorboard", "data", "resume"])
@pytest.mark.parametrize("value", ["../aside", "/tmp/aside", "link/aside"])
def test_paths_in_a_configuration_file_stay_beside_it(place: Path, key: str, value: str) -> None:
    (place / "link").symlink_to(place.parent)
    (place / "fit.toml").write_text(f'{key} = "{value}"\n')
    assert key in refused("fit", "--config=fit.toml", cwd=place)


@dataclass(frozen=True)
class Plugin(Backend):
    """Somebody's backend: `depth` is declared plain, the others are not."""

    name: ClassVar[str] = "plugin"
    plain: ClassVar[frozenset[str]] = frozenset({"depth"})
    depth: int = 1
    program: str = "none"

    def search(self, problem: Problem) -> Front:
        return problem.front([], self.name)


def test_of_a_plugin_only_what_it_declares_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    source = registry.Source(f"{__name__}:Plugin", "somebody's")
    monkeypatch.setattr(registry, "sources", lambda: {"plugin": source})
    make, read = registry.make_backend, registry.from_file
    assert make(read({"name": "plugin", "depth": 3})) == Plugin(depth=3)
    assert make(read({"name": "plugin", "program": "none"})) == Plugin()  # what it is anyway
    with pytest.raises(ConfigError):
        make(read({"name": "plugin", "program": "rm"}))
    assert make({"name": "plugin", "program": "rm"}) == Plugin(program="rm")
    monkeypatch.setattr(Plugin, "plain", Backend.plain)
    with pytest.raises(ConfigError):
        make(read({"name": "plugin", "depth": 3}))


def test_a_model_from_a_file_predicts_but_does_not_search_with_its_code(
    place: Path, pysr: None
) -> None:
    config = place / "run" / "config.json"
    said = json.loads(config.read_text())
    said["params"]["backend"] = {"name": "pysr", "loss_function": CODE["loss_function"]}
    config.write_text(json.dumps(said))
    model = sjepa.load(place / "run")
    assert model.law_.inputs == ("q", "p")
    x, t = [[[1.0, 0.0]] * 9], 0.1
    for one in (model, clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ConfigError, match="loss_function"):
            one.fit(x, t)
    model.set_params(backend="stlsq")
    registry.make_backend(model.backend)


# Data ------------------------------------------------------------------------------------------


@pytest.fixture
def secret(place: Path) -> Path:
    """A file outside the run that can be read, and that the run was not begun with."""
    path = place / "secret.csv"
    oscillators(5, 40, mixed=False).to_csv(path, index=False)
    said = json.loads((place / "run" / "run.json").read_text())
    said["asked"]["data"]["path"] = str(path)
    (place / "run" / "run.json").write_text(json.dumps(said))
    return path


def test_a_run_reads_only_data_that_it_had_seen(secret: Path) -> None:
    place = secret.parent
    assert "secret.csv" in refused("fit", "--resume=run", cwd=place)
    assert command("fit", "data.csv", "--resume=run", cwd=place).returncode == 0
    out = command("report", "run", "--out=page.html", "--json", cwd=place)
    assert out.returncode == 0 and "not read" in out.stderr and "--data" in out.stderr
    assert json.loads(out.stdout)["score"] is None  # of no data
    out = command("report", "run", "--data=data.csv", "--out=with.html", "--json", cwd=place)
    assert json.loads(out.stdout)["score"] > 0.9


def test_its_own_data_are_read_without_asking(place: Path) -> None:
    before = os.stat(place / "data.csv")
    assert command("fit", "--resume=run", cwd=place).returncode == 0
    assert "not read" not in command("report", "run", "--out=page.html", cwd=place).stderr
    os.utime(place / "data.csv", ns=(0, before.st_mtime_ns + 1))  # written anew since
    assert "--trust" in refused("fit", "--resume=run", cwd=place)
    assert command("fit", "--resume=run", "--trust", cwd=place).returncode == 0


def test_a_finished_run_is_read_without_writing(place: Path) -> None:
    """As it must on a disk that can only be read: no lock, no line of a log."""
    for name in (".lock", "log.txt"):
        (place / "run" / name).unlink()
    before = {p.name: p.stat().st_mtime_ns for p in (place / "run").iterdir()}
    assert command("fit", "--resume=run", cwd=place).returncode == 0
    assert {p.name: p.stat().st_mtime_ns for p in (place / "run").iterdir()} == before


def test_settings_are_shown_whole_and_escaped(place: Path, pysr: None) -> None:
    run = begun_with(place, backend={"name": "pysr", "options": {"pad": "x" * 400, "a": "END"}})
    said = json.loads((run / "run.json").read_text())
    said["asked"]["data"]["path"] = "/tmp/\x1b]0;owned\x07\x1b[2Jdata.csv"
    (run / "run.json").write_text(json.dumps(said))
    out = command("runs", "show", run)
    assert "END" in out.stdout
    assert out.stdout.replace("\n", "").isprintable() and "\\x1b" in out.stdout
    out = command("fit", f"--resume={run}")
    assert out.returncode == 2 and out.stderr.replace("\n", "").isprintable()
