"""How many latents does a dataset need: short trainings at chosen sizes, for the one-shot count and for FONDUE."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polarised.data.dataset import Dataset
from polarised.random import stream
from polarised.regime import Encodings, Regime, classify
from polarised.regime.dimensions import intrinsic_dimension_mle, intrinsic_dimension_twonn
from polarised.study.stages import build_parts

__all__ = ["Trainer", "data_dimension"]


@dataclass
class Trainer:
    """Train a fresh VAE with a given number of latents and encode evaluation images, once for each size and seed.

    >>> from polarised.data import dsprites
    >>> model = {"architecture": {"name": "mlp", "widths": [16]}}
    >>> trainer = Trainer(dsprites(size=32), model=model, steps=2, examples=64)
    >>> trainer.encodings(3).latents
    3
    """

    dataset: Dataset
    model: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] | str = "BetaVAE"
    steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 1e-3
    examples: int = 10_000
    seed: int = 0
    told: Callable[[str], None] | None = None
    _known: dict[tuple[int, int], Encodings] = field(default_factory=dict)

    def encodings(self, latents: int, *, seed: int | None = None) -> Encodings:
        """Return the encodings of a model with so many latents."""
        from polarised.adapters import from_vae
        from polarised.training import train

        own = self.seed if seed is None else seed
        if (latents, own) not in self._known:
            if self.told is not None:
                self.told(f"training {latents} latents, seed {own}, {self.steps:,} steps")
            config = {**self.model, "latents": latents}
            vae, objective = build_parts(self.dataset, model=config, objective=self.objective, seed=own)
            train(
                vae,
                objective,
                self.dataset,
                steps=self.steps,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=own,
                progress=False,
            )
            self._known[latents, own] = from_vae(vae, self.dataset, examples=self.examples, seed=own)
        return self._known[latents, own]

    def regime(self, latents: int, *, seed: int | None = None) -> Regime:
        """Return the types of the variables of a model with so many latents."""
        return classify(self.encodings(latents, seed=seed))


def data_dimension(dataset: Dataset, *, points: int = 2000, estimator: str = "mle", seed: int = 0) -> float:
    """Return the intrinsic dimension of the images themselves, where FONDUE begins its search [Bonheme2023FONDUE].

    >>> from polarised.data import dsprites
    >>> 1 < data_dimension(dsprites(size=32), points=200) < 40
    True
    """
    indices = stream(seed, "intrinsic dimension").choice(len(dataset), min(points, len(dataset)), replace=False)
    images = np.unique(dataset.images[np.sort(indices)].reshape(len(indices), -1), axis=0)
    if estimator == "twonn":
        return intrinsic_dimension_twonn(images)
    return intrinsic_dimension_mle(images, neighbours=min(20, len(images) - 2), seed=seed)
