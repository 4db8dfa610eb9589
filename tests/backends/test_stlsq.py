import numpy as np
import pandas as pd
import pysindy
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sjepa.backend import Problem
from sjepa.backend.registry import make_backend
from sjepa.errors import DataError
from sjepa.models import SparseLaw
from sjepa.symbolic import Gram, Library


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


def test_chunks_give_the_same_sums_as_all_rows_at_once(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 3)), rng.random(1000)
    library = Library.paper(["a", "b"])
    whole = Gram.from_features(library.numpy()(x), y, w)
    parts = Gram.from_chunks(
        library, ((x[i : i + 170], y[i : i + 170], w[i : i + 170]) for i in range(0, 1000, 170))
    )
    for name in ("xx", "xy", "yy", "y", "rows", "weight"):
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name), rtol=1e-12)


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
