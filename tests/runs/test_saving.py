"""A model that was saved and read again does everything as before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import sjepa
from sjepa import SJEPA, Library
from sjepa.errors import ConfigError, FormatError
from sjepa.models import Whitening, make_encoder
from sjepa.models.serialization import from_spec, to_spec


pytestmark = pytest.mark.filterwarnings("ignore:Free runs")  # laws short of a term, on purpose


T = np.arange(0.0, 6.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (0.8, 3.0), (1.2, 4.0))
]
MIX = np.random.default_rng(5).normal(size=(2, 5))
OBSERVED = [s @ MIX for s in STATES]
LIBRARY = Library.polynomial(["z1", "z2"], 1)


def unmix(x: object) -> np.ndarray:
    return np.asarray(x) @ np.linalg.pinv(MIX)


def wide(x: object) -> np.ndarray:
    """Somebody's embedding of 40 values."""
    mix = np.random.default_rng(6).normal(size=(5, 40))
    return np.tanh(0.1 * np.asarray(x) @ mix)


MODELS = {
    "identity": (SJEPA(encoder="identity", library=["z1", "z2"]), STATES),
    "joint": (SJEPA(library=LIBRARY, random_state=0), OBSERVED),
    "alternating": (
        SJEPA(
            search=sjepa.Alternating(cycles=1, warm_epochs=2, dynamics_epochs=1, space_epochs=1),
            library=LIBRARY,
            backend={"name": "stlsq", "threshold": 0.05},
        ),
        OBSERVED,
    ),
    "stochastic": (
        SJEPA(
            search=sjepa.Alternating(
                cycles=1,
                warm_epochs=1,
                dynamics_epochs=1,
                space_epochs=1,
                network="residual",
                stochastic=True,
                representation={"variational": 1e-3, "variance": 1.0},
            ),
            library=LIBRARY,
        ),
        OBSERVED,
    ),
    "function": (SJEPA(encoder=unmix), OBSERVED),
    "head": (SJEPA(encoder=sjepa.ReadOut(wide, "whiten")), OBSERVED),
    "corrected": (SJEPA(encoder="identity", correction=sjepa.Neural(updates=40)), STATES),
    "neural map": (
        SJEPA(
            search=sjepa.LawOnly(derivatives="discrete"),
            encoder="identity",
            correction=sjepa.Neural(alone=True, updates=40),
        ),
        STATES,
    ),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request: pytest.FixtureRequest) -> tuple[SJEPA, list[np.ndarray]]:
    model, x = MODELS[request.param]
    return clone(model).fit(x, T), x


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_a_saved_model_does_everything_as_before(
    fitted: tuple[SJEPA, list[np.ndarray]], tmp_path: Path
) -> None:
    model, x = fitted
    model.save(tmp_path / "model")
    given = None if isinstance(model.encoder, str) else model.encoder
    again = sjepa.load(tmp_path / "model", encoder=given)
    assert again.law_ == model.law_ and again.law_.to_json() == model.law_.to_json()
    assert again.equations_.equals(model.equations_)
    np.testing.assert_array_equal(again.encode(x[0]), model.encode(x[0]))
    np.testing.assert_array_equal(again.predict(x[0]), model.predict(x[0]))
    np.testing.assert_array_equal(again.simulate(x[0][0], T).z, model.simulate(x[0][0], T).z)
    assert again.score(x, T) == model.score(x, T)
    assert again.diagnostics_ == model.diagnostics_
    assert again.n_features_in_ == model.n_features_in_
    before, after = model.get_params(), again.get_params()
    assert str(before.pop("library")) == str(after.pop("library"))
    assert before == after
    assert {p.name for p in (tmp_path / "model").iterdir()} == {
        "model.safetensors",
        "law.json",
        "config.json",
        "metrics.parquet",
    }
    again.save(tmp_path / "twice")  # what was read can be saved, to the same bytes
    for name in ("law.json", "model.safetensors"):
        assert (tmp_path / "twice" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_an_encoder_of_the_users_own_must_be_given_again(tmp_path: Path) -> None:
    SJEPA(encoder=unmix).fit(OBSERVED, T).save(tmp_path / "model")
    with pytest.raises(FormatError, match=r"unmix\).*give it again: sjepa.load\(folder, encoder="):
        sjepa.load(tmp_path / "model")


def test_saving_again_replaces_a_model_and_nothing_else(tmp_path: Path) -> None:
    model = SJEPA(encoder="identity").fit(STATES, T)
    model.save(tmp_path / "model")
    named = sjepa.Trajectories(STATES, T, names=["q", "p"])
    SJEPA(encoder="identity").fit(named).save(tmp_path / "model")
    assert sjepa.load(tmp_path / "model").law_.outputs == ("q", "p")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds other things, such as notes\.txt"):
        model.save(tmp_path / "model")
    with pytest.raises(ConfigError, match="is a file"):
        model.save(tmp_path / "model" / "notes.txt")
    with pytest.raises(ConfigError, match="does not exist; create"):
        model.save(tmp_path / "no" / "where")


def test_a_model_of_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    SJEPA(encoder="identity").fit(STATES, T).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "version": 99}))
    with pytest.raises(FormatError, match="version 99, this release reads up to 1.*newer sjepa"):
        sjepa.load(tmp_path / "model")


def test_a_correction_is_stored_with_its_transition(tmp_path: Path) -> None:
    model = SJEPA(encoder="identity", correction=sjepa.Neural(updates=5, width=8)).fit(STATES, T)
    network = model.transition_.correction
    assert network is not None
    for parameter in network.parameters():  # the law leaves nothing over, so it would be zero
        parameter.data += 0.1
    model.save(tmp_path / "model")
    again = sjepa.load(tmp_path / "model").transition_
    z = torch.tensor(STATES[0])
    law, correction = model.transition_.parts(z)
    assert correction.abs().max() > 0
    for mine, theirs in zip(again.parts(z), (law, correction), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["linear", "mlp", "residual", "cnn", "identity"])
def test_every_encoder_survives_as_plain_data(name: str) -> None:
    shape = (3, 16, 16) if name == "cnn" else (6,)
    latent = 6 if name == "identity" else 2
    options = {"width": 7} if name in ("mlp", "residual", "cnn") else {}
    encoder = make_encoder(name, shape, latent, **options)
    x = torch.randn(4, 9, *shape)
    whitened = torch.nn.Sequential(Whitening.fit(x, shape, rank=4), make_encoder("linear", 4, 2))
    for module in (encoder, whitened):
        description = json.loads(json.dumps(to_spec(module)))
        noisier_copy = from_spec(description, module.state_dict())
        noisier_copy.requires_grad_()  # as in `module`: without gradients torch may take another kernel
        torch.testing.assert_close(noisier_copy(x), module(x), rtol=0, atol=0)


def test_modules_of_others_cannot_be_described() -> None:
    class Mine(torch.nn.Linear):
        pass

    assert to_spec(Mine(2, 2)) is None
    assert to_spec(torch.nn.Sequential(make_encoder("linear", 2, 2), Mine(2, 2))) is None


@pytest.mark.parametrize(
    "description",
    [
        {"type": "linear", "obs_shape": [2], "latent_dim": 10**9},
        {"type": "linear", "obs_shape": [10**9, 10**9], "latent_dim": 2},
        {"type": "mlp", "obs_shape": [2], "latent_dim": 2, "width": 4, "depth": 10**6},
        {"type": "sequential", "parts": [{"type": "sequential", "parts": []}] * 100},
        {"type": "os.system"},
        {"type": "linear", "obs_shape": [2], "latent_dim": 2, "device": "cpu"},
        None,
    ],
)
def test_a_description_can_ask_for_no_more_than_the_file_holds(description: object) -> None:
    with pytest.raises(FormatError):
        from_spec(description, {"linear.weight": torch.zeros(2, 2), "linear.bias": torch.zeros(2)})


def test_a_run_resumes_only_with_its_own_settings_and_data(tmp_path: Path) -> None:
    SJEPA(encoder="identity").fit(STATES, T, run=tmp_path / "run")
    again = SJEPA(encoder="identity").fit(STATES, T, run=tmp_path / "run")
    assert again.law_.lines(3) == ["z1' = 1.3*z2", "z2' = -1.3*z1"]
    with pytest.raises(ConfigError, match="began with backend='stlsq', now it is 'subset'"):
        SJEPA(encoder="identity", backend="subset").fit(STATES, T, run=tmp_path / "run")
    with pytest.raises(ConfigError, match="The data are not those"):
        SJEPA(encoder="identity").fit(STATES[:4], T, run=tmp_path / "run")
    with pytest.raises(ConfigError, match="the folder of a run"):
        again.save(tmp_path / "run")


def test_a_joint_search_resumes_after_a_round(tmp_path: Path) -> None:
    """Stopped at every rung in turn: no rung is climbed twice, and nothing else changes."""
    from sjepa.callbacks import Callback, Step

    class Stop(Callback):
        def on_step(self, step: Step) -> None:
            if "restarts, horizon" in step.text:
                lines.append(step.text)
                raise KeyboardInterrupt

    small = {"structures": 5, "restarts": 2, "finalists": 2, "effort": 0.2, "refinement": 10,
             "rollout": 3, "grow": False}  # fmt: skip
    model = SJEPA(2, search=sjepa.Joint(**small), library=["z1", "z2", "sin(z1)"], random_state=0)
    whole = clone(model).fit(OBSERVED, T)
    lines: list[str] = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_params(verbose=[Stop()]).fit(OBSERVED, T, run=tmp_path / "run")
    horizons = [int(line.split("horizon ")[1].split(":")[0]) for line in lines]
    assert horizons == sorted(set(horizons)) and len(horizons) == 3
    again = clone(model).fit(OBSERVED, T, run=tmp_path / "run")
    assert again.law_.to_json() == whole.law_.to_json()
    np.testing.assert_array_equal(again.encode(OBSERVED[0]), whole.encode(OBSERVED[0]))


def test_a_joint_search_resumes_after_its_refined_encoders(tmp_path: Path) -> None:
    from sjepa.callbacks import Callback, Step

    class Stop(Callback):
        def on_step(self, step: Step) -> None:
            if step.text.startswith("refining"):
                raise KeyboardInterrupt

    model = SJEPA(library=LIBRARY, random_state=0)
    whole = clone(model).fit(OBSERVED, T)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(verbose=[Stop()]).fit(OBSERVED, T, run=tmp_path / "run")
    again = clone(model).set_params(verbose=lambda line, share: lines.append(line))
    again.fit(OBSERVED, T, run=tmp_path / "run")
    assert not any(line.startswith(("subspace", "gauge")) for line in lines), "it searched again"
    assert again.law_.to_json() == whole.law_.to_json()
    np.testing.assert_array_equal(again.encode(OBSERVED[0]), whole.encode(OBSERVED[0]))
