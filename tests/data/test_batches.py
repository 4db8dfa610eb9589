"""Tensors: batches hold every trajectory once, windows are views and never cross trajectories."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sjepa.data import Trajectories, TrajectoryBatch, windows
from sjepa.errors import DataError


def numbered(lengths: list[int]) -> Trajectories:
    """Observation = (trajectory, row), so that every entry says where it is from."""
    x = [np.stack([np.full(n, i), np.arange(n)], axis=1) for i, n in enumerate(lengths)]
    t = [np.cumsum(np.arange(1.0, n + 1)) for n in lengths]
    return Trajectories(x, t, [np.arange(n) * 10.0 for n in lengths])


def test_dtype_is_as_asked_and_the_mask_counts_the_points() -> None:
    batch = TrajectoryBatch.make(numbered([3, 5]), dtype=torch.float64)
    assert batch.x.dtype == batch.dt.dtype == torch.float64
    assert batch.mask.sum(1).tolist() == [3, 5]
    assert batch.u is not None and batch.u.shape == (2, 5, 1)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(2, 12), min_size=1, max_size=4),
    horizon=st.integers(1, 6),
    stride=st.integers(1, 4),
)
def test_windows_are_what_a_loop_would_cut(lengths: list[int], horizon: int, stride: int) -> None:
    if horizon >= max(lengths):
        return
    data = numbered(lengths)
    batch = TrajectoryBatch.make(data, dtype=torch.float64)
    view = windows(batch.x, batch.dt, horizon, stride, mask=batch.mask, u=batch.u)
    expected = [
        (i, start)
        for i, n in enumerate(lengths)
        for start in range(0, max(lengths) - horizon, stride)
        if start + horizon < n
    ]
    kept = view.z[view.valid]
    assert kept.shape == (len(expected), horizon + 1, 2)
    assert view.u is not None and data.u is not None
    for z, dt, u, (i, start) in zip(
        kept, view.dt[view.valid], view.u[view.valid], expected, strict=True
    ):
        stop = start + horizon
        np.testing.assert_array_equal(z, data.x[i][start : stop + 1])
        np.testing.assert_array_equal(dt, np.diff(data.t[i])[start:stop])
        np.testing.assert_array_equal(u, data.u[i][start : stop + 1])


def test_windows_copy_nothing_and_carry_gradients() -> None:
    z = torch.randn(2, 8, 3, requires_grad=True)
    view = windows(z, torch.ones(2, 7), horizon=3)
    assert view.z.data_ptr() == z.data_ptr()
    assert view.z.shape == (2, 5, 4, 3)
    assert view.valid.all()
    view.z.sum().backward()
    # Each time is in as many windows as reach it.
    assert z.grad is not None
    assert z.grad[0, :, 0].tolist() == [1, 2, 3, 4, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "horizon, stride, points, message",
    [(8, 1, 8, "use 1 to 7"), (0, 1, 8, "use 1 to 7"), (2, 0, 8, "stride"), (2, 1, 5, "dt must")],
)
def test_windows_that_do_not_fit_are_refused(
    horizon: int, stride: int, points: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        windows(torch.zeros(2, 8, 3), torch.zeros(2, points - 1), horizon, stride)
