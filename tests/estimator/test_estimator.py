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
def test_a_given_encoder_is_used_frozen(kind: str) -> None:
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


def test_predict_and_simulate_take_what_fit_took() -> None:
    model = SJEPA(encoder="identity").fit(STATES, 0.05)
    rotation = 1.3 * np.array([[0.0, -1.0], [1.0, 0.0]])
    one, many, data = STATES[1], STATES, sjepa.Trajectories(STATES, T)
    np.testing.assert_allclose(model.predict(one), one @ rotation, atol=1e-3)
    for given in (many, data):
        for found, x in zip(model.predict(given), STATES, strict=True):
            np.testing.assert_allclose(found, x @ rotation, atol=1e-3)
    for given, times in ((many, 0.05), (many, None), (data, None)):
        for path, x in zip(model.simulate(given, times), STATES, strict=True):
            np.testing.assert_allclose(path.z, x, atol=1e-3)
    np.testing.assert_allclose(model.simulate(one, T).z, one, atol=1e-3)
    for given, states in ((one, 2 * one), ([one, one[:50]], [2 * one, 2 * one[:50]])):
        np.testing.assert_allclose(model.align(given, states).matrix, 2 * np.eye(2), atol=1e-9)
    assert model.score(many) == model.score(data) == model.score(many, T) > 0.9999


def test_a_second_order_model_predicts_accelerations() -> None:
    positions = [x[:, :1] for x in STATES]
    model = SJEPA(encoder="identity", order=2).fit(positions, T)
    for found, x in zip(model.predict(positions, t=T), positions, strict=True):
        np.testing.assert_allclose(found, -1.69 * x, atol=0.02)
    with pytest.raises(ConfigError, match="give the times"):
        model.predict(positions)


@pytest.mark.parametrize("backend", ["stlsq", "subset"])
def test_the_table_of_equations_shows_them_and_marks_the_law(backend: str) -> None:
    model = SJEPA(encoder="identity", backend=backend).fit(STATES, T)
    table = model.equations_
    assert table["chosen"].sum() == 1
    assert table.loc[table["chosen"], "equation"].item() == "z1' = 1.3*z2; z2' = -1.3*z1"
    shown = str(table)
    assert max(map(len, shown.splitlines())) <= 80
    marked = [line for line in shown.splitlines() if line.startswith(">")]
    assert len(marked) == 1 and "z1' = 1.3*z2" in marked[0]
    for equation in table["equation"]:  # nothing is hidden, whatever the lines are broken into
        for part in equation.split("; "):
            assert part.replace(" ", "") in shown.replace("\n", "").replace(" ", "")
    refined = SJEPA(encoder="identity").fit(STATES, T)
    refined.law_ = refined.law_.with_coefficients(1.01 * refined.law_.coefficients)
    assert (
        refined.equations_["chosen"].tolist()
        == SJEPA(encoder="identity").fit(STATES, T).equations_["chosen"].tolist()
    )


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
    # Coordinates are free up to an affine map, in which the states must be found again.
    seen = np.concatenate(STATES)
    back = model.align(observed, STATES)(np.concatenate(model.encode(observed)))
    assert 1 - ((back - seen) ** 2).sum() / ((seen - seen.mean(0)) ** 2).sum() > 0.98
    assert model.score(observed, T) > 0.9


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"search": "jiont"}, ConfigError, "Did you mean 'joint'"),
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
