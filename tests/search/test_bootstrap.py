"""How sure: intervals against the textbook's, and terms that the data do not need."""

import warnings

import numpy as np
import pytest

import sjepa
from sjepa import Backend, Front, Law
from sjepa.data import simulate
from sjepa.errors import ConfigError, FormatError
from tests.command import run


def measured_slopes(seed, n=1200, noise=0.3):
    """States without noise, and slopes with: plain regression of y' on x, whose errors are known."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    slopes = np.stack([x[:, 1], -2 * x[:, 0] + 0.5 * x[:, 1]], axis=1)
    return x, slopes + noise * rng.normal(size=(n, 2))


def front(seed=0, **options):
    x, slopes = measured_slopes(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"n_bootstrap": 100, "library": ["x", "y", "x*y", "x**3"], **options}
        return sjepa.discover(
            x,
            0.01,
            x_dot=slopes,
            feature_names=["x", "y"],
            random_state=seed,
            **options,
        )


@pytest.fixture(scope="module")
def found():
    return front()


def test_intervals_are_as_wide_as_least_squares_says(found):
    x, _ = measured_slopes(0)
    rows = {(r.output, r.term): r for r in found.intervals}
    deviation = 0.3 * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))
    for name, error in zip(("x", "y"), deviation, strict=True):
        row = rows["y", name]
        assert (row.high - row.low) / (2 * 1.645 * error) == pytest.approx(1.0, abs=0.4)
        assert row.low < row.coefficient < row.high


def test_terms_of_the_law_are_chosen_again(found):
    for row in found.intervals:
        assert (row.inclusion == 1.0) == (row.coefficient != 0), row
    assert (
        found.to_frame()["inclusion"][found.chosen or list(found).index(found.best_candidate())]
        == 1
    )


def test_a_term_that_a_rival_replaces_is_unsure():
    """Two inputs that are nearly the same: which one is chosen is for the noise to say."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=400)
    x = np.stack([a, a + 0.02 * rng.normal(size=400)], axis=1)
    slopes = np.stack([a, 0 * a], axis=1) + 0.3 * rng.normal(size=(400, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sjepa.discover(
            x,
            0.1,
            x_dot=slopes,
            feature_names=["a", "b"],
            library=["a", "b"],
            n_bootstrap=60,
        )
    shares = {r.term: r.inclusion for r in result.intervals if r.output == "a"}
    assert 0.05 < min(shares["a"], shares["b"]) and max(shares["a"], shares["b"]) < 0.95


def test_noisy_states_get_intervals_of_simulations_that_hold_the_truth():
    t = np.arange(0, 40, 0.1)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    x = x + 0.02 * np.random.default_rng(3).normal(size=x.shape)
    result = sjepa.discover(
        x, t, feature_names=["q", "p"], library=["q", "p", "q**3"], n_bootstrap=20
    )
    rows = {(r.output, r.term): r for r in result.intervals if r.coefficient}
    assert rows["q", "p"].low < 1 < rows["q", "p"].high
    assert rows["p", "q"].low < -4 < rows["p", "q"].high
    assert rows["p", "q"].high - rows["p", "q"].low < 0.1


def test_the_same_seed_gives_the_same_answer():
    assert front(n_bootstrap=5).intervals == front(n_bootstrap=5).intervals
    assert front(n_bootstrap=0).intervals == ()


def test_backends_that_write_trees_compete_by_the_terms_of_their_laws():
    class Trees(Backend):
        name = "trees"
        trees = True

        def search(self, problem):
            texts = (["y", "-2*x"], ["y", "-2*x + 0.5*y"], ["y", "-2*x + 0.5*y + 0.001*sin(x)"])
            laws = [Law.from_string(one, problem.names) for one in texts]
            return problem.front(laws, self.name)

    grammar = sjepa.Grammar.default(["x", "y"])
    rows = front(backend=Trees(), library=None, grammar=grammar, n_bootstrap=10).intervals
    assert {(r.output, r.term) for r in rows if r.inclusion > 0.9} == {
        ("x", "y"),
        ("y", "x"),
        ("y", "y"),
    }


def test_intervals_are_printed_and_saved(found):
    assert "100%  y: x" in str(found)
    again = Front.from_dict(found.to_dict())
    assert again.intervals == found.intervals
    for spoilt in (
        "x",
        [1],
        [{"output": "x", "term": "x"}],
        [{**found.to_dict()["intervals"][0], "low": "1"}],
    ):
        with pytest.raises(FormatError):
            Front.from_dict({**found.to_dict(), "intervals": spoilt})


def test_a_budget_ends_the_resampling():
    result = front(n_bootstrap=10_000, budget=0.01)
    assert any(note.startswith("out of time after ") for note in result.notes)
    assert result.intervals


def test_a_number_of_resamples_is_checked():
    with pytest.raises(ConfigError, match="n_bootstrap"):
        sjepa.discover(np.ones((50, 1)), 0.1, n_bootstrap=-1)


def test_the_command_line_prints_intervals(tmp_path):
    t = np.arange(0, 12, 0.05)
    table = np.stack([t, np.cos(t), -np.sin(t)], axis=1)
    path = tmp_path / "data.csv"
    np.savetxt(path, table, delimiter=",", header="t,q,p", comments="")
    done = run("discover", path, "--time", "t", "--library", "q,p", "--n-bootstrap", "10")
    assert "90% intervals" in done.stdout and "100%  q: p" in done.stdout, done.stderr


def test_a_single_trajectory_of_few_segments_has_intervals_with_a_width() -> None:
    data = simulate("sir", seed=9129, noise=0.01)[np.array([0])]
    front = sjepa.discover(data, n_bootstrap=5, verbose=False)
    rows = [r for r in front.intervals if r.coefficient]
    assert rows and all(r.low < r.coefficient < r.high for r in rows)
