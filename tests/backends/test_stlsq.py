import itertools

import numpy as np
import pandas as pd
import pysindy
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sjepa.backend import Problem
from sjepa.backend.registry import make_backend
from sjepa.errors import ConfigError, DataError
from sjepa.models import SparseLaw
from sjepa.symbolic import Gram, Law, Library
from sjepa_backends import stlsq
from sjepa_backends.supports import backward, warm_supports


@pytest.mark.filterwarnings("ignore:Sparsity parameter is too big")  # pysindy's, where ours agrees
@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.02, 0.1, 0.3]), st.sampled_from([1e-5, 0.05]))
def test_supports_and_coefficients_equal_pysindys(
    seed: int, threshold: float, ridge: float
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (400, 3))
    library = Library.polynomial(["a", "b", "c"], 3)
    truth = np.where(rng.random((20, 2)) < 0.2, rng.uniform(-2, 2, (20, 2)), 0.0)
    features = library.numpy()(x)
    y = features @ truth + 0.05 * rng.normal(size=(400, 2))
    backend = make_backend("stlsq", threshold=threshold, ridge=ridge)
    law = backend.search(Problem(x, y, library=library, outputs=["u", "v"])).candidates[-1].law
    peer = pysindy.STLSQ(threshold=threshold, alpha=ridge, unbias=True).fit(features, y)
    np.testing.assert_allclose(library.coefficients(law), peer.coef_.T, atol=1e-6)


def test_chunks_add_up_to_the_sums_over_all_rows() -> None:
    """Against plain sums over single rows, whatever the chunks."""
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 3)), rng.random(1000)
    library = Library.from_terms(["1", "a", "b", "a*b"], ["a", "b"])
    theta = np.stack([np.ones(1000), x[:, 0], x[:, 1], x[:, 0] * x[:, 1]], axis=1)
    parts = Gram.from_chunks(
        library, ((x[i : i + 170], y[i : i + 170], w[i : i + 170]) for i in range(0, 1000, 170))
    )
    xx = sum(wi * np.outer(row, row) for wi, row in zip(w, theta, strict=True))
    xy = sum(wi * np.outer(row, out) for wi, row, out in zip(w, theta, y, strict=True))
    np.testing.assert_allclose(parts.xx, xx, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.xy, xy, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.yy, (w[:, None] * y**2).sum(axis=0))
    np.testing.assert_allclose(parts.y, (w[:, None] * y).sum(axis=0))
    assert parts.rows == 1000 and parts.weight == pytest.approx(w.sum())


LINEAR = Library.polynomial(["a", "b", "c", "d"], 1, bias=False)


def weighted_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two laws, one in the rows of small weight and one in those of large weight."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 4))
    w = rng.integers(0, 5, size=80).astype(float)
    y = np.where(w < 3, x[:, 0] - x[:, 2], 2.0 * x[:, 1] + 0.5 * x[:, 3])
    return x, y + 0.01 * rng.normal(size=80), w


@pytest.mark.parametrize("name", ["stlsq", "subset"])
def test_weights_count_as_in_least_squares_on_rows_times_their_roots(name: str) -> None:
    x, y, w = weighted_rows()
    settings = {"min_gain": 0.0} | ({"adequate": 0.0} if name == "subset" else {})
    problem = Problem(x, y, library=LINEAR, outputs=["y"], weights=w)
    front = problem.solve(make_backend(name, **settings))
    assert len(front) >= 4
    mean = np.average(y, weights=w)
    variance = np.average((y - mean) ** 2, weights=w)
    for c in front:
        found = LINEAR.coefficients(c.law)[:, 0]
        support = np.flatnonzero(found)
        root = np.sqrt(w)
        best = np.linalg.lstsq(x[:, support] * root[:, None], y * root, rcond=None)[0]
        np.testing.assert_allclose(found[support], best, rtol=1e-8)
        residual = y - x[:, support] @ best
        assert c.loss == pytest.approx(np.average(residual**2, weights=w) / variance, rel=1e-8)


@pytest.mark.parametrize("name", ["stlsq", "subset"])
def test_a_row_of_weight_three_is_three_rows(name: str) -> None:
    x, y, w = weighted_rows(1)
    times = w.astype(int)
    backend = make_backend(name)
    once = Problem(x, y, library=LINEAR, outputs=["y"], weights=w).solve(backend)
    rows = Problem(np.repeat(x, times, axis=0), np.repeat(y, times), library=LINEAR, outputs=["y"])
    repeated = rows.solve(backend)
    assert [c.terms for c in once] == [c.terms for c in repeated]
    for one, other in zip(once, repeated, strict=True):
        np.testing.assert_allclose(
            LINEAR.coefficients(one.law), LINEAR.coefficients(other.law), rtol=1e-8
        )
        assert one.loss == pytest.approx(other.loss, rel=1e-8)


def test_supports_do_not_depend_on_the_units_of_the_columns() -> None:
    """Meters or millimetres, the same law: thresholds are on what a term contributes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = x @ [1.0, 0.03, 0.0, -0.4] + 0.01 * rng.normal(size=300)
    backend = make_backend("stlsq", step_back=False, min_gain=0.0)
    fronts = []
    for units in (np.ones(4), np.array([1e-3, 1e4, 1e2, 1e-5])):
        fronts.append(
            Problem(x * units, 7.0 * y * units[0], library=LINEAR, outputs=["y"]).solve(backend)
        )
    supports = [[{str(t) for _, t in c.law.terms[0]} for c in front] for front in fronts]
    assert supports[0] == supports[1]
    # The thresholds alone drop what contributes least first.
    assert {"a"} in supports[0] and {"a", "d"} in supports[0] and {"a", "b", "d"} in supports[0]


@pytest.mark.parametrize("setting", [{"threshold": -0.1}, {"ridge": -1e-9}, {"ridge": np.nan}])
def test_negative_thresholds_and_penalties_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(setting))} (must be at least 0|of backend)"):
        make_backend("stlsq", **setting)
    make_backend("stlsq", threshold=0.0, ridge=0.0)


def test_stepping_back_removes_what_is_missed_least_also_from_large_supports() -> None:
    """Against trying every removal, on more terms than inverses are computed afresh for."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 70)) + rng.normal(size=(200, 1))
    y = x @ rng.normal(size=70) + rng.normal(size=200)
    gram = Gram.from_features(x, y[:, None])
    keep = list(range(70))
    for found in itertools.islice(backward(gram, 0, keep), 15):
        rests = [[k for k in keep if k != out] for out in keep]
        residuals = [np.linalg.lstsq(x[:, r], y, rcond=None)[1][0] for r in rests]
        keep = rests[int(np.argmin(residuals))]
        assert found == keep


def test_stepping_back_finds_what_no_threshold_does_where_columns_nearly_add_up() -> None:
    """All coefficients are large and cancel, so thresholds drop the right one with the others."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 4))
    x[:, 3] = x[:, :3].sum(axis=1) + 0.001 * x[:, 3]
    problem = Problem(x, x[:, 3] + 0.05 * rng.normal(size=300), library=LINEAR, outputs=["y"])
    for options, found in (({}, True), ({"step_back": False}, False)):
        front = problem.solve(make_backend("stlsq", **options))
        assert any([str(t) for _, t in c.law.terms[0]] == ["d"] for c in front) == found


def test_a_warm_start_keeps_every_term_of_the_earlier_law() -> None:
    """The last term of the library and of the law included."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4))
    y = x @ [1.0, 0.0, 0.0, 1e-4] + 1e-5 * rng.normal(size=100)
    earlier = Law.from_string("a + 0.5*d", ["a", "b", "c", "d"], ["y"])
    problem = Problem(x, y, library=LINEAR, outputs=["y"])
    warm = problem.with_(warm=problem.front([earlier], "earlier"))
    assert warm_supports(warm) == [{(0, 3)}]
    front = warm.solve(make_backend("pysindy", path=(100.0,)))  # finds nothing by itself
    best = np.linalg.lstsq(x[:, [0, 3]], y, rcond=None)[0]
    found = LINEAR.coefficients(front[len(front) - 1].law)[:, 0]
    np.testing.assert_allclose(found, [best[0], 0.0, 0.0, best[1]], rtol=1e-9)


def test_rows_come_from_a_memory_map_or_from_parquet_row_groups(tmp_path: object) -> None:
    from pathlib import Path

    import pyarrow.parquet as pq

    folder = Path(str(tmp_path))
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 2, (5000, 2))
    y = np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)
    library = Library.paper(["q", "p"])
    mapped = np.lib.format.open_memmap(folder / "z.npy", mode="w+", dtype=float, shape=z.shape)
    mapped[:] = z
    frame = pd.DataFrame(np.hstack([z, y]), columns=["q", "p", "dq", "dp"])
    frame.to_parquet(folder / "rows.parquet", row_group_size=700)
    file = pq.ParquetFile(folder / "rows.parquet")
    groups = (file.read_row_group(i).to_pandas() for i in range(file.num_row_groups))
    for chunks in (
        [(mapped, y)],
        ((g[["q", "p"]].to_numpy(), g[["dq", "dp"]].to_numpy()) for g in groups),
    ):
        gram = Gram.from_chunks(library, chunks)
        front = make_backend("stlsq").search(Problem(gram=gram, library=library))
        assert front.best().lines(6) == ["q' = p", "p' = -sin(q)"]


def test_sums_of_bad_rows_are_refused_with_the_row() -> None:
    library = Library.paper(["a", "b"])
    x = np.zeros((10, 2))
    x[7, 1] = np.nan
    with pytest.raises(DataError, match="row 7"):
        Gram.from_chunks(library, [(x, np.zeros((10, 1)))])
    with pytest.raises(DataError, match="empty"):
        Gram.from_chunks(library, [])


def test_losses_from_sums_equal_losses_from_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    library = Library.paper(["a", "b"])
    coefficients = rng.normal(size=(10, 2))
    gram = Gram.from_features(library.numpy()(x), y)
    error = np.mean((library.numpy()(x) @ coefficients - y) ** 2, axis=0) / y.var(axis=0)
    np.testing.assert_allclose(gram.loss(coefficients), error, rtol=1e-10)


class TestSparseLaw:
    library = Library.paper(["z1", "z2"])

    def test_starts_as_the_zero_law_on_the_whole_library(self) -> None:
        law = SparseLaw(self.library, ["z1", "z2"])
        assert torch.equal(law(torch.randn(5, 2)), torch.zeros(5, 2))
        assert int(law.support.sum()) == 20

    def test_smooth_complexity_is_the_formula_of_the_paper(self) -> None:
        law = SparseLaw(self.library, ["z1", "z2"], dtype=torch.float64)
        alpha = torch.randn(10, 2, dtype=torch.float64)
        law.set_(alpha)
        expected = sum(
            w * np.sqrt(a**2 + 1e-8)
            for j in range(2)
            for w, a in zip(self.library.weights, alpha[:, j].tolist(), strict=True)
        )
        assert law.complexity().item() == pytest.approx(expected)

    def test_thresholding_removes_terms_for_good(self) -> None:
        law = SparseLaw(self.library, ["z1", "z2"])
        alpha = torch.zeros(10, 2)
        alpha[2, 0], alpha[3, 1], alpha[5, 1] = 1.0, -0.9, 0.01
        law.set_(alpha).threshold_(0.0175)
        law(torch.randn(8, 2)).sum().backward()
        assert law.coefficients.grad is not None
        assert int((law.coefficients.grad != 0).sum()) == 2
        assert law.law().complexity("terms", self.library) == 3.0

    def test_reads_and_writes_laws(self) -> None:
        rng = np.random.default_rng(0)
        z = rng.uniform(-2, 2, (500, 2))
        y = np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)
        found = make_backend("stlsq").search(Problem(z, y, library=self.library)).best()
        module = SparseLaw(self.library, ["z1", "z2"], dtype=torch.float64).set_law_(found)
        np.testing.assert_allclose(
            module(torch.tensor(z)).detach().numpy(), found.numpy()(z), atol=1e-12
        )
        assert module.law() == found

    def test_masked_terms_never_enter(self) -> None:
        masked = self.library.with_mask({"z1": ["z2"], "z2": ["sin(z1)"]})
        law = SparseLaw(masked, ["z1", "z2"])
        law.set_(torch.ones(10, 2), shrink=False)
        assert [len(p) for p in law.law().terms] == [1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_that_change_nothing_are_skipped_and_no_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (300, 3))
    library = Library.polynomial(["a", "b", "c"], 3)
    truth = np.where(rng.random(20) < 0.4, 10.0 ** rng.uniform(-3, 1, 20), 0.0)
    y = library.numpy()(x) @ truth + 0.1 * rng.normal(size=300)
    problem = Problem(x, y, library=library)
    size = np.sqrt(np.diag(problem.sums.xx) / problem.sums.weight)
    spread = np.sqrt(problem.variance[0])
    wanted = {tuple(range(20))}
    for threshold in stlsq.PATH:  # each from all terms, by plain linear algebra
        keep = np.arange(20)
        while len(keep):
            a = problem.sums.xx[np.ix_(keep, keep)] / np.outer(size[keep], size[keep])
            b = problem.sums.xy[keep, 0] / size[keep]
            c = np.linalg.solve(a + 1e-5 * np.eye(len(keep)), b)
            if (np.abs(c) >= threshold * spread).all():
                break
            keep = keep[np.abs(c) >= threshold * spread]
        wanted.add(tuple(keep.tolist()))
    ridge = stlsq._Ridge(problem, size, 1e-5)
    assert set(stlsq.STLSQ()._path(problem, ridge, 0)) == wanted
