"""Online regime statistics while our loop trains: who turned passive, when."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from polarised.data.dataset import Dataset
from polarised.errors import ConfigError
from polarised.models.networks import evaluating
from polarised.models.vae import VAE
from polarised.objectives.step import Objective
from polarised.regime.classify import Rule
from polarised.regime.encodings import Encodings
from polarised.regime.timeline import Timeline

__all__ = ["Snapshots"]


class Snapshots:
    """A hook of `train`: every `every` steps the types, KL and correlations of the variables on fixed inputs.

    The inputs are one evaluation draw of the dataset. A moment costs a few kilobytes; with ``keep="encodings"`` the
    means and variances are kept too. `objective` is what is trained with: it says where an unused variable rests.
    The decoder is not asked at every moment, so that types here are those of the posterior alone; a run's final types,
    with all evidence, take their place where they are drawn.
    [Bonheme2023BeMoreActive, section 5]

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> snapshots = Snapshots(dsprites(size=32), every=100, examples=50)
    >>> snapshots(0, build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 32, 32)))
    >>> snapshots.timeline.steps
    [0]
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        every: int = 1000,
        examples: int = 1000,
        alpha: float = 0.1,
        rule: Rule = "used",
        keep: Literal["statistics", "encodings"] = "statistics",
        objective: Objective | None = None,
        batch_size: int = 256,
        seed: int = 0,
    ) -> None:
        if every < 1 or examples < 2:
            raise ConfigError(f"expected every of at least 1 step and 2 examples or more, got {every} and {examples}")
        self.every, self.batch_size, self.objective = every, batch_size, objective
        self.timeline = Timeline(alpha=alpha, rule=rule, keep=keep)
        self._batch = dataset.sample(min(examples, len(dataset)), seed)

    def __call__(self, step: int, vae: VAE) -> None:
        """Look at the model after `step` updates."""
        with evaluating(vae):
            encodings = self._encode(vae)
        self.timeline.take(step, encodings)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a checkpoint must carry."""
        return self.timeline.state()

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go back to a saved state."""
        self.timeline.restore(state)

    def save(self, path: str | Path) -> Path:
        """Write the timeline to an .npz that `polarised.regime.timeline.load_timeline` reads back."""
        return self.timeline.save(path)

    def _encode(self, vae: VAE) -> Encodings:
        device = next(vae.parameters()).device
        parts, divergences, rests = [], [], []
        with torch.inference_mode():
            for start in range(0, len(self._batch), self.batch_size):
                rows = slice(start, start + self.batch_size)
                x = torch.from_numpy(self._batch.images[rows]).to(device)
                u = None if self._batch.u is None else torch.from_numpy(self._batch.u[rows]).to(device)
                posterior = vae.posterior(x, u)
                prior = vae.prior.given(u)
                moments = prior.moments(len(x))
                rest = None if self.objective is None else self.objective.rest_variance(prior, len(x))
                # Not a number where the objective holds an unused variable nowhere.
                rests.append((moments[1] * torch.nan if rest is None else rest / moments[1]).mean(0).cpu().numpy())
                parts.append([t.cpu().numpy() for t in (posterior.mean, posterior.variance, *moments)])
                if not (vae.prior.gaussian or vae.prior.conditional):
                    divergences.append(vae.prior.marginal_kl(posterior).cpu().double().numpy())
        mean, variance, *given = (np.concatenate(part) for part in zip(*parts, strict=True))
        # A prior that is the same for every input says so by its shape.
        prior_mean, prior_variance = (rows[0] if (rows == rows[0]).all() else rows for rows in given)
        return Encodings(
            mean,
            variance=variance,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            kl=np.concatenate(divergences).mean(axis=0) if divergences else None,
            rest_ratio=None if self.objective is None else np.mean(rests, axis=0),
        )
