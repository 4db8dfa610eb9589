"""From videos to laws, end to end."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from sjepa import SJEPA, Library, Trajectories
from sjepa.data import rendered
from sjepa.data.synthetic.videos import draw, states_over
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spring", "pendulum"])
def test_friction_is_found_before_a_textured_background(kind: str) -> None:
    rng, friction = np.random.default_rng(4), 0.2

    def field(s: np.ndarray) -> np.ndarray:
        force = -2 * s[..., 0] if kind == "spring" else -np.sin(s[..., 0])
        return np.stack([s[..., 1], force - friction * s[..., 1]], axis=-1)

    largest = [1.1, 0.8] if kind == "spring" else [2.0, 0.5]
    start = rng.uniform(-np.array(largest), largest, (24, 2))
    states = states_over(field, start, 0.05 * np.arange(100))
    q = states[..., :1]
    place = [q, 0 * q] if kind == "spring" else [np.sin(q), -np.cos(q)]
    blob = draw(np.stack(place, axis=-1), 32, (0.3,))
    texture = gaussian_filter(rng.normal(size=(32, 32)), 1.0)
    texture = np.clip(0.4 + 0.2 * texture / texture.std(), 0, 1)
    frames = ((1 - blob) * texture + blob).astype(np.float32)
    model = SJEPA(1, order=2, random_state=0).fit(Trajectories(list(frames), 0.05))
    found = {str(term): c for c, term in model.law_.terms[0]}
    assert len(found) == 2 and found["z1_dot"] == pytest.approx(-friction, rel=0.05)
    assert model.verdict_ is not None and model.verdict_.adequate is not False
