"""Planners against exhaustive search and LQR; boxes, batches, warm starts, risk."""

import control
import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from sjepa.control import (
    CEM,
    ILQR,
    MPPI,
    Controller,
    CVaR,
    GradientShooting,
    RandomShooting,
    Task,
    expected,
    linearize,
    lqr,
)
from sjepa.control.ilqr import minimize_in_box
from sjepa.control.predictor import LawRollout, generic_rollout
from sjepa.errors import ConfigError, DataError
from sjepa.models import Correction, Transition
from sjepa.symbolic import Law


PENDULUM = Law.from_string(["w", "-sin(q) - 0.1*w + u"], ["q", "w", "u"])
PLANNERS = [
    RandomShooting(4000), CEM(samples=300, iterations=8), MPPI(samples=400, iterations=12),
    GradientShooting(starts=8, iterations=80), ILQR(iterations=60),
]  # fmt: skip
IDS = [type(p).__name__ for p in PLANNERS]


def stage(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return (z[..., 0] - 1.0) ** 2 + 0.1 * z[..., 1] ** 2 + 0.05 * u[..., 0] ** 2


def terminal(z: torch.Tensor) -> torch.Tensor:
    return 5.0 * (z[..., 0] - 1.0) ** 2


def make_task(**changes) -> Task:
    options = {
        "low": [-1.0],
        "high": [1.0],
        "horizon": 8,
        "dt": 0.3,
        "terminal": terminal,
    } | changes
    return Task.of(PENDULUM, stage, **options, dtype=torch.float64)


@pytest.fixture(scope="module")
def optimum() -> tuple[torch.Tensor, np.ndarray]:
    """The best cost from each of three starts by L-BFGS-B from many first guesses."""
    task, starts = make_task(), torch.tensor([[0.0, 0.0], [-1.0, 0.5], [2.0, -1.0]]).double()
    best = []
    for z in starts:

        def cost(u: np.ndarray, z: torch.Tensor = z) -> tuple[float, np.ndarray]:
            a = torch.tensor(u[:, None], requires_grad=True)
            value = task.cost(z, a)
            value.backward()
            return value.item(), a.grad[:, 0].numpy()

        guesses = np.random.default_rng(0).uniform(-1, 1, (5, 8))
        runs = [minimize(cost, g, jac=True, bounds=[(-1, 1)] * 8) for g in guesses]
        best.append(min(r.fun for r in runs))
    return starts, np.array(best)


@pytest.mark.parametrize("planner", PLANNERS, ids=IDS)
def test_planner_reaches_the_optimum_inside_the_box(planner, optimum) -> None:
    starts, best = optimum
    task = make_task()
    plan = planner.plan(task, starts, generator=torch.Generator().manual_seed(0))
    assert plan.actions.shape == (3, 8, 1)
    assert bool((plan.actions.abs() <= 1.0).all())
    np.testing.assert_allclose(plan.cost, task.cost(starts, plan.actions))
    slack = {"RandomShooting": 1.0, "MPPI": 0.01, "CEM": 0.01}.get(type(planner).__name__, 1e-3)
    assert (plan.cost.numpy() <= best * (1 + slack)).all()
    assert (plan.cost.numpy() >= best * (1 - 1e-6)).all()


def test_the_spread_of_cem_is_soon_that_of_its_best_samples() -> None:
    seen = []

    def watched(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        seen.append(float(u[..., 0].std()))
        return stage(z, u)

    task = Task.of(PENDULUM, watched, low=[-9.0], high=[9.0], horizon=1, dt=0.3)
    for momentum, narrow in ((0.1, True), (0.9, False)):
        seen.clear()
        planner = CEM(samples=200, iterations=8, momentum=momentum)
        planner.plan(task, torch.zeros(1, 2), generator=torch.Generator().manual_seed(0))
        assert (min(seen) < 0.02 * max(seen)) == narrow


@pytest.mark.parametrize("planner", PLANNERS, ids=IDS)
def test_a_plan_never_gets_worse_than_the_one_it_started_from(planner, optimum) -> None:
    starts, _ = optimum
    task = make_task()
    warm = GradientShooting(8, 80).plan(task, starts).actions
    plan = planner.plan(task, starts, warm=warm, generator=torch.Generator().manual_seed(1))
    assert bool((plan.cost <= task.cost(starts, warm) + 1e-12).all())


@pytest.mark.parametrize("planner", PLANNERS[:4], ids=IDS[:4])
def test_units_and_origin_of_the_actions_do_not_matter(planner, optimum) -> None:
    """u = (v - 3) / 10 inside the corresponding box: the same plan, in the other units."""
    starts, _ = optimum
    law = Law.from_string(["w", "-sin(q) - 0.1*w + 0.1*v - 0.3"], ["q", "w", "v"])
    other = Task.of(
        law, lambda z, v: stage(z, (v - 3) / 10), low=[-7.0], high=[13.0], horizon=8, dt=0.3,
        terminal=terminal, dtype=torch.float64,
    )  # fmt: skip
    a, b = (planner.plan(task, starts, generator=torch.Generator().manual_seed(2))
            for task in (make_task(), other))  # fmt: skip
    torch.testing.assert_close(b.cost, a.cost, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close((b.actions - 3) / 10, a.actions, rtol=1e-5, atol=1e-6)


def test_an_external_solver_plans_with_the_exported_law(optimum) -> None:
    """Model predictive control in CasADi on ``law.casadi()`` finds the same optimum."""
    casadi = pytest.importorskip("casadi")
    starts, best = optimum
    field = PENDULUM.casadi()
    u = casadi.SX.sym("u", 8)
    for z0, wanted in zip(starts.tolist(), best, strict=True):
        z, cost = casadi.SX(z0), 0
        for k in range(8):
            cost += (z[0] - 1) ** 2 + 0.1 * z[1] ** 2 + 0.05 * u[k] ** 2
            k1 = field(casadi.vertcat(z, u[k]))
            k2 = field(casadi.vertcat(z + 0.15 * k1, u[k]))
            k3 = field(casadi.vertcat(z + 0.15 * k2, u[k]))
            k4 = field(casadi.vertcat(z + 0.3 * k3, u[k]))
            z = z + 0.05 * (k1 + 2 * k2 + 2 * k3 + k4)
        cost += 5 * (z[0] - 1) ** 2
        options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}}
        solver = casadi.nlpsol("mpc", "ipopt", {"x": u, "f": cost}, options)
        found = solver(x0=0.1, lbx=-1, ubx=1)
        assert float(found["f"]) == pytest.approx(wanted, rel=1e-4)


def test_ilqr_equals_lqr_on_a_linear_quadratic_task() -> None:
    law = Law.from_string(["x + 0.1*y", "y + 0.1*u - 0.05*x"], ["x", "y", "u"], dynamics="discrete")
    around = linearize(Transition(law.torch(), dynamics="discrete"), [0.0, 0.0], [0.0])
    regulator = lqr(around, Q=1.0, R=0.2)
    gain, cost_to_go, _ = control.dlqr(around.step.A, around.step.B, np.eye(2), [[0.2]])
    np.testing.assert_allclose(regulator.gain, gain, atol=1e-9)
    np.testing.assert_allclose(regulator.cost_to_go, cost_to_go, atol=1e-9)
    p = torch.tensor(regulator.cost_to_go)
    task = Task.of(
        law, lambda z, u: (z**2).sum(-1) + 0.2 * u[..., 0] ** 2, low=[-9], high=[9], horizon=12,
        terminal=lambda z: torch.einsum("...i,ij,...j", z, p, z), dtype=torch.float64,
    )  # fmt: skip
    z = torch.tensor([[1.0, -0.5], [0.3, 2.0]]).double()
    plan = ILQR(iterations=20).plan(task, z)
    np.testing.assert_allclose(plan.cost, torch.einsum("ei,ij,ej->e", z, p, z), rtol=1e-8)
    np.testing.assert_allclose(plan.actions[:, 0], regulator(z.numpy()), rtol=1e-5)


@pytest.mark.parametrize("final", [0.0, 3.0])
def test_ilqr_is_the_riccati_recursion_with_and_without_a_terminal_cost(final: float) -> None:
    law = Law.from_string(["x + 0.1*y", "y + 0.1*u - 0.05*x"], ["x", "y", "u"], dynamics="discrete")
    a, b = np.array([[1.0, 0.1], [-0.05, 1.0]]), np.array([[0.0], [0.1]])
    p, gains = final * np.eye(2), []
    for _ in range(12):
        gains.append(np.linalg.solve(0.2 + b.T @ p @ b, b.T @ p @ a))
        p = np.eye(2) + a.T @ p @ (a - b @ gains[-1])
    task = Task.of(
        law, lambda z, u: (z**2).sum(-1) + 0.2 * u[..., 0] ** 2, low=[-9], high=[9], horizon=12,
        terminal=(lambda z: final * (z**2).sum(-1)) if final else None, dtype=torch.float64,
    )  # fmt: skip
    z = np.array([1.0, -0.5])
    plan = ILQR(iterations=20).plan(task, torch.tensor(z)[None])
    assert float(plan.cost) == pytest.approx(z @ p @ z, rel=1e-8)
    for action, gain in zip(plan.actions[0].numpy(), reversed(gains), strict=True):
        np.testing.assert_allclose(action, -gain @ z, atol=1e-5)
        z = a @ z + b @ action


def test_ilqr_holds_actions_at_the_edge_of_the_box_and_moves_the_others() -> None:
    """Two coupled actions, one of which presses against its edge in most steps."""
    law = Law.from_string(["x + 0.3*u + 0.1*v", "y - 0.2*u + 0.4*v"], ["x", "y", "u", "v"],
                          dynamics="discrete")  # fmt: skip
    low, high = [-0.2, -2.0], [0.2, 2.0]
    task = Task.of(
        law, lambda z, u: (z**2).sum(-1) + 0.05 * (u**2).sum(-1), low=low, high=high, horizon=6,
        terminal=lambda z: 4 * (z**2).sum(-1), dtype=torch.float64,
    )  # fmt: skip
    z = torch.tensor([[1.5, -1.0], [-1.0, 0.5]]).double()
    plan = ILQR(iterations=50).plan(task, z)
    for i in range(2):
        best = minimize(
            lambda u, i=i: float(task.cost(z[i], torch.tensor(u).reshape(6, 2))), np.zeros(12),
            bounds=list(zip(low, high, strict=True)) * 6, options={"ftol": 1e-14, "gtol": 1e-9},
        )  # fmt: skip
        wanted = best.x.reshape(6, 2)
        assert (np.abs(wanted[:, 0]) > 0.1999).any() and (np.abs(wanted[:, 1]) < 1.99).all()
        assert float(plan.cost[i]) == pytest.approx(best.fun, rel=1e-6)
        np.testing.assert_allclose(plan.actions[i], wanted, atol=2e-3)


def test_continuous_regulator_agrees_with_python_control_and_respects_its_box() -> None:
    around = linearize(Transition(PENDULUM.torch(), integrator="rk4"), [np.pi, 0.0], [0.0], dt=0.1)
    regulator = lqr(around, [2.0, 1.0], 0.5, time="continuous", low=-1, high=1)
    gain, _, poles = control.lqr(around.field.A, around.field.B, np.diag([2.0, 1.0]), [[0.5]])
    np.testing.assert_allclose(regulator.gain, gain, atol=1e-9)
    np.testing.assert_allclose(
        sorted(np.linalg.eigvals(regulator.closed_loop)), sorted(poles), atol=1e-9
    )
    assert regulator([np.pi + 3, 0.0]) == -1.0 and regulator([np.pi, 0.0]) == 0.0
    unreachable = Law.from_string(["0.5*x", "u"], ["x", "y", "u"])
    with pytest.raises(DataError, match="controllable"):
        lqr(linearize(Transition(unreachable.torch()), [0, 0], [0]), 1.0, 1.0)


@pytest.mark.parametrize("scheme", ["euler", "rk4", "discrete"])
def test_quick_rollouts_equal_the_transition(scheme: str) -> None:
    law = Law.from_string(["w", "-1.5*sin(q)*max(w, 0.3) + u", "0.5"], ["q", "w", "e", "u"],
                          dynamics="discrete" if scheme == "discrete" else "continuous")  # fmt: skip
    transition = Transition(
        law.torch(), dynamics=law.dynamics, integrator="euler" if scheme == "discrete" else scheme
    )
    z, u = torch.randn(4, 1, 3).double(), torch.randn(4, 5, 7, 1).double()
    limits = (torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert LawRollout.applies_to(transition)
    quick = LawRollout(transition, 0.1, limits)(z, u)
    slow = generic_rollout(lambda s, a: transition(s, 0.1, a).clamp(*limits), z, u)
    torch.testing.assert_close(quick, slow.detach(), rtol=1e-12, atol=1e-12)


def test_held_actions_and_batches_plan_like_single_ones() -> None:
    task = make_task(hold=4)
    assert task.blocks == 2
    z = torch.tensor([[0.0, 0.0], [2.0, -1.0]]).double()
    actions = torch.tensor([[[0.5], [-0.2]], [[1.0], [0.3]]]).double()
    flat = make_task().cost(z, actions.repeat_interleave(4, dim=1))
    torch.testing.assert_close(task.cost(z, actions), flat)
    together = ILQR().plan(make_task(), z)
    alone = ILQR().plan(make_task(), z[1:])
    torch.testing.assert_close(together.actions[1:], alone.actions, rtol=1e-4, atol=1e-5)


def test_diverging_rollouts_cost_most_and_never_win() -> None:
    law = Law.from_string(["x**3 + u"], ["x", "u"])
    task = Task.of(law, lambda z, u: -u[..., 0], low=[-1], high=[1], horizon=40, dt=0.5)
    plan = CEM().plan(task, torch.tensor([[0.1]]), generator=torch.Generator().manual_seed(0))
    assert bool(task.states(torch.tensor([[0.1]]), plan.actions).isfinite().all())


def test_cvar_is_the_mean_of_the_worst_share() -> None:
    costs = torch.randn(40, 6).double()
    torch.testing.assert_close(CVaR(0.0)(costs), expected(costs))
    worst = costs.sort(dim=0, descending=True).values
    torch.testing.assert_close(CVaR(0.9)(costs), worst[:4].mean(0))
    between = CVaR(0.8875)(costs)  # four and a half draws
    torch.testing.assert_close(between, (worst[:4].sum(0) + 0.5 * worst[4]) / 4.5)
    torch.testing.assert_close(CVaR(0.999)(costs), worst[0])
    with pytest.raises(ConfigError, match=r"\[0, 1\)"):
        CVaR(1.0)


def test_risk_aversion_shuns_what_one_draw_punishes() -> None:
    """Pushing right pays in nine draws of ten and is a disaster in the tenth."""
    gains = torch.tensor([1.0] * 9 + [-6.0]).double()

    def step(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return z + gains.reshape(-1, *[1] * (z.ndim - 1)) * u  # each draw keeps its own gain

    def cost(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return -z[..., 0]

    z = torch.zeros(2, 1).double()
    plans = {}
    for risk in (expected, CVaR(0.9)):
        task = Task.of(step, cost, low=[-0.2], high=[1.0], horizon=5, draws=10, risk=risk,
                       terminal=lambda z: -z[..., 0], dtype=torch.float64)  # fmt: skip
        assert task.states(z, torch.zeros(2, 5, 1).double()).shape == (10, 2, 6, 1)
        plans[risk] = CEM(200, 6).plan(task, z, generator=torch.Generator().manual_seed(0))
    assert float(plans[expected].actions.mean()) > 0.9
    assert float(plans[CVaR(0.9)].actions.mean()) < 0.05


def test_controller_regulates_the_true_system_under_a_hybrid_predictor() -> None:
    torch.manual_seed(0)
    correction = Correction(2, 1, width=8, zero_init=True).double()
    task = Task.of(Transition(PENDULUM.torch(), correction, integrator="rk4"), stage,
                   low=[-1], high=[1], horizon=12, dt=0.2, terminal=terminal)  # fmt: skip
    controller = Controller(task, CEM(samples=64, iterations=3), replan=2, seed=1)
    truth = Transition(PENDULUM.torch(), integrator="rk4")
    z = torch.tensor([[0.0, 0.0], [-1.0, 0.0]]).double()
    for _ in range(60):
        action = controller(z.numpy())
        assert action.shape == (2, 1)
        z = truth(z, 0.2, torch.as_tensor(action)).detach()
    assert float((z[:, 0] - 0.9).abs().max()) < 0.15  # a torque of 1 holds it at this angle at most
    again = Controller(task, CEM(samples=64, iterations=3), replan=2, seed=1)
    first = again(np.zeros(2))
    again.reset()
    np.testing.assert_array_equal(first, again(np.zeros(2)))
    assert first.shape == (1,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low": [1.0], "high": [-1.0]}, "low < high"),
        ({"horizon": 7, "hold": 2}, "multiple of hold"),
        ({"dt": None}, "pass dt"),
    ],
)
def test_impossible_tasks_are_refused(wrong, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_task(**wrong)
    with pytest.raises(DataError, match="drop the last axis"):
        task = Task.of(PENDULUM, lambda z, u: z**2, low=[-1], high=[1], dt=0.1, horizon=4)
        task.cost(torch.zeros(1, 2), torch.zeros(1, 4, 1))


@pytest.mark.parametrize(
    "planner, least, wrong",
    [
        (
            MPPI,
            {"samples": 2, "iterations": 1},
            [{"samples": 1}, {"iterations": 0}, {"temperature": 0.0}],
        ),
        (CEM, {"samples": 4, "iterations": 1}, [{"samples": 3}, {"elites": 1.0}]),
        (RandomShooting, {"samples": 1}, [{"samples": 0}]),
    ],
)
def test_planners_take_the_smallest_settings_that_mean_something(planner, least, wrong) -> None:
    plan = planner(**least).plan(make_task(), torch.zeros(1, 2).double())
    assert bool(plan.cost.isfinite().all())
    for settings in wrong:
        with pytest.raises(ConfigError, match=next(iter(settings))):
            planner(**settings)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_steps_inside_a_box_are_the_best_there_are_in_any_unit_of_cost(unit: float) -> None:
    """Against bounded minimization of the same quadratic."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        root = rng.normal(size=(3, 3))
        quu, qu = unit * (root @ root.T + 0.3 * np.eye(3)), unit * 2 * rng.normal(size=3)
        low, high = -rng.uniform(0.1, 1, 3), rng.uniform(0.1, 1, 3)
        step, free = minimize_in_box(*(torch.tensor(a)[None] for a in (quu, qu, low, high)))
        best = minimize(
            lambda x, q=quu, g=qu: (g @ x + x @ q @ x / 2) / unit, np.zeros(3), bounds=[*zip(low, high, strict=True)],
            options={"ftol": 1e-15, "gtol": 1e-10},
        )  # fmt: skip
        value = (qu @ step[0].numpy() + step[0].numpy() @ quu @ step[0].numpy() / 2) / unit
        assert value == pytest.approx(best.fun, abs=1e-6)
        inside = (best.x > low + 1e-6) & (best.x < high - 1e-6)
        np.testing.assert_array_equal(free[0].numpy() > 0, inside)
