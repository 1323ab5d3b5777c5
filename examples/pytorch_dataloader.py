"""Your own PyTorch VAE and its DataLoader: train it, hand both over, and see which variables it has switched off.

Needs: pip install ".[train]" in the folder of the project. Run: python examples/pytorch_dataloader.py
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import polarised as po
from polarised.data import dsprites


class VAE(nn.Module):
    """A VAE as people write it; nothing in it knows of polarised."""

    def __init__(self, latents: int = 10) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, latents), nn.Linear(128, latents)
        self.generator = nn.Sequential(nn.Linear(latents, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU())
        self.pixels = nn.Linear(256, 1024)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of q(z|x)."""
        hidden = self.body(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        return mu, logvar

    def decode(self, z: Tensor) -> Tensor:
        """Return the logits of the pixels."""
        return self.pixels(self.generator(z)).view(-1, 1, 32, 32)


def main(steps: int = 1500, beta: float = 4.0) -> None:
    """Train a beta-VAE, then diagnose it on a loader of (x, y): y becomes the factors."""
    torch.manual_seed(0)
    data = dsprites(size=32)
    drawn = data.sample(8000, seed=0)
    images, labels = torch.from_numpy(drawn.images), torch.from_numpy(drawn.factors)
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
    model = VAE()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    done = 0
    while done < steps:
        for x, _ in loader:
            mu, logvar = model.encode(x)
            z = mu + torch.exp(logvar / 2) * torch.randn_like(mu)
            distortion = functional.binary_cross_entropy_with_logits(model.decode(z), x, reduction="sum")
            rate = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum()
            loss = (distortion + beta * rate) / len(x)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += 1
            if done == steps:
                break
    diagnosis = po.diagnose(model, loader, factor_names=data.factor_space.names, name="my VAE")
    print(diagnosis)


if __name__ == "__main__":
    main()
