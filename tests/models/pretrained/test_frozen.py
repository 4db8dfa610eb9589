"""Any network as a frozen encoder: at a layer of choice, in batches, one vector per observation."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.encoders.random_cnn import random_cnn
from sjepa import encoders
from sjepa.errors import ConfigError, DataError
from tests.models.pretrained import networks
from tests.models.pretrained.networks import frames


def test_tokens_are_pooled_as_asked() -> None:
    model, x = networks.transformer(), frames()
    with torch.no_grad():
        tokens = model(torch.tensor(x)).numpy()
    expected = {"mean": tokens.mean(1), "max": tokens.max(1), "cls": tokens[:, 0],
                "flatten": tokens.reshape(5, -1)}  # fmt: skip
    for pool, vectors in expected.items():
        found = encoders.frozen(model, pool=pool)(x)
        np.testing.assert_allclose(found, vectors, atol=1e-6, err_msg=pool)


def test_the_hidden_states_of_a_model_output_are_taken() -> None:
    """What transformers models return: an object with more than one tensor in it."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> SimpleNamespace:
            return SimpleNamespace(last_hidden_state=x.flatten(1, 2)[:, None], pooler_output=None)

    x = frames(3)
    np.testing.assert_array_equal(encoders.frozen(Model())(x), x.reshape(3, -1))


def test_batches_do_not_change_embeddings() -> None:
    model, x = networks.transformer(), frames(7)
    passes = networks.count_passes(model)
    whole = encoders.frozen(model, batch_size=7)(x)
    assert len(passes) == 1
    np.testing.assert_allclose(encoders.frozen(model, batch_size=2)(x), whole, atol=1e-6)
    assert len(passes) == 1 + 4


def test_any_layer_can_be_tapped_and_the_network_stays_frozen() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(588, 2)
    )
    x = frames(4, channels=(1,))
    tapped = encoders.frozen(network, layer="0", pool="max")(x)
    with torch.no_grad():
        np.testing.assert_allclose(tapped, network[0](torch.tensor(x)).amax((2, 3)), atol=1e-6)
    assert not any(p.requires_grad for p in network.parameters())


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ConfigError):
        encoders.frozen(networks.transformer(), pool="avg")
    with pytest.raises(ConfigError, match="5.linear1"):  # the nearest name it has
        encoders.frozen(networks.transformer(), layer="5.linear")
    with pytest.raises(DataError):
        encoders.frozen(torch.nn.Flatten(0))(frames())


def test_the_baselines_are_the_pixels_and_a_network_of_its_seed() -> None:
    np.testing.assert_array_equal(encoders.pixels()(frames()), frames().reshape(5, -1))
    one, two = (random_cnn(seed)(frames()) for seed in (0, 1))
    assert one.shape == two.shape == (5, 64) and not np.allclose(one, two)
    np.testing.assert_array_equal(random_cnn(0)(frames()), one)
