"""Estimators of other packages as backends: what they set stays set, what cannot be is refused."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import sjepa
from sjepa import SymbolicRegressor, make_backend
from sjepa.backend import Budget, Problem
from sjepa.errors import ConfigError, UnknownBackend
from sjepa.symbolic import Grammar
from sjepa_backends.pysr import julia_available


RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (200, 2))
Y = X[:, 0] * X[:, 1] + 0.5 * X[:, 1] ** 2


def _finds(backend: Any, **settings: Any) -> SymbolicRegressor:
    model = SymbolicRegressor(backend, random_state=0, **settings).fit(X, Y)
    assert model.score(X, Y) > 1 - 1e-9
    return model


# PySINDy -----------------------------------------------------------------------------------------


def test_pysindys_optimizers_keep_their_settings() -> None:
    pysindy = pytest.importorskip("pysindy")
    for optimizer in (
        pysindy.STLSQ(threshold=0.1),
        pysindy.SR3(reg_weight_lam=0.01, relax_coeff_nu=2.0),
        pysindy.EnsembleOptimizer(pysindy.STLSQ(threshold=0.2), bagging=True, n_models=5),
    ):
        model = _finds(optimizer)
        assert model.law_.lines(4) == ["y = x1*x2 + 0.5*x2**2"]
        assert np.isfinite(cross_val_score(clone(model), X, Y, cv=2)).all()
    backend: Any = make_backend(pysindy.STLSQ(threshold=0.1, max_iter=7))
    # Also the default of the optimizer is a setting: there is one fit, and no path of thresholds.
    assert backend.options["threshold"] == 0.1 and backend.options["max_iter"] == 7


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_the_threshold_of_an_optimizer_is_in_its_own_units() -> None:
    pysindy = pytest.importorskip("pysindy")
    high = SymbolicRegressor(pysindy.STLSQ(threshold=0.7), library=["x1*x2", "x2**2"]).fit(X, Y)
    assert "x2**2" not in " ".join(high.equations_["equation"])
    low = SymbolicRegressor(pysindy.STLSQ(threshold=0.4), library=["x1*x2", "x2**2"]).fit(X, Y)
    assert "x2**2" in " ".join(low.equations_["equation"])


def test_a_whole_sindy_model_brings_its_library() -> None:
    pysindy = pytest.importorskip("pysindy")
    custom = pysindy.CustomLibrary([lambda x: np.exp(-x)], function_names=[lambda x: f"exp(-{x})"])
    library = pysindy.PolynomialLibrary(degree=2) + custom
    model = _finds(pysindy.SINDy(pysindy.STLSQ(threshold=0.1), library))
    assert model.law_.lines(4) == ["y = x1*x2 + 0.5*x2**2"]
    terms: Any = make_backend(pysindy.SINDy(feature_library=library)).space(["a", "b"])
    assert [str(t) for t in terms.terms][-2:] == ["exp(-a)", "exp(-b)"] and len(terms) == 8
    assert not hasattr(library, "n_features_in_")  # the user's object is as it was
    other = SymbolicRegressor(pysindy.SINDy(), library=["x1*x2", "x2**2"]).fit(X, Y)
    assert any("another library" in note for note in other.front_.notes)


def test_what_a_sindy_model_sets_and_we_cannot_keep_is_refused_by_name() -> None:
    pysindy = pytest.importorskip("pysindy")
    smooth = pysindy.SINDy(differentiation_method=pysindy.SmoothedFiniteDifference())
    with pytest.raises(ConfigError, match="SmoothedFiniteDifference.*x_dot"):
        make_backend(smooth)
    with pytest.raises(ConfigError, match="FiniteDifference.*order=4"):
        make_backend(pysindy.SINDy(differentiation_method=pysindy.FiniteDifference(order=4)))
    unreadable = pysindy.CustomLibrary([lambda x: np.exp(-x)])
    with pytest.raises(sjepa.errors.SjepaError, match="f0"):
        SymbolicRegressor(pysindy.SINDy(feature_library=unreadable)).fit(X, Y)
    with pytest.raises(ConfigError, match="PolynomialLibrary is no backend"):
        make_backend(pysindy.PolynomialLibrary())


# Operon and gplearn ------------------------------------------------------------------------------


def test_pyoperons_regressor_keeps_its_settings() -> None:
    sklearn = pytest.importorskip("pyoperon.sklearn")
    regressor = sklearn.SymbolicRegressor(
        allowed_symbols="add,mul,square,constant,variable", generations=20, population_size=200,
        optimizer_iterations=5, max_length=20,
    )  # fmt: skip
    backend: Any = make_backend(regressor)
    assert (backend.generations, backend.population, backend.max_length) == (20, 200, 20)
    assert backend.options["optimizer_iterations"] == 5 and "random_state" not in backend.options
    model = _finds(regressor)
    assert "sin" not in " ".join(model.equations_["equation"])
    own = make_backend(sklearn.SymbolicRegressor(random_state=5))
    assert own.options["random_state"] == 5  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="warm_start"):
        make_backend(sklearn.SymbolicRegressor(warm_start=True))
    with pytest.raises(ConfigError, match="Operon's aq"):
        make_backend(sklearn.SymbolicRegressor(allowed_symbols="add,aq,variable"))


def test_gplearns_regressor_keeps_its_settings() -> None:
    genetic = pytest.importorskip("gplearn.genetic")
    regressor = genetic.SymbolicRegressor(
        population_size=300, generations=5, function_set=("add", "mul", "sub"), metric="spearman"
    )
    backend: Any = make_backend(regressor)
    assert (backend.population, backend.generations) == (300, 5)
    assert backend.options["metric"] == "spearman" and "random_state" not in backend.options
    model = SymbolicRegressor(regressor, random_state=0).fit(X, X[:, 0] * X[:, 1])
    assert model.law_.lines(4) == ["y = x1*x2"]
    assert "sin" not in " ".join(model.equations_["equation"])
    with pytest.raises(ConfigError, match="no regressor"):
        make_backend(genetic.SymbolicTransformer())
    mine = importlib.import_module("gplearn.functions").make_function(
        function=lambda a: a, name="same", arity=1
    )
    with pytest.raises(ConfigError, match="no counterpart"):
        make_backend(genetic.SymbolicRegressor(function_set=("add", mine)))


# PySR --------------------------------------------------------------------------------------------


def _pysr_regressor(**settings: Any) -> Any:
    """An object with the signature of the installed PySRRegressor; importing it starts Julia."""
    spec = importlib.util.find_spec("pysr")
    if spec is None or spec.origin is None:
        pytest.skip("pysr is not installed")
    tree = ast.parse((Path(spec.origin).parent / "sr.py").read_text(encoding="utf-8"))
    (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "PySRRegressor")
    (init,) = (n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    names = [a.arg for a in (*init.args.args, *init.args.kwonlyargs)]
    init.body = ast.parse("\n".join(f"self.{n} = {n}" for n in names if n != "self")).body
    for argument in (*init.args.args, *init.args.kwonlyargs):
        argument.annotation = None
    made = ast.parse("class PySRRegressor: pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.body = [init]
    module = ast.fix_missing_locations(ast.Module([made], []))
    space: dict[str, Any] = {"__name__": "pysr.sr"}
    exec(compile(module, "sr.py", "exec"), space)
    return space["PySRRegressor"](**settings)


def test_a_pysr_regressor_is_asked_with_its_settings() -> None:
    from sjepa_backends.pysr.request import plan

    regressor = _pysr_regressor(
        niterations=40, populations=8, maxsize=25, binary_operators=["+", "*"],
        unary_operators=["sin", "inv(x) = 1/x"], extra_sympy_mappings={"inv": lambda x: 1 / x},
        parsimony=0.01, nested_constraints={"sin": {"sin": 0}}, deterministic=True,
        parallelism="serial", random_state=3, progress=False,
    )  # fmt: skip
    backend: Any = make_backend(regressor)
    assert (backend.niterations, backend.populations, backend.maxsize) == (40, 8, 25.0)
    assert backend.options == {
        "parsimony": 0.01, "nested_constraints": {"sin": {"sin": 0}}, "parallelism": "serial",
        "random_state": 3,
    }  # fmt: skip
    assert backend.limited and backend.rows is None
    grammar = backend.space(["x1", "x2"])
    assert set(grammar.operators) == {"add", "mul", "sin", "inv"}
    problem = Problem(X, Y, ["x1", "x2"], ["y"], grammar=grammar, budget=Budget(9.0))
    (task,) = plan(problem, {})[0]
    settings = backend.request(task, problem)["settings"]
    assert settings["niterations"] == 40 and settings["parsimony"] == 0.01
    assert settings["random_state"] == 3 and settings["timeout_in_seconds"] == 9.0
    assert sorted(settings["unary_operators"]) == ["inv", "sin"]
    assert sorted(settings["binary_operators"]) == ["*", "+"]


def test_a_pysr_regressor_without_operators_has_pysrs_own() -> None:
    backend: Any = make_backend(_pysr_regressor())
    assert backend.operators == ("add", "mul", "sub", "div") and backend.niterations == 100
    assert isinstance(backend.space(["x"]), Grammar)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"warm_start": True}, "warm_start"),
        ({"select_k_features": 3}, "select_k_features"),
        ({"expression_spec": object()}, "expression_spec"),
        ({"guesses": ["x0"]}, "guesses"),
        ({"unary_operators": ["mine(x) = x^9"]}, "operator 'mine'"),
    ],
)
def test_what_a_pysr_regressor_sets_and_we_cannot_keep_is_refused(
    settings: dict[str, Any], named: str
) -> None:
    regressor = _pysr_regressor(**settings)
    if not all(hasattr(regressor, name) for name in settings):
        pytest.skip("this PySR has no such setting")
    with pytest.raises(ConfigError, match=named):
        make_backend(regressor)


@pytest.mark.julia
@pytest.mark.skipif(not julia_available()[0], reason=julia_available()[1])
def test_a_real_pysr_regressor_searches() -> None:
    pysr = pytest.importorskip("pysr")
    regressor = pysr.PySRRegressor(
        niterations=10, binary_operators=["+", "*"], deterministic=True, parallelism="serial",
        random_state=0,
    )  # fmt: skip
    _finds(regressor)


# All ---------------------------------------------------------------------------------------------


def test_other_objects_and_further_settings_are_refused() -> None:
    from sklearn.linear_model import LinearRegression

    with pytest.raises(UnknownBackend, match="estimator of PySR"):
        make_backend(LinearRegression())
    pysindy = pytest.importorskip("pysindy")
    with pytest.raises(ConfigError, match="already has its settings"):
        make_backend(pysindy.STLSQ(), threshold=0.2)
    with pytest.raises(UnknownBackend):
        make_backend(pysindy.STLSQ)  # a class, not an object


def test_objects_serve_in_lists_and_in_discover() -> None:
    pysindy = pytest.importorskip("pysindy")
    model = _finds([pysindy.STLSQ(threshold=0.1), "subset"])
    assert "pysindy" in model.front_.backend
    t = np.arange(0, 10, 0.01)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    front = sjepa.discover(x, t, backend=pysindy.STLSQ(threshold=0.1), feature_names=["q", "p"])
    assert front.best().lines(4) == ["q' = p", "p' = -4*q"]
