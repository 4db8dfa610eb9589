from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sjepa import encoders
from sjepa.errors import ConfigError, DataError, MissingDependency
from sjepa.models.pretrained.packages import optional
from tests.models.pretrained import networks
from tests.models.pretrained.networks import SIDE, frames


def grey_to_input(x: np.ndarray) -> torch.Tensor:
    """What the tiny networks expect, written out by hand: three equal channels in -1 to 1."""
    return torch.tensor(x)[:, None].repeat(1, 3, 1, 1) * 2 - 1


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = networks.vision_transformer()
    folder = tmp_path_factory.mktemp("models") / "tiny-vit"
    model.save_pretrained(folder)
    return model, folder


def test_a_hugging_face_model_from_a_folder_gives_its_own_hidden_states(vit: Any) -> None:
    model, folder = vit
    x = frames()
    with torch.no_grad():
        expected = model(pixel_values=grey_to_input(x), output_hidden_states=True)
    last = encoders.huggingface(folder, cached=False)(x)
    np.testing.assert_allclose(last, expected.last_hidden_state.mean(1), atol=1e-6)
    first = encoders.huggingface(folder, layer=1, pool="cls", cached=False)(x)
    np.testing.assert_allclose(first, expected.hidden_states[1][:, 0], atol=1e-6)
    flat = encoders.huggingface(model, layer=-1, pool="flatten", cached=False)(x)
    np.testing.assert_allclose(flat, expected.hidden_states[-1].flatten(1), atol=1e-6)


def test_a_layer_can_be_named(vit: Any) -> None:
    model, _ = vit
    named = encoders.huggingface(model, layer="embeddings", pool="flatten", cached=False)(frames())
    with torch.no_grad():
        expected = model.embeddings(grey_to_input(frames()))
    np.testing.assert_allclose(named, expected.flatten(1), atol=1e-6)
    with pytest.raises(ConfigError, match="Did you mean 'embeddings'"):
        encoders.huggingface(model, layer="embedings")
    with pytest.raises(ConfigError, match="between -3 and 2, got 7"):
        encoders.huggingface(model, layer=7)


def test_batches_do_not_change_embeddings(vit: Any) -> None:
    x = frames(7)
    passes = networks.count_passes(vit[0])
    whole = encoders.huggingface(vit[0], cached=False, batch_size=7)(x)
    assert len(passes) == 1
    parts = encoders.huggingface(vit[0], cached=False, batch_size=2)
    np.testing.assert_allclose(parts(x), whole, atol=1e-6)
    assert len(passes) == 1 + 4


def test_frames_of_another_size_and_colour_are_fitted_to_the_network(vit: Any) -> None:
    encoder = encoders.huggingface(vit[0], cached=False)
    colour = np.repeat(frames(3)[:, None], 3, axis=1)
    np.testing.assert_allclose(encoder(colour), encoder(frames(3)), atol=1e-6)
    large = np.kron(frames(3), np.ones((1, 4, 4), np.float32))  # each pixel four times as wide
    assert encoder(large).shape == (3, 24)
    # Averaging undoes the enlargement but for the smoothing of the resampling.
    assert np.corrcoef(encoder(large).ravel(), encoder(frames(3)).ravel())[0, 1] > 0.9


def test_bytes_are_refused_until_their_range_is_given(vit: Any) -> None:
    x = frames(2)
    with pytest.raises(DataError, match="value_range=255"):
        encoders.huggingface(vit[0], cached=False)(255 * x)
    scaled = encoders.huggingface(vit[0], value_range=255, cached=False)(255 * x)
    np.testing.assert_allclose(scaled, encoders.huggingface(vit[0], cached=False)(x), atol=1e-5)
    with pytest.raises(DataError, match="Channels come first"):
        encoders.huggingface(vit[0], cached=False)(np.zeros((2, SIDE, SIDE, 3)))


def test_pickled_hugging_face_weights_are_refused(vit: Any, tmp_path: Path) -> None:
    model, _ = vit
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="safetensors"):
        encoders.huggingface(tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        encoders.huggingface(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no local model"):
        encoders.huggingface("nobody/no-such-model-on-this-machine")


def test_a_video_model_takes_clips() -> None:
    transformers = optional("transformers")
    torch.manual_seed(0)
    config = transformers.VJEPA2Config(
        crop_size=SIDE, patch_size=8, frames_per_clip=2, tubelet_size=2, hidden_size=24,
        num_attention_heads=2, num_hidden_layers=1, mlp_ratio=2, pred_hidden_size=24,
        pred_num_attention_heads=2, pred_num_hidden_layers=1,
    )  # fmt: skip
    model = transformers.VJEPA2Model(config).eval()
    clips = np.stack([frames(4, 1), frames(4, 2)], axis=1)
    found = encoders.huggingface(model, cached=False)(clips)
    given = torch.tensor(clips)[:, :, None].repeat(1, 1, 3, 1, 1) * 2 - 1
    with torch.no_grad():
        expected = model(pixel_values_videos=given).last_hidden_state.mean(1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_timm_model_gives_the_features_before_its_classifier(tmp_path: Path) -> None:
    timm = optional("timm")
    torch.manual_seed(1)
    sizes = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", pretrained=False, **sizes).eval()
    weights = tmp_path / "vit.pth"
    torch.save(model.state_dict(), weights)
    encoder = encoders.timm("vit_tiny_patch16_224", weights, cached=False, **sizes)
    with torch.no_grad():
        tokens = model.forward_features(grey_to_input(frames()))
        block = model.forward_intermediates(grey_to_input(frames()), indices=[0])[1][0]
    np.testing.assert_allclose(encoder(frames()), tokens.mean(1), atol=1e-6)
    early = encoders.timm(model, layer=0, pool="flatten", cached=False)(frames())
    np.testing.assert_allclose(early, block.flatten(1), atol=1e-6)


def test_wrong_timm_names_and_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'resnet18'"):
        encoders.timm("resnet1888")
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(ConfigError, match="missing, the first"):
        encoders.timm("test_resnet", tmp_path / "other.pth")
    with pytest.raises(ConfigError, match="no such file"):
        encoders.timm("test_resnet", tmp_path / "absent.pth")
    with pytest.raises(ConfigError, match="no timm model"):
        encoders.timm(torch.nn.Linear(2, 2))


def test_torchscript_runs_only_when_trusted(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    network = networks.scripted(path)
    with pytest.raises(ConfigError, match="is a program.*trust=True"):
        encoders.torchscript(path)
    found = encoders.torchscript(path, trust=True, cached=False)(frames())
    with torch.no_grad():
        np.testing.assert_allclose(found, network(torch.tensor(frames())), atol=1e-6)
    path.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="cannot be read as TorchScript"):
        encoders.torchscript(path, trust=True)


def test_sentences_become_vectors(tmp_path: Path) -> None:
    model = networks.sentence_model()
    texts = ["the ball is high", "the ball is low"]
    model.save(str(tmp_path / "sentences"))
    encoder = encoders.sentence_transformers(tmp_path / "sentences", cached=tmp_path / "cache")
    passes = networks.count_passes(encoder.model)
    found = encoder(texts)
    np.testing.assert_allclose(found, model.encode(texts), atol=1e-6)
    assert len(passes) == 1
    np.testing.assert_allclose(encoder(texts), found, atol=1e-6)
    assert len(passes) == 1
    with pytest.raises(DataError, match="list of texts"):
        encoder("the ball")
    with pytest.raises(ConfigError, match="no local sentence-transformers"):
        encoders.sentence_transformers(tmp_path / "absent")


def test_any_module_can_be_tapped_and_stays_frozen() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(588, 2)
    )
    x = frames(4, channels=(1,))
    tapped = encoders.frozen(network, layer="0", pool="max")(x)
    with torch.no_grad():
        np.testing.assert_allclose(tapped, network[0](torch.tensor(x)).amax((2, 3)), atol=1e-6)
    assert not any(p.requires_grad for p in network.parameters())
    with pytest.raises(ConfigError, match="pool is one of mean"):
        encoders.frozen(network, pool="avg")


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(MissingDependency, match="pip install 'sjepa.vision.'"):
        optional("no_such_package")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("huggingfase:x", "Did you mean 'huggingface'"),
        ("timm", "say which, as in timm:vit"),
        ("random-cnn?size=3", "unexpected keyword argument 'size'"),
        ("torchscript:x.pt?trust=1", "multiple values"),
    ],
)
def test_wrong_encoder_texts_are_explained(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encoders.from_text(text)


def test_encoders_can_be_named_in_one_line(vit: Any) -> None:
    _, folder = vit
    named = encoders.from_text(f"huggingface:{folder}?layer=1&pool=cls")
    direct = encoders.huggingface(folder, layer=1, pool="cls")
    assert named.fingerprint() == direct.fingerprint()
    one, two = (encoders.from_text(f"random-cnn?seed={s}")(frames()) for s in (0, 1))
    assert one.shape == two.shape == (5, 64) and not np.allclose(one, two)
    np.testing.assert_array_equal(encoders.from_text("pixels")(frames()), frames().reshape(5, -1))
