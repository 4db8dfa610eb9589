"""States that a single observation does not show: windows of them, in every use of a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sjepa
from sjepa import SJEPA
from sjepa.data import Trajectories, with_history
from sjepa.data.history import choose_history, derivative_filters, middle_of
from sjepa.errors import ConfigError, DataError
from sjepa.metrics.diagnostics import diagnose_hidden
from sjepa.models.ratios import Ratios


T = np.arange(160) * 0.1
SMALL = {
    "structures": 4,
    "restarts": 2,
    "effort": 0.3,
    "grow": False,
    "refinement": 30,
    "rollout": 5,
}


def swings(noise: float = 0.0) -> list[np.ndarray]:
    """Positions of x'' = -x from ten starts."""
    rng = np.random.default_rng(0)
    starts = rng.normal(size=(10, 2))
    return [
        (a * np.cos(T) + b * np.sin(T) + noise * rng.normal(size=len(T)))[:, None]
        for a, b in starts
    ]


@pytest.fixture(scope="module")
def model() -> SJEPA:
    return SJEPA(search=sjepa.Joint(**SMALL), history=7, random_state=0).fit(swings(), T)


def test_one_number_is_enough_for_an_oscillator(model: SJEPA) -> None:
    velocity = np.linalg.eigvals(np.asarray(model.law_.numpy()(np.eye(2))).T)
    np.testing.assert_allclose(sorted(velocity.imag), [-1.0, 1.0], atol=1e-3)
    assert model.score(swings(), T) > 0.999
    assert model.figures_["adequate"] == 1.0


def test_coordinates_belong_to_the_middle_of_their_window(model: SJEPA) -> None:
    x = swings()
    z = model.coordinates(x, T)
    assert [len(a) for a in z.x] == [len(T) - 6] * 10
    np.testing.assert_array_equal(z.t[0], T[3:-3])
    np.testing.assert_array_equal(z.x[2], model.encode(x)[2])
    states = [np.c_[a, np.gradient(a[:, 0], T)] for a in x]
    aligned = np.asarray(model.align(x, states)(z.x[0]))
    np.testing.assert_allclose(aligned[:, 0], x[0][3:-3, 0], atol=1e-2)


def test_windows_do_not_cross_trajectories(model: SJEPA) -> None:
    x = swings()
    alone = model.encode(x[4])
    np.testing.assert_array_equal(model.encode(x)[4], alone)
    longer = np.concatenate([x[4], 100.0 + x[5]])
    np.testing.assert_allclose(model.encode(longer)[: len(alone)], alone)


def test_paths_start_from_the_first_window(model: SJEPA) -> None:
    x = swings()[1]
    path = model.simulate(x[:7], T)
    assert path.z.shape == (len(T) - 3, 2)
    np.testing.assert_allclose(path.z[: len(T) - 6], model.encode(x), atol=0.02)
    with pytest.raises(DataError, match="history is 7"):
        model.simulate(x[:6], T)


def test_saved_and_loaded_models_know_their_windows(model: SJEPA, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = sjepa.load(tmp_path / "m")
    assert again.history_length_ == 7 and again.obs_shape_ == (1,)
    np.testing.assert_array_equal(again.encode(swings()[0]), model.encode(swings()[0]))
    model.report(tmp_path / "page.html", swings(), T)
    assert "middle of 7 successive observations" in (tmp_path / "page.html").read_text()


def test_a_run_with_a_history_resumes_to_the_same_law(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "history": "auto",
        "random_state": 1,
        "search": sjepa.Joint(**SMALL),
    }
    first = SJEPA(**settings).fit(swings(), T, run=tmp_path / "run")
    second = SJEPA(**settings).fit(swings(), T, run=tmp_path / "run")
    assert first.law_ == second.law_
    assert first.history_length_ == second.history_length_ > 1


def test_noise_asks_for_longer_windows() -> None:
    lengths = [choose_history(Trajectories(swings(n), 0.1), 2) for n in (0.0, 0.01, 0.03)]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1] <= 16
    assert all(k % 2 for k in lengths)


def test_a_window_may_stand_at_its_end_or_its_middle() -> None:
    data = Trajectories(swings(), 0.1)
    late, middle = with_history(data, 5), with_history(data, 5, middle=True)
    np.testing.assert_array_equal(late.x[0], middle.x[0])
    np.testing.assert_allclose(late.t[0] - middle.t[0], 0.2)
    np.testing.assert_array_equal(middle.x[0][:, middle_of(5)], data.x[0][2:-2])


def test_a_hidden_factor_is_seen_also_where_what_it_multiplies_is_zero() -> None:
    # x' = w x - 1 and w = 2 + t: x passes through 0, and (x' + 1) / x is w.
    t = np.linspace(-0.5, 0.5, 101)
    w = 2.0 + t
    x = np.sin(5 * t)
    slope = w * x  # the regressor of x' is w x where the constant is left out
    value = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2 * 0.01)])
    ratios = Ratios(21, (2,), 1, 0.01).double()
    windows = with_history(Trajectories([np.stack([x, value], 1)], t), 21, middle=True)
    found = ratios(torch.as_tensor(windows.x[0])).numpy()
    # values, slopes, then quotients by x: slopes of both, value
    np.testing.assert_allclose(found[:, 0], x[10:-10], atol=1e-5)
    np.testing.assert_allclose(found[:, 5], w[10:-10], atol=2e-3)


def test_derivative_filters_are_exact_for_polynomials() -> None:
    t = (np.arange(9) - 4) * 0.3
    values = derivative_filters(9, 2, 0.3) @ (1.0 - 2 * t + 3 * t**2 + t**3)
    np.testing.assert_allclose(values, [1.0, -2.0, 6.0], atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"latent_dim": 2}, "history='auto'"),
        ({"latent_dim": 3, "history": 2}, "too short"),
        ({"history": 100}, "at least 200"),
    ],
)
def test_refusals_say_what_to_try(settings: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        SJEPA(**settings).fit(swings(), T)


def test_a_history_needs_equal_steps() -> None:
    uneven = np.sort(np.random.default_rng(0).uniform(0, 16, 160))
    with pytest.raises(DataError, match="equal steps"):
        SJEPA(history=5).fit(swings(), uneven)


def test_a_hidden_state_is_named_with_what_to_try() -> None:
    model = SJEPA(1, search=sjepa.Joint(**SMALL), random_state=0).fit(swings(), T)
    assert model.figures_["adequate"] == 0.0
    assert any("A state is hidden" in d and "history='auto'" in d for d in model.warnings_)
    assert "A state is hidden" in repr(model)


def test_a_state_that_is_all_observed_is_not_called_hidden() -> None:
    x = np.stack(swings())
    mask = np.ones(x.shape[:2])
    states = np.concatenate([x, np.gradient(x, T, axis=1)], axis=2)
    assert diagnose_hidden(states, mask, 10) == []
    assert diagnose_hidden(x, mask, 10)[0].value > 0.5
