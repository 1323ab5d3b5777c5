"""What variance rules miss, on a trained model: an unused variable whose variance a penalty has moved."""

import numpy as np
import pytest

from polarised import classify, diagnose
from polarised.data.own import dataset_from_arrays
from polarised.models import build_vae
from polarised.objectives import RTCVAE
from polarised.training import train

ETA = 10.0


@pytest.mark.slow
def test_unused_variables_of_an_rtc_vae_are_passive_though_their_variance_is_small():
    generator = np.random.default_rng(0)
    sources = generator.uniform(-1, 1, size=(4000, 2))
    data = dataset_from_arrays(np.tanh(1.5 * sources @ generator.normal(size=(2, 20))).astype(np.float32))
    model = {"architecture": {"name": "mlp", "widths": [64, 64]}, "likelihood": {"name": "Gaussian", "variance": 0.02}}
    vae = build_vae({**model, "latents": 6}, data.shape)
    objective = RTCVAE(beta=1.0, eta=ETA, critic_layers=2, critic_width=64)
    train(vae, objective, data, steps=2500, batch_size=128, learning_rate=1e-3, progress=False)

    diagnosis = diagnose(vae, data, examples=2000)
    relative, standard = diagnosis.regime, classify(diagnosis.encodings, rule="standard")
    unused = relative.uninformative
    assert (len(relative.active), len(unused)) == (2, 4)
    # At the optimum of an unused variable the variance is 1 / (1 + 2 eta), 0.048 here.
    np.testing.assert_allclose(relative.statistics.variance_mean[unused], 1 / (1 + 2 * ETA), rtol=0.05)
    assert standard.types == ("active",) * 6
    assert relative.passive == unused
    # The decoder agrees, and the advice says where the rules part.
    use = diagnosis.decoder_use["permuted"].to_numpy()
    assert np.abs(use[unused]).max() < 0.1 < 50 < use[relative.active].min()
    assert any("would pass for active by variance alone" in sentence for sentence in diagnosis.advice)
    assert any("rule differ on" in sentence for sentence in diagnosis.advice)
