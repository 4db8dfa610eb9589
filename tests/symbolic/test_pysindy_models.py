import numpy as np
import pytest

from sjepa.errors import LawError, ParseError
from sjepa.symbolic.imports.pysindy import law_from_pysindy, readable
from sjepa.symbolic.law import Law


ps = pytest.importorskip("pysindy")


def pendulum(n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z = np.random.default_rng(0).uniform(-2.0, 2.0, (n, 2))
    dz = np.stack([z[:, 1], -np.sin(z[:, 0]) - 0.4 * z[:, 1] * np.abs(z[:, 1])], axis=1)
    return z, dz, np.arange(n) * 0.1


def fitted(library, names=("q", "p"), threshold=0.1, targets=None, u=None, cls=None):
    z, dz, t = pendulum()
    cls = cls or ps.SINDy
    model = cls(optimizer=ps.STLSQ(threshold=threshold, alpha=1e-9), feature_library=library)
    targets = dz if targets is None else targets(z)
    return model.fit(z, t=t, x_dot=targets, u=u, feature_names=list(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1", "1"),
        ("x0 x1", "x0*x1"),
        ("x0^2 x1", "x0^2*x1"),
        ("sin(2 x0)", "sin(2*x0)"),
        ("x0 sin(1 x1)", "x0*sin(1*x1)"),
        ("x0|x0|", "x0*abs(x0)"),
        ("|x0| |x1|", "abs(x0)*abs(x1)"),
        ("|x0 (x1 + 1)|x1", "abs(x0*(x1+1))*x1"),
        ("x0x1", "x0*x1"),
        ("x0x0x0", "x0*x0*x0"),
        ("1.5e-3 x0", "1.5e-3*x0"),
        ("x0(x1)", "x0*(x1)"),
        ("exp(-x0)/x1", "exp(-x0)/x1"),
    ],
)
def test_feature_names_become_ordinary_notation(name: str, expected: str) -> None:
    assert readable(name, ["x0", "x1"]) == expected


def libraries():
    poly, fourier = ps.PolynomialLibrary, ps.FourierLibrary
    yield "polynomial", poly(degree=3)
    yield "fourier", fourier(n_frequencies=2)
    yield "identity", ps.IdentityLibrary()
    yield "concat", poly(degree=2) + fourier()
    yield "tensored", poly(degree=1) * fourier()
    yield (
        "generalized",
        ps.GeneralizedLibrary(
            [poly(degree=2), fourier()],
            tensor_array=[[1, 1]],
            inputs_per_library=[[0, 1], [0]],
        ),
    )
    yield (
        "custom",
        ps.CustomLibrary(
            [lambda x: x, lambda x: x * np.abs(x), lambda x: np.sin(x), lambda x, y: x * y],
            [lambda x: x, lambda x: f"{x}|{x}|", lambda x: f"sin({x})", lambda x, y: x + y],
        ),
    )


@pytest.mark.parametrize("library", [pytest.param(lib, id=name) for name, lib in libraries()])
def test_the_law_computes_what_the_model_predicts(library) -> None:
    model = fitted(library, threshold=1e-3)
    law = law_from_pysindy(model)
    z = np.random.default_rng(1).uniform(-2.0, 2.0, (50, 2))
    # The oracle is PySINDy's own prediction; only rounding differs.
    np.testing.assert_allclose(law.numpy()(z), model.predict(z), rtol=1e-9, atol=1e-9)
    assert law.inputs == law.outputs == ("q", "p")
    assert law.dynamics == "continuous"


def test_the_pendulum_is_read_without_rounding() -> None:
    model = fitted(dict(libraries())["custom"])
    law = Law.from_pysindy(model)
    truth = Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"])
    assert law.equivalent(truth, tolerance=1e-7)
    assert [len(t) for t in law.terms] == [1, 2]


def test_control_inputs_are_inputs_but_not_outputs() -> None:
    z, _, t = pendulum()
    u = np.cos(t)[:, None]
    model = ps.SINDy(optimizer=ps.STLSQ(threshold=0.05, alpha=1e-9))
    dz = np.stack([z[:, 1], -z[:, 0] + 0.5 * u[:, 0]], axis=1)
    model.fit(z, t=t, x_dot=dz, u=u)
    law = law_from_pysindy(model)
    assert (law.inputs, law.outputs) == (("x0", "x1", "u0"), ("x0", "x1"))
    assert law.equivalent(Law.from_string(["x1", "0.5*u0 - x0"], ["x0", "x1", "u0"]), 1e-6)


def test_parameterised_library() -> None:
    z, _, t = pendulum()
    u = np.random.default_rng(2).uniform(1.0, 2.0, (len(t), 1))
    library = ps.ParameterizedLibrary(
        parameter_library=ps.PolynomialLibrary(degree=1),
        feature_library=ps.PolynomialLibrary(degree=1),
        num_parameters=1,
        num_features=2,
    )
    model = ps.SINDy(optimizer=ps.STLSQ(threshold=0.05, alpha=1e-9), feature_library=library)
    model.fit(z, t=t, x_dot=np.stack([z[:, 1], -u[:, 0] * z[:, 0]], axis=1), u=u)
    law = law_from_pysindy(model)
    assert law.equivalent(Law.from_string(["x1", "-u0*x0"], ["x0", "x1", "u0"]), 1e-6)


def test_discrete_models_are_maps() -> None:
    x = [0.2]
    for _ in range(60):
        x.append(3.7 * x[-1] * (1 - x[-1]))
    model = ps.DiscreteSINDy(optimizer=ps.STLSQ(threshold=0.1, alpha=1e-12))
    model.fit(np.array(x)[:, None], t=1)
    law = law_from_pysindy(model)
    assert law.dynamics == "discrete"
    assert law.equivalent(Law.from_string("3.7*x0 - 3.7*x0**2", ["x0"], dynamics="discrete"), 1e-6)


@pytest.mark.filterwarnings("ignore:2 axes labeled")  # by pysindy, of its own arrays
def test_weak_models_of_plain_functions_are_read() -> None:
    t = np.linspace(0, 10, 1001)
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    np.random.seed(0)
    library = ps.WeakPDELibrary(
        ps.PolynomialLibrary(degree=2, include_bias=False),
        spatiotemporal_grid=t,
        include_bias=True,
        K=100,
    )
    model = ps.SINDy(optimizer=ps.STLSQ(threshold=0.1), feature_library=library).fit(x, t=t)
    law = law_from_pysindy(model)
    assert law.equivalent(Law.from_string(["x1", "-x0"], ["x0", "x1"]), 1e-3)


def test_unnamed_functions_need_their_meaning() -> None:
    library = ps.CustomLibrary([lambda x: x, lambda x: np.sin(x), lambda x: x * np.abs(x)])
    model = fitted(library)
    with pytest.raises(ParseError, match=r"'f0\(p\)'.*terms="):
        law_from_pysindy(model)
    meaning = {"f0(p)": "p", "f1(q)": "sin(q)", "f2(p)": "p*abs(p)"}
    law = law_from_pysindy(model, meaning)
    assert law.equivalent(Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"]), 1e-6)
    with pytest.raises(LawError, match=r"'f1\(q\)'.*something else"):
        law_from_pysindy(model, {**meaning, "f1(q)": "cos(q)"})
    with pytest.raises(LawError, match=r"no feature 'g\(q\)'"):
        law_from_pysindy(model, {"g(q)": "q"})


def test_a_name_that_lies_is_refused() -> None:
    library = ps.CustomLibrary(
        [lambda x: x, lambda x: np.sin(x)], [lambda x: x, lambda x: f"{x}^2"]
    )
    with pytest.raises(LawError, match=r"'q\^2' was read as q\*\*2"):
        law_from_pysindy(fitted(library))


def test_names_are_never_executed() -> None:
    library = ps.CustomLibrary([lambda x: np.sin(x)], [lambda x: f"__import__('os').getcwd({x})"])
    with pytest.raises(ParseError, match="cannot be read"):
        law_from_pysindy(fitted(library))


def test_partial_differential_equations_are_refused() -> None:
    x, t = np.linspace(0, 2 * np.pi, 40), np.linspace(0, 1, 30)
    wave = np.sin(x[:, None] - t[None, :])[..., None]
    library = ps.PDELibrary(derivative_order=1, spatial_grid=x, include_interaction=False)
    model = ps.SINDy(optimizer=ps.STLSQ(threshold=0.5), feature_library=library).fit(wave, t=t)
    with pytest.raises(LawError, match="partial differential"):
        law_from_pysindy(model)


def test_models_that_hold_no_law_are_refused() -> None:
    with pytest.raises(LawError, match="not fitted"):
        law_from_pysindy(ps.SINDy())
    with pytest.raises(LawError, match="Expected a fitted pysindy.SINDy"):
        law_from_pysindy(object())
