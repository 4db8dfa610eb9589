"""Exactness, against brute force over every support."""

from itertools import combinations

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.errors import ConfigError
from sjepa.symbolic import Gram, Library
from sjepa_backends import subset


def random_problem(seed: int, terms: int) -> Problem:
    rng = np.random.default_rng(seed)
    rows = 60
    x = rng.normal(size=(rows, terms)) @ (np.eye(terms) + 0.5 * rng.normal(size=(terms, terms)))
    active = rng.random(terms) < 0.35
    y = x @ np.where(active, rng.normal(size=terms), 0.0) + 0.3 * rng.normal(size=rows)
    weights = rng.choice([0.5, 1.0, 1.5, 2.0, 3.0], size=terms)
    names = [f"x{i}" for i in range(terms)]
    library = Library(Library.polynomial(names, 1, bias=False).terms, names, weights.tolist())
    return Problem(x, y, library=library, outputs=["y"])


def brute_force(problem: Problem) -> list[tuple[float, float]]:
    """(cost, loss) of every support, by ordinary least squares on the rows."""
    x, y = problem.rows()
    features, target = problem.library.numpy()(x), y[:, 0]
    rows = []
    for size in range(len(problem.library) + 1):
        for support in combinations(range(len(problem.library)), size):
            chosen = list(support)
            residual = target
            if chosen:
                a = features[:, chosen]
                residual = target - a @ np.linalg.lstsq(a, target, rcond=None)[0]
            cost = float(problem.library.weights[chosen].sum())
            rows.append((cost, float(np.mean(residual**2)) / float(target.var())))
    return rows


def pareto(rows: list[tuple[float, float]]) -> list[tuple[float, float]]:
    kept: list[tuple[float, float]] = []
    for cost, loss in sorted(rows):
        if not kept or loss < kept[-1][1] * (1 - 1e-9):
            kept.append((cost, loss))
    return kept


# So many supports are looked at together: all of a small problem, some of it, none.
SEVERAL_WAYS = (10_000, 40, 0)


@pytest.mark.parametrize("block", range(10))
def test_whole_front_equals_brute_force_on_small_problems(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(block * 16, block * 16 + 16):
        monkeypatch.setattr(subset, "FEW", SEVERAL_WAYS[seed % 3])
        problem = random_problem(seed, terms=2 + seed % 7)
        front = make_backend("subset", adequate=0.0, min_gain=0.0).search(problem)
        found = [(c.terms, c.loss) for c in front]
        np.testing.assert_allclose(found, pareto(brute_force(problem)), rtol=1e-6, atol=1e-10)
        assert all(c.certified for c in front)


@pytest.mark.parametrize("block", range(8))
def test_smallest_adequate_law_equals_brute_force_up_to_12_terms(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1000 + block * 5, 1000 + block * 5 + 5):
        monkeypatch.setattr(subset, "FEW", SEVERAL_WAYS[seed // 3 % 3])
        problem = random_problem(seed, terms=10 + seed % 3)
        rows = brute_force(problem)
        delta = 1.05 * min(loss for _, loss in rows)
        front = make_backend("subset", adequate=delta, min_gain=0.0).search(problem)
        law = front.select(delta=delta)
        cheapest = min(cost for cost, loss in rows if loss <= delta)
        assert law.complexity("terms", problem.library) == pytest.approx(cheapest)


@pytest.mark.parametrize("seed", range(6))
def test_outputs_that_are_looked_at_together_get_the_laws_that_each_gets_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = random_problem(seed, terms=9).rows()
    more = (
        x[:, [4]] - 0.5 * x[:, [seed]],
        x[:, [1, 2]] @ rng.normal(size=(2, 1)),
        rng.normal(size=y.shape),
    )
    targets = np.hstack([y, *more])
    library = random_problem(seed, terms=9).library
    mask = np.ones((9, 4), dtype=bool)
    mask[7, 2:] = False  # the terms of the last two outputs are others
    whole = Problem(x, targets, library=library.with_mask(mask), outputs=["a", "b", "c", "d"])
    backend = make_backend("subset", min_gain=0.0)
    front = backend.search(whole)
    assert all(c.certified for c in front if c.terms <= front.best_candidate().terms)
    for j in range(4):
        own = library.with_mask(mask[:, [j]])
        alone = backend.search(Problem(x, targets[:, j], library=own, outputs=["y"]))
        listed = {round(c.losses[j], 9) for c in front}
        assert listed <= {round(c.loss, 9) for c in alone}
        assert round(alone[0].loss, 9) in listed and round(alone[-1].loss, 9) in listed


def test_a_proof_at_30_terms_takes_seconds() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 30)) @ (np.eye(30) + 0.3 * rng.normal(size=(30, 30)))
    y = x[:, [3, 8, 15, 22]] @ [1.0, -0.7, 1.3, 0.6] + 0.3 * rng.normal(size=2000)
    library = Library.polynomial([f"x{i}" for i in range(30)], 1, bias=False)
    front = make_backend("subset").search(Problem(x, y, library=library, outputs=["y"]))
    best = front.best_candidate()
    assert best.certified
    assert np.flatnonzero(library.coefficients(best.law)[:, 0]).tolist() == [3, 8, 15, 22]


def test_without_a_proof_it_says_so_and_still_answers() -> None:
    problem = random_problem(3, terms=12)
    front = make_backend("subset", max_nodes=20, beam=10, adequate=0.0).search(problem)
    assert len(front) > 3
    assert not front[-1].certified
    assert any("proven up to complexity" in note for note in front.notes)


def test_nearly_collinear_terms_do_not_fool_it() -> None:
    """1, z^2 and cos z on |z| < 2: thresholding alone returns large canceling coefficients."""
    rng = np.random.default_rng(1)
    z = rng.uniform(-2, 2, (3000, 2))
    y = np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1) + 0.01 * rng.normal(size=(3000, 2))
    front = make_backend("subset").search(Problem(z, y, library=Library.paper(["z1", "z2"])))
    assert front.best().complexity("terms") == 3.0


def test_runs_on_sums_alone() -> None:
    problem = random_problem(5, terms=6)
    x, y = problem.rows()
    gram = Gram.from_chunks(problem.library, [(x[:20], y[:20]), (x[20:], y[20:])])
    alone = Problem(gram=gram, library=problem.library, outputs=["y"])
    a = make_backend("subset").search(problem).best()
    b = make_backend("subset").search(alone).best()
    np.testing.assert_allclose(a.coefficients, b.coefficients, rtol=1e-8)


def test_a_budget_ends_the_search() -> None:
    """Counted in looks at the clock: between two of them lies a bounded piece of work."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 0.1 * looks

    problem = random_problem(8, terms=40).with_(budget=Budget(seconds=20.0), clock=clock)
    front = make_backend("subset", adequate=0.0, max_nodes=10**9).search(problem)
    assert len(front) and any("proven up to" in note for note in front.notes)
    assert looks < 20.0 / 0.1 * 1.1


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="adequate"):
        make_backend("subset", adequate=-1)
    with pytest.raises(ConfigError, match="no option 'adequat'"):
        make_backend("subset", adequat=1)


def with_copies(seed: int) -> tuple[Problem, list[int]]:
    """Columns of which some are copies of others but for a factor and a last digit.

    Gives the problem, and for each column the number of the column that it is a copy of.
    """
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(60, 4))
    source = [0, 1, 2, 3, *rng.integers(0, 4, size=2).tolist()]
    noise = (0.0, 1e-9, 1e-7, 1e-6)[seed % 4]
    factor = np.r_[np.ones(4), rng.choice([-3.0, 0.5, 1.0], size=2)]
    x = own[:, source] * factor
    x[:, 4:] *= 1.0 + noise * rng.normal(size=(60, 2))
    y = own @ np.where(rng.random(4) < 0.5, rng.normal(size=4), 0.0) + 0.2 * rng.normal(size=60)
    order = rng.permutation(6)
    weights = rng.choice([0.5, 1.0, 1.5, 2.0], size=6)
    names = [f"x{i}" for i in range(6)]
    library = Library(Library.polynomial(names, 1, bias=False).terms, names, weights.tolist())
    return Problem(x[:, order], y, library=library, outputs=["y"]), [source[i] for i in order]


@pytest.mark.parametrize("block", range(4))
def test_equals_brute_force_where_columns_coincide(block: int) -> None:
    """200 problems; brute force takes at most one of the columns that were made alike."""
    for seed in range(block * 50, block * 50 + 50):
        problem, source = with_copies(seed)
        rows = [
            row
            for row, support in zip(brute_force(problem), supports(6), strict=True)
            if len({source[i] for i in support}) == len(support)
        ]
        front = make_backend("subset", adequate=0.0, min_gain=0.0).search(problem)
        found = [(c.terms, c.loss) for c in front]
        # Copies differ in their last digits, and so do the fits: the same loss at every cost.
        for cost in sorted({c for c, _ in rows}):
            best = [min(loss for c, loss in each if c <= cost) for each in (found, rows)]
            assert best[0] == pytest.approx(best[1], rel=1e-5)
        assert all(c.certified for c in front)
        assert len([n for n in front.notes if "on these data" in n]) == 2


def supports(count: int) -> list[tuple[int, ...]]:
    return [s for size in range(count + 1) for s in combinations(range(count), size)]


@pytest.mark.parametrize("name", ["stlsq", "subset", "pysindy"])
def test_of_two_equal_columns_the_simpler_spelling_stays(name: str) -> None:
    z = np.random.default_rng(0).uniform(0.5, 2.0, (100, 1))
    library = Library.from_terms(["x*Abs(x)", "x**2", "1", "x"], ["x"])
    front = Problem(z, 0.7 * z**2, library=library).solve(make_backend(name))
    assert front.best().lines(6) == ["x' = 0.7*x**2"]
    assert "in the equation of x, x*Abs(x) is x**2 on these data" in front.notes


def test_a_column_that_others_add_up_to_does_not_end_the_search_early() -> None:
    """sin^2 + cos^2 = 1: the inverse of the Gram matrix is rounding, the losses are not."""
    z = np.random.default_rng(0).uniform(-3.0, 3.0, (400, 2))
    library = Library.from_terms(["1", "sin(a)**2", "cos(a)**2", "a", "b", "a*b"], ["a", "b"])
    target = 1e-3 * z[:, 0] + np.cos(z[:, 0]) ** 2 + z[:, 1]
    front = Problem(z, target, library=library, outputs=["y"]).solve(make_backend("subset"))
    assert front.best_candidate().loss < 1e-20 and front.best_candidate().certified
