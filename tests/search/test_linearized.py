"""Neighbors of a law by its linearized simulation: those that fits of their own confirm."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law, Library
from sjepa.data import Trajectories, simulate
from sjepa.inference.corrections import inputs_along
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import ShootingFit, shoot
from sjepa.search.simulated_neighbors import Template, neighbors, on_grid
from sjepa.symbolic.term_templates import TermTemplate


def terms(one: Law, j: int) -> set[str]:
    return {str(t) for _, t in one.terms[j]}


def weights(library: Library) -> dict[sympy.Expr, float]:
    return dict(zip(library.terms, library.weights.tolist(), strict=True))


def look(fit: ShootingFit, j: int, library: Library, templates: list[Template]) -> list[Law]:
    return neighbors(fit, j, weights(library), templates, 4.0, 1.0, 4)


@pytest.mark.parametrize("kind", ["normal", "Student"])
def test_the_right_terms_are_proposed_beside_a_cubic_and_a_fit_confirms_them(kind: str) -> None:
    rng = np.random.default_rng(3)
    clean = simulate("damped_pendulum", seed=4)
    spread = np.concatenate(clean.x).std(axis=0)

    def noise(shape: tuple[int, ...]) -> np.ndarray:
        return rng.normal(size=shape) if kind == "normal" else rng.standard_t(3, shape) / 3**0.5

    x = [a + 0.02 * spread * noise(a.shape) for a in clean.x]
    segments = Segments.of(Trajectories(x, clean.t, names=("q", "p")))
    cubic = shoot(Law.from_string(["p", "-q + 0.15*q**3 - 0.25*p"], ["q", "p"]), segments)
    library = Library.default(["q", "p"])
    (found, *_) = look(cubic, 1, library, [])
    assert terms(found, 1) == {"sin(q)", "p"}
    right = shoot(found, segments)
    assert right.log_likelihood > cubic.log_likelihood
    # What is promised is what the fit gives.
    assert found.coefficients == pytest.approx(right.law.coefficients, rel=0.03)
    # Around the right law nothing shorter comes near.
    for other in look(right, 1, library, []):
        assert len(terms(other, 1)) > 2


def saturating(t: float, z: np.ndarray) -> list[float]:
    s, p = z
    return [0.8 - 1.5 * s / (0.6 + s), 1.5 * s / (0.6 + s) - 0.5 * p]


def exchange() -> tuple[np.ndarray, np.ndarray]:
    t = 0.03 * np.arange(512)
    path = solve_ivp(saturating, (0, t[-1]), [4.2, 0.3], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    noise = np.random.default_rng(11).normal(size=path.shape)
    return path + 0.01 * path.std(axis=0) * noise, t


OUTLET = "1.5*s/(0.6 + s) - 0.5*p"


@pytest.mark.parametrize(
    "inlet",
    [
        "0.6 - 0.6*s + 0.06*s**2",
        # Nearly collinear terms that imitate it to two parts in a hundred.
        "0.26 - 2.21*s + 1.09*s**2 - 0.133*s**3 + 0.754*sin(s) + 0.4*cos(s)",
    ],
)
def test_a_template_is_proposed_with_its_parameter_near_the_truth(inlet: str) -> None:
    x, t = exchange()
    segments = Segments.of(Trajectories([x], [t], names=("s", "p")))
    fit = shoot(Law.from_string([inlet, OUTLET], ["s", "p"]), segments)
    shapes = [TermTemplate.read(text, ["s", "p"]) for text in ("s/(c + s)", "exp(c*s)", "s**c")]
    grid = on_grid(shapes, inputs_along(fit).reshape(-1, 2))
    found = look(fit, 0, Library.default(["s", "p"]), grid)
    z = np.array([[0.5, 0.0], [2.0, 0.0], [4.0, 0.0]])
    truth = np.array([saturating(0.0, row)[0] for row in z])
    short = [shoot(law, segments) for law in found if len(law.terms[0]) == 2]
    best = max(short, key=lambda f: f.log_likelihood)
    assert best.law.numpy()(z)[:, 0] == pytest.approx(truth, abs=0.06)
    right = shoot(Law.from_string(["0.8 - 1.5*s/(0.6 + s)", OUTLET], ["s", "p"]), segments)
    assert best.log_likelihood > right.log_likelihood - 2


@pytest.mark.slow
def test_a_saturating_exchange_is_found_in_noise() -> None:
    x, t = exchange()
    law = sjepa.discover(x, t, feature_names=["s", "p"], verbose=False).best()
    assert [len(row) for row in law.terms] == [2, 2]
    f = law.numpy()
    one, two = f(np.array([[1.0, 0.0], [2.0, 0.0]]))[:, 1]
    assert 2 * (one - two) / (two - 2 * one) == pytest.approx(0.6, rel=0.05)
