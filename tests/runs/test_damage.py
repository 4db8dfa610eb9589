"""Damaged, truncated, foreign and malicious folders: refused in one line, nothing run or changed."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import sjepa
from sjepa.callbacks import Callback
from sjepa.errors import SjepaError
from tests.command import run as command

from .small import OPTIONS, oscillators


class Bomb:
    """Leaves a mark if anybody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


class _Stop(Callback):
    def on_step(self, step: object) -> None:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and one that was stopped, both of a data file beside them."""
    place = tmp_path_factory.mktemp("good")
    oscillators(mixed=False).to_csv(place / "states.csv", index=False)
    oscillators().to_csv(place / "mixed.csv", index=False)
    done = command(
        "fit", place / "states.csv", "--id=run", "--encoder=identity", f"--out={place}/finished"
    )
    assert done.returncode == 0, done.stderr
    options = [f"--set=search.{k}={v}" for k, v in OPTIONS.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sjepa.cli.progress.GracefulInterrupt.on_step", _Stop.on_step)
        stopped = command(
            "fit", place / "mixed.csv", "--id=run", "--search=alternating", *options,
            f"--out={place}/stopped",
        )  # fmt: skip
    assert stopped.returncode == 130 and (place / "stopped/checkpoint.safetensors").exists()
    return place


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def edit(**changes: object) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


def unpicklable(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(path.parent / "executed")))


def torch_pickle(path: Path) -> None:
    torch.save({"encoder": Bomb(path.parent / "executed")}, path)


def code(path: Path) -> None:
    """An expression that would be a command, under a right checksum."""
    mark = path.parent / "executed"
    law = json.loads(path.read_text())
    law["expressions"][0] = f"__import__('os').mkdir('{mark}')"
    path.write_text(json.dumps(law))
    config = path.parent / "config.json"
    data = json.loads(config.read_text())
    data["checksums"]["law.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    config.write_text(json.dumps(data))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


MODEL = [
    ("config.json", cut),
    ("config.json", empty),
    ("config.json", deep),
    ("config.json", pipe),
    ("config.json", device),
    ("config.json", folder_instead),
    ("config.json", edit(version=7)),
    ("config.json", edit(version="1; rm")),
    ("config.json", edit(format="other")),
    ("config.json", edit(encoder={"type": "linear", "obs_shape": [10**9], "latent_dim": 10**9})),
    ("config.json", edit(encoder={"type": "posix.system", "command": "x"})),
    ("config.json", edit(front={"laws": [{"law": "x"}]})),
    ("config.json", edit(params={"unheard_of": 1})),
    ("config.json", unpicklable),
    ("law.json", cut),
    ("law.json", flip),
    ("law.json", remove),
    ("law.json", code),
    ("law.json", pipe),
    ("model.safetensors", cut),
    ("model.safetensors", flip),
    ("model.safetensors", unpicklable),
    ("model.safetensors", torch_pickle),
    ("model.safetensors", pipe),
    ("model.safetensors", device),
    ("metrics.parquet", cut),
    ("metrics.parquet", remove),
    ("metrics.parquet", unpicklable),
]
RUN = [
    ("run.json", cut),
    ("run.json", deep),
    ("run.json", pipe),
    ("run.json", edit(version=2)),
    ("run.json", edit(asked=[])),
    ("run.json", edit(asked={"settings": {"latent_dim": 2}})),
    ("run.json", edit(asked={"settings": {"callbacks": {"given": "os.system"}}})),
    ("run.json", unpicklable),
    ("checkpoint.safetensors", cut),
    ("checkpoint.safetensors", flip),
    ("checkpoint.safetensors", empty),
    ("checkpoint.safetensors", unpicklable),
    ("checkpoint.safetensors", torch_pickle),
    ("checkpoint.safetensors", pipe),
]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.name: p.read_bytes()
        for p in folder.iterdir()
        if p.is_file() and not p.is_symlink() and p.name not in (".lock", "log.txt")
    }


@pytest.mark.parametrize(("name", "spoil"), MODEL)
def test_a_spoilt_model_is_refused(
    name: str, spoil: Callable[[Path], None], good: Path, tmp_path: Path
) -> None:
    place = tmp_path / "model"
    shutil.copytree(good / "finished", place)
    spoil(place / name)
    before = contents(place)
    with pytest.raises(SjepaError) as refused:
        sjepa.load(place)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
    assert not (place / "executed").exists(), "something in the folder was executed"
    assert contents(place) == before, "something was changed"


@pytest.mark.parametrize(("name", "spoil"), RUN)
def test_a_spoilt_run_is_not_continued(
    name: str, spoil: Callable[[Path], None], good: Path, tmp_path: Path
) -> None:
    place = tmp_path / "run"
    shutil.copytree(good / "stopped", place)
    spoil(place / name)
    before = contents(place)
    out = command("fit", "--resume", place)
    lines = [line for line in out.stderr.splitlines() if line.startswith("sjepa: ")]
    assert out.returncode == 2 and len(lines) == 1, out.stderr
    assert not (place / "executed").exists() and contents(place) == before


@pytest.mark.parametrize(
    ("place", "value"), [("stage", "x"), ("cycle", -(10**9)), ("epoch", -(10**9)), ("epoch", 0.5)]
)
def test_a_checkpoint_cannot_make_training_endless(
    place: str, value: object, good: Path, tmp_path: Path
) -> None:
    """Well-formed and with a right checksum, but with counts that no run has."""
    from sjepa.runs.recorder import KIND, VERSION
    from sjepa.storage.tensors import read_state, write_state

    run = tmp_path / "run"
    shutil.copytree(good / "stopped", run)
    state = read_state(run / "checkpoint.safetensors", KIND, VERSION)
    if place == "epoch":
        state["state"]["epoch"] = value
    else:
        inner = {"cycle": 0, "stage": "propose", "phase": None, **state["state"], place: value}
        state |= {"stage": "cycles", "state": inner}
    write_state(run / "checkpoint.safetensors", KIND, VERSION, state)
    out = command("fit", "--resume", run)
    assert out.returncode == 2 and "does not fit this run" in out.stderr, out.stderr


def test_folders_of_others_are_left_alone(good: Path, tmp_path: Path) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("years of work")
    for arguments in (
        ["fit", good / "states.csv", "--id=run", "--encoder=identity", f"--out={other}"],
        ["fit", "--resume", other],
    ):
        out = command(*arguments)
        assert out.returncode == 2 and len(out.stderr.strip().splitlines()) == 1, out.stderr
    with pytest.raises(SjepaError, match="holds other things"):
        sjepa.load(good / "finished").save(other)
    assert [p.name for p in other.iterdir()] == ["chapter1.tex"]
    again = command(
        "fit", good / "states.csv", "--id=run", "--encoder=identity", f"--out={good}/finished"
    )
    assert again.returncode == 2 and "already holds a run" in again.stderr
