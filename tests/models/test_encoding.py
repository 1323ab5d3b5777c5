import numpy as np
import pytest
import torch

from polarised import classify
from polarised.adapters import decoder_use, from_vae, pictures
from polarised.data import dsprites
from polarised.errors import DataError
from polarised.models import build_vae
from polarised.models.likelihoods import Bernoulli, ContinuousBernoulli, Gaussian, Laplace
from polarised.regime import Encodings
from polarised.regime.decoder import CodedBatch, measure_decoder_use
from polarised.training.history import Snapshots

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


def test_images_and_tensors_are_encoded_completely(vae):
    images = DATA.images[:20]
    first, second = from_vae(vae, images), from_vae(vae, torch.from_numpy(images))
    assert len(first) == 20
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.factors is None


def test_a_conditional_prior_is_stored_for_each_input():
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


def test_the_model_is_not_changed_and_progress_is_reported(vae):
    done = []
    vae.train()
    from_vae(vae, DATA, examples=50, batch_size=20, progress=done.append)
    assert vae.training
    assert done == [20, 40, 50]


def test_images_of_the_wrong_shape_are_refused(vae):
    with pytest.raises(DataError, match="if the channel is last"):
        from_vae(vae, np.zeros((4, 32, 32, 1)))
    with pytest.raises(DataError, match="expected images"):
        from_vae(vae, np.zeros((0, 1, 32, 32)))
    with pytest.raises(DataError, match="as many rows of u"):
        from_vae(vae, np.zeros((4, 1, 32, 32)), u=np.zeros((3, 1)))


def test_decoder_use_identifies_the_used_variables(vae):
    with torch.no_grad():
        vae.decoder.input.weight[:, 1] = 0.0
        vae.decoder.input.weight[:, 0] *= 30
        vae.decoder.input.weight[:, 2] *= 0.01
    use = decoder_use(vae, DATA, examples=200, most=200).table()
    assert use["permuted"][1] == pytest.approx(0.0, abs=1e-9)
    assert use["redrawn"][1] == pytest.approx(0.0, abs=1e-9)
    assert abs(use["permuted"][0]) > 10 * abs(use["permuted"][2])
    assert use.equals(decoder_use(vae, DATA, examples=200, most=200).table())


def test_redrawing_is_optional_and_decides_nothing(vae):
    whole, part = (decoder_use(vae, DATA, examples=100, most=100, redraw=redraw) for redraw in (True, False))
    np.testing.assert_array_equal(part.permuted, whole.permuted)
    assert np.isfinite(whole.redrawn).all()
    assert np.isnan(part.redrawn).all()
    encodings = from_vae(vae, DATA, examples=100)
    first, second = (classify(encodings, decoder=use) for use in (whole, part))
    assert first.types == second.types
    assert first.doubtful == second.doubtful


def test_snapshots_and_a_diagnosis_give_the_same_types(vae):
    """A variable that the encoder makes narrow and that the decoder does not use is passive for both."""
    with torch.no_grad():
        vae.encoder.mean_head.weight *= 5
        vae.encoder.log_variance_head.bias -= 6.0
        vae.decoder.input.weight[:, 1] = 0.0
    snapshots = Snapshots(DATA, examples=600)
    snapshots(0, vae)
    alone = Snapshots(DATA, examples=600, ask_decoder=False)
    alone(0, vae)
    told = classify(from_vae(vae, DATA, examples=600), decoder=decoder_use(vae, DATA))
    assert snapshots.timeline.types == [told.types]
    assert told.types[1] == "passive"
    assert alone.timeline.types[0][1] == "active"


def test_traversals_move_one_variable_from_the_first_code(vae):
    drawn = pictures(vae, DATA, originals=4, steps=5, seed=2)
    assert drawn.originals.shape == drawn.reconstructions.shape == (4, 1, 32, 32)
    assert drawn.traversals.shape == (3, 5, 1, 32, 32)
    code = vae.posterior(torch.from_numpy(drawn.originals)).mean[0].detach().clone()
    code[1] = float(drawn.values[3])
    expected = vae.generate(code[None])[0].detach().numpy()
    np.testing.assert_allclose(drawn.traversals[1, 3], expected, atol=1e-5)


def test_no_more_images_of_an_array_are_used_than_requested(vae):
    images = DATA.sample(40, 0).images
    drawn = pictures(vae, images, originals=4, steps=3)
    assert drawn.originals.shape == drawn.reconstructions.shape == (4, 1, 32, 32)
    chosen = [next(i for i, image in enumerate(images) if (image == one).all()) for one in drawn.originals]
    assert chosen == sorted(set(chosen)) != [0, 1, 2, 3]
    few, batch = decoder_use(vae, images, examples=10, most=10).table(), DATA.sample(40, 0)
    assert few.equals(decoder_use(vae, batch, examples=10, most=10).table())
    assert not few.equals(decoder_use(vae, images, examples=40).table())
    assert decoder_use(vae, images, examples=40).table().equals(decoder_use(vae, images).table())


def test_u_stays_with_its_images():
    data = DATA.with_auxiliary(factors=["shape", "scale"])
    vae = build_vae({**MODEL, "prior": "Conditional"}, data.shape, data.auxiliary_size)
    batch = data.sample(30, 0)
    few = {"examples": 10, "most": 10}
    of_images = decoder_use(vae, batch.images, u=batch.u, **few).table()
    assert decoder_use(vae, batch, **few).table().equals(of_images)


def test_large_requests_are_encoded_in_parts(vae, monkeypatch):
    whole = decoder_use(vae, DATA, examples=60, most=60), pictures(vae, DATA, originals=30)
    seen = []
    vae.encoder.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    vae.decoder.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    monkeypatch.setattr("polarised.models.encoding._AT_ONCE", 25)
    use = decoder_use(vae, DATA, examples=60, most=60)
    np.testing.assert_allclose(use.table().to_numpy(), whole[0].table().to_numpy(), atol=1e-4)
    assert max(seen[:3]) == 25
    seen.clear()
    drawn = pictures(vae, DATA, originals=30)
    np.testing.assert_allclose(drawn.traversals, whole[1].traversals, atol=1e-6)
    assert max(seen) == 25


def test_a_traversal_under_the_sparse_prior_covers_the_range_of_the_prior():
    sparse = build_vae({**MODEL, "prior": "Sparse"}, DATA.shape)
    codes = []
    sparse.decoder.register_forward_hook(lambda _, inputs, __: codes.append(inputs[0]))
    pictures(sparse, DATA, originals=2, steps=3)
    moved = torch.cat(codes)[2:].reshape(3, 3, 3)
    deviation = (0.2 + 0.8 * 0.05**2) ** 0.5
    for j in range(3):
        np.testing.assert_allclose(moved[j, :, j], [-2 * deviation, 0.0, 2 * deviation], rtol=1e-5)


@pytest.mark.parametrize("prior", ["Sparse", "StudentT", "GaussianMixture"])
def test_the_reported_kl_uses_the_model_s_own_prior(prior):
    vae = build_vae({**MODEL, "prior": prior}, DATA.shape)
    with torch.no_grad():
        vae.encoder.mean_head.bias[0] += 1.0
        vae.encoder.log_variance_head.bias[0] -= 2.0
    encodings = from_vae(vae, DATA, examples=100, batch_size=30)
    regime = classify(encodings)
    posterior = vae.posterior(torch.from_numpy(DATA.sample(100, 0).images))
    z = posterior.sample(noise=torch.randn(2000, 100, 3, generator=torch.Generator().manual_seed(0)))
    for j in range(3):
        log_prior = vae.prior.kept([j]).log_prob(z[..., j].reshape(-1, 1)).reshape(2000, 100)
        truth = (posterior.log_prob(z)[..., j] - log_prior).mean().item()
        assert regime.statistics.kl[j] == pytest.approx(truth, abs=0.02, rel=0.02)
    plain = classify(
        Encodings(
            encodings.mean,
            variance=encodings.variance,
            prior_mean=encodings.prior_mean,
            prior_variance=encodings.prior_variance,
        )
    )
    assert plain.types == regime.types
    if prior == "Sparse":
        assert plain.statistics.kl[0] > 10 * regime.statistics.kl[0]


def test_a_gaussian_prior_stores_no_kl(vae):
    assert from_vae(vae, DATA, examples=20).kl is None


def test_a_variable_is_measured_until_it_is_decided():
    calls = []

    def batches():
        for count in (500, 1500, 2000, 2000, 2000, 2000):
            calls.append(count)
            z = np.random.default_rng(count).normal(size=(count, 2))
            own = z.copy()

            def distortion(codes, own=own, count=count):
                noise = np.random.default_rng(7).normal(size=count) * 5
                changed = (codes != own).any(axis=1)
                # Exactly at the threshold: 0.1 nats.
                return 5 + 40 * (codes[:, 0] - own[:, 0]) ** 2 + changed * (0.1 + noise - noise.mean())

            yield CodedBatch(distortion, z, z[::-1].copy(), np.zeros(count))

    use = measure_decoder_use(batches())
    assert use.examples[0] == 500
    assert use.examples[1] == sum(calls) == 10_000
    assert use.doubtful.tolist() == [False, True]


def test_the_floor_of_a_distortion_is_reached_by_the_image_itself():
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    outputs = torch.logit(x)
    for likelihood, exact in (
        (Bernoulli(weight=2.0), outputs),
        (Gaussian(variance=0.3), x),
        (Laplace(scale=0.2), x),
        (ContinuousBernoulli(), outputs),
        (Gaussian(scale="learned"), torch.cat([x, torch.zeros_like(x)], dim=1)),
    ):
        torch.testing.assert_close(likelihood.floor(x, exact), -likelihood.log_prob(x, exact), rtol=1e-4, atol=1e-3)
        worse = exact + 0.3
        assert (likelihood.floor(x, exact) < -likelihood.log_prob(x, worse)).all()
