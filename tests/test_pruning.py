import numpy as np
import pytest
import torch
from torch import nn

from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.pruning import prune, pruning_report


@pytest.fixture
def vae():
    return build_vae({"architecture": "mlp", "latents": 5}, (1, 8, 8), seed=1)


@pytest.fixture
def images():
    return np.random.default_rng(0).random((300, 1, 8, 8), dtype=np.float32)


def make_passive(vae, variable):
    """Make the posterior of a variable equal to its prior, and the decoder ignore it."""
    with torch.no_grad():
        for head in (vae.encoder.mean_head, vae.encoder.log_variance_head):
            head.weight[variable], head.bias[variable] = 0, 0
        vae.decoder.input.weight[:, variable] = 0


def test_dropping_passive_variables_costs_nothing(vae, images):
    make_passive(vae, 1), make_passive(vae, 4)
    report = pruning_report(vae, prune(vae, [0, 2, 3]), images, keep=[0, 2, 3])
    assert abs(report.distortion_change) < 1e-4
    assert report.sampled_distortion[0] == pytest.approx(report.sampled_distortion[1], abs=1e-4)
    assert report.rate[0] == pytest.approx(report.rate[1], abs=1e-4)
    assert report.parameters[0] - report.parameters[1] == 2 * (2 * 257 + 256)


def test_dropping_an_active_variable_changes_the_reconstruction(vae, images):
    with torch.no_grad():
        vae.decoder.input.weight[:, 0] += 5
        vae.encoder.mean_head.bias[0] += 3
    report = pruning_report(vae, prune(vae, [1, 2, 3, 4]), images, keep=[1, 2, 3, 4])
    assert report.distortion_change != pytest.approx(0, abs=0.1)
    assert report.rate[1] < report.rate[0] - 1


def test_the_report_is_readable_and_consistent(vae, images):
    report = pruning_report(vae, prune(vae, [0, 2]), images, keep=[0, 2], batch_size=64)
    whole = pruning_report(vae, prune(vae, [0, 2]), images, keep=[0, 2], batch_size=300)
    assert report.distortion == pytest.approx(whole.distortion, rel=1e-5)
    assert report.sampled_distortion == pytest.approx(whole.sampled_distortion, rel=1e-5)
    text = str(report)
    assert "kept 0, 2; dropped 1, 3, 4" in text
    assert "reconstruction" in text


def test_models_keep_their_mode(vae, images):
    pruned = prune(vae, [0])
    assert vae.training
    assert pruned.training
    pruning_report(vae, pruned, images, keep=[0])
    assert vae.training
    assert pruned.training


def test_pruned_model_can_be_pruned_and_trained(vae, images):
    smaller = prune(prune(vae, [4, 2, 0]), [1])
    x = torch.from_numpy(images)
    torch.testing.assert_close(smaller.posterior(x).mean, vae.posterior(x).mean[:, [2]])
    smaller.reconstruct(x).sum().backward()
    assert all(p.grad is not None for p in smaller.decoder.parameters())


@pytest.mark.parametrize("keep", [[], [5], [-1], [0, 0]])
def test_wrong_keep_is_refused(vae, keep):
    with pytest.raises(ConfigError, match="keep"):
        prune(vae, keep)


def test_report_of_another_model_is_refused(vae, images):
    with pytest.raises(DataError, match="latents"):
        pruning_report(vae, prune(vae, [0, 1]), images, keep=[0])


def test_learned_prior_mean_needs_u():
    config = {"architecture": "mlp", "latents": 3, "prior": {"name": "Conditional", "mean": "learned"}}
    vae = build_vae(config, (4,), auxiliary_size=2)
    with pytest.raises(ConfigError, match="u="):
        prune(vae, [0])


def test_layers_of_another_kind_are_refused(vae):
    vae.decoder.input = nn.Bilinear(5, 5, 256)
    with pytest.raises(ConfigError, match="Linear"):
        prune(vae, [0])


def test_noise_around_another_value_is_replaced_by_that_value(vae, images):
    with torch.no_grad():
        for head in (vae.encoder.mean_head, vae.encoder.log_variance_head):
            head.weight[1] = 0
        vae.encoder.mean_head.bias[1], vae.encoder.log_variance_head.bias[1] = 1.5, -6.0
        vae.decoder.input.weight[:, 1] += 5
    keep, means = [0, 2, 3, 4], vae.posterior(torch.from_numpy(images)).mean.mean(0).detach().numpy()
    told, untold = (prune(vae, keep, **given) for given in ({"constants": means}, {}))
    assert abs(pruning_report(vae, told, images, keep=keep).distortion_change) < 1e-3
    assert abs(pruning_report(vae, untold, images, keep=keep).distortion_change) > 1


def test_a_report_needs_an_image(vae, images):
    with pytest.raises(DataError, match="at least one image"):
        pruning_report(vae, prune(vae, [0]), images[:0], keep=[0])


def test_a_frozen_part_stays_frozen(vae, images):
    vae.encoder.eval()
    pruned = prune(vae, [0])
    pruned.decoder.eval()
    pruning_report(vae, pruned, images, keep=[0])
    assert (vae.encoder.training, vae.decoder.training) == (False, True)
    assert (pruned.encoder.training, pruned.decoder.training) == (True, False)
