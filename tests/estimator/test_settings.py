"""Every setting of SJEPA is read before a fit: nonsense and what would go unread are refused."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa import SJEPA, Alternating, Joint, LawOnly, Neural, ReadOut, Smooth, Weak
from sjepa.errors import ConfigError, DataError
from sjepa.settings import Settings, settings_of
from sjepa.training.correction import CORRECTIONS
from sjepa.training.searches import SEARCHES


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
    "learned head": {"encoder": ReadOut(mixed, "learned")},
}
IDENTITY = {"encoder": "identity"}
NONSENSE: dict[str, list[Any]] = {
    "latent_dim": [0, 2.5, "two", True, None],
    "backend": ["stslq", 3, {"threshold": 0.1}, {"name": "stlsq", "thresold": 0.1}, None],
    "search": ["jiont", None, 3, {"name": "joint", "restart": 1}, {"restarts": 1}, Joint],
    "encoder": ["resnet", None, 3],
    "library": [3, "z1", [1, 2], [], sjepa.Grammar(["+"], ["z1"])],
    "grammar": [3, ["+"], sjepa.Library.paper(["z1", "z2"])],
    "delta": ["small", -1.0, 0.0, np.nan, None, [0.1]],
    "correction": ["neurl", 3, {"widht": 8}, {"name": "neural", "updates": 0}],
    "order": [0, 3, "2", True, None],
    "history": [0, 1, 2.5, "long", True],
    "random_state": [-1, 1.5, "now"],
    "verbose": ["loud", 3, [3]],
}
# A sensible value that a way of learning has no use for.
UNREAD: dict[str, dict[str, Any]] = {
    "joint": {"search": LawOnly()},
    "alternating": {"order": 2, "latent_dim": "auto"},
    "frozen": {"order": 2, "history": 5, "search": Alternating(cycles=2)},
    "identity": {"search": Joint(), "delta": 0.1, "history": 5},
    "own encoder": {"search": Joint(restarts=2), "delta": 0.1, "history": 5},
    "learned head": {"search": "alternating", "backend": "subset", "history": 5},
}


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
        assert error.argument == name


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({**IDENTITY, "order": 2, "search": LawOnly(derivatives="discrete")}, "order"),
        ({**IDENTITY, "search": LawOnly(integrator="verlet")}, "search"),
        ({"order": 2, "backend": "subset"}, "backend"),
        (
            {"search": "alternating", "correction": {"name": "neural", "lambda_c": -1.0}},
            "correction",
        ),
        ({"latent_dim": 9}, "latent_dim"),
        ({"latent_dim": "auto", "library": ["z1", "z2"]}, "latent_dim"),
        ({"encoder": ReadOut("identity", "none"), "latent_dim": 5}, "latent_dim"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], argument: str
) -> None:
    assert refusal(**settings).argument == argument


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        (Joint, {"restart": 3}, "Did you mean 'restarts'"),
        (Joint, {"cycles": 3}, "Joint has no field 'cycles'"),
        (Joint, {"effort": -1.0}, "effort must be positive"),
        (Joint, {"select": "shortest"}, "select must be"),
        (Joint, {"delta_roll": "auto"}, "delta_roll is a"),
        (Joint, {"integrator": "rk5"}, "integrator must be .*'rk4'"),
        (Alternating, {"restarts": 3}, "Alternating has no field 'restarts'"),
        (Alternating, {"cycles": 0}, "cycles is a whole number from 1"),
        (Alternating, {"as_published": True}, "integrator='euler'"),
        (Alternating, {"as_published": "yes"}, "True or False"),
        (Alternating, {"as_published": True, "refit": False}, "refit is decided"),
        (Alternating, {"ema": "never"}, "'step' or 'cycle'"),
        (Alternating, {"lambda_s": "small"}, "lambda_s is a number"),
        (Alternating, {"horizon": "long"}, "horizon is a whole number"),
        (Joint, {"grow": 1}, "grow is True or False"),
        (Alternating, {"lambda_r": -1.0}, "lambda_r is a weight"),
        (Alternating, {"dynamics": "map"}, "dynamics must be"),
        (Alternating, {"dynamics": "discrete", "integrator": "euler"}, "integrator is not read"),
        (Alternating, {"device": "gpu"}, "gpu"),
        (LawOnly, {"derivatives": "discrete", "integrator": "euler"}, "integrator is not read"),
        (LawOnly, {"derivatives": "weka"}, "Did you mean 'weak'"),
        (Smooth, {"method": "nowhere"}, "method is one of"),
        (Smooth, {"lam": 0.1}, "method='spline'"),
        (Weak, {"window": 2}, "window is a number"),
        (ReadOut, {"head": "pac"}, "Did you mean 'pca'"),
    ],
)
def test_a_part_refuses_what_it_does_not_read(
    part: type, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        part(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "part",
    [
        Joint(restarts=3), Alternating(cycles=2, network="mlp"), LawOnly(derivatives=Weak(window=9)),
        LawOnly(), Neural(alone=True, width=8),
    ],
)  # fmt: skip
def test_parts_come_back_from_plain_data(part: Settings) -> None:
    known = CORRECTIONS if isinstance(part, Neural) else SEARCHES
    again = settings_of(json.loads(json.dumps(part.plain())), "part", known)
    assert type(again) is type(part) and again.plain() == part.plain()


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
    data = sjepa.Trajectories(STATES, T, names=["q", "p"])
    named = SJEPA(encoder="identity", library=["q", "p"]).fit(data)
    assert named.law_.lines(4) == ["q' = 1.3*p", "p' = -1.3*q"]
    second = SJEPA(encoder="identity", library=["z1", "z1_dot"], order=2)
    assert second.fit([x[:, :1] for x in STATES], T).law_.inputs == ("z1", "z1_dot")
    small = Joint(structures=4, restarts=1, effort=0.2, finalists=2)
    learned = SJEPA(search=small, library=terms, random_state=0).fit(STATES, T)
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
