"""Heads read a few coordinates off an embedding and say what they kept."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

import sjepa
from sjepa import SJEPA, encoders
from sjepa.errors import ConfigError, DataError
from sjepa.models.pretrained import fit_head


pytestmark = pytest.mark.filterwarnings("ignore:Free runs")  # laws short of a term, on purpose


T = np.arange(0.0, 12.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in zip(np.linspace(0.6, 1.4, 6), range(6), strict=True)
]
MIXING = np.random.default_rng(3).normal(size=(4, 40))
# Two slow coordinates and two louder ones at five times their frequency.
LOUD = [
    np.column_stack([s, 3 * np.cos(6.5 * T + k), 3 * np.sin(6.5 * T + k)])
    for k, s in enumerate(STATES)
]
WIDE = [s @ MIXING for s in LOUD]
TIMES = [T] * len(WIDE)


def read(head: torch.nn.Module, x: list[np.ndarray]) -> np.ndarray:
    return head(torch.as_tensor(np.concatenate(x))).numpy()


def test_pca_agrees_with_scikit_learn() -> None:
    rows = np.concatenate(WIDE)
    reference = PCA(2).fit(rows)
    expected = reference.transform(rows) / np.sqrt(reference.explained_variance_[0])
    found = read(fit_head("pca", WIDE, TIMES, 2), WIDE)
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found * signs, expected, rtol=1e-3, atol=1e-3)


def test_the_share_of_variance_that_is_kept_is_what_scikit_learn_says() -> None:
    share = PCA(2).fit(np.concatenate(WIDE)).explained_variance_ratio_.sum()
    for kind in ("pca", "whiten"):
        assert f"{share:.1%} of its variance is kept" in fit_head(kind, WIDE, TIMES, 2).note


@pytest.mark.parametrize("kind", ["whiten", "slow"])
def test_whitened_and_slow_coordinates_have_unit_variance_and_no_correlation(kind: str) -> None:
    z = read(fit_head(kind, WIDE, TIMES, 2), WIDE)
    np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=1e-3)


def test_slow_features_are_found_under_louder_fast_ones() -> None:
    from sjepa.metrics import AffineMap, r2

    truth = np.concatenate(STATES)
    slow, loud = (read(fit_head(k, WIDE, TIMES, 2), WIDE) for k in ("slow", "pca"))
    assert r2(AffineMap.fit(slow, truth)(slow), truth) > 0.999
    assert r2(AffineMap.fit(loud, truth)(loud), truth) < 0.5


def test_slow_features_are_the_slowest_of_all_directions() -> None:
    """No direction that random search finds changes more slowly for its variance."""
    rng = np.random.default_rng(0)
    speeds = np.concatenate([np.diff(w, axis=0) / np.diff(T)[:, None] for w in WIDE])
    rows = np.concatenate(WIDE)

    def slowness(direction: np.ndarray) -> float:
        return float((speeds @ direction).var() / (rows @ direction).var())

    best = fit_head("slow", WIDE, TIMES, 1).matrix[:, 0].numpy()
    random = [slowness(MIXING.T @ rng.normal(size=4)) for _ in range(500)]
    nearby = [slowness(best + 0.1 * np.linalg.norm(best) * MIXING.T @ rng.normal(size=4) / 40)
              for _ in range(200)]  # fmt: skip
    assert slowness(best) <= min(random + nearby) * (1 + 1e-6)


def test_the_estimator_reports_what_the_head_kept_and_finds_the_law_behind_it() -> None:
    model = SJEPA(encoder=sjepa.ReadOut("identity", "slow")).fit(WIDE, T)
    assert model.diagnostics_[0].startswith("head slow: 2 slow features of an embedding of 40")
    linear = np.array([[float(e.coeff(s)) for s in model.law_.symbols] for e in model.law_.sympy()])
    # The frequency does not depend on the rotation of the coordinates.
    assert abs(np.linalg.eigvals(linear).imag).max() == pytest.approx(1.3, rel=0.01)
    assert model.encode(WIDE[0]).shape == (len(T), 2)
    assert model.score(WIDE, T) > 0.99


def test_wide_embeddings_get_a_head_by_themselves_and_narrow_ones_do_not() -> None:
    wide = SJEPA(encoder=encoders.pixels(), backend="subset").fit(
        [s @ MIXING[:2] for s in STATES], T
    )
    assert wide.diagnostics_[0].startswith("head pca: 2 principal components")
    narrow = SJEPA(encoder="identity").fit(STATES, T)
    assert not any(note.startswith("head") for note in narrow.diagnostics_)


def test_a_learned_head_is_trained_together_with_the_law() -> None:
    library = sjepa.Library.from_terms(["z1", "sin(z1)"], ["z1"])
    mixed = [s[::2, :1] @ MIXING[:1] + s[::2, :1] ** 2 @ MIXING[1:2] for s in STATES]
    model = SJEPA(1, encoder=sjepa.ReadOut(encoders.pixels(), "learned"), order=2, library=library)
    model.fit(mixed, T[::2])
    assert "head learned: 1 linear read-out" in model.diagnostics_[0]
    assert model.law_.lines(2) == ["z1'' = -1.7*z1"] and model.score(mixed, T[::2]) > 0.99


@pytest.mark.parametrize(
    ("kind", "series", "dim", "error", "message"),
    [
        ("slwo", WIDE, 2, ConfigError, "Did you mean 'slow'"),
        ("pca", WIDE, 41, ConfigError, "does not fit an embedding of 40"),
        ("pca", [np.ones((9, 4))], 2, DataError, "same embedding"),
        ("whiten", [np.outer(np.arange(9.0), np.ones(4))], 2, DataError, "1 directions only"),
        ("pca", [np.full((9, 4), np.nan)], 2, DataError, "NaN"),
    ],
)
def test_impossible_heads_are_refused(
    kind: str, series: list[np.ndarray], dim: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fit_head(kind, series, [np.arange(len(s)) for s in series], dim)


def test_as_many_coordinates_as_asked_for_are_read_off_a_network() -> None:
    """Six outputs of a network are no reason for a law of six coordinates."""
    seen = [s[:, :2] @ MIXING[:2, :6] for s in STATES]
    model = SJEPA(2, encoder=torch.nn.Identity(), backend="subset").fit(seen, T)
    assert model.law_.outputs == ("z1", "z2") and model.score(seen, T) > 0.99
    every = SJEPA(2, encoder=sjepa.ReadOut(torch.nn.Identity(), "none"), backend="subset").fit(
        seen, T
    )
    assert len(every.law_.outputs) == 6
    library = sjepa.Library.polynomial(list("abcdef"), 1)
    named = SJEPA(encoder=torch.nn.Identity(), library=library).fit(seen, T)
    assert named.law_.outputs == tuple("abcdef")
