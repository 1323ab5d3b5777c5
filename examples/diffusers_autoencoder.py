"""Which channels of an AutoencoderKL are alive? A small one, trained here on coloured sprites; give yours the same way.

Needs: pip install diffusers. Run: python examples/diffusers_autoencoder.py
"""

import torch
from diffusers import AutoencoderKL

import polarised as po
from polarised.data import color_dsprites


def main(steps: int = 300, weight: float = 0.02) -> None:
    """Train with a KL that weighs enough to switch a channel off, then diagnose: a channel is a variable."""
    torch.manual_seed(0)
    # Yours: AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(8, 16, 16),
        latent_channels=4,
        norm_num_groups=4,
    )
    data = color_dsprites()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        x = torch.from_numpy(data.batch(step, 16, seed=0).images[:, :, ::2, ::2].copy()) * 2 - 1
        posterior = model.encode(x).latent_dist
        drawn = model.decode(posterior.sample()).sample
        loss = ((drawn - x).square().sum() + weight * posterior.kl().sum()) / len(x)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    images = data.sample(64, seed=1).images[:, :, ::2, ::2] * 2 - 1
    diagnosis = po.diagnose(model, images)
    print(diagnosis.reading)
    print(diagnosis)


if __name__ == "__main__":
    main()
