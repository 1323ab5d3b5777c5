"""Train a small beta-VAE of pythae on sprites and see which of its variables it stops using.

Needs: pip install pythae. Run: python examples/pythae_model.py
"""

import torch
from pythae.models import BetaVAE, BetaVAEConfig

import polarised as po
from polarised.data import dsprites


def main(steps: int = 4000) -> None:
    """Train with pythae's own loss, then hand the model over."""
    torch.manual_seed(0)
    data = dsprites(size=32)
    model = BetaVAE(BetaVAEConfig(input_dim=data.shape, latent_dim=16, beta=4.0, reconstruction_loss="bce"))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        batch = torch.from_numpy(data.batch(step, 64, seed=0).images)
        loss = model({"data": batch}).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    sample = data.sample(2000, seed=1)
    diagnosis = po.diagnose(model, sample.images, factors=sample.factors, name="pythae beta-VAE")
    print(diagnosis.headline)
    print(diagnosis.regime.table().select("variable", "type", "ratio_mean", "kl", "noise_share", "confidence"))
    for sentence in diagnosis.advice:
        print("-", sentence)


if __name__ == "__main__":
    main()
