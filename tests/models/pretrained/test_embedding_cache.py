"""The disk cache: a second run computes nothing, and two processes may write at once."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sjepa
from sjepa import encoders
from sjepa.errors import NumericalWarning
from sjepa.models.pretrained import cache
from tests.models.pretrained import networks
from tests.models.pretrained.networks import SIDE, frames


pytestmark = pytest.mark.filterwarnings("ignore:Free runs")  # laws short of a term, on purpose


def moving_frames(n: int = 3, length: int = 30) -> tuple[list[np.ndarray], np.ndarray]:
    """A bright column that swings: something for a law to be about."""
    t = 0.1 * np.arange(length)
    place = [8 + 5 * np.cos(1.3 * t + k) for k in range(n)]
    axis = np.arange(SIDE)
    shots = [np.exp(-((axis - p[:, None]) ** 2) / 8) for p in place]
    return [np.repeat(s[:, None], SIDE, axis=1).astype(np.float32) for s in shots], t


# What a network without training shows has no law.
@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
@pytest.mark.filterwarnings("ignore:The best law leaves")
def test_the_second_fit_makes_no_forward_pass(tmp_path: Path) -> None:
    x, t = moving_frames()
    results = []
    for repeat in range(2):
        model = networks.transformer()  # a new object each time, as in a new process
        passes = networks.count_passes(model)
        encoder = encoders.frozen(model, cached=tmp_path)
        fitted = sjepa.SJEPA(1, encoder=sjepa.ReadOut(encoder, "slow"), order=2).fit(x, t)
        fitted.encode(x)
        results.append((len(passes), fitted.law_))
        assert (len(passes) == 0) == (repeat == 1)
    assert results[1][0] == 0 and results[0][1] == results[1][1]


def test_other_weights_options_or_data_are_computed_anew(tmp_path: Path) -> None:
    x = frames()
    model = networks.transformer()
    encoder = encoders.frozen(model, cached=tmp_path)
    first = encoder(x)
    changed = x.copy()
    changed[0, 0, 0] += 1e-6
    assert not np.array_equal(encoder(changed), first)
    assert not np.array_equal(encoders.frozen(model, pool="cls", cached=tmp_path)(x), first)
    with torch.no_grad():  # through .data, which torch's own version counters do not see
        model[1].weight.data.mul_(1.5)
    assert not np.array_equal(encoder(x), first)
    assert len(list(tmp_path.glob("*.npy"))) == 4
    assert encoders.clear_cache(tmp_path) == 4 and not list(tmp_path.iterdir())


def test_equal_observations_share_an_entry_whatever_their_type(tmp_path: Path) -> None:
    encoder = encoders.frozen(networks.transformer(), cached=tmp_path)
    passes = networks.count_passes(encoder.network)
    encoder(frames())
    encoder(frames().astype(np.float64))
    encoder(torch.tensor(frames()))
    assert len(passes) == 1


def test_a_damaged_entry_is_computed_again(tmp_path: Path) -> None:
    encoder = encoders.frozen(networks.transformer(), cached=tmp_path)
    passes = networks.count_passes(encoder.network)
    first = encoder(frames())
    (entry,) = tmp_path.glob("*.npy")
    whole = entry.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    width = first.shape[1]
    wrong = [
        np.full((len(first), width), np.nan, np.float32), np.zeros((len(first), 1), np.float32),
        np.array([{"a": 1}], dtype=object),
    ]  # fmt: skip
    damages = [b"", b"\x93NUMPY", whole[:-8], bytes(flipped), *map(as_file, wrong)]
    for damage in damages:
        entry.write_bytes(damage)
        with pytest.warns(NumericalWarning, match="cannot be used and is computed again"):
            np.testing.assert_array_equal(encoder(frames()), first)
        assert entry.read_bytes() == whole
    assert len(passes) == 1 + len(damages)


def as_file(array: np.ndarray) -> bytes:
    memory = io.BytesIO()
    np.save(memory, array, allow_pickle=True)
    return memory.getvalue()


def test_an_entry_under_another_name_is_computed_again(tmp_path: Path) -> None:
    encoder = encoders.frozen(networks.transformer(), cached=tmp_path)
    first = encoder(frames())
    (entry,) = tmp_path.glob("*.npy")
    encoder(1 - frames())
    (other,) = set(tmp_path.glob("*.npy")) - {entry}
    other.replace(entry)
    with pytest.warns(NumericalWarning, match="an entry of another name"):
        np.testing.assert_array_equal(encoder(frames()), first)


def test_links_in_the_cache_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "entry.npy").symlink_to(tmp_path / "precious")
    with pytest.warns(NumericalWarning, match="is a link"):
        cache.cached(tmp_path, "entry", lambda: np.ones(2))
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert not (tmp_path / "entry.npy").is_symlink()


def test_a_folder_that_cannot_be_used_costs_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.warns(NumericalWarning, match="cannot be kept"):
        found = cache.cached(tmp_path / "file" / "cache", "entry", lambda: np.ones(2))
    np.testing.assert_array_equal(found, [1, 1])


def test_a_failing_write_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        cache.cached(tmp_path, "entry", lambda: np.array([object()]))
    assert not list(tmp_path.iterdir())


WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from sjepa.models.pretrained import cache
folder, start = Path(sys.argv[1]), float(sys.argv[2])
entries = [np.full((200, 64), k, np.float32) for k in range(40)]
time.sleep(max(0.0, start - time.time()))
for _ in range(5):
    for k, entry in enumerate(entries):
        (folder / f"entry{k}.npy").unlink(missing_ok=True)
        cache.cached(folder, f"entry{k}", lambda: entry)
        found = cache.cached(folder, f"entry{k}", lambda: entry)
        assert found.shape == (200, 64) and (found == k).all()
"""


def test_two_processes_may_write_the_same_entries_at_once(tmp_path: Path) -> None:
    import time

    start = str(time.time() + 4.0)  # both are up by then, so that they do meet
    command = [sys.executable, "-c", WRITER, str(tmp_path), start]
    root = Path(__file__).parents[3]
    both = [
        subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"entry{k}.npy" for k in range(40))


def test_the_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SJEPA_CACHE", str(tmp_path / "here"))
    encoders.frozen(networks.transformer(), cached=True)(frames())
    assert len(list((tmp_path / "here").glob("*.npy"))) == 1
