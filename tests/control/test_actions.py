"""Actions from data to law to simulation, and corrections beside laws."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import sjepa
from benchmarks.paper.conditions import EXPERIMENT_1
from sjepa import SJEPA, Library, Trajectories
from sjepa.data import TrajectoryBatch
from sjepa.data.rows import zoh_rows
from sjepa.errors import ConfigError, DataError
from sjepa.models import NeuralField
from sjepa.models.simulate import integrate_zoh
from sjepa.training.alternating import AlternatingLoop, Alternation, LatentModel, TrainingConfig
from sjepa.training.correction import Neural, fit_correction


pytestmark = pytest.mark.filterwarnings("ignore:Free runs")  # laws short of a term, on purpose


DT = 0.05
LIBRARY = sjepa.Library.from_terms(
    ["z1", "z2", "sin(z1)", "z2**3", "u1", "u1*z1", "u1*cos(z1)"], ["z1", "z2", "u1"]
)


def true_field(z: np.ndarray, u: float) -> np.ndarray:
    return np.array([z[1], -2.0 * np.sin(z[0]) - 0.3 * z[1] + 1.5 * u])


def driven(runs: int, length: int, seed: int, extra=None) -> tuple[list, list]:
    """Pendulums whose torque is drawn anew, and held, for every step."""
    rng = np.random.default_rng(seed)
    x, u = [], []
    for _ in range(runs):
        actions = rng.uniform(-2, 2, (length, 1))
        z = [rng.uniform(-1.5, 1.5, 2)]
        for a in actions[:-1, 0]:

            def field(t, y, a=a):
                return true_field(y, a) + (0 if extra is None else extra(y))

            z.append(solve_ivp(field, (0, DT), z[-1], rtol=1e-9, atol=1e-11).y[:, -1])
        x.append(np.array(z))
        u.append(actions)
    return x, u


@pytest.fixture(scope="module")
def data() -> tuple[list, list]:
    return driven(6, 80, seed=0)


@pytest.mark.parametrize("backend", ["stlsq", "subset", "pysindy"])
def test_discover_finds_the_law_under_held_random_actions(data, backend: str) -> None:
    x, u = data
    front = sjepa.discover(x, DT, u=u, feature_names=["z1", "z2"], library=LIBRARY, backend=backend)
    law = front.best()
    assert str(law.expressions[0].free_symbols) == "{z2}"
    wanted = sjepa.Law.from_string(["z2", "-2*sin(z1) - 0.3*z2 + 1.5*u1"], ["z1", "z2", "u1"])
    assert {t for _, t in law.terms[1]} == {t for _, t in wanted.terms[1]}
    np.testing.assert_allclose(
        law.numpy()([0.4, 0.2, 0.7]), wanted.numpy()([0.4, 0.2, 0.7]), rtol=0.01
    )
    # Derivatives taken across the jumps mix two actions and lose the torque.
    blurred = sjepa.discover(
        x, DT, u=u, feature_names=["z1", "z2"], library=LIBRARY, derivatives="smooth"
    )
    assert front.best_candidate().loss < 0.02 * blurred.best_candidate().loss


def test_held_rows_are_right_to_second_order() -> None:
    errors = []
    for dt in (0.1, 0.05):
        t = np.arange(0, 2 + dt / 2, dt)
        x = np.exp(-t)[:, None]
        inputs, slope = zoh_rows(Trajectories([x], dt))
        errors.append(np.abs(slope + inputs).max())
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_tree_backends_type_actions_as_actions(data) -> None:
    pytest.importorskip("pyoperon")
    x, u = data
    front = sjepa.discover(
        x, DT, u=u, backend={"name": "operon", "runs": 1, "generations": 6}, random_state=0
    )
    assert front.best().inputs == ("x1", "x2", "u1")
    assert any("u1" in str(e) for e in front.best().expressions)


def test_estimator_simulates_predicts_and_scores_with_actions(data) -> None:
    x, u = data
    model = SJEPA(encoder="identity", library=LIBRARY).fit(x, DT, u)
    # Rollouts remove the bias of single steps.
    np.testing.assert_allclose(sorted(model.law_.coefficients)[:2], [-2.0, -0.3], rtol=2e-3)
    test_x, test_u = driven(2, 60, seed=5)
    assert model.score(test_x, DT, test_u) > 0.9999
    run = model.simulate(test_x[0][0], DT * np.arange(60), test_u[0])
    np.testing.assert_allclose(run.z, test_x[0], atol=5e-3)
    np.testing.assert_allclose(
        model.predict(x[0][:3], u[0][:3]), model.law_.numpy()(np.hstack([x[0][:3], u[0][:3]]))
    )
    held = model.simulate([0.1, 0.0], [0.0, 1.0, 2.0], [0.5])
    wanted = solve_ivp(
        lambda t, y: true_field(y, 0.5), (0, 2), [0.1, 0.0], t_eval=[0, 1, 2], rtol=1e-9
    )
    np.testing.assert_allclose(held.z, wanted.y.T, atol=5e-3)
    around = model.linearize([0.0, 0.0], [0.0])
    np.testing.assert_allclose(around.field.A, [[0, 1], [-2, -0.3]], atol=0.01)
    np.testing.assert_allclose(around.field.B, [[0], [1.5]], atol=0.01)
    assert around.dt == pytest.approx(DT)
    with pytest.raises(DataError, match="give u"):
        model.simulate(x[0][0], DT * np.arange(5))
    with pytest.raises(DataError, match="expected"):
        model.simulate(x[0][0], DT * np.arange(5), np.zeros((4, 2)))


def test_estimator_learns_maps_with_actions() -> None:
    rng = np.random.default_rng(1)
    x, u = [], []
    for _ in range(5):
        actions, z = rng.uniform(-1, 1, (40, 1)), [rng.uniform(-1, 1, 2)]
        for a in actions[:-1, 0]:
            q, w = z[-1]
            z.append(np.array([q + 0.1 * w, 0.9 * w - 0.2 * np.sin(q) + 0.3 * a]))
        x.append(np.array(z))
        u.append(actions)
    model = SJEPA(
        search=sjepa.LawOnly(derivatives="discrete"), encoder="identity", library=LIBRARY
    ).fit(x, 1.0, u)
    assert model.law_.lines(3) == [
        "z1[t+1] = z1 + 0.1*z2",
        "z2[t+1] = 0.3*u1 + 0.9*z2 - 0.2*sin(z1)",
    ]
    run = model.simulate(x[0][0], np.arange(40), u[0])
    np.testing.assert_allclose(run.z, x[0], atol=1e-6)
    around = model.linearize([0.0, 0.0], [0.0])
    assert around.field is None
    np.testing.assert_allclose(around.step.A, [[1, 0.1], [-0.2, 0.9]], atol=1e-6)
    with pytest.raises(ConfigError, match="no field 'dynamics'"):
        SJEPA(search=sjepa.Joint(dynamics="discrete")).fit(x, 1.0, u)


def test_simulation_stops_at_every_jump() -> None:
    t = np.linspace(0, 3, 31)
    u = np.where(np.arange(31) % 7 < 3, 1.0, -2.0)[:, None]
    run = integrate_zoh(lambda s: -s[:1] + s[1:], np.array([0.5]), t, u)
    wanted = [0.5]
    for a in u[:-1, 0]:
        wanted.append(a + (wanted[-1] - a) * np.exp(-0.1))
    np.testing.assert_allclose(run.z[:, 0], wanted, rtol=1e-7)
    lost = integrate_zoh(lambda s: s[:1] ** 2 + s[1:], np.array([2.0]), t, np.abs(u))
    assert lost.status == "diverged" and np.isnan(lost.z[-1]).all()


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_a_correction_learns_what_the_law_leaves_over() -> None:
    x, u = driven(8, 50, seed=2, extra=lambda y: np.array([0.0, -0.8 * y[1] * abs(y[1])]))
    test_x, test_u = driven(1, 60, seed=9, extra=lambda y: np.array([0.0, -0.8 * y[1] * abs(y[1])]))
    narrow = sjepa.Library.from_terms(["z2", "sin(z1)", "u1"], ["z1", "z2", "u1"])
    plain = SJEPA(encoder="identity", library=narrow).fit(x, DT, u)
    hybrid = SJEPA(
        encoder="identity",
        library=narrow,
        random_state=0,
        correction=sjepa.Neural(updates=200, horizon=2),
    ).fit(x, DT, u)
    assert hybrid.law_ == plain.law_  # the law stays as it was found
    missed = 1 - plain.score(test_x, DT, test_u)
    assert 1 - hybrid.score(test_x, DT, test_u) < 0.3 * missed
    law, correction = hybrid.transition_.parts(*(torch.tensor(v[0]) for v in (test_x, test_u)))
    assert float(correction.square().mean()) < float(law.square().mean())
    share = hybrid.linearize([0.0, 0.5], [0.0]).field.action_share
    assert share["symbolic"] > 0.9  # the torque is in the law, not in the correction


def test_a_needless_correction_stays_small_and_a_neural_predictor_stands_alone(data) -> None:
    x, u = data
    settings = sjepa.Neural(updates=120, horizon=2)
    hybrid = SJEPA(encoder="identity", library=LIBRARY, correction=settings).fit(x, DT, u)
    _, correction = hybrid.transition_.parts(torch.tensor(x[0]), torch.tensor(u[0]))
    assert float(correction.abs().mean()) < 0.02
    alone = SJEPA(
        encoder="identity", library=LIBRARY, correction=replace(settings, alone=True)
    ).fit(x, DT, u)
    assert alone.transition_.symbolic is None
    assert 0.5 < alone.score(x[:1], DT, u[:1]) < hybrid.score(x[:1], DT, u[:1])


# Halved states under the same actions follow no short law, and that is said.
@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
@pytest.mark.filterwarnings("ignore:The equation of z2")
def test_ones_own_module_is_trained_as_a_copy_and_a_joint_law_moves(data) -> None:
    x, u = data
    torch.manual_seed(0)  # training keeps a start that five updates do not improve
    module = torch.nn.Linear(3, 2)
    before = module.weight.detach().clone()
    model = SJEPA(
        encoder="identity",
        library=LIBRARY,
        correction=sjepa.Neural(module=module, updates=5),
        random_state=0,
    ).fit(x[:2], DT, u[:2])
    assert torch.equal(module.weight, before)
    assert not torch.equal(model.transition_.correction.weight, before.double())
    joint = sjepa.Neural(joint=True, updates=5, horizon=1, rate=0.05)
    plain = SJEPA(encoder="identity", library=LIBRARY).fit(x[:2], DT, u[:2])
    moved = SJEPA(encoder="identity", library=LIBRARY, correction=joint)
    moved.fit([0.5 * v for v in x[:2]], DT, u[:2])
    assert moved.transition_.symbolic.law() == moved.law_
    assert [e.free_symbols for e in moved.law_.expressions] == [
        e.free_symbols for e in plain.law_.expressions
    ]


def test_a_neural_map_predicts_changes() -> None:
    rng = np.random.default_rng(0)
    x = [
        np.cumsum(np.vstack([rng.normal(size=(1, 2)), np.full((30, 2), 0.1)]), axis=0)
        for _ in range(4)
    ]
    transition = fit_correction(
        Trajectories(x, 1.0),
        None,
        Neural(alone=True, updates=60),
        dynamics="discrete",
    )
    z = torch.tensor([[0.3, -0.2]]).double()
    assert float((transition(z) - z - 0.1).abs().max()) < 0.02


@pytest.mark.parametrize("wrong", ["nerual", {"widht": 3}, 3, {"name": "neural", "updates": 0}])
def test_corrections_that_do_not_exist_are_refused(wrong, data) -> None:
    x, u = data
    with pytest.raises(ConfigError) as refused:
        SJEPA(encoder="identity", library=LIBRARY, correction=wrong).fit(x, DT, u)
    assert refused.value.argument == "correction"


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_the_alternating_search_takes_actions_and_resumes(data, integrator: str) -> None:
    x, u = data
    train = TrajectoryBatch.make(Trajectories(x[:5], DT, u[:5]))
    validation = TrajectoryBatch.make(Trajectories(x[5:], DT, u[5:]))
    plan = Alternation(
        cycles=2,
        dynamics=EXPERIMENT_1["dynamics_phase"].with_(epochs=2),
        space=EXPERIMENT_1["space_phase"].with_(epochs=1),
    )

    def search() -> AlternatingLoop:
        encoder = torch.nn.Linear(2, 2)
        encoder.weight.data = torch.eye(2)
        encoder.bias.data.zero_()
        world = LatentModel(encoder, neural=NeuralField(2, 1, width=8), integrator=integrator)
        settings = TrainingConfig(horizon=5, batch=64, validate_every=1)
        return AlternatingLoop(world, LIBRARY, train, validation, plan, settings, seed=0)

    first = search()
    first.run()
    law = first.model.symbolic.law(0.05)
    assert law.inputs == ("z1", "z2", "u1") and law.outputs == ("z1", "z2")
    torque = {str(term): c for c, term in law.terms[1]}
    assert torque["u1"] == pytest.approx(1.5, rel=0.1)
    assert torque["sin(z1)"] == pytest.approx(-2.0, rel=0.15)
    again = search()
    again.load_state_dict(first.state_dict())
    assert again.model.symbolic.law(0.05) == law


def test_the_default_library_has_actions_alone_and_times_states() -> None:
    library = Library.paper(["z1", "z2"], ["u1"])
    assert {str(t) for t in library.terms} >= {"u1", "u1*z1", "u1*z2", "sin(z1)", "z1*z2"}
    assert not any("sin(u1)" in str(t) for t in library.terms)
