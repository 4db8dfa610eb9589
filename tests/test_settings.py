"""Every setting of SJEPA is read before a fit: nonsense and what would go unread are refused."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa import SJEPA
from sjepa.errors import ConfigError, DataError


T = np.arange(0.0, 10.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0))
]


def mixed(x: Any) -> np.ndarray:
    return np.asarray(x) @ np.array([[1.0, 0.5], [-0.5, 1.0]])


WAYS: dict[str, dict[str, Any]] = {
    "joint": {},
    "alternating": {"search": "alternating"},
    "identity": {"encoder": "identity"},
    "own encoder": {"encoder": mixed},
    "frozen": {"encoder": "identity", "search": "alternating"},
    "learned head": {"encoder": mixed, "head": "learned"},
}
NONSENSE: dict[str, list[Any]] = {
    "latent_dim": [0, 2.5, "two", True, None],
    "backend": ["stslq", 3, {"threshold": 0.1}, {"name": "stlsq", "thresold": 0.1}, None],
    "search": ["jiont", None, 3],
    "encoder": ["resnet", None, 3],
    "head": ["pac", 3],
    "library": [3, "z1", [1, 2], [], sjepa.Grammar(["+"], ["z1"])],
    "grammar": [3, ["+"], sjepa.Library.paper(["z1", "z2"])],
    "delta": ["small", -1.0, 0.0, np.nan, None, [0.1]],
    "delta_roll": ["auto", -1.0, 0.0, [0.1]],
    "select": ["shortest", 3],
    "correction": ["neurl", 3, {"widht": 8}, {"updates": 0}],
    "integrator": ["rk5", None, 4],
    "dynamics": ["map", None],
    "order": [0, 3, "2", True, None],
    "history": [0, 1, 2.5, "long", True],
    "device": ["gpu", None, 0],
    "random_state": [-1, 1.5, "now"],
    "progress": [3, "bar"],
    "feature_names": ["ab", [1, 2], ["z 1", "z2"], ["q", "q"]],
    "options": [3, ["cycles"]],
    "callbacks": [3, [print]],
    "verbose": ["loud", 3],
}
# A sensible value that a way of learning has no use for.
UNREAD: dict[str, dict[str, Any]] = {
    "joint": {"head": "pca", "device": "cpu", "dynamics": "discrete"},
    "alternating": {
        "head": "pca", "delta_roll": 0.1, "order": 2, "select": "mdl", "latent_dim": "auto",
    },
    "frozen": {"delta_roll": 0.1, "order": 2, "select": "mdl", "history": 5},
    "identity": {"options": {"restarts": 2}, "device": "cpu", "delta": 0.1, "history": 5},
    "own encoder": {"options": {"restarts": 2}, "device": "cpu", "delta": 0.1, "history": 5},
    "learned head": {
        "search": "alternating", "options": {"restarts": 2}, "device": "cpu", "backend": "subset",
        "dynamics": "discrete", "feature_names": ["q", "p"], "delta_roll": 0.1, "select": "mdl",
        "history": 5,
    },
}  # fmt: skip


def refusal(**settings: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        SJEPA(**settings).check(sjepa.Trajectories(STATES, T))
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_parameter_has_its_nonsense() -> None:
    assert set(NONSENSE) == set(inspect.signature(SJEPA).parameters)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_by_name_in_every_way_of_learning(way: str, name: str) -> None:
    for value in NONSENSE[name]:
        error = refusal(**{**WAYS[way], name: value})
        assert error.argument == name, (value, error)


@pytest.mark.parametrize("way", WAYS)
def test_what_would_go_unread_is_refused_and_a_default_is_fine(way: str) -> None:
    SJEPA(**WAYS[way]).check(sjepa.Trajectories(STATES, T))
    for name, value in UNREAD[way].items():
        error = refusal(**{**WAYS[way], name: value})
        assert error.argument == name and "is not read" in str(error)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"encoder": "identity", "order": 2, "dynamics": "discrete"}, "order"),
        ({"encoder": "identity", "integrator": "verlet"}, "integrator"),
        ({"encoder": "identity", "dynamics": "discrete", "integrator": "euler"}, "integrator"),
        ({"order": 2, "backend": "subset"}, "backend"),
        ({"options": {"cycles": 3}}, "options"),
        ({"search": "alternating", "options": {"restarts": 3}}, "options"),
        ({"search": "alternating", "options": {"cycles": 0}}, "options"),
        ({"options": {"effort": -1.0}}, "options"),
        ({"search": "alternating", "options": {"as_published": True}}, "integrator"),
        ({"search": "alternating", "options": {"as_published": "yes"}}, "options"),
        ({"search": "alternating", "options": {"as_published": True, "refit": True}}, "options"),
        ({"search": "alternating", "options": {"ema": "never"}}, "options"),
        ({"search": "alternating", "options": {"lambda_s": "small"}}, "options"),
        ({"search": "alternating", "options": {"lambda_r": -1.0}}, "options"),
        ({"search": "alternating", "encoder": "identity", "options": {"cycles": 2}}, "options"),
        ({"search": "alternating", "correction": {"lambda_c": -1.0}}, "correction"),
        ({"latent_dim": 9}, "latent_dim"),
        ({"latent_dim": "auto", "library": ["z1", "z2"]}, "latent_dim"),
        ({"latent_dim": "auto", "feature_names": ["q"]}, "latent_dim"),
        ({"encoder": "identity", "head": "none", "latent_dim": 5}, "latent_dim"),
        ({"feature_names": ["a", "b", "c"]}, "feature_names"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], argument: str
) -> None:
    assert refusal(**settings).argument == argument


def test_the_default_backend_may_be_spelled_out() -> None:
    for spelled in ({"name": "stlsq"}, sjepa.backend.registry.make_backend("stlsq")):
        SJEPA(order=2, backend=spelled).check(sjepa.Trajectories(STATES, T))


def test_second_order_takes_trees_and_no_other_library_search() -> None:
    SJEPA(order=2, backend="gplearn").check(sjepa.Trajectories(STATES, T))
    assert "backends that write trees" in str(refusal(order=2, backend="subset"))


def test_five_points_are_refused_before_any_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sjepa.estimator.model.fit_joint", lambda *a, **k: pytest.fail("began"))
    with pytest.raises(DataError, match="at least 20 observations, got 5"):
        SJEPA().fit(STATES[0][:5], T[:5])


def test_a_list_of_terms_is_a_library_in_every_way_that_takes_one() -> None:
    terms = ["z1", "z2"]
    for way in ("identity", "own encoder"):
        model = SJEPA(library=terms, **WAYS[way]).fit(STATES, T)
        assert model.law_.lines(4) == ["z1' = 1.3*z2", "z2' = -1.3*z1"]
    named = SJEPA(encoder="identity", library=["q", "p"], feature_names=["q", "p"]).fit(STATES, T)
    assert named.law_.lines(4) == ["q' = 1.3*p", "p' = -1.3*q"]
    second = SJEPA(encoder="identity", library=["z1", "z1_dot"], order=2)
    assert second.fit([x[:, :1] for x in STATES], T).law_.inputs == ("z1", "z1_dot")
    small = {"structures": 4, "restarts": 1, "effort": 0.2, "finalists": 2}
    learned = SJEPA(search=sjepa.Joint(**small), library=terms, random_state=0).fit(STATES, T)
    assert set(map(str, learned.law_.sympy()[0].free_symbols)) <= set(terms)


def test_no_random_state_means_a_new_seed_and_a_generator_is_drawn_from() -> None:
    def seed(random_state: Any) -> int:
        return SJEPA(encoder="identity", random_state=random_state).fit(STATES, T).seed_

    assert seed(7) == 7
    assert seed(None) != seed(None)
    assert seed(np.random.RandomState(3)) == seed(np.random.RandomState(3))
    assert seed(np.random.default_rng(3)) == seed(np.random.default_rng(3))
    shared = np.random.default_rng(3)
    assert seed(shared) != seed(shared)


def test_a_fit_that_resumes_keeps_the_seed_it_drew(tmp_path: Any) -> None:
    first = SJEPA(encoder="identity").fit(STATES, T, run=tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()  # as if it had been stopped before its end
    again = SJEPA(encoder="identity").fit(STATES, T, run=tmp_path / "run")
    assert again.seed_ == first.seed_
    assert sjepa.load(tmp_path / "run").seed_ == first.seed_
