import numpy as np
import pytest

from polarised.data import dsprites
from polarised.errors import ConfigError, DataError
from polarised.models import build_vae
from polarised.objectives import BetaVAE
from polarised.regime.timeline import load_timeline
from polarised.training import train
from polarised.training.history import Snapshots

MODEL = {"architecture": {"name": "mlp", "widths": [32]}, "latents": 4}


def trained(directory=None, *, steps, snapshots, seed=0):
    dataset = dsprites(size=32)
    vae = build_vae(MODEL, dataset.shape, seed=seed)
    train(vae, BetaVAE(beta=1.0), dataset, steps=steps, batch_size=32, learning_rate=1e-3, seed=seed, hooks=[snapshots],
          directory=directory, checkpoint_every=10, progress=False)  # fmt: skip
    return vae


def test_snapshots_cover_the_first_to_the_last_step():
    snapshots = Snapshots(dsprites(size=32), every=8, examples=100)
    vae = trained(steps=20, snapshots=snapshots)
    assert snapshots.timeline.steps == [0, 8, 16, 20]
    from polarised import classify
    from polarised.adapters import from_vae

    own = classify(from_vae(vae, dsprites(size=32), examples=100))
    np.testing.assert_allclose(snapshots.timeline.latest.statistics.kl, own.statistics.kl, rtol=1e-4)


def test_snapshots_do_not_change_training():
    with_hook = trained(steps=12, snapshots=Snapshots(dsprites(size=32), every=3, examples=20)).state_dict()
    without = trained(steps=12, snapshots=Snapshots(dsprites(size=32), every=1000, examples=2)).state_dict()
    assert all(bool((with_hook[name] == without[name]).all()) for name in without)


def test_a_resumed_run_has_the_same_timeline(tmp_path):
    whole = Snapshots(dsprites(size=32), every=5, examples=50)
    trained(steps=20, snapshots=whole)
    first, second = (Snapshots(dsprites(size=32), every=5, examples=50) for _ in range(2))
    trained(tmp_path, steps=10, snapshots=first)
    trained(tmp_path, steps=20, snapshots=second)
    assert second.timeline.table().equals(whole.timeline.table())


def test_a_saved_timeline_can_be_loaded(tmp_path):
    snapshots = Snapshots(dsprites(size=32), every=5, examples=50)
    trained(steps=5, snapshots=snapshots)
    again = load_timeline(snapshots.save(tmp_path / "snapshots.npz"))
    assert again.table().equals(snapshots.timeline.table())
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(DataError, match="snapshots with step"):
        load_timeline(tmp_path / "other.npz")
    with pytest.raises(DataError, match="does not exist"):
        load_timeline(tmp_path / "none.npz")


def test_a_conditional_prior_is_evaluated_for_each_input():
    dataset = dsprites(size=32).with_auxiliary(factors=["shape"])
    vae = build_vae({**MODEL, "prior": "Conditional"}, dataset.shape, dataset.auxiliary_size)
    snapshots = Snapshots(dataset, examples=50)
    snapshots(0, vae)
    assert snapshots.timeline.latest.learned_prior_variance
    assert not snapshots.timeline.latest.learned_prior_mean


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigError, match="at least 1 step"):
        Snapshots(dsprites(), every=0)


def test_the_kl_of_snapshots_uses_the_model_s_own_prior():
    from polarised import classify
    from polarised.adapters import from_vae

    dataset, snapshots = dsprites(size=32), Snapshots(dsprites(size=32), examples=60)
    vae = build_vae({**MODEL, "prior": "Sparse"}, dataset.shape)
    snapshots(0, vae)
    own = classify(from_vae(vae, dataset, examples=60))
    np.testing.assert_allclose(snapshots.timeline.table()["kl"], own.statistics.kl, rtol=1e-5)
    plain = 0.5 * (own.statistics.ratio_mean + own.statistics.shift - 1 - own.statistics.log_ratio)
    assert (own.statistics.kl < plain / 2).all()
