import numpy as np
import pytest
import torch

from polarised.adapters import decoder_use, from_vae, pictures
from polarised.data import dsprites
from polarised.errors import DataError
from polarised.models import build_vae

DATA = dsprites(size=32)
MODEL = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 3}


@pytest.fixture
def vae():
    return build_vae(MODEL, DATA.shape)


def test_the_encodings_are_the_posterior_of_the_sampled_images(vae):
    encodings = from_vae(vae, DATA, examples=300, batch_size=128, seed=4)
    batch = DATA.sample(300, 4)
    posterior = vae.posterior(torch.from_numpy(batch.images))
    np.testing.assert_allclose(encodings.mean, posterior.mean.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(encodings.variance, posterior.variance.detach(), rtol=1e-5)
    np.testing.assert_array_equal(encodings.factors, batch.factors)
    assert encodings.factor_names == DATA.factor_space.names
    assert encodings.has_standard_prior


def test_images_and_tensors_are_taken_whole(vae):
    images = DATA.images[:20]
    first, second = from_vae(vae, images), from_vae(vae, torch.from_numpy(images))
    assert len(first) == 20
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.factors is None


def test_the_prior_of_a_conditional_model_is_that_of_each_input():
    data = DATA.with_auxiliary(factors=["shape", "scale"])
    vae = build_vae({**MODEL, "prior": {"name": "Conditional", "mean": "learned"}}, data.shape, data.auxiliary_size)
    encodings = from_vae(vae, data, examples=50, batch_size=20)
    u = torch.from_numpy(data.sample(50, 0).u)
    mean, variance = vae.prior.given(u).moments(50)
    np.testing.assert_allclose(encodings.prior_mean, mean.detach(), atol=1e-6)
    np.testing.assert_allclose(encodings.prior_variance, variance.detach(), rtol=1e-5)
    batch = data.sample(50, 0)
    again = from_vae(vae, batch.images, u=batch.u)
    np.testing.assert_allclose(again.mean, encodings.mean, atol=1e-6)


def test_the_model_is_left_as_it_was_and_progress_is_told(vae):
    done = []
    vae.train()
    from_vae(vae, DATA, examples=50, batch_size=20, progress=done.append)
    assert vae.training
    assert done == [20, 40, 50]


def test_wrong_images_are_explained(vae):
    with pytest.raises(DataError, match="is the channel last"):
        from_vae(vae, np.zeros((4, 32, 32, 1)))
    with pytest.raises(DataError, match="expected images"):
        from_vae(vae, np.zeros((0, 1, 32, 32)))
    with pytest.raises(DataError, match="as many rows of u"):
        from_vae(vae, np.zeros((4, 1, 32, 32)), u=np.zeros((3, 1)))


def test_decoder_use_finds_the_variables_the_decoder_reads(vae):
    with torch.no_grad():
        vae.decoder.input.weight[:, 1] = 0.0
        vae.decoder.input.weight[:, 0] *= 30
        vae.decoder.input.weight[:, 2] *= 0.01
    use = decoder_use(vae, DATA, examples=200)
    assert use["permuted"][1] == pytest.approx(0.0, abs=1e-9)
    assert use["redrawn"][1] == pytest.approx(0.0, abs=1e-9)
    assert abs(use["permuted"][0]) > 10 * abs(use["permuted"][2])
    assert use.equals(decoder_use(vae, DATA, examples=200))


def test_traversals_move_one_variable_from_the_first_code(vae):
    drawn = pictures(vae, DATA, originals=4, steps=5, seed=2)
    assert drawn.originals.shape == drawn.reconstructions.shape == (4, 1, 32, 32)
    assert drawn.traversals.shape == (3, 5, 1, 32, 32)
    code = vae.posterior(torch.from_numpy(drawn.originals)).mean[0].detach().clone()
    code[1] = float(drawn.values[3])
    expected = vae.generate(code[None])[0].detach().numpy()
    np.testing.assert_allclose(drawn.traversals[1, 3], expected, atol=1e-5)
