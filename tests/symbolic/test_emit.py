"""Numbers and gradients: torch, numpy and SymPy must say the same."""

import copy
import io
import pickle
import random

import numpy as np
import pytest
import sympy
import torch
from torch import nn

from sjepa.symbolic import Law
from sjepa.symbolic.definitions import CLIP, EPS
from sjepa.symbolic.operators import NODES, OPERATORS
from tests.symbolic import rewrites


NAMES = list(rewrites.VARIABLES)
DRAG = Law.from_string(["p", "-1.0001*sin(q) - 0.4*p*abs(p)"], ["q", "p"])


def random_laws(count: int, seed: int = 5) -> list[Law]:
    rng = random.Random(seed)
    laws = []
    while len(laws) < count:
        texts = [rewrites.text(rewrites.random_tree(rng, 3)) for _ in range(2)]
        laws.append(Law.from_string(texts, NAMES))
    return laws


def evalf(law: Law, point: np.ndarray) -> list[float]:
    """SymPy's own numbers, with 30 digits."""
    values = dict(zip(law.symbols, (sympy.Float(float(v), 30) for v in point), strict=True))
    return [float(e.subs(values).evalf(30)) for e in law.expressions]


def test_random_laws_agree_in_torch_numpy_and_sympy() -> None:
    points = np.random.default_rng(1).uniform(-2, 2, (3, 3))
    for law in random_laws(100):
        by_numpy = law.numpy()(points)
        by_torch = law.torch()(torch.tensor(points)).detach().numpy()
        by_sympy = np.array([evalf(law, p) for p in points])
        scale = 1 + np.abs(by_sympy)
        assert (np.abs(by_numpy - by_sympy) / scale).max() < 1e-9, law
        assert (np.abs(by_torch - by_sympy) / scale).max() < 1e-9, law


def test_gradients_of_random_laws_agree_with_central_differences() -> None:
    rng = np.random.default_rng(2)
    for law in random_laws(100, seed=6):
        z = torch.tensor(rng.uniform(-2, 2, (5, 3)), requires_grad=True)
        module = law.torch()
        (gradient,) = torch.autograd.grad(module(z).sum(), z)
        step = 1e-6
        for i in range(3):
            shift = torch.zeros(3, dtype=torch.float64)
            shift[i] = step
            with torch.no_grad():
                difference = (module(z + shift) - module(z - shift)).sum(-1) / (2 * step)
                second = (module(z + shift) + module(z - shift) - 2 * module(z)).sum(-1) / step**2
            # Truncation is step * second derivative, rounding value * eps / step.
            tolerance = 1e-5 * (1 + second.abs() + module(z).detach().abs().sum(-1))
            assert ((gradient[:, i] - difference).abs() <= tolerance).all(), law


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_operator_has_one_value_in_all_languages(name: str) -> None:
    row = OPERATORS[name]
    inputs = ["a", "b", "c"][: len(row.example)]
    law = Law([row.build(*Law.from_string("0", inputs).symbols)], inputs, ["f"], "discrete")
    point = np.array(row.example)
    by_sympy = evalf(law, point)[0]
    assert law.numpy()(point)[0] == pytest.approx(by_sympy, rel=1e-12)
    assert float(law.torch()(torch.tensor(point)).detach()) == pytest.approx(by_sympy, rel=1e-12)
    assert float(law.casadi()(point)) == pytest.approx(by_sympy, rel=1e-6)
    if row.node is not None:
        assert float(row.numpy(*point)) == pytest.approx(by_sympy, rel=1e-12)


@pytest.mark.parametrize("name", sorted(r.name for r in NODES.values()))
def test_analytic_derivatives_equal_autograd(name: str) -> None:
    row = OPERATORS[name]
    inputs = ["a", "b", "c"][: len(row.example)]
    law = Law([row.build(*Law.from_string("0", inputs).symbols)], inputs, ["f"], "discrete")
    jacobian = Law(
        list(law.jacobian()), inputs, [f"d{n}" for n in inputs], "discrete", canonical=False
    )
    z = torch.tensor(row.example, dtype=torch.float64)
    expected = torch.func.jacrev(law.torch(trainable=False))(z)[0]
    np.testing.assert_allclose(jacobian.numpy()(z.numpy()), expected.numpy(), atol=1e-10)


EDGES = [0.0, -0.0, EPS, -EPS, EPS / 2, EPS**2, -(EPS**2), 1e-300, CLIP, -CLIP, 1e3, -1e3, 1e8]


@pytest.mark.parametrize(
    "name", ["safe_div", "exp_clip", "log_safe", "sqrt_safe", "Abs", "sign", "Max"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_safe_operators_stay_finite_at_their_edges(name: str, dtype: torch.dtype) -> None:
    row = OPERATORS[name]
    inputs = ["a", "b"][: 1 if row.arity == 1 else 2]
    law = Law([row.build(*Law.from_string("0", inputs).symbols)], inputs, ["f"], "discrete")
    grid = np.stack(np.meshgrid(*[EDGES] * len(inputs)), -1).reshape(-1, len(inputs))
    z = torch.tensor(grid, dtype=dtype, requires_grad=True)
    value = law.torch()(z)
    (gradient,) = torch.autograd.grad(value.sum(), z)
    assert torch.isfinite(value).all() and torch.isfinite(gradient).all()
    assert value.dtype == dtype


@pytest.mark.parametrize("name", ["safe_div", "exp_clip", "log_safe", "sqrt_safe"])
def test_safe_operators_are_continuous(name: str) -> None:
    row = OPERATORS[name]
    x = np.linspace(-3 * EPS, 3 * EPS, 200_001)
    values = row.numpy(np.ones_like(x), x) if row.arity == 2 else row.numpy(x)
    # The steepest of them rises by 1/EPS**2 for each unit, 3e-8 of which lie between two points.
    assert np.abs(np.diff(values)).max() <= 3.1e-8 / EPS**2


@pytest.mark.parametrize("text", ["exp(2)", "sin(1)", "pi", "2", "0", "log(8, 2)"])
def test_constant_laws_keep_the_batch_shape(text: str) -> None:
    law = Law.from_string(text, ["x", "y"])
    z = torch.randn(4, 5, 2)
    assert law.torch()(z).shape == (4, 5, 1)
    assert law.numpy()(z.numpy()).shape == (4, 5, 1)
    assert float(law.torch()(z)[0, 0].detach()) == pytest.approx(float(law.expressions[0]))


def test_case_distinctions_steps_and_modulo() -> None:
    law = Law.from_string(
        [
            "where(x > 0 and y > 0, x, where(x < -1, 2, -y))",
            "heaviside(x)",
            "mod(x, 0.7)",
            "max(x, y, 0.1)",
        ],
        ["x", "y"],
    )
    points = np.array([[1.0, 2.0], [-2.0, 1.0], [-0.5, 0.3], [0.0, 0.0]])
    expected = [
        [1.0, 1.0, 1.0 % 0.7, 2.0],
        [2.0, 0.0, -2.0 % 0.7, 1.0],
        [-0.3, 0.0, -0.5 % 0.7, 0.3],
        [0.0, 0.5, 0.0, 0.1],
    ]
    np.testing.assert_allclose(law.numpy()(points), expected, atol=1e-12)
    np.testing.assert_allclose(law.torch()(torch.tensor(points)).detach(), expected, atol=1e-12)


def test_coefficients_train_and_are_read_back() -> None:
    start = Law.from_string(["0.8*p", "-0.7*sin(q) - 0.2*p*abs(p)"], ["q", "p"])
    module = start.torch()
    z = torch.randn(500, 2, dtype=torch.float64)
    target = Law.from_string(["1.1*p", "-1.3*sin(q) - 0.4*p*abs(p)"], ["q", "p"])
    y = target.torch(trainable=False)(z)
    optimizer = torch.optim.LBFGS(module.parameters(), max_iter=100)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(z), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(module.law().coefficients, target.coefficients, atol=1e-4)
    assert module.law().complexity("terms") == start.complexity("terms")


def test_exponents_are_structure_and_equal_numbers_are_separate() -> None:
    law = Law.from_string("2*x**3 + 0.5*y + 0.5*sin(3*x)", ["x", "y"])
    module = law.torch()
    assert sorted(module.coefficients.tolist()) == [0.5, 0.5, 2.0]
    with torch.no_grad():
        module.coefficients[:] = torch.tensor([0.75, 0.25, 1.5])
    x, y, values = 0.7, -0.4, module.law().coefficients
    assert sorted(values) == [0.25, 0.75, 1.5]
    found = float(module.law().numpy()([x, y])[0])
    features = {"x**3": x**3, "y": y, "sin(3*x)": np.sin(3 * x)}
    expected = sum(c * features[str(t)] for c, t in module.law().terms[0])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("factor", ["", "2*", "2.0*", "0.5*"])
def test_every_term_is_trained_whatever_its_multiplier(factor: str) -> None:
    """A pendulum written without numbers had no parameter, and its optimizer nothing to do."""
    law = Law.from_string([f"{factor}z2", f"-{factor}sin(z1)"], inputs=["z1", "z2"])
    module = law.torch()
    assert module.law() == law
    z = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    truth = torch.stack([1.7 * z[:, 1], -0.3 * z[:, 0].sin()], dim=-1)
    optimizer = torch.optim.LBFGS(
        module.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_grad=1e-10
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(z), truth)
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose([p[0][0] for p in module.law().terms], [1.7, -0.3], atol=1e-5)
    assert not any(p.requires_grad for p in law.torch(trainable=False).parameters())


def test_some_coefficients_can_be_frozen() -> None:
    module = Law.from_string("0.5*x + 1.5*y", ["x", "y"]).torch(trainable=[True, False])
    module(torch.ones(3, 2)).sum().backward()
    assert module.coefficients.grad is not None
    assert module.coefficients.grad[0] != 0 and module.coefficients.grad[1] == 0


def test_copies_are_independent_and_pickling_keeps_the_values() -> None:
    module = DRAG.torch()
    twin = copy.deepcopy(module)
    with torch.no_grad():
        module.coefficients.mul_(2.0)
    z = torch.randn(6, 2)
    assert not torch.allclose(module(z), twin(z))
    torch.testing.assert_close(pickle.loads(pickle.dumps(module))(z), module(z))
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    twin.load_state_dict(torch.load(buffer, weights_only=True))
    torch.testing.assert_close(twin(z), module(z))


def test_vmap_jacrev_and_hessian_work() -> None:
    module = DRAG.torch()
    z = torch.randn(7, 2, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(module)(z), module(z))
    jacobians = torch.func.vmap(torch.func.jacrev(module))(z)
    assert jacobians.shape == (7, 2, 2)
    q, p = z[:, 0], z[:, 1]
    torch.testing.assert_close(jacobians[:, 1, 0], -1.0001 * q.cos())
    torch.testing.assert_close(jacobians[:, 1, 1], -0.8 * p.abs())
    assert torch.func.hessian(lambda v: module(v).sum())(z[0]).shape == (2, 2)


def test_functional_call_with_a_batch_of_coefficients() -> None:
    module = DRAG.torch()
    z = torch.randn(4, 2, dtype=torch.float64)
    many = module.coefficients.detach() * torch.tensor([[1.0], [2.0]], dtype=torch.float64)

    def run(coefficients: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, {"coefficients": coefficients}, (z,))

    values = torch.func.vmap(run)(many)
    torch.testing.assert_close(values[0], module(z))
    torch.testing.assert_close(values[1, :, 1], 2 * values[0, :, 1])


def test_torch_compile_gives_the_same_values_and_gradients() -> None:
    module = DRAG.torch(dtype=torch.float32)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    z = torch.randn(16, 2, requires_grad=True)
    value = compiled(z)
    torch.testing.assert_close(value, module(z))
    (a,) = torch.autograd.grad(value.sum(), z)
    (b,) = torch.autograd.grad(module(z).sum(), z)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 4, 2), (0, 2)])
def test_any_batch_shape(shape: tuple[int, ...]) -> None:
    z = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 0.5
    q, p = z[..., 0], z[..., 1]
    expected = torch.stack([p, -1.0001 * q.sin() - 0.4 * p * p.abs()], dim=-1)
    torch.testing.assert_close(DRAG.torch()(z).detach(), expected)
    torch.testing.assert_close(torch.tensor(DRAG.numpy()(z.numpy())), expected)


def test_wrong_width_is_refused_with_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(\.\.\., 2\).*\(3, 5\)"):
        DRAG.torch()(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"\(\.\.\., 2\).*\(3, 5\)"):
        DRAG.numpy()(np.zeros((3, 5)))


def test_the_numpy_law_can_be_sent_to_another_process() -> None:
    function = pickle.loads(pickle.dumps(DRAG.numpy()))
    np.testing.assert_allclose(function(np.ones((2, 2))), DRAG.numpy()(np.ones((2, 2))))


def test_unknown_nodes_are_named() -> None:
    x = sympy.Symbol("x", real=True)
    from sjepa.errors import EmissionError

    with pytest.raises(EmissionError, match="gamma"):
        Law([sympy.gamma(x)], ["x"], canonical=False).torch()
