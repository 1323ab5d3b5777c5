import pickle

import pytest
import torch

from polarised.adapters import from_disentangling_vae, load_disentangling_vae
from polarised.errors import DataError
from polarised.models import build_vae

ENCODER = ("conv1", "conv2", "conv3", "conv_64", "lin1", "lin2")
DECODER = ("lin1", "lin2", "lin3", "convT_64", "convT1", "convT2", "convT3")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def published(vae):
    """The weights of one of our networks under the names of disentangling-vae."""
    state = {}
    for part, half, names in (("encoder", vae.encoder, ENCODER), ("decoder", vae.decoder, DECODER)):
        names = [name for name in names if vae.shape[1] == 64 or not name.endswith("_64")]
        layers = [m for m in half.modules() if hasattr(m, "weight") and m not in set(heads(vae))]
        for name, layer in zip(names, layers, strict=True):
            state |= {f"{part}.{name}.{kind}": value for kind, value in layer.state_dict().items()}
    for kind in ("weight", "bias"):
        both = torch.stack([getattr(head, kind) for head in heads(vae)], dim=1)
        state[f"encoder.mu_logvar_gen.{kind}"] = both.flatten(0, 1).detach()
    return state


def heads(vae):
    return vae.encoder.mean_head, vae.encoder.log_variance_head


@pytest.fixture(params=[32, 64])
def vae(request):
    return build_vae({"architecture": "burgess_conv", "latents": 3}, (1, request.param, request.param), seed=1)


def test_weights_are_loaded_into_the_right_layers(tmp_path, vae):
    torch.save(published(vae), tmp_path / "model.pt")
    found, expected = load_disentangling_vae(tmp_path).state_dict(), vae.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert len(from_disentangling_vae(tmp_path, torch.zeros(5, *vae.shape))) == 5


def test_a_pickled_model_is_refused_and_never_run(tmp_path):
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="expected"):
        load_disentangling_vae(tmp_path)
    torch.save({"encoder": Bomb()}, tmp_path / "model.pt")
    with pytest.raises(DataError, match=r"objects that would run code; save only state_dict\(\)"):
        load_disentangling_vae(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder.conv1.weight", torch.zeros(3), "1 to 64 channels"),
        ("encoder.conv1.weight", torch.zeros(32, 10_000, 1, 1), "1 to 64 channels"),
        ("encoder.conv1.weight", torch.zeros(32, 1, 5, 5), "of shape"),
        ("encoder.lin1.bias", torch.full((256,), float("nan")), "check whether training diverged"),
        ("encoder.lin1.bias", torch.full((256,), float("inf")), "check whether training diverged"),
        ("encoder.lin1.bias", torch.zeros(256, dtype=torch.int64), "torch.int64"),
        ("encoder.lin1.bias", torch.zeros(256, dtype=torch.complex64), "torch.complex64"),
        ("encoder.mu_logvar_gen.bias", torch.tensor(0.0), "mean and 1 more are missing"),
        ("encoder.mu_logvar_gen.bias", torch.zeros(7), "of shape"),
        ("encoder.mu_logvar_gen.bias", torch.zeros(100_000), "1 to 4096 latent"),
        ("encoder.mu_logvar_gen.weight", torch.zeros(6, 9), "of shape"),
        ("encoder.lin2.weight", None, "encoder.lin2 is missing"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, vae, name, value, message):
    state = published(vae)
    if value is None:
        del state[name]
    else:
        state[name] = value
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(DataError, match=message):
        load_disentangling_vae(tmp_path)


def test_a_missing_or_wrong_model_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"expected model\.pt"):
        load_disentangling_vae(tmp_path)
    torch.save({"a.weight": torch.zeros(3)}, tmp_path / "model.pt")
    with pytest.raises(DataError, match=r"networks of burgess_conv .* 12 more are missing"):
        load_disentangling_vae(tmp_path)
