"""front.update(more): the law of all data, from sums of the first."""

from __future__ import annotations

import numpy as np
import pytest

import sjepa
from sjepa.data import Trajectories, simulate
from sjepa.errors import DataError, LawError
from sjepa.symbolic import Front, Law


NAMES = ["x", "v"]
TERMS = ["1", "x", "v", "x**2", "x*v", "v**2", "x**2*v", "x**3"]


def _terms(law: Law) -> list[set[str]]:
    return [{str(t) for _, t in row} for row in law.terms]


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_an_update_finds_what_discover_finds_in_all_data(noise: float) -> None:
    data = simulate("van_der_pol", seed=3, noise=noise)
    first = sjepa.discover(data[:4], library=TERMS, feature_names=NAMES)
    updated = first.update(data[4:])
    whole = sjepa.discover(data, library=TERMS, feature_names=NAMES)
    assert updated.form == whole.form == ("weak" if noise else "derivative")
    assert _terms(updated.best()) == _terms(whole.best())
    np.testing.assert_allclose(
        updated.best().coefficients, whole.best().coefficients, rtol=0.01 if noise else 1e-9
    )
    if not noise:  # the losses are those on all rows
        found, expected = updated.best_candidate().losses, whole.best_candidate().losses
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-14)


def test_more_data_decide_what_the_first_could_not() -> None:
    """On a small circle a cubic looks linear; larger ones show it, whatever came first."""

    def swing(size: float) -> np.ndarray:
        t = np.arange(0, 8, 0.02)
        law = Law.from_string(["v", "-x - x**3"], NAMES)
        return np.asarray(law.simulate([size, 0.0], t).z)

    front = sjepa.discover(swing(1e-3), 0.02, library=TERMS, feature_names=NAMES)
    assert _terms(front.best())[1] == {"x"}
    front = front.update(swing(1.0), 0.02).update(swing(1.5), 0.02)
    assert _terms(front.best()) == [{"v"}, {"x", "x**3"}]


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_a_front_without_sums_says_so() -> None:
    data = simulate("van_der_pol", seed=3)
    front = sjepa.discover(data[:2], library=TERMS, feature_names=NAMES)
    maps = sjepa.discover(data[:2], library=TERMS, feature_names=NAMES, derivatives="discrete")
    for other in (Front.from_dict(front.to_dict()), maps):
        with pytest.raises(LawError, match="no sums to add to"):
            other.update(data[2:])
    with pytest.raises(DataError, match="0 actions, these have 1"):
        front.update(Trajectories(data.x, data.t, [x[:, :1] for x in data.x]))
