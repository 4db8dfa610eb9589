"""SJEPA.posterior: encode, then infer."""

import warnings

import numpy as np
import pytest
import torch

from benchmarks.bayes_data import drag_pendulum
from sjepa import SJEPA, Library
from sjepa.bayes import Posterior, posterior
from sjepa.errors import ConfigError, NumericalWarning
from tests.bayes.bayes_problems import TRUE


T = np.arange(0.0, 10.0, 0.05)
RNG = np.random.default_rng(0)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (0.8, 3.0), (1.2, 4.0), (0.6, 5.0))
]
NOISY = [s + 0.002 * RNG.normal(size=s.shape) for s in STATES]
# These states carry noise of observation, about which posterior warns; see the last test but one.
pytestmark = pytest.mark.filterwarnings("ignore:One-step residuals alternate")


def check(result: Posterior, observed: list[np.ndarray]) -> None:
    assert result.law.lines(2) == ["z1' = 1.3*z2", "z2' = -1.3*z1"]
    run = result.rollout(observed[0][0], T[:40], draws=30)
    assert run.z.shape == (30, 40, 2) and run.names == ("z1", "z2")
    np.testing.assert_allclose(run.mean, STATES[0][:40], atol=0.05)
    assert result.predict(observed[1][:3], 0.05, draws=20).mean.shape == (3, 2)
    assert len(result.calibration(observed[:2], T, horizons=(1, 5), draws=30, starts=10).table) == 2


def test_states_as_coordinates() -> None:
    model = SJEPA(encoder="identity", library=Library.polynomial(["z1", "z2"], 2)).fit(NOISY, T)
    check(model.posterior(NOISY, T, n_bootstrap=0), NOISY)


@pytest.mark.parametrize("kind", ["function", "module"])
def test_somebodys_frozen_encoder(kind: str) -> None:
    mixing = np.random.default_rng(0).normal(size=(2, 6))
    observed = [s @ mixing for s in NOISY]
    back = np.linalg.pinv(mixing)
    if kind == "function":
        encoder: object = lambda x: np.asarray(x) @ back  # noqa: E731
    else:
        encoder = torch.nn.Linear(6, 2, bias=False).double()
        encoder.weight.data = torch.tensor(back.T)
    model = SJEPA(encoder=encoder, library=Library.polynomial(["z1", "z2"], 2))  # type: ignore[arg-type]
    check(model.fit(observed, T).posterior(observed, T, n_bootstrap=0), observed)


def test_settings_go_through_and_second_order_is_refused() -> None:
    model = SJEPA(encoder="identity", library=Library.polynomial(["z1", "z2"], 2)).fit(NOISY, T)
    result = model.posterior(NOISY, T, candidates=model.front_, gamma=50.0, covariance="diagonal")
    assert result.gamma == 50.0 and len(result.fits) <= len(model.front_)
    model.order = 2
    with pytest.raises(ConfigError, match="order=1"):
        model.posterior(NOISY, T)


def test_noise_of_observation_is_noticed_and_noise_of_the_transition_is_not() -> None:
    model = SJEPA(encoder="identity", library=Library.polynomial(["z1", "z2"], 1)).fit(NOISY, T)
    with pytest.warns(NumericalWarning, match="alternate"):
        model.posterior(NOISY, T, n_bootstrap=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior(drag_pendulum(5, 4, 25, 0.01), candidates=TRUE)


@pytest.mark.slow
def test_learned_coordinates() -> None:
    mixing = RNG.normal(size=(4, 12))
    features = [np.column_stack([s, s[:, 0] ** 2, s[:, 0] * s[:, 1]]) for s in STATES]
    observed = [f @ mixing + 0.002 * RNG.normal(size=(len(T), 12)) for f in features]
    model = SJEPA(library=Library.polynomial(["z1", "z2"], 2), random_state=0).fit(observed, T)
    result = model.posterior(observed, T)
    assert result.weights[0] > 0.3
    assert result.rollout(observed[0][0], T[:20], draws=10).z.shape == (10, 20, 2)
