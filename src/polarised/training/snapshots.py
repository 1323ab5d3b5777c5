"""Online regime statistics while our loop trains: who turned passive, when."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from polarised.data.dataset import Dataset
from polarised.errors import ConfigError
from polarised.models.encoding import decoder_use, from_vae
from polarised.models.vae import VAE
from polarised.objectives.step import Objective
from polarised.regime.classify import Rule
from polarised.regime.decoder import FEW
from polarised.regime.timeline import Timeline

__all__ = ["Snapshots"]


class Snapshots:
    """A hook of `train`: every `every` steps the types, KL and correlations of the variables on fixed inputs.

    The inputs are one evaluation draw of the dataset. A moment costs a few kilobytes; with ``keep="encodings"`` the
    means and variances are kept too. The types are decided as those of a diagnosis are, with what the decoder makes of
    the variables on some hundred of the same inputs; a moment then costs as much as decoding them once for every
    variable. [Bonheme2023BeMoreActive, section 5]

    Args:
        dataset: What is trained on.
        every: Steps from one look to the next.
        examples: How many inputs to look at.
        alpha: The threshold of the types.
        rule: The rule of the types.
        keep: Whether to keep statistics or the encodings themselves.
        objective: What is trained with: it says where an unused variable rests.
        ask_decoder: Whether the decoder says what is used; without it the posterior alone does.
        batch_size: Inputs encoded at a time.
        seed: Of the draw of the inputs.

    Raises:
        ConfigError: If `every` is below 1, or fewer than two inputs are to be looked at.

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
        ask_decoder: bool = True,
        batch_size: int = 256,
        seed: int = 0,
    ) -> None:
        if every < 1 or examples < 2:
            raise ConfigError(f"expected every of at least 1 step and 2 examples or more, got {every} and {examples}")
        self.every, self.batch_size, self.objective = every, batch_size, objective
        # The other rules look at the posterior alone.
        self.ask_decoder = ask_decoder and rule == "used"
        self.timeline = Timeline(alpha=alpha, rule=rule, keep=keep)
        self._batch = dataset.sample(min(examples, len(dataset)), seed)

    def __call__(self, step: int, vae: VAE) -> None:
        """Look at the model after `step` updates."""
        encodings = from_vae(vae, self._batch, batch_size=self.batch_size, objective=self.objective)
        use = decoder_use(vae, self._batch, examples=FEW, most=len(self._batch)) if self.ask_decoder else None
        self.timeline.take(step, encodings, decoder=use)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a checkpoint must carry."""
        return self.timeline.state()

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go back to a saved state."""
        self.timeline.restore(state)

    def save(self, path: str | Path) -> Path:
        """Write the timeline to an .npz that `polarised.regime.timeline.load_timeline` reads back."""
        return self.timeline.save(path)
