"""A LightningModule: watch its variables turn passive while it trains, then diagnose it.

Needs: pip install ".[train,lightning]" in the folder of the project. Run: python examples/lightning_module.py
"""

import logging
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import polarised as po
from polarised.adapters.lightning import RegimeCallback
from polarised.data import dsprites


class LitVAE(LightningModule):
    """A beta-VAE whose encoder gives mean and log-variance."""

    def __init__(self, latents: int = 10, beta: float = 4.0) -> None:
        super().__init__()
        self.beta = beta
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(1024, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, latents), nn.Linear(128, latents)
        self.decoder = nn.Sequential(nn.Linear(latents, 128), nn.ReLU(), nn.Linear(128, 1024))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of q(z|x)."""
        hidden = self.body(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        return mu, logvar

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        """Return the loss of a batch."""
        x = batch[0]
        mu, logvar = self.encode(x)
        logits = self.decoder(mu + torch.exp(logvar / 2) * torch.randn_like(mu))
        distortion = functional.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="sum")
        rate = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum()
        return (distortion + self.beta * rate) / len(x)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(steps: int = 4000) -> None:
    """Train with the callback, which logs the counts to any logger, and show what it saw."""
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    drawn = dsprites(size=32).sample(6000, seed=0)
    loader = DataLoader(TensorDataset(torch.from_numpy(drawn.images)), batch_size=64, shuffle=True)
    watch = RegimeCallback(None, drawn.images[:1000], every=max(1, steps // 4))
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    model = LitVAE()
    Trainer(max_steps=steps, accelerator="cpu", callbacks=[watch], enable_model_summary=False, **settings).fit(
        model, loader
    )
    print(watch.timeline.counts())
    print(po.diagnose(model, loader, name="LitVAE"))


if __name__ == "__main__":
    main()
