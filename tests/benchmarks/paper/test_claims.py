"""The paper's claims, computed from figures."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.paper.claims import CLAIMS, claims_table
from benchmarks.paper.paper_figures import AS_PUBLISHED
from benchmarks.paper.tables import render
from sjepa.symbolic import Law


def printed(experiment: str, seed: int = 7, **changed: float) -> pd.DataFrame:
    """The paper's means as if they were those of one of our seeds."""
    rows = [
        (experiment, c, seed, m, changed.get(f"{c}__{m}", value))
        for c, row in AS_PUBLISHED[experiment].items()
        for m, (value, _) in row.items()
    ]
    return pd.DataFrame(rows, columns=["experiment", "condition", "seed", "metric", "value"])


def law(*equations: str, seed: int = 7) -> dict[str, object]:
    text = Law.from_string(list(equations), ["z1", "z2"]).to_json()
    return {"condition": "sjepa", "seed": seed, "law_json": text}


@pytest.mark.parametrize("experiment", ["exp1", "exp2"])
def test_the_papers_own_figures_bear_its_claims(experiment: str) -> None:
    found = claims_table(experiment, printed(experiment), [law("-0.8*z2", "0.8*z1 + 0.2")])
    assert (found["holds"] == 1).all(), found
    assert found["median"].tolist() == pytest.approx(found["paper"].tolist())
    # What the paper does not print: the spread before training.
    left_out = {c.text for c in CLAIMS[experiment]} - set(found["claim"])
    assert all("before : after" in text for text in left_out)
    assert len(left_out) == (2 if experiment == "exp1" else 0)


def test_a_claim_is_counted_seed_by_seed() -> None:
    worse = printed("exp1", 19, sjepa__test_rollout=2.5, sjepa__ood_divergence=0.3)
    both = pd.concat([printed("exp1"), worse])
    laws = [law("z2", "-z1"), law("z2", "-sin(z1)", seed=19)]
    found = claims_table("exp1", both, laws).set_index("claim")
    for words, held in (("Ω is lower", 2), ("test rollouts are better", 1), ("diverge", 1),
                        ("z2 in z1'", 1)):  # fmt: skip
        row = found[found.index.str.contains(words, regex=False)].iloc[0]
        assert (row["holds"], row["seeds"]) == (held, 2), words
    assert found["median"].iloc[0] == pytest.approx(26 / 4.67)


def test_a_zero_is_infinitely_many_times_less() -> None:
    one = printed("exp2", hybrid_regularised__correction_ratio=0.0)
    for frame, words in (
        (one, "| 8.85 | ∞ | 1 of 1 |"),
        (pd.concat([one, printed("exp2", 19)]), "| 8.85 | ∞ (8.85 to ∞) | 2 of 2 |"),
    ):
        text = render("exp2", frame, [], "Title")
        assert words in next(line for line in text.splitlines() if "ρ_corr without it" in line)
