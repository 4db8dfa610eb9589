"""From videos to laws, end to end."""

import numpy as np
import pytest

from sjepa import SJEPA, Library, Trajectories
from sjepa.data import rendered
from sjepa.metrics import AffineMap, r2


@pytest.mark.slow
@pytest.mark.parametrize("width", [1.0, 0.45])
def test_the_law_of_the_pendulum_is_read_off_its_video(width: float) -> None:
    video = {"trajectories": 40, "length": 100, "size": 32, "width": width}
    train, test = rendered("pendulum", 0, **video), rendered("pendulum", 1000, **video)
    model = SJEPA(
        1, order=2, library=Library.paper(["z1"], velocities=["z1_dot"]), random_state=0
    ).fit(train)
    assert [str(t) for _, t in model.law_.terms[0]] == ["sin(z1)"]
    assert model.law_.coefficients[0] == pytest.approx(-1.0, abs=0.01)
    assert any("blurred" in note for note in model.diagnostics_) == (width < 1)
    z, angle = np.concatenate(model.encode(test.x)), np.concatenate(test.state or [])[:, :1]
    assert r2(AffineMap.fit(z, angle)(z), angle) > 0.999
    assert model.score(Trajectories(test.x, test.t)) > 0.99
