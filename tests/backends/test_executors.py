"""executor= means the same everywhere, and changes no number."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import sjepa
from sjepa.bayes import posterior
from sjepa.bayes.parametric import jacobian
from sjepa.data import simulate
from sjepa.errors import ConfigError, NumericalWarning


TERMS = ["1", "x", "y", "x**2*y", "x**3"]


def test_resamples_are_searched_anywhere() -> None:
    data = simulate("van_der_pol", seed=5, noise=0.01)[:3]
    here = sjepa.discover(data, library=TERMS, n_bootstrap=10)
    with ThreadPoolExecutor(2) as executor:
        there = sjepa.discover(
            data, library=TERMS, n_bootstrap=10, budget=sjepa.Budget(executor=executor)
        )
    assert here.intervals == there.intervals and len(here.intervals) >= 4


def test_candidates_are_proposed_and_weighed_anywhere() -> None:
    data = simulate("van_der_pol", seed=5, noise=0.01)[:4]
    few: dict[str, Any] = {"library": ["x", "y", "x**2*y"], "n_bootstrap": 2, "max_candidates": 2}
    # Noise of observation, taken for noise of the transition: quick, and of no matter here.
    with pytest.warns(NumericalWarning, match="observation noise"):
        here = posterior(data, **few)
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.warns(NumericalWarning, match="observation noise"),
    ):
        there = posterior(data, **few, budget=sjepa.Budget(executor=executor))
    assert [f.structure.law for f in here.fits] == [f.structure.law for f in there.fits]
    np.testing.assert_array_equal(here.weights, there.weights)


def test_an_unknown_executor_is_refused_everywhere() -> None:
    data = simulate("van_der_pol", seed=5)[:2]
    for call in (
        lambda: sjepa.discover(
            data, library=TERMS, n_bootstrap=2, budget=sjepa.Budget(executor="slurm")
        ),
        lambda: posterior(data, library=TERMS, budget=sjepa.Budget(executor="slurm")),
    ):
        with pytest.raises(ConfigError, match="executor is one of"):
            call()


def test_threads_may_differentiate_at_the_same_time() -> None:
    """Levels of torch's forward differentiation are those of the process."""
    numbers = torch.linspace(0.1, 1.0, 6, dtype=torch.float64)

    def function(a: torch.Tensor) -> torch.Tensor:
        return torch.stack([(k * a).sin().prod() for k in range(1, 20)])

    alone = jacobian(function, numbers)
    with ThreadPoolExecutor(4) as executor:
        for one in executor.map(lambda _: jacobian(function, numbers), range(60)):
            torch.testing.assert_close(one, alone)


@pytest.mark.slow
def test_ray_on_this_machine_is_not_reached_from_another() -> None:
    """The address that others would use is refused by every port that Ray tells of."""
    ray = pytest.importorskip("ray")
    from sjepa.backend.executors import run_on

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it says which way packets would go
            outside = probe.getsockname()[0]
    except OSError:
        pytest.skip("this machine has no other address")
    try:
        assert list(run_on("ray", pow, [1, 2, 3])) == [0, 1, 8]
        node = ray.nodes()[0]
        ports = [node[name] for name in ("NodeManagerPort", "ObjectManagerPort")]
        ports.append(int(ray.get_runtime_context().gcs_address.rpartition(":")[2]))
        for port in ports:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((outside, port), timeout=5)
    finally:
        ray.shutdown()
