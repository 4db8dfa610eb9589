from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import sjepa
from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes import Prior, inference, posterior
from sjepa.bayes.candidates import propose, retain, structures
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.errors import ConfigError, DataError, LawError, NumericalWarning
from sjepa.symbolic import Candidate, Front, Law, Library
from tests.bayes.bayes_problems import TRUE, linear_map


NAMES = ["x", "y"]
LAWS = [
    Law.from_string(e, NAMES, dynamics="discrete")
    for e in (
        ["0.9*x", "0.9*y"],
        ["0.9*x + 0.2*y", "0.9*y"],
        ["0.9*x + 0.2*y", "0.9*y - 0.2*x"],
        ["0.9*x + 0.2*y + 0.1*x**2", "0.9*y - 0.2*x"],
    )
]
DATA = linear_map([[0.9, 0.2], [-0.2, 0.9]], [[0.3, 0.0], [0.0, 0.3]], 60, seed=2)


def test_weights_are_evidence_times_complexity_prior_normalized() -> None:
    result = posterior(DATA, candidates=LAWS, gamma=0.7)
    table = result.structures
    score = table["evidence"] - 0.7 * table["complexity"]
    expected = np.exp(score - score.max())
    np.testing.assert_allclose(table["weight"], expected / expected.sum(), rtol=1e-9)
    assert list(table.columns[:4]) == ["weight", "complexity", "evidence", "equation"]
    assert table["weight"].is_monotonic_decreasing
    assert result.law.terms[0][0][1] in result.law.symbols


def test_a_larger_gamma_prefers_shorter_laws() -> None:
    costs = [
        float(np.dot(r.weights, [f.structure.complexity for f in r.fits]))
        for r in (posterior(DATA, candidates=LAWS, gamma=g) for g in (0.0, 1.0, 100.0))
    ]
    assert costs[0] > costs[1] > costs[2]
    assert [len(pairs) for pairs in posterior(DATA, candidates=LAWS, gamma=100.0).law.terms] == [
        1,
        1,
    ]


def test_enormous_differences_of_evidence_do_not_overflow() -> None:
    far = DATA.map(lambda x: x + 1e4, names=NAMES)
    weights = posterior(far, candidates=LAWS, covariance=1e-8).weights
    assert np.isfinite(weights).all() and weights.sum() == pytest.approx(1.0)


def test_the_map_law_minimizes_the_penalized_objective_of_the_theorem() -> None:
    variance, gamma, width = 0.09, 0.8, 0.6
    result = posterior(
        DATA, candidates=LAWS, covariance=variance, gamma=gamma, prior=Prior(coefficients=width)
    )
    z, y = Transitions.of(DATA).z.numpy(), Transitions.of(DATA).target.numpy()
    objectives, densities = [], []
    for fit in result.fits:
        law, total, count = fit.law, 0.0, 0
        for j, pairs in enumerate(law.terms):
            x = np.column_stack([
                Law([t], NAMES, ["f"], "discrete").numpy()(z)[:, 0] for _, t in pairs
            ])  # fmt: skip
            # Ridge regression in closed form, independent of the code under test.
            gram = x.T @ x / variance + np.eye(len(pairs)) / width**2
            best = np.linalg.solve(gram, x.T @ y[:, j] / variance)
            np.testing.assert_allclose([c for c, _ in pairs], best, rtol=1e-6)
            total += ((y[:, j] - x @ best) ** 2).sum() / (2 * variance)
            total += (best**2).sum() / (2 * width**2)
            count += len(pairs)
        total += 0.5 * count * np.log(2 * np.pi * width**2)
        objectives.append(total + gamma * fit.structure.complexity)
        densities.append(fit.log_density - gamma * fit.structure.complexity)
    # Posterior density and objective differ by a constant and a sign.
    np.testing.assert_allclose(
        np.add(objectives, densities), objectives[0] + densities[0], atol=1e-6
    )
    assert result.map_law == result.fits[int(np.argmin(objectives))].law


def test_laws_that_differ_in_their_numbers_only_are_one_structure() -> None:
    twins = ["0.9*x", "1.1*x", "x", "x + 0*y", "-2*x"]
    laws = [Law.from_string([e, "0.5*y"], NAMES) for e in twins]
    other = Law.from_string(["0.9*sin(x)", "0.5*y"], NAMES)
    assert len(structures([*laws, other])) == 2


def test_fronts_of_several_backends_are_merged_without_repeats() -> None:
    a = Front.of([Candidate.score(law, [1.0 / (i + 1)]) for i, law in enumerate(LAWS[:3])])
    b = Front.of([Candidate.score(law, [1.0 / (i + 1)]) for i, law in enumerate(LAWS[1:])])
    found = structures([a, b])
    assert len(found) == 4
    assert [s.complexity for s in found] == [c.terms for c in (*a, b[-1])]


def test_a_law_with_an_idle_term_is_a_numerical_duplicate() -> None:
    idle = Law.from_string(["0.9*x + 1e-12*y**3", "0.9*y"], NAMES, dynamics="discrete")
    found = structures([LAWS[0], idle])
    kept = retain(found, Transitions.of(DATA), StepModel("discrete"), 10)
    assert len(found) == 2 and [s.law for s in kept] == [LAWS[0].with_free_terms()]


def test_what_is_kept_fits_best_for_its_complexity() -> None:
    found = structures(LAWS)
    rows = Transitions.of(DATA)
    kept = retain(found, rows, StepModel("discrete"), 1, gamma=0.1)
    assert [s.law for s in kept] == [LAWS[2].with_free_terms()]
    kept = retain(found, rows, StepModel("discrete"), 1, gamma=1e6)
    assert [s.law for s in kept] == [LAWS[0].with_free_terms()]
    assert len(retain(found, rows, StepModel("discrete"), 3)) == 3


def test_a_law_undefined_on_the_data_is_left_out() -> None:
    bad = Law.from_string(["log(x)", "0.9*y"], NAMES, dynamics="discrete")
    assert len(posterior(DATA, candidates=[*LAWS, bad]).fits) == 4
    with pytest.raises(LawError, match="defined on all"):
        posterior(DATA, candidates=bad)


def test_the_complexity_of_a_structure_does_not_depend_on_its_numbers() -> None:
    one = structures(Law.from_string(["x", "y"], NAMES))[0]
    other = structures(Law.from_string(["0.37*x", "-2.2*y"], NAMES))[0]
    assert one.complexity == other.complexity


def test_true_structure_wins_and_the_posterior_narrows_with_more_data() -> None:
    library = Library.from_terms(["p", "q", "sin(q)", "p*abs(p)", "p**3"], ["q", "p"])
    proposals = drag_pendulum(1000, 12, 25, 0.01)
    fronts = propose(proposals, ["subset"], library=library)
    data = drag_pendulum(2000, 32, 25, 0.01)
    few, many = (
        posterior(data[:k], candidates=fronts, proposal_data=proposals, library=library)
        for k in (1, 32)
    )
    assert structures(many.law)[0].key == structures(TRUE)[0].key
    assert few.effective_structures > 1.5 > many.effective_structures
    assert many.weights[0] > 0.9


def test_candidates_and_evidence_use_different_trajectories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[float] = []
    data = drag_pendulum(3, 6, 30, 0.01)
    import sjepa.bayes.inference as inference

    def spy(trajectories: object, *args: object, **kwargs: object) -> list[Front]:
        seen.extend(float(x[0, 0]) for x in trajectories.x)  # type: ignore[attr-defined]
        return propose(trajectories, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(inference, "propose", spy)
    result = posterior(data, library=["p", "sin(q)", "p*abs(p)"], n_bootstrap=0)
    starts = {float(x[0, 0]) for x in data.x}
    used = set(result.fits[0].joint.rows.z[:, 0].tolist())  # type: ignore[attr-defined]
    assert len(seen) == 3 and set(seen) < starts
    assert starts & used == starts - set(seen)


def test_five_lines_without_an_encoder() -> None:
    t = np.arange(0, 8, 0.1)
    x = [np.stack([a * np.cos(t), -a * np.sin(t)], axis=1) for a in (0.5, 1.0, 1.5, 2.0)]
    result = sjepa.bayes.posterior(
        x, t, library=["q", "p", "q**3"], feature_names=["q", "p"], n_bootstrap=1
    )
    assert isinstance(result.structures, pd.DataFrame)
    assert result.law.round(2).lines() == ["q' = 1.0*p", "p' = -1.0*q"]
    assert "q' = " in repr(result)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"gamma": -1.0}, ConfigError, "gamma"),
        ({"covariance": "ful"}, ConfigError, "full, diagonal, isotropic"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, ConfigError, "not positive definite"),
        ({"candidates": ["x + y"]}, ConfigError, "fronts or laws"),
        ({"candidates": []}, LawError, "no candidate"),
        ({"candidates": Law.from_string(["x"], ["x"])}, DataError, "1 equations in x"),
        ({"correction": "GP"}, ConfigError, "'independent' or 'shared'"),
        ({"noise": "sometimes"}, ConfigError, "step. or .time"),
    ],
)
def test_wrong_settings_are_refused(
    settings: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        posterior(DATA, **{"candidates": LAWS, **settings})  # type: ignore[arg-type]


def test_wrong_data_are_refused() -> None:
    with pytest.raises(DataError, match="Give the times"):
        posterior(np.zeros((5, 2)))
    with pytest.raises(DataError, match=r"4, 4"):
        posterior([np.random.default_rng(0).normal(size=(9, 4, 4))], 0.1)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        posterior(DATA, proposal_fraction=1.5)
    with pytest.raises(ConfigError, match="must be positive"):
        Prior(width=0.0)


def test_every_doubtful_evidence_is_marked_in_the_table() -> None:
    from sjepa.bayes.result import Posterior
    from sjepa.bayes.structure_fit import FailedFit

    good = posterior(DATA, candidates=LAWS[:2]).fits
    failed = FailedFit(structures(LAWS[3])[0], "no finite posterior mode", "laplace")
    result = Posterior([*good, failed], 1.0, StepModel("discrete"))
    assert result.structures["weight"].iloc[-1] == 0.0
    assert result.structures["status"].iloc[-1] == "no finite posterior mode"
    assert "no finite posterior mode" in repr(result)
    assert len(result.draws(50)) == 50


def test_a_candidate_without_a_cholesky_factor_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t = np.linspace(0, 5, 120)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    laws = [Law.from_string(e, ["x", "y"]) for e in (["y", "-x"], ["y + x", "-x"])]
    real, broken = inference.fit, laws[1].terms

    def fit(joint: Any, *rest: Any) -> Any:
        if joint.structure.law.terms == broken or len(laws) == 1:
            raise torch.linalg.LinAlgError("linalg.cholesky: not positive-definite")
        return real(joint, *rest)

    monkeypatch.setattr(inference, "fit", fit)
    names = {"feature_names": ["x", "y"]}
    with pytest.warns(NumericalWarning, match="1 of 2 candidates"):
        result = posterior(x, t, candidates=laws, **names)
    assert result.law.round(4) == laws[0]
    del laws[0]
    with pytest.raises(DataError):
        posterior(x, t, candidates=laws, **names)
