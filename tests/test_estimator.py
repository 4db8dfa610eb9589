from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sjepa
from sjepa import SJEPA
from sjepa.errors import ConfigError, DataError, UnknownBackend


T = np.arange(0.0, 10.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (0.8, 3.0), (1.2, 4.0))
]
LAW = ["z1' = 1.3*z2", "z2' = -1.3*z1"]


def test_states_can_be_the_coordinates() -> None:
    model = SJEPA(encoder="identity").fit(STATES, T)
    assert model.law_.lines(4) == LAW
    assert list(model.equations_.columns[:4]) == ["complexity", "loss", "score", "equation"]
    assert model.score(STATES, T) > 0.9999
    assert model.latex().startswith(r"\dot{z_{1}} = 1.3 z_{2}")
    assert len(model.sympy()) == 2


@pytest.mark.parametrize("kind", ["function", "module"])
def test_somebodys_encoder_is_used_frozen(kind: str) -> None:
    mixing = np.random.default_rng(0).normal(size=(2, 6))
    observed = [s @ mixing for s in STATES]
    back = np.linalg.pinv(mixing)
    if kind == "function":
        encoder: object = lambda x: np.asarray(x) @ back  # noqa: E731
    else:
        encoder = torch.nn.Linear(6, 2, bias=False)
        encoder.weight.data = torch.tensor(back.T, dtype=torch.float32)
    model = SJEPA(encoder=encoder, backend="subset").fit(observed, T)
    assert model.law_.lines(4) == LAW
    if kind == "module":
        assert not encoder.weight.requires_grad


def test_simulation_follows_the_data_from_one_observation() -> None:
    model = SJEPA(encoder="identity").fit(STATES, T)
    run = model.simulate(STATES[0][0], T)
    assert run.status == "ok"
    np.testing.assert_allclose(run.z, STATES[0], atol=1e-4)
    np.testing.assert_allclose(model.predict(STATES[0][:3]), model.law_.numpy()(STATES[0][:3]))


def test_a_diverging_law_is_reported_not_raised() -> None:
    model = SJEPA(encoder="identity").fit(STATES, T)
    model.law_ = sjepa.Law.from_string(["z1**2 + 1", "z2"], ["z1", "z2"])
    run = model.simulate(STATES[0][0], T)
    assert run.status == "diverged" and np.isnan(run.z[-1]).all()
    assert model.score(STATES, T) == -np.inf  # no mean takes the place of what was not predicted


def test_follows_scikit_learn_conventions() -> None:
    model = SJEPA(3, backend="subset", random_state=5)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.set_params(latent_dim=2).latent_dim == 2
    with pytest.raises(NotFittedError):
        model.equations_  # noqa: B018
    with pytest.raises(NotFittedError):
        model.encode(STATES)


def test_a_fitted_model_shows_its_law() -> None:
    model = SJEPA(encoder="identity", random_state=3)
    assert repr(model) == "SJEPA(encoder='identity', random_state=3)"
    assert "<math>" not in model._repr_html_()
    model.fit(STATES, T)
    assert repr(model).splitlines()[1:] == [f"    {line}" for line in LAW]
    shown = model._repr_mimebundle_()
    assert shown["text/html"].count("<math>") == 4 and shown["text/plain"] == repr(model)
    assert "random_state" in shown["text/html"]


def test_a_report_is_one_call(tmp_path: Path) -> None:
    model = SJEPA(encoder="identity").fit(STATES, T)
    page = model.report(tmp_path / "report.html", STATES, T, title="An <oscillator>")
    assert "An &lt;oscillator&gt;" in page.read_text()


def test_coordinates_and_law_are_learned_together_from_mixed_observations() -> None:
    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(4, 12))
    features = [np.column_stack([s, s[:, 0] ** 2, s[:, 0] * s[:, 1]]) for s in STATES * 4]
    scales = np.repeat(np.linspace(0.5, 1.5, 4), 5)
    observed = [
        (f * [k, k, k**2, k**2]) @ mixing + 0.002 * rng.normal(size=(len(T), 12))
        for f, k in zip(features, scales, strict=True)
    ]
    library = sjepa.Library.polynomial(["z1", "z2"], 2)
    model = SJEPA(library=library, random_state=0).fit(observed, T)
    assert model.law_.complexity("terms") == 2.0
    linear = np.array([[float(e.coeff(s)) for s in model.law_.symbols] for e in model.law_.sympy()])
    # The frequency does not depend on the choice of coordinates.
    assert abs(np.linalg.eigvals(linear).imag).max() == pytest.approx(1.3, rel=0.02)
    assert model.score(observed, T) > 0.99


@pytest.mark.slow
def test_the_alternating_search_learns_a_law_from_mixed_observations() -> None:
    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(2, 8))
    observed = [s @ mixing for s in STATES]
    model = SJEPA(search="alternating", random_state=0).fit(observed, T)
    assert model.law_.outputs == ("z1", "z2")
    assert np.isfinite(model.score(observed, T))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"search": "elegnt"}, ConfigError, "elegant, alternating"),
        ({"latent_dim": 0}, ConfigError, "whole number"),
        ({"latent_dim": 9}, ConfigError, "more than the 2 values"),
        ({"encoder": "resnet"}, ConfigError, "'identity'"),
        ({"encoder": "identity", "backend": "stslq"}, UnknownBackend, "Did you mean 'stlsq'"),
        (
            {"library": sjepa.Library.paper(["z1", "z2"]), "grammar": sjepa.Grammar(["+"], ["z1"])},
            ConfigError,
            "not both",
        ),
    ],
)
def test_wrong_settings_are_refused_in_fit(
    settings: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SJEPA(**settings).fit(STATES, T)  # type: ignore[arg-type]


def test_wrong_data_are_refused_with_the_place() -> None:
    with pytest.raises(DataError, match="Give the times"):
        SJEPA().fit(STATES)
    bad = [s.copy() for s in STATES]
    bad[2][7, 1] = np.nan
    with pytest.raises(DataError, match="trajectory 2"):
        SJEPA().fit(bad, T)
    with pytest.raises(DataError, match="expected .200, coordinates"):
        SJEPA(encoder=lambda x: x[0]).fit(STATES, T)
