import numpy as np
import pytest
import torch

pytest.importorskip("lightning")

import lightning
from lightning.pytorch.loggers import Logger

from polarised import classify
from polarised.adapters import from_callable
from polarised.adapters.lightning import RegimeCallback
from polarised.errors import ConfigError, DataError
from polarised.regime.timeline import Timeline

# Lightning's own: it uses what torch has deprecated, would rather have more workers, and looks for SLURM's srun.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::FutureWarning", "ignore:.*does not have many workers", "ignore:The `srun` command is available"
    )
]


class LinearVAE(lightning.LightningModule):
    """A linear VAE on two-dimensional data: it needs two of its four variables."""

    def __init__(self, beta=1.0):
        super().__init__()
        self.encoder, self.decoder, self.beta = torch.nn.Linear(6, 8), torch.nn.Linear(4, 6), beta
        torch.nn.init.normal_(self.encoder.weight, std=0.3)

    def encode(self, x):
        return self.encoder(x).chunk(2, dim=1)

    def training_step(self, batch, _):
        mean, log_variance = self.encode(batch[0])
        z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        error = ((self.decoder(z) - batch[0]) ** 2).sum(1).mean() / (2 * 0.01)
        rate = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return error + self.beta * rate

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


class Notes(Logger):
    """A logger that keeps its records."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    name, version = "notes", "0"

    def log_hyperparams(self, *_, **__):
        pass

    def log_metrics(self, metrics, step=None):
        self.seen[step] = metrics


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(512, 2, generator=generator) @ torch.randn(2, 6, generator=generator)


def fitted(data, callback, *, logger=False, beta=1.0, steps=400, **more):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=64)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[callback], logger=logger, **quiet, log_every_n_steps=1
    )
    trainer.fit(LinearVAE(beta), loader, **more)
    return trainer


def test_the_callback_records_the_regime_with_a_real_trainer(data, tmp_path):
    notes = Notes()
    halves = [data[:256], data[256:]]
    callback = RegimeCallback(lambda module, x: module.encode(x), halves, scale_kind="log_variance", every=100)
    trainer = fitted(data, callback, logger=notes)
    assert callback.timeline.steps == [100, 200, 300, 400]
    last = callback.timeline.counts().row(-1, named=True)
    final = classify(from_callable(trainer.model.encode, [data], scale_kind="log_variance"))
    assert callback.timeline.types[-1] == final.types
    assert (last["active"], last["mixed"]) == (len(final.active), len(final.mixed))
    assert last["active"] >= 2
    logged = {step: seen["polarised/active"] for step, seen in notes.seen.items() if "polarised/active" in seen}
    assert logged[400] == last["active"]
    # A checkpoint of Lightning contains the timeline, in plain types.
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = RegimeCallback(callback.encode, callback.batches, scale_kind="log_variance")
    state = torch.load(tmp_path / "a.ckpt", weights_only=True)["callbacks"]
    again.load_state_dict(next(value for key, value in state.items() if "RegimeCallback" in key))
    assert again.timeline.table().equals(callback.timeline.table())


def test_a_collapse_gives_a_warning(data):
    callback = RegimeCallback(
        lambda module, x: module.encode(x), [data], scale_kind="log_variance", every=50, timeline=Timeline(patience=300)
    )
    with pytest.warns(UserWarning, match="all 4 variables are passive"):
        fitted(data, callback, beta=1e5, steps=600)
    assert np.all(np.array(callback.timeline.types[-1]) == "passive")


def test_every_is_checked():
    with pytest.raises(ConfigError, match="at least 1"):
        RegimeCallback(lambda module, x: (x, x), [], scale_kind="variance", every=0)


class Frozen(LinearVAE):
    """A module whose normalisation is frozen, and whose batches come as arrays."""

    def __init__(self):
        super().__init__()
        self.scale, self.drop = torch.nn.BatchNorm1d(6), torch.nn.Dropout()

    def encode(self, x):
        assert not self.drop.training
        return super().encode(self.drop(self.scale(x)))

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        assert (device, dataloader_idx) == (self.device, 0)
        return torch.as_tensor(batch, device=device)


class Moment:
    """The part of a trainer that the callback uses."""

    global_step, loggers = 100, ()


def test_batches_are_moved_to_the_module_and_every_part_keeps_its_mode(data):
    module = Frozen()
    module.scale.eval()
    callback = RegimeCallback(lambda m, x: m.encode(x), [data.numpy()], scale_kind="log_variance")
    callback.on_train_end(Moment(), module)
    assert callback.timeline.steps == [100]
    assert (module.training, module.scale.training, module.drop.training) == (True, False, True)


def test_ambiguous_outputs_are_refused_only_when_fitting_starts(data):
    def encode(module, x):
        mean, _ = LinearVAE.encode(module, x)
        return mean, torch.ones_like(mean)

    module = LinearVAE()
    callback = RegimeCallback(encode, [data], scale_kind="log_variance")
    with pytest.raises(DataError, match="never below zero"):
        callback.on_fit_start(Moment(), module)
    with pytest.warns(UserWarning, match="never below zero"):
        callback.on_train_end(Moment(), module)
    assert callback.timeline.steps == []
    told = RegimeCallback(encode, [data], scale_kind="log_variance", trust_scale=True)
    told.on_fit_start(Moment(), module)
    told.on_train_end(Moment(), module)
    assert told.timeline.steps == [100]


def test_loaders_of_pairs_are_accepted_and_iterators_refused(data):
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(data, torch.zeros(len(data), dtype=torch.long)), batch_size=64)
    callback = RegimeCallback(lambda m, x: m.encode(x), loader, scale_kind="log_variance")
    callback.on_fit_start(Moment(), LinearVAE())
    callback.on_train_end(Moment(), LinearVAE())
    assert callback.timeline.steps == [100]
    with pytest.raises(ConfigError, match="give a list"):
        RegimeCallback(None, iter([data]))
