"""The matplotlib versions draw what the report draws."""

import io

import numpy as np
import pytest

import sjepa
from sjepa.errors import DataError
from sjepa.models import Simulator
from sjepa.models.simulate import plane_velocity
from sjepa.report import plots
from tests.report.conftest import pendulum


LAW = sjepa.Law.from_string(["p", "-0.2*p - 1.7*q"], ["q", "p"])


def test_rollouts_start_on_the_data_and_keep_a_runaway_out_of_the_way() -> None:
    figure = plots.plot_rollouts(LAW, pendulum())
    assert len(figure.axes) == 3
    seen, path = figure.axes[0].lines[:2]
    assert seen.get_ydata()[0] == path.get_ydata()[0]
    figure = plots.plot_rollouts(sjepa.Law.from_string(["q**2 + 1", "p"], ["q", "p"]), pendulum())
    assert figure.axes[0].get_ylim()[1] < 3
    figure.savefig(io.BytesIO())


def test_the_portrait_shows_two_chosen_coordinates() -> None:
    ax = plots.plot_portrait(LAW, pendulum())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$q$", "$p$")
    assert len(ax.lines) == 6  # three trajectories, three starts
    with pytest.raises(DataError, match="two of the coordinates q, p"):
        plots.plot_portrait(LAW, pendulum(), (0, 2))


def test_arrows_point_along_the_law_with_everything_else_held() -> None:
    """Against the law evaluated point by point, in a plane that is not the first."""
    law = sjepa.Law.from_string(["b*f", "c - a", "a*b + c"], ["a", "b", "c", "f"])
    x, y = np.array([0.0, 1.0, 2.0]), np.array([-1.0, 3.0])
    found = plane_velocity(
        Simulator(law).velocity, x, y, (2, 1), np.array([0.5, 9.0, 9.0]), np.array([4.0])
    )
    assert found.shape == (2, 3, 2)
    for i, b in enumerate(y):
        for j, c in enumerate(x):
            np.testing.assert_allclose(found[i, j], [0.5 * b + c, c - 0.5])
