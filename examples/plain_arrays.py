"""Diagnose a VAE of which you only have arrays: save them, read them back, see which variables are alive.

Run: python examples/plain_arrays.py
"""

import tempfile
from pathlib import Path

import numpy as np

import polarised as po


def main() -> None:
    """Make the encodings of a polarised VAE, save them under common names, and diagnose the file."""
    generator = np.random.default_rng(0)
    inputs, alive, dead = 5000, 4, 6
    codes = generator.normal(size=(inputs, alive))
    # Passive means are tiny, but follow the active ones: that is why they look correlated.
    shadows = 0.03 * codes @ generator.normal(size=(alive, dead)) + 0.01 * generator.normal(size=(inputs, dead))
    path = Path(tempfile.mkdtemp()) / "codes.npz"
    np.savez(
        path,
        mu=np.hstack([codes, shadows]),
        logvar=np.log(np.hstack([np.full((inputs, alive), 0.02), np.full((inputs, dead), 0.98)])),
    )
    diagnosis = po.diagnose(path, name="plain arrays")
    print(diagnosis.headline)
    for sentence in diagnosis.advice:
        print("-", sentence)
    print(diagnosis.other_rules)


if __name__ == "__main__":
    main()
