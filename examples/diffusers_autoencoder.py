"""Which channels of an AutoencoderKL are alive? Here a tiny one with random weights; give yours the same way.

Needs: pip install diffusers. Run: python examples/diffusers_autoencoder.py
"""

import numpy as np
import torch
from diffusers import AutoencoderKL

import polarised as po


def main() -> None:
    """Encode images: every channel is a variable, every position of an image an observation of it."""
    torch.manual_seed(0)
    # Yours: AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 16),
        latent_channels=4,
        norm_num_groups=4,
    )
    images = np.random.default_rng(0).uniform(-1, 1, size=(16, 3, 32, 32)).astype(np.float32)
    diagnosis = po.diagnose(model, images)
    print(diagnosis.reading)
    print(diagnosis.headline)
    print(diagnosis.regime.table().select("variable", "type", "ratio_mean", "kl", "noise_share"))
    for sentence in diagnosis.advice:
        print("-", sentence)


if __name__ == "__main__":
    main()
