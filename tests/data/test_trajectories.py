"""Trajectories: what goes in, what comes out, and that nothing is lost or invented on the way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sjepa.data import Trajectories
from sjepa.errors import DataError, DataWarning


def ragged(lengths: list[int], d: int = 2, seed: int = 0, actions: int = 1) -> Trajectories:
    rng = np.random.default_rng(seed)
    return Trajectories(
        [rng.normal(size=(n, d)) for n in lengths],
        [np.cumsum(rng.uniform(0.1, 1.0, size=n)) for n in lengths],
        [rng.normal(size=(n, actions)) for n in lengths] if actions else None,
        state=[rng.normal(size=(n, 3)) for n in lengths],
    )


@pytest.mark.parametrize("shape", [(), (3,), (5, 4), (3, 5, 4)])
def test_any_observation_shape_is_kept(shape: tuple[int, ...]) -> None:
    data = Trajectories([np.zeros((6, *shape)), np.ones((9, *shape))], 0.1)
    assert data.obs_shape == (shape or (1,))
    assert data.lengths.tolist() == [6, 9]
    assert len(data) == 2


def test_time_is_a_step_or_one_array_or_a_list() -> None:
    x = [np.zeros((4, 2)), np.ones((4, 2))]
    times = np.array([0.0, 0.5, 1.0, 1.5])
    for t in (0.5, times, [times, times], [list(times)] * 2):
        for step in Trajectories(x, t).steps:
            np.testing.assert_allclose(step, 0.5)


def test_actions_get_names_and_columns() -> None:
    data = Trajectories(np.zeros((5, 2)), 1, np.arange(5))
    assert data.u is not None
    assert data.u[0].shape == (5, 1)
    assert data.input_names == ("u1",)
    assert data.names is None


def test_integers_become_floats_that_hold_them_exactly() -> None:
    frames = Trajectories(np.full((4, 8, 8), 255, dtype=np.uint8), 1)
    assert frames.x[0].dtype == np.float32
    counts = Trajectories(np.full((4, 1), 2**40), 1)
    assert counts.x[0].dtype == np.float64
    assert (counts.x[0] == 2**40).all()


def test_floats_are_not_copied() -> None:
    x = np.zeros((100, 3))
    assert np.shares_memory(Trajectories(x, 1).x[0], x)


def test_tensors_and_tables_are_accepted_as_observations() -> None:
    values = np.arange(12.0).reshape(6, 2)
    tensor = torch.tensor(values, requires_grad=True)
    table = pd.DataFrame(values, columns=["a", "b"])
    np.testing.assert_array_equal(Trajectories(tensor, 1).x[0], values)
    assert Trajectories(table, 1).names == ("a", "b")


def test_indexing_gives_collections() -> None:
    data = ragged([3, 5, 7])
    assert data[1].lengths.tolist() == [5]
    assert data[-1].lengths.tolist() == [7]
    assert data[1:].lengths.tolist() == [5, 7]
    assert data[np.array([2, 0])].lengths.tolist() == [7, 3]
    assert data[data.lengths > 4].lengths.tolist() == [5, 7]
    assert [len(one) for one in data] == [1, 1, 1]
    with pytest.raises(IndexError):
        data[3]


@settings(deadline=None, max_examples=50)
@given(n=st.integers(2, 40), parts=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_split_shares_out_whole_trajectories(n: int, parts: int, seed: int) -> None:
    if n < parts:
        return
    data = Trajectories([np.full((2, 1), i) for i in range(n)], 1)
    pieces = data.split(np.full(parts, 1 / parts), seed=seed)
    seen = [int(x[0, 0]) for piece in pieces for x in piece.x]
    assert sorted(seen) == list(range(n))
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 2  # equal shares, up to rounding


def test_a_split_depends_on_the_seed_only() -> None:
    data = ragged([3] * 20)
    assert all(
        np.array_equal(a, b) for a, b in zip(data.split()[0].x, data.split()[0].x, strict=True)
    )
    assert not np.array_equal(data.split(seed=1)[0].x[0], data.split(seed=2)[0].x[0])


def test_one_trajectory_is_split_in_time() -> None:
    x = np.arange(10.0)
    early, late = Trajectories(x, 1).split((0.8, 0.2))
    assert early.x[0].ravel().tolist() == x[:8].tolist()
    assert late.t[0].tolist() == [8.0, 9.0]


def test_map_replaces_observations_only() -> None:
    data = ragged([3, 5])
    norms = data.map(lambda x: np.linalg.norm(x, axis=1), names=["r"])
    assert norms.obs_shape == (1,)
    assert norms.names == ("r",)
    assert norms.t[1] is data.t[1] or np.array_equal(norms.t[1], data.t[1])
    assert norms.u is not None and norms.state is not None


def test_stacked_rows_know_their_trajectory() -> None:
    data = ragged([3, 5])
    rows, index = data.stacked()
    np.testing.assert_array_equal(rows[index == 1], data.x[1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), st.integers(0, 5))
def test_padding_holds_the_data_and_stays_finite(lengths: list[int], seed: int) -> None:
    data = ragged(lengths, seed=seed)
    batch = data.padded()
    x, dt, u, mask = batch["x"], batch["dt"], batch["u"], batch["mask"]
    assert x is not None and dt is not None and u is not None and mask is not None
    assert data.u is not None
    longest = max(lengths)
    assert x.shape == (len(lengths), longest, 2)
    assert dt.shape == (len(lengths), longest - 1)
    np.testing.assert_array_equal(x[mask], np.concatenate(data.x))
    np.testing.assert_array_equal(u[mask], np.concatenate(data.u))
    for i, n in enumerate(lengths):
        np.testing.assert_array_equal(dt[i, : n - 1], np.diff(data.t[i]))
    assert (dt > 0).all() and np.isfinite(x).all()


def test_collections_can_be_put_together() -> None:
    a, b = ragged([3]), ragged([4, 5], seed=1)
    both = Trajectories.concat([a, b])
    assert both.lengths.tolist() == [3, 4, 5]
    assert both.state is not None and both.u is not None
    np.testing.assert_array_equal(both.state[2], b.state[1] if b.state else None)


def test_a_step_and_more_columns_than_rows_look_transposed() -> None:
    with pytest.warns(DataWarning, match="transpose x"):
        Trajectories(np.zeros((3, 100)), 0.1)


def test_a_table_with_ids_gives_what_pandas_groups() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "run": rng.permutation(np.repeat(["c", "a", "b"], 20)),
            "when": np.arange(60) * 0.1,
            "q": rng.normal(size=60),
            "p": rng.normal(size=60),
            "push": rng.normal(size=60),
        }
    )
    data = Trajectories.from_frame(table, time="when", id="run", actions=["push"])
    assert data.names == ("q", "p")
    assert data.input_names == ("push",)
    groups = [g for _, g in table.groupby("run", sort=False)]
    for x, t, g in zip(data.x, data.t, groups, strict=True):
        np.testing.assert_array_equal(x, g[["q", "p"]])
        np.testing.assert_array_equal(t, g["when"])


def test_dates_become_seconds() -> None:
    table = pd.DataFrame(
        {"t": pd.to_datetime(["2024-01-01 00:00:00.0", "2024-01-01 00:00:01.5"]), "x": [1, 2]}
    )
    with pytest.warns(DataWarning, match="seconds"):
        assert Trajectories.from_frame(table, time="t").t[0].tolist() == [0.0, 1.5]


def test_pandas_missing_values_are_missing_values() -> None:
    table = pd.DataFrame({"t": range(4), "x": pd.array([1, 2, None, 4], dtype="Int64")})
    with pytest.raises(DataError, match="row 2 of the table.*missing"):
        Trajectories.from_frame(table, time="t")


FRAME = pd.DataFrame({"q": [0.0, 1, 2], "p": [3.0, 4, 5]})


def test_tables_keep_their_names_alone_in_lists_and_as_actions() -> None:
    assert Trajectories.of(FRAME, 0.1).names == ("q", "p")
    pushed = Trajectories.of(
        [FRAME, FRAME], 0.1, [FRAME[["p"]].rename(columns={"p": "torque"})] * 2
    )
    assert pushed.names == ("q", "p") and pushed.input_names == ("torque",)
    np.testing.assert_array_equal(pushed.x[1][:, 1], [3, 4, 5])
    with pytest.raises(DataError, match="table 1 has the columns p, q"):
        Trajectories.of([FRAME, FRAME[["p", "q"]]], 0.1)


def test_a_stack_with_a_step_alone_asks_what_was_meant() -> None:
    stack = np.arange(24.0).reshape(2, 4, 3)
    with pytest.raises(DataError, match=r"\(2, 4, 3\).*list\(x\).*\[x\]"):
        Trajectories.of(stack, 0.1)
    assert len(Trajectories.of(list(stack), 0.1)) == 2
    assert Trajectories.of([stack], 0.1).obs_shape == (4, 3)
    assert Trajectories.of(stack, np.array([0.0, 1.0])).obs_shape == (4, 3)


def test_several_trajectories_join_and_take_names() -> None:
    one = Trajectories(np.zeros((3, 2)), 0.1)
    joined = Trajectories.of([one, one], names=["a", "b"])
    assert len(joined) == 2 and joined.names == ("a", "b")
    assert Trajectories.of(one, states=True).names == ("x1", "x2")
    with pytest.raises(DataError, match="already hold"):
        Trajectories.of([one], 0.1)
    with pytest.raises(DataError, match="Give the times"):
        Trajectories.of(np.zeros((3, 2)))
