"""The search as a whole: what it returns, what it refuses, and that it repeats itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sjepa.callbacks import Step
from sjepa.data import Trajectories, paper_data, simulate
from sjepa.errors import ConfigError, DataError, LawError
from sjepa.metrics import AffineMap, CollapseChecks, probe_r2, r2, rollout_score
from sjepa.symbolic import Law, Library
from sjepa.training.joint import SearchBudget, SearchResult, joint_search, structures_of
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.from_terms(["z1", "z2", "sin(z1)", "sin(z2)"], ["z1", "z2"])
SMALL = SearchBudget(
    structures=8, restarts=4, effort=0.7, finalists=3, refinement=60, rollout=10, max_terms=1
)


@pytest.fixture(scope="module")
def data() -> Trajectories:
    s = pendulum_states(40)
    q, p = s[..., 0], s[..., 1]
    x = np.stack([q, p, np.sin(2 * q), q * p, p**2, np.tanh(q + p)], axis=-1)
    x += 1e-3 * np.random.default_rng(0).normal(size=x.shape)
    return Trajectories(list(x), 0.07, state=list(s))


@pytest.fixture(scope="module")
def result(data: Trajectories) -> SearchResult:
    return joint_search(data, LIBRARY, 2, budget=SMALL)


def structure(law: Law) -> str:
    return "; ".join(" + ".join(sorted(str(t) for _, t in row)) for row in law.terms)


def test_the_pendulum_is_found_with_its_coordinates(
    data: Trajectories, result: SearchResult
) -> None:
    assert structure(result.law) in ("z2; sin(z1)", "sin(z2); z1")
    z, s = result.encode(torch.tensor(np.stack(data.x))), np.stack(data.state)
    assert probe_r2(z, s, z, s).train > 0.999
    # q' = p and p' = -sin q: the product of the coefficients is -1 in any gauge.
    assert np.prod(result.law.coefficients) == pytest.approx(-1.0, rel=0.01)
    assert result.verdict.adequate and not result.warnings and result.rollout < 1e-3


def test_the_front_comes_with_its_encoders(data: Trajectories, result: SearchResult) -> None:
    assert len(result.front) == len(result.found) >= 2
    x = torch.tensor(np.stack(data.x))
    for candidate, found in zip(result.front, result.found, strict=True):
        assert found.law == candidate.law and found.encoder(x).shape == (*x.shape[:2], 2)


def test_the_same_seed_gives_the_same_answer(data: Trajectories, result: SearchResult) -> None:
    again = joint_search(data, LIBRARY, 2, budget=SMALL)
    assert again.law == result.law


@pytest.mark.parametrize("kind", ["units", "rattling"])
def test_sensors_count_by_what_they_tell_whatever_their_units_and_spread(kind: str) -> None:
    """Millimeters beside kilometers, and ten sensors beside one that only rattles."""
    rng, s = np.random.default_rng(0), pendulum_states(40)
    x = s * [1e6, 1.0] if kind == "units" else s @ rng.normal(size=(2, 10))
    x = x + 0.005 * x.std(axis=(0, 1)) * rng.normal(size=x.shape)
    if kind == "rattling":
        x = np.concatenate([x, 3 * x.std() * rng.normal(size=(*s.shape[:2], 1))], axis=-1)
    result = joint_search(Trajectories(list(x), 0.07), LIBRARY, 2, budget=SMALL)
    assert structure(result.law) in ("z2; sin(z1)", "sin(z2); z1")
    assert np.prod(result.law.coefficients) == pytest.approx(-1.0, rel=0.02)
    assert result.verdict.adequate is not False


@pytest.mark.parametrize("signals", [1, 2])
def test_periodic_nuisance_of_half_the_variance_does_not_count_against_the_law(
    signals: int,
) -> None:
    rng, s, t = np.random.default_rng(0), pendulum_states(40, length=81), 0.07 * np.arange(81)
    x, nuisance = s @ rng.normal(size=(2, 10)), np.zeros((40, 81, 10))
    for _ in range(signals):
        rate, phase = rng.uniform(1.5, 4), rng.uniform(0, 2 * np.pi, (40, 1))
        size = rng.uniform(0.5, 1.5, (40, 1))
        nuisance += (size * np.sin(rate * t + phase))[..., None] * rng.normal(size=10)
    nuisance *= np.sqrt(0.54 / 0.46 * x.var((0, 1)).sum() / nuisance.var((0, 1)).sum())
    x = x + nuisance
    x += 0.005 * x.std((0, 1)) * rng.normal(size=x.shape)
    result = joint_search(
        Trajectories(list(x), 0.07), LIBRARY, 2, budget=replace(SMALL, grow=False)
    )
    assert structure(result.law) in ("z2; sin(z1)", "sin(z2); z1")
    z = result.encode(torch.tensor(x)).detach().numpy().reshape(-1, 2)
    assert r2(AffineMap.fit(z, s.reshape(-1, 2))(z), s.reshape(-1, 2)) > 0.9999
    assert result.verdict.adequate, result.verdict.reasons


def test_the_search_runs_on_one_thread_and_gives_the_others_back(data: Trajectories) -> None:
    seen: set[int] = set()

    def stop(step: Step) -> None:
        seen.add(torch.get_num_threads())
        raise KeyboardInterrupt

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(KeyboardInterrupt):
            joint_search(data, LIBRARY, 2, budget=SMALL, report=stop)
        assert seen == {1} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_generous_delta_takes_the_simpler_law(data: Trajectories) -> None:
    steps: list[Step] = []
    found = joint_search(data, LIBRARY, 2, budget=SMALL, delta=0.2, report=steps.append)
    assert structure(found.law) == "z2; z1" and found.verdict.adequate
    shares = [step.share for step in steps]
    assert steps[-1].text == "done"
    assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] == 1


def test_a_delta_out_of_reach_is_said_so(data: Trajectories) -> None:
    linear = Library.from_terms(["z1", "z2"], ["z1", "z2"], mask=[[True, True], [True, True]])
    budget = SearchBudget(
        structures=3, finalists=2, refinement=20, rollout=5, max_terms=1, grow=False
    )
    found = joint_search(data, linear, 2, budget=budget, delta=1e-6, delta_roll=1e-9)
    assert found.verdict.adequate is False and "given delta" in found.warnings[0]
    assert any("rollout loss" in note for note in found.notes)


def test_proposals_are_tried_besides_what_is_enumerated(data: Trajectories) -> None:
    proposal = structures_of([Law.from_string(["z2", "sin(z1)"], ["z1", "z2"])], LIBRARY)
    budget = SearchBudget(structures=1, restarts=6, finalists=2, refinement=60, rollout=5)
    found = joint_search(data, LIBRARY, 2, budget=budget, structures=proposal)
    assert structure(found.law) == "z2; sin(z1)"


def test_one_coordinate_of_second_order(data: Trajectories) -> None:
    """Only the angle is seen; its velocity is not encoded at all."""
    s = np.stack(data.state)
    q = s[..., 0]
    seen = np.stack([q + 0.1 * q**2, np.sin(q), q**2, np.cos(2 * q)], axis=-1)
    seen += 1e-4 * np.random.default_rng(0).normal(size=seen.shape)
    library = Library.from_terms(["z1", "sin(z1)", "z1**3"], ["z1"])
    budget = SearchBudget(structures=3, finalists=3, refinement=60, rollout=15, max_terms=1)
    found = joint_search(Trajectories(list(seen), 0.07), library, 1, order=2, budget=budget)
    assert structure(found.law) == "sin(z1)" and found.law.outputs == ("z1_dot",)
    assert found.law.coefficients[0] == pytest.approx(-1.0, rel=0.02)
    times = torch.arange(61.0)[None].expand(40, -1) * 0.07
    state = found.encode(torch.tensor(seen), times)
    path = found.transition().rollout(state[:, 1], 0.07, steps=30)
    assert (path[:, -1, 0] - state[:, 31, 0]).square().mean() < 1e-3
    with pytest.raises(LawError, match="times"):
        found.encode(torch.tensor(seen))


def test_what_does_not_fit_is_refused(data: Trajectories) -> None:
    with pytest.raises(ConfigError, match="3 inputs|3 coordinates"):
        joint_search(data, LIBRARY, 3)
    with pytest.raises(ConfigError, match="order"):
        joint_search(data, LIBRARY, 2, order=3)
    flat = Trajectories([x[:, :1] @ np.ones((1, 3)) for x in data.x], 0.07)
    with pytest.raises(DataError, match="latent_dim=1"):
        joint_search(flat, LIBRARY, 2)
    driven = Trajectories(data.x, 0.07, u=[np.zeros((61, 1))] * len(data))
    with pytest.raises(ConfigError, match="2 inputs and the actions"):
        joint_search(driven, LIBRARY, 2)
    with pytest.raises(ConfigError, match="restarts"):
        SearchBudget(restarts=0)
    for delta in ("automatic", -1.0, 0.0):
        with pytest.raises(ConfigError, match="delta"):
            joint_search(data, LIBRARY, 2, budget=SMALL, delta=delta)


@pytest.mark.slow
def test_a_law_longer_than_what_was_enumerated_is_proposed_by_the_exact_search() -> None:
    states = simulate("drag_pendulum", seed=0, trajectories=40, points=240)
    mix = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]

    def observe(s: np.ndarray) -> np.ndarray:
        q, p = s.T
        return np.stack([q, p, np.sin(2 * q), q * p, p**2, np.tanh(q)], axis=1) @ mix

    data = Trajectories([observe(s) for s in states.x], states.t)
    library = Library.paper(["z1", "z2"]) + Library.from_terms(
        ["z1*abs(z1)", "z2*abs(z2)"], ["z1", "z2"]
    )
    found = joint_search(data, library, 2, budget=SearchBudget(max_terms=1))
    assert structure(found.law) in ("z2; sin(z1) + z2*Abs(z2)", "sin(z2) + z1*Abs(z1); z1")


@pytest.mark.slow
def test_an_encoder_grows_where_a_linear_one_is_not_enough() -> None:
    s = pendulum_states(120)
    mixed = np.tanh(s @ np.random.default_rng(0).normal(size=(2, 6)))
    data = Trajectories(list(mixed), 0.07, state=list(s))
    linear = joint_search(data, LIBRARY, 2, budget=SearchBudget(grow=False, max_terms=1))
    grown = joint_search(data, LIBRARY, 2, budget=SearchBudget(max_terms=1))
    assert grown.best.candidate.loss < 0.7 * linear.best.candidate.loss


@pytest.mark.slow
def test_experiment_1() -> None:
    """The bars of the project: the paper has 4.67, 0.467, 3.435 and 0.293."""
    data = paper_data("exp1")
    result = joint_search(
        data["train"],
        Library.paper(["z1", "z2"]),
        2,
        seed=7,
        validation=data["val"],
        checks=CollapseChecks(),
    )
    assert structure(result.law) in ("z2; sin(z1)", "sin(z2); z1")
    assert result.best.candidate.terms == 3.0
    z = {k: result.encode(torch.tensor(np.stack(data[k].x))) for k in ("train", "test", "ood")}
    s = {k: np.stack(data[k].state) for k in z}
    align = AffineMap.fit(z["train"], s["train"])
    assert probe_r2(z["train"], s["train"], z["test"], s["test"]).test > 0.98
    for name, bar in (("test", 0.02), ("ood", 0.2)):
        steps = torch.tensor(np.stack(data[name].steps))[:, :80]
        path = result.transition().rollout(z[name][:, 0], steps)[:, 1:]
        score = rollout_score(path, s[name][:, 1:81], align)
        assert score.mse <= bar and score.divergence_rate == 0


def test_trajectories_of_unequal_length_are_welcome(data: Trajectories) -> None:
    lengths = [61 - 5 * (i % 8) for i in range(len(data))]
    uneven = Trajectories([x[:n] for x, n in zip(data.x, lengths, strict=True)], 0.07)
    found = joint_search(uneven, LIBRARY, 2, budget=SMALL)
    assert structure(found.law) in ("z2; sin(z1)", "sin(z2); z1")
    assert np.prod(found.law.coefficients) == pytest.approx(-1.0, rel=0.02)
